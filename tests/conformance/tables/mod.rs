//! The contract of `Tables` and `TableScan`: the same cases against the tables in memory and against the embedded DynamoDB, over HTTP through the
//! AWS SDK. The simulation runs on the former; because of these cases its results hold for the latter.
//!
//! | file | cases |
//! |---|---|
//! | `store` | the two implementations, and the tables that every case uses |
//! | `conditions`, `changes`, `values` | single writes, each also as the only action of a transaction |
//! | `transactions` | all or nothing, reasons, limits |
//! | `reads` | batches, duplicates, indexes, wrong configurations |
//! | `scans` | whole tables in segments and pages |
//! | `units` | the write units of writes |
//! | `random` | random sequences of writes, with equal results from both implementations |
//! | `scripted_service`, `faults` | DynamoDB's errors, from a stand-in with scripted responses |
//! | `hanging` | requests that never get a response |
//! | `quirks` | known differences between the embedded DynamoDB and AWS, each a test of its own |

mod changes;
mod conditions;
mod faults;
mod hanging;
mod outcome;
mod quirks;
mod random;
mod reads;
mod scans;
mod scripted_service;
mod store;
mod transactions;
mod units;
mod values;

/// Runs each suite against both implementations.
macro_rules! conformance {
    ($($suite:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $suite() {
                super::$suite::suite(&super::store::in_memory()).await;
            })*
        }
        mod embedded {
            $(#[tokio::test]
            async fn $suite() {
                super::$suite::suite(&super::store::embedded().await).await;
            })*
        }
    };
}

conformance!(conditions, changes, values, transactions, reads, scans, units);
