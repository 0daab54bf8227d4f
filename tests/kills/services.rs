//! Commands of `afterwrite` that are started again and again.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afterwrite_tests::programs::program;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::platform::Platform;

const PAUSE: Duration = Duration::from_millis(300);

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// A second consumer of the stream.
    Run,
    Compact,
    Backfill,
    Verify,
}

impl Service {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Run => &["run", "--name", "second"],
            Self::Compact => &["compact"],
            Self::Backfill => &["backfill", "--yes", "--without-recovery", "--segments", "2"],
            // No record is in flight for so long, whatever is killed.
            Self::Verify => &["verify", "--tolerance", "30"],
        }
    }

    /// The exit codes of a process that nobody kills.
    fn exit_codes(self) -> &'static [i32] {
        match self {
            Self::Run => &[],
            Self::Compact | Self::Verify => &[0],
            // 1: an item's lookup is in flight.
            Self::Backfill => &[0, 1],
        }
    }

    /// Starts it; dropped, it is killed.
    pub(crate) fn start(self, platform: &Platform) -> Child {
        let mut command = Command::new(program("afterwrite"));
        command.args(self.arguments()).envs(platform.variables());
        command.stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
    }

    /// Starts it whenever it has ended or was killed, until it is over.
    pub(crate) async fn repeat(self, platform: &Platform, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            let process = self.start(platform);
            let ended = async {
                let output = process.wait_with_output().await.unwrap();
                // A process that was killed has no code.
                if let Some(code) = output.status.code() {
                    let errors = String::from_utf8_lossy(&output.stderr);
                    assert!(self.exit_codes().contains(&code), "{self:?} ended with {code}: {errors}");
                }
            };
            // A consumer does not end by itself, and a verification waits for its tolerance: both are killed in the end.
            let over = async {
                while !is_over.load(Ordering::Relaxed) {
                    sleep(PAUSE).await;
                }
            };
            tokio::select! {
                () = ended => {}
                () = over => {}
            }
            sleep(PAUSE).await;
        }
    }
}
