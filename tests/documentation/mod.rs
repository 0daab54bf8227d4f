//! The documentation shows what the product does: its models load, it names every key and value of a model, its schema of models agrees
//! with the loader, its commands parse, its costs are those of the command, its tutorial runs, and its code reads rollups.

mod broken_model;
mod commands;
mod contents;
mod cookbook;
mod cookbook_programs;
mod cost_page;
mod event_consumers;
mod model_page;
mod model_schema;
#[expect(unreachable_pub, reason = "readers of the page copy the file into crates of their own")]
mod rollup_reader;
mod tutorial;
