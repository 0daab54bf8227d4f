//! The precondition of every job that writes: the state table can be restored.

use afterwrite::sink::{RecoveryState, TableScan};
use afterwrite::{Error, ErrorKind, Result};

/// Refuses to go on unless the state table has point-in-time recovery, or `without_recovery` accepts that it has not. Tables of emulators
/// need none.
///
/// # Errors
/// [`ErrorKind::Configuration`] if the table cannot be restored, or the service did not report whether it can.
pub async fn require_recovery(
    tables: &impl TableScan,
    state_table: &str,
    without_recovery: bool,
) -> Result<()> {
    let problem = match tables.describe(state_table).await?.recovery {
        RecoveryState::Enabled | RecoveryState::Emulated => return Ok(()),
        RecoveryState::Disabled => {
            "the state table has no point-in-time recovery, so a mistake could not be undone"
        }
        RecoveryState::Unknown => {
            "it is unknown whether the state table has point-in-time recovery (dynamodb:DescribeContinuousBackups)"
        }
    };
    if without_recovery {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Configuration, problem)
        .with("table", state_table)
        .hint("Enable point-in-time recovery, or pass --without-recovery"))
}
