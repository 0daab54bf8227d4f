//! The documentation shows what the product does: its model loads, it names every key and value of a model, and its commands parse.

mod commands;
mod model_page;
