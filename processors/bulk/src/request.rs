//! The requests of a bulk backfill, as JSON: `{"bulk": "map", …}`. A worker takes one at a time, on this machine or in Lambda.

use std::collections::BTreeMap;

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::export::ExportedFile;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "bulk", rename_all = "snake_case")]
pub enum BulkRequest {
    /// Reads the manifests, and writes the requests of the other steps to the bucket.
    Plan(PlanRequest),
    /// Counts the items of one data file.
    Map(MapRequest),
    /// Merges the partial rollups of one partition.
    Reduce(ReduceRequest),
}

/// The request of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// The folder of the run in the bucket.
    pub run: String,
    /// The prefixes of the exports in the bucket: `…/AWSDynamoDB/<export id>`, one for each table of the model.
    pub exports: Vec<String>,
    /// Since when the functions have read the tables' streams without a gap, in epoch milliseconds.
    pub mapping_since_ms: i64,
    /// The partitions of the rollups: as many reduce steps.
    #[serde(default = "default_partitions")]
    pub partitions: u32,
    /// The most lookups a second that each worker requests.
    #[serde(default = "default_lookup_rate")]
    pub lookup_rate: u32,
}

/// A data file of an export, and what its counting needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapRequest {
    /// The folder of the run.
    pub run: String,
    /// Which items of the file are counted.
    pub pass: MapPass,
    /// The number of the file among the files of all exports.
    pub index: u32,
    /// The file.
    pub file: ExportedFile,
    /// The table, as the model names it.
    pub table: String,
    /// The label of the table's stream.
    pub stream_label: String,
    /// The point in time that the export shows, in epoch milliseconds.
    pub exported_at_ms: i64,
    /// The partitions of the rollups.
    pub partitions: u32,
    /// The most lookups a second.
    pub lookup_rate: u32,
    /// The fingerprint of the model.
    pub model: String,
}

/// The items of a file that a step counts. Looked-up items come first: what they offer is remembered before other items need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MapPass {
    /// Items that other items look up.
    Lookups,
    /// All other items.
    Items,
}

impl MapPass {
    /// The name in requests and keys.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lookups => "lookups",
            Self::Items => "items",
        }
    }
}

/// A partition of the rollups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReduceRequest {
    /// The folder of the run.
    pub run: String,
    /// The partition, from 0.
    pub partition: u32,
    /// The number of partitions.
    pub partitions: u32,
    /// The earliest point in time that an export of the run shows, in epoch milliseconds.
    pub earliest_ms: i64,
    /// The latest one.
    pub latest_ms: i64,
    /// The fingerprint of the model.
    pub model: String,
}

/// The result of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanReport {
    /// The folder of the run.
    pub run: String,
    /// The object with the requests of the first pass; an empty array if the model has no lookups.
    pub lookups: String,
    /// The object with the requests of the second pass.
    pub items: String,
    /// The object with the requests that merge rollups.
    pub reduce: String,
    /// The prefix that `ImportTable` reads.
    pub import: String,
    /// The requests of each phase: lookups, items, reduce.
    pub requests: [u32; 3],
    /// The items of all data files.
    pub item_count: u64,
    /// The earliest point in time that an export shows: the archive is replayed from 15 minutes before it.
    pub earliest_ms: i64,
    /// The latest one.
    pub latest_ms: i64,
}

/// The counters of a step by name.
pub type BulkTotals = BTreeMap<String, u64>;

/// The response to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BulkResponse {
    /// Of a plan.
    Planned(PlanReport),
    /// Of any other step.
    Counted {
        /// The counters.
        totals: BulkTotals,
    },
}

impl BulkRequest {
    /// Reads a request; `None` if the payload is something else.
    ///
    /// # Errors
    /// [`ErrorKind::Event`] if it is a request with a mistake.
    pub fn read(payload: &str) -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct RequestTag {
            bulk: serde::de::IgnoredAny,
        }
        if !payload.contains("\"bulk\"")
            || serde_json::from_str::<RequestTag>(payload).map(|tag| tag.bulk).is_err()
        {
            return Ok(None);
        }
        serde_json::from_str(payload).map(Some).map_err(|error| {
            Error::new(ErrorKind::Event, "the payload is not a request of a bulk backfill")
                .hint("The requests are in the objects that `plan` writes: lookups.json, items.json and reduce.json")
                .caused_by(error)
        })
    }

    /// The request as JSON.
    ///
    /// # Errors
    /// [`ErrorKind::State`], which does not happen: a request has text keys only.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|error| Error::new(ErrorKind::State, "a request cannot be written").caused_by(error))
    }
}

impl MapRequest {
    /// The point in time that the export shows.
    #[must_use]
    pub fn exported_at(&self) -> Timestamp {
        Timestamp::from_epoch_ms(self.exported_at_ms)
    }
}

/// The partitions of the rollups unless a plan names another number.
#[must_use]
pub fn default_partitions() -> u32 {
    16
}

/// The lookups a second of a worker unless a plan names another number.
#[must_use]
pub fn default_lookup_rate() -> u32 {
    1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_recognised_and_mistakes_are_named() {
        let reduce = ReduceRequest {
            run: "bulk/1".to_owned(),
            partition: 1,
            partitions: 4,
            earliest_ms: 1,
            latest_ms: 2,
            model: "f".to_owned(),
        };
        let request = BulkRequest::Reduce(reduce);
        assert_eq!(BulkRequest::read(&request.to_json().unwrap()).unwrap(), Some(request));
        for payload in ["{}", r#"{"Records":[]}"#, "5", r#"{"a":{"bulk":1}}"#] {
            assert_eq!(BulkRequest::read(payload).unwrap(), None, "{payload}");
        }
        for payload in [r#"{"bulk":"other"}"#, r#"{"bulk":"reduce","run":"r"}"#] {
            assert_eq!(BulkRequest::read(payload).unwrap_err().kind(), ErrorKind::Event, "{payload}");
        }
    }

    #[test]
    fn a_plan_has_defaults() {
        let json = r#"{"bulk":"plan","run":"bulk/1","exports":["AWSDynamoDB/1"],"mapping_since_ms":1}"#;
        let Some(BulkRequest::Plan(plan)) = BulkRequest::read(json).unwrap() else { panic!("not a plan") };
        assert_eq!((plan.partitions, plan.lookup_rate), (16, 1_000));
    }
}
