//! The console: pages that show a deployment, served on this machine by `afterwrite console` and inside `afterwrite dev`.
//!
//! ```text
//! browser ──▶ guard ──▶ server ──▶ pages ──▶ View ──▶ HTML, JSON or CSV
//!             Host, Origin, tokens  read by key, by index, by a bounded page
//! ```
//!
//! | module | task |
//! |---|---|
//! | `guard` | refuses requests of other sites, and sets the headers that keep a page to itself |
//! | `server` | the routes |
//! | `served` | everything that requests share, and the tokens of the session |
//! | [`context`] | the deployment that the pages show, and the rights of their readers |
//! | [`board`] | the facts that `dev` shares with its console |
//! | `view`, `table`, `frame` | the parts of a page |
//! | `commands` | commands of Afterwrite that a button starts, in processes of their own |
//! | `facts` | the newest look at a deployed part, as `afterwrite doctor` looks at it |
//! | `units` | write units and their price: measured inside `dev`, planned for a deployment |
//! | `findings` | the findings of verifications, as files that `afterwrite repair` reads |
//! | `rollup` | the rollups of the model: their keys, how they are read, and their measures |
//! | `incidents` | records inside `dev` that are not counted now |
//! | `searches` | the newest searches for the items that are counted into a rollup |
//! | `chart` | bars |
//! | `recount` | the comparison of everything that is derived with the items, inside `dev` |
//! | `links` | links from one page to another |
//! | `pages` | a module for each page |
//!
//! A page never scans a deployed table unasked. Item contents are shown only if [`ConsoleOptions::shows_items`] is set; secrets never.

pub mod board;
pub mod context;

mod assets;
mod chart;
mod commands;
mod facts;
mod findings;
mod frame;
mod guard;
mod incidents;
mod links;
mod pages;
mod prose;
mod query;
mod recount;
mod rollup;
mod searches;
mod served;
mod server;
mod table;
mod time;
mod units;
mod view;

pub use self::context::{CommandLine, ConsoleContext, ConsoleOptions, ConsolePlace};
pub use self::recount::recount_when_asked;
pub use self::server::{Console, RunningConsole};
