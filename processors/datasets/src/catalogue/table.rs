//! The table of a dataset's rows, in Athena's data definition language (Hive's).

use afterwrite::table::{Dataset, NO_DAY};

use super::{BUCKET, PARTITION, log_name};
use crate::column_type::hive_type;
use crate::paths::dataset_files;
use crate::schema::COMMON_COLUMNS;

const SERDE: &str = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe";
const INPUT_FORMAT: &str = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat";
const OUTPUT_FORMAT: &str = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat";

/// The `CREATE EXTERNAL TABLE` of a dataset's rows.
///
/// It uses partition projection: Athena derives the folders to read from the days in a query, so new days need no registration.
/// The range begins with [`NO_DAY`], the partition of rows without a day, and ends with the dataset's last day.
pub(super) fn create_table(dataset: &Dataset) -> String {
    let columns = dataset.columns.iter().map(|column| (&*column.name, &column.column_type));
    let columns = columns.chain(COMMON_COLUMNS.iter().map(|(name, column_type, _)| (*name, column_type)));
    let columns: Vec<String> =
        columns.map(|(name, column_type)| format!("  `{name}` {}", hive_type(column_type))).collect();
    let (files, last) = (dataset_files(dataset), &dataset.days.1);
    format!(
        "CREATE EXTERNAL TABLE IF NOT EXISTS `{log}` (\n{columns}\n)\n\
         PARTITIONED BY (`{PARTITION}` string)\n\
         ROW FORMAT SERDE '{SERDE}'\n\
         STORED AS INPUTFORMAT '{INPUT_FORMAT}'\n\
         OUTPUTFORMAT '{OUTPUT_FORMAT}'\n\
         LOCATION 's3://{BUCKET}/{files}'\n\
         TBLPROPERTIES (\n  \
           'projection.enabled' = 'true',\n  \
           'projection.{PARTITION}.type' = 'date',\n  \
           'projection.{PARTITION}.format' = 'yyyy-MM-dd',\n  \
           'projection.{PARTITION}.range' = '{NO_DAY},{last}',\n  \
           'projection.{PARTITION}.interval' = '1',\n  \
           'projection.{PARTITION}.interval.unit' = 'DAYS',\n  \
           'storage.location.template' = 's3://{BUCKET}/{files}{PARTITION}=${{{PARTITION}}}/'\n)",
        log = log_name(dataset),
        columns = columns.join(",\n"),
    )
}
