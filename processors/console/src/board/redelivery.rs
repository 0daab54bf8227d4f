//! Records that are delivered once more, each as a batch of its own.

use std::sync::Arc;

use afterwrite_model::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

use super::DevBoard;
use super::changes::CountedChange;

/// A record that is delivered once more.
#[derive(Debug)]
pub struct Redelivery {
    /// The change.
    pub change: Arc<CountedChange>,
    /// Takes the functions' responses.
    pub reply: oneshot::Sender<Vec<RedeliveredTo>>,
}

/// A function's response to a record that was delivered once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedeliveredTo {
    /// The function.
    pub function: String,
    /// Its response, or its error.
    pub outcome: std::result::Result<String, String>,
}

impl DevBoard {
    /// Delivers a change once more, to the functions that read streams.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if `dev` is stopping.
    pub(crate) async fn deliver_again(&self, change: Arc<CountedChange>) -> Result<Vec<RedeliveredTo>> {
        let (reply, answered) = oneshot::channel();
        let stopping = || Error::new(ErrorKind::State, "`afterwrite dev` is stopping");
        let redelivery = Redelivery { change, reply };
        self.redeliveries.send(redelivery).await.map_err(|_| stopping())?;
        answered.await.map_err(|_| stopping())
    }
}
