//! The signals that end a command which runs until it is stopped.

use afterwrite_model::{Error, ErrorKind, Result};

/// Waits for Ctrl-C, or for the signal that service managers and containers send first.
pub(crate) async fn stop_signal() -> Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => pressed.map_err(no_signals),
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await.map_err(no_signals)
}

fn no_signals(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "the signals of the operating system cannot be received")
        .caused_by(error)
}
