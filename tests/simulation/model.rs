//! The models of the simulation, parsed once.

use std::sync::{Arc, OnceLock};

use afterwrite_model::table::Model;

/// The model of a generation.
pub(crate) fn model(generation: u64) -> Arc<Model> {
    static MODELS: OnceLock<[Arc<Model>; 2]> = OnceLock::new();
    let sources = [
        include_str!("../fixtures/simulation/generation-1.toml"),
        include_str!("../fixtures/simulation/generation-2.toml"),
    ];
    let parse =
        |source| Arc::new(Model::parse(source, "generation").unwrap_or_else(|error| panic!("{error}")));
    let models = MODELS.get_or_init(|| sources.map(parse));
    Arc::clone(&models[usize::from(generation == 2)])
}
