//! The signals that end a command which runs until it is stopped.

use afterwrite_model::{Error, ErrorKind, Result};
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, and the signal that service managers and containers send first. From its creation on, neither ends the process by itself.
#[derive(Debug)]
pub(crate) struct StopSignal {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
}

impl StopSignal {
    /// Begins to listen.
    pub(crate) fn listen() -> Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt()).map_err(no_signals)?,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate()).map_err(no_signals)?,
        })
    }

    /// Waits for one of the signals.
    pub(crate) async fn received(&mut self) -> Result<()> {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        tokio::signal::ctrl_c().await.map_err(no_signals)?;
        Ok(())
    }
}

/// Waits for Ctrl-C, or for the signal that service managers and containers send first.
pub(crate) async fn stop_signal() -> Result<()> {
    StopSignal::listen()?.received().await
}

fn no_signals(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "the signals of the operating system cannot be received")
        .caused_by(error)
}
