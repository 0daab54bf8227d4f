//! The tables of a dataset, in Athena's data definition language.

use super::BUCKET;

/// The `CREATE EXTERNAL TABLE` of a Delta table: engines read its columns and its files from its log.
pub(super) fn create_table(name: &str, root: &str) -> String {
    format!(
        "CREATE EXTERNAL TABLE IF NOT EXISTS `{name}`\n\
         LOCATION 's3://{BUCKET}/{root}'\n\
         TBLPROPERTIES ('table_type' = 'DELTA')"
    )
}
