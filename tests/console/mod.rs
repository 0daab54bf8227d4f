//! The console, inside `afterwrite dev` and beside a deployment on moto: by HTTP, and by a real browser.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod application;
mod bound;
mod browser;
mod deployed;
mod flow;
mod guard;
mod health;
mod http;
mod item;
mod jobs;
mod journey;
mod keyboard;
mod matches;
mod pages;
mod play;
mod polling;
mod rollups;
mod shares;
mod waiting;
