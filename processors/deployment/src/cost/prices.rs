//! The prices: one file, `prices.json`, with its region and date.

use afterwrite_model::{Error, ErrorKind, Result};
use serde::Deserialize;

const FILE: &str = include_str!("prices.json");

/// On-demand prices in dollars of one region, without free tiers (except for invalidation paths and traces).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    /// The region.
    pub region: String,
    /// The day of the list.
    pub date: String,
    /// The currency.
    pub currency: String,
    /// Of a million write units of DynamoDB.
    pub million_write_units: f64,
    /// Of a million read units of DynamoDB.
    pub million_read_units: f64,
    /// Of a provisioned write unit a second, an hour.
    pub write_capacity_hour: f64,
    /// Of a provisioned read unit a second, an hour.
    pub read_capacity_hour: f64,
    /// Of a gigabyte in a table, a month.
    pub table_gigabyte_month: f64,
    /// Of a gigabyte that can be restored to a point in time, a month.
    pub recovery_gigabyte_month: f64,
    /// A gigabyte that `ImportTable` reads.
    pub import_gigabyte: f64,
    /// Of a million invocations.
    pub million_function_requests: f64,
    /// Of a million gigabyte-seconds of functions on arm64.
    pub million_function_gigabyte_seconds: f64,
    /// Of a gigabyte that Firehose takes, in steps of 5 KB a record.
    pub firehose_gigabyte: f64,
    /// Of a million PUT, COPY, POST or LIST requests of S3.
    pub million_bucket_writes: f64,
    /// Of a million GET requests of S3.
    pub million_bucket_reads: f64,
    /// Of a gigabyte in S3 Standard, a month.
    pub bucket_gigabyte_month: f64,
    /// Of a million requests of a standard queue.
    pub million_queue_requests: f64,
    /// Of a million events of an EventBridge bus, up to 64 KB each.
    pub million_events: f64,
    /// Of a million requests of a FIFO queue, up to 64 KB each.
    pub million_fifo_queue_requests: f64,
    /// Of a million requests that publish to a standard topic, up to 64 KB each.
    pub million_topic_requests: f64,
    /// Of a million messages that are published to a FIFO topic.
    pub million_fifo_topic_messages: f64,
    /// Of a gigabyte that is published to a FIFO topic.
    pub fifo_topic_gigabyte: f64,
    /// Of a CloudFront path that is invalidated.
    pub invalidation_path: f64,
    /// The paths of a month that are free.
    pub free_invalidation_paths: f64,
    /// Of a terabyte that Athena reads.
    pub query_terabyte: f64,
    /// Of a million invocations by EventBridge Scheduler.
    pub million_schedules: f64,
    /// Of a custom metric, a month.
    pub metric_month: f64,
    /// Of an alarm, a month.
    pub alarm_month: f64,
    /// Of a dashboard, a month.
    pub dashboard_month: f64,
    /// Of a gigabyte of logs.
    pub log_gigabyte: f64,
    /// Of a million traces that X-Ray records.
    pub million_traces: f64,
    /// The traces of a month that are free.
    pub free_traces: f64,
    /// Of a secret in Secrets Manager, a month.
    pub secret_month: f64,
}

impl PriceList {
    /// The prices of this build.
    ///
    /// # Errors
    /// `State` if the file of the build is damaged.
    pub fn built_in() -> Result<Self> {
        serde_json::from_str(FILE).map_err(|error| {
            Error::new(ErrorKind::State, "the list of prices in this build is damaged").caused_by(error)
        })
    }
}

#[cfg(test)]
mod tests {
    use afterwrite_operations::jobs::UnitPrices;

    use super::*;

    #[test]
    fn the_plans_of_jobs_have_the_prices_of_the_list() {
        let PriceList { million_write_units, million_read_units, .. } = PriceList::built_in().unwrap();
        let prices = PriceList::built_in().unwrap();
        let expected = UnitPrices {
            million_writes: million_write_units,
            million_reads: million_read_units,
            gigabyte_month: prices.table_gigabyte_month,
            million_puts: prices.million_bucket_writes,
            gigabyte_import: prices.import_gigabyte,
        };
        assert_eq!(UnitPrices::ON_DEMAND, expected);
    }
}
