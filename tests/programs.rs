//! Tests of the product's programs, and of the servers, engines and tools that it works with: redis-server, moto, DuckDB, Terraform.
//! `tests/run` builds the programs and provides the rest.

mod caches;
mod console;
mod datasets;
mod documentation;
mod infrastructure;
mod kills;
mod lambda;
mod notify;
