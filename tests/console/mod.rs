//! The console, inside `afterwrite dev` and beside a deployment on moto: by HTTP, and by a real browser.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod guard;
mod http;
