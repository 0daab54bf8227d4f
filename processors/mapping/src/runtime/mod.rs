//! Functions in processes of their own, in any language: they speak the Lambda Runtime API.
//!
//! ```text
//! mapping ─▶ FunctionPool ─▶ instance ─▶ RuntimeApi ◀─GET …/invocation/next────────── process (./bootstrap)
//!         ◀─ response ──────                        ◀─POST …/response or …/error ───
//! ```
//!
//! As in Lambda, a process handles one invocation at a time; a process that times out, exits or is killed is replaced at the next
//! invocation.

mod api;
mod instance;
mod pool;
mod program;

pub use self::api::{InvocationEnd, ReportedError, RuntimeApi};
pub use self::pool::FunctionPool;
pub use self::program::FunctionProgram;
