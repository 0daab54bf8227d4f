//! The documentation shows what the product does: its model loads, it names every key and value of a model, its schema of models agrees
//! with the loader, and its commands parse.

mod broken_model;
mod commands;
mod model_page;
mod model_schema;
