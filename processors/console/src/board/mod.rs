//! The facts that `afterwrite dev` shares with its console, and the two things that the console may ask of it: other faults, and a record
//! once more.
//!
//! | module | facts |
//! |---|---|
//! | `changes` | the newest changes that were counted, each with everything that follows from it |
//! | `meters` | records, failures and delays of each stream, and the metrics of each function |
//! | `redelivery` | records that are delivered once more |
//! | `recount` | the comparison of everything that is derived with the items |

mod changes;
mod meters;
mod recount;
mod redelivery;

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_mapping::FaultSwitch;
use tokio::sync::mpsc;

pub use self::changes::{ChangeRing, CountedChange};
pub use self::meters::{DevMeters, FailedItem, StreamMeter, mapping_id};
pub(crate) use self::meters::{FunctionMeter, WaitingBatch};
pub(crate) use self::recount::{RecountBoard, RecountResult, RecountVerdict};
pub use self::redelivery::{RedeliveredTo, Redelivery};

/// Records that wait to be delivered once more.
const WAITING_REDELIVERIES: usize = 16;

/// The facts that `afterwrite dev` shares with its console.
#[derive(Debug)]
pub struct DevBoard {
    /// The faults that all mappings and the database inject.
    pub faults: FaultSwitch,
    /// The newest changes.
    pub changes: ChangeRing,
    /// The meters of streams and functions.
    pub meters: DevMeters,
    /// An item of the model, after the items that it looks up.
    pub(crate) sample: Vec<EditorItem>,
    /// The functions that are programs of their own: their metrics are not known.
    pub(crate) programs: BTreeSet<String>,
    /// Whether the process has a Redis, from which it removes cache keys.
    pub(crate) has_cache: bool,
    pub(crate) recount: RecountBoard,
    redeliveries: mpsc::Sender<Redelivery>,
}

/// An item that can be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditorItem {
    /// The deployed name of its table.
    pub table: String,
    /// Its attributes, in DynamoDB's JSON.
    pub json: String,
}

impl DevBoard {
    /// A board, and the records that its console wants to have delivered once more.
    #[must_use]
    pub fn new(
        faults: FaultSwitch,
        sample: Vec<EditorItem>,
        programs: impl IntoIterator<Item = String>,
        has_cache: bool,
    ) -> (Arc<Self>, mpsc::Receiver<Redelivery>) {
        let (redeliveries, queue) = mpsc::channel(WAITING_REDELIVERIES);
        let board = Self {
            faults,
            changes: ChangeRing::default(),
            meters: DevMeters::default(),
            sample,
            programs: programs.into_iter().collect(),
            has_cache,
            recount: RecountBoard::default(),
            redeliveries,
        };
        (Arc::new(board), queue)
    }
}
