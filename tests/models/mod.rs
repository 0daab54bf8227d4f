//! Whole models, from records to rollups, mirrors, cache keys and rows.
//!
//! `written` holds workloads of the built-in models, written by hand together with the results that they must have; `generated` runs the
//! demo's workloads with faults injected. `reference` does the same for the examples of `docs/MODEL.md` and the README, `bindings` for counts on items that
//! other attributes name, `lookups` for lookups by primary key, `escaped_keys` for escaped keys of rollups, `moving` for items that change their
//! entity, and `evolution` for changes of a model, `clients` for the typed readers. `inferred` compares the models that `afterwrite model init` proposes with the built-in
//! ones. `exambuddy` has tests of its own: `golden`, `simulation` and the recording `exam-42`.

#![expect(clippy::indexing_slicing, reason = "a test that meets the unexpected must fail at once")]

mod bindings;
mod clients;
mod delivery;
mod escaped_keys;
mod evolution;
mod generated;
mod inferred;
mod lookups;
mod moving;
mod reference;
mod times;
mod values;
mod workload;
mod written;
