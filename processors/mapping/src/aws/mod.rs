//! A deployed stream and its checkpoints, through the AWS SDK.

mod checkpoints;
mod record;
mod request;
mod stream;

pub use self::checkpoints::{LeaseOutcome, TableCheckpoints};
pub use self::stream::DeployedStream;
