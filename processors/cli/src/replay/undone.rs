//! The changes that `--undone` leaves out: of tables that are known, and how many.

use afterwrite_input::UndoneChanges;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::jobs::JobTotals;
use afterwrite_operations::replay::DeliveryTotal;
use afterwrite_services::config::FunctionConfig;

use crate::print::tell;

/// Refuses a name that no table is or was deployed under: nothing would be left out.
///
/// # Errors
/// [`ErrorKind::Configuration`] with the name and the deployed names.
pub(super) fn check_undone(
    undone: &[UndoneChanges],
    FunctionConfig { model, table_names, .. }: &FunctionConfig,
) -> Result<()> {
    let is_unknown = |undone: &&UndoneChanges| model.table_deployed_as(table_names, undone.table()).is_none();
    let Some(unknown) = undone.iter().find(is_unknown) else { return Ok(()) };
    let former = model.tables.iter().flat_map(|table| &table.former_names);
    let deployed: Vec<&str> = table_names.iter().chain(former).map(|name| &**name).collect();
    Err(Error::new(ErrorKind::Configuration, "--undone names a table that is not deployed, so it would leave out nothing")
        .with("table", unknown.table())
        .with("deployed tables", deployed.join(", "))
        .hint("Write the name that the table has, or had, in the account, not its name in the model. AFTERWRITE_TABLES names both: `Orders=Orders-restored,Orders=Orders-old`"))
}

/// Reports that nothing was left out.
pub(super) fn report_undone(undone: &[UndoneChanges], totals: &JobTotals) {
    if !undone.is_empty() && totals.number(DeliveryTotal::Undone) == 0 {
        let written: Vec<String> = undone.iter().map(ToString::to_string).collect();
        tell(&format!(
            "no change was left out: the records that were read have none of {}; check the table and the times",
            written.join(", ")
        ));
    }
}
