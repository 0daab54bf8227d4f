//! The models of the simulation, parsed once.

use std::sync::{Arc, OnceLock};

use afterwrite_model::table::Model;

/// The model of a generation.
pub(crate) fn model(generation: u64) -> Arc<Model> {
    static MODELS: OnceLock<[Arc<Model>; 2]> = OnceLock::new();
    let models = MODELS.get_or_init(|| [1, 2].map(|generation| Arc::new(parsed(generation))));
    Arc::clone(&models[usize::from(generation == 2)])
}

/// The model of a generation, parsed again.
pub(crate) fn parsed(generation: u64) -> Model {
    let source = match generation {
        2 => include_str!("../fixtures/simulation/generation-2.toml"),
        _ => include_str!("../fixtures/simulation/generation-1.toml"),
    };
    Model::parse(source, "generation").unwrap_or_else(|error| panic!("{error}"))
}
