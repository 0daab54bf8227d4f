//! Cases I. The first hour with `dev`.

mod banner;
mod indexes;
mod state;
mod streams;
mod terminal;
