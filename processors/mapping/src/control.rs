//! How a running mapping is ended.

use tokio::sync::watch;

/// Ends a mapping while it runs.
#[derive(Debug)]
pub struct MappingControl(watch::Sender<RunMode>);

/// The mode of a running mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RunMode {
    /// Until it is ended.
    Delivering,
    /// To the end of the stream.
    Draining,
    /// To the end of the batches under way.
    Stopping,
}

impl Default for MappingControl {
    fn default() -> Self {
        Self(watch::Sender::new(RunMode::Delivering))
    }
}

impl MappingControl {
    /// A control under which a mapping delivers the records that are in the stream, and ends.
    #[must_use]
    pub fn draining() -> Self {
        Self(watch::Sender::new(RunMode::Draining))
    }

    /// Ends the mapping once everything that is in the stream now is delivered.
    pub fn drain(&self) {
        self.0.send_if_modified(|mode| raise(mode, RunMode::Draining));
    }

    /// Ends the mapping once the batches under way are delivered. A batch that fails is not retried.
    pub fn stop(&self) {
        self.0.send_if_modified(|mode| raise(mode, RunMode::Stopping));
    }

    pub(crate) fn mode(&self) -> RunMode {
        *self.0.borrow()
    }

    /// Waits until [`MappingControl::stop`] is called.
    pub async fn stopped(&self) {
        // The sender is `self`, so it is not dropped meanwhile.
        let _ = self.0.subscribe().wait_for(|mode| *mode == RunMode::Stopping).await;
    }
}

fn raise(mode: &mut RunMode, to: RunMode) -> bool {
    let is_later = *mode < to;
    if is_later {
        *mode = to;
    }
    is_later
}
