//! What a table must do, whoever keeps it: the same cases against the tables in memory and against the embedded DynamoDB,
//! spoken to over HTTP through the AWS SDK. What the simulation proves on the one holds on the other because of this.
//!
//! | file | |
//! |---|---|
//! | `store` | the two stores, and the tables that every case finds in them |
//! | `conditions`, `changes`, `values` | single writes, each also as the only action of a transaction |
//! | `transactions` | all or nothing, reasons, limits |
//! | `reads` | batches, duplicates, indexes, wrong set-ups |
//! | `units` | what writes cost, in figures |
//! | `random` | random sequences of writes, which both stores must answer alike |
//! | `service`, `faults` | what DynamoDB's failures become, by a stand-in that fails as told |
//! | `quirks` | where the embedded DynamoDB is known to differ from AWS, each a test of its own |

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod changes;
mod conditions;
mod faults;
mod outcome;
mod quirks;
mod random;
mod reads;
mod service;
mod store;
mod transactions;
mod units;
mod values;

/// Runs each suite against both stores.
macro_rules! conformance {
    ($($suite:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $suite() {
                crate::$suite::suite(&crate::store::in_memory()).await;
            })*
        }
        mod embedded {
            $(#[tokio::test]
            async fn $suite() {
                crate::$suite::suite(&crate::store::embedded().await).await;
            })*
        }
    };
}

conformance!(conditions, changes, values, transactions, reads, units);
