//! A command that runs until it is stopped.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A running command; dropping it kills it.
pub(crate) struct BackgroundCommand {
    child: Child,
    output: BufReader<ChildStdout>,
    errors: Option<JoinHandle<String>>,
}

impl BackgroundCommand {
    /// Starts `afterwrite` with these arguments and variables.
    pub(crate) fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_in(Path::new("."), arguments, variables)
    }

    /// Starts it in a folder.
    pub(crate) fn start_in(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_afterwrite"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        command.args(arguments).envs(variables.iter().copied()).current_dir(folder);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut stream = child.stderr.take().unwrap();
        // Read all the time: a full pipe would stop the command.
        let errors = std::thread::spawn(move || {
            let mut errors = String::new();
            stream.read_to_string(&mut errors).unwrap();
            errors
        });
        Self { child, output, errors: Some(errors) }
    }

    /// The next line of its output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let length = self.output.read_line(&mut line).unwrap();
        assert!(length > 0, "no output; errors: {}", self.errors());
        line
    }

    /// Sends a signal, as `kill` names it.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for its end; returns the exit code, the rest of its output, and its errors.
    pub(crate) fn ended(&mut self) -> (Option<i32>, String, String) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the command did not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut output = String::new();
        self.output.read_to_string(&mut output).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, output, self.errors())
    }

    /// Its errors, once it has ended.
    fn errors(&mut self) -> String {
        self.errors.take().map(|errors| errors.join().unwrap()).unwrap_or_default()
    }
}

impl Drop for BackgroundCommand {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Repeats a check until it gives a value.
pub(crate) async fn eventually<T, Check>(what: &str, mut check: impl FnMut() -> Check) -> T
where
    Check: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
