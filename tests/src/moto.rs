//! moto, another implementation of AWS's APIs, as a process of its own on 127.0.0.1.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aws_sdk_firehose::config::{BehaviorVersion, Credentials, Region};

/// Names the Python interpreter that has moto; `tests/run` sets it.
const PYTHON: &str = "AFTERWRITE_TEST_PYTHON";
/// Its start takes a second or two; on a busy machine, many.
const LONGEST_START: Duration = Duration::from_secs(60);

/// A running moto; dropping it ends it.
pub struct Moto {
    process: Child,
    endpoint: String,
}

impl Moto {
    /// Starts one, and waits until it answers.
    ///
    /// # Panics
    /// If there is none: a test that needs it must fail.
    #[must_use]
    pub fn start() -> Self {
        let python = std::env::var_os(PYTHON).map(PathBuf::from);
        let python = python.unwrap_or_else(|| panic!("{PYTHON} is not set: run tests/run"));
        // Free until a moment ago, and nobody else asks for it by number.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = port.expect("a free port").port();
        let mut command = Command::new(python);
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("the Python interpreter");
        let mut moto = Self { process, endpoint: format!("http://127.0.0.1:{port}") };
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let ended = moto.process.try_wait().expect("its state");
            assert!(
                ended.is_none() && started.elapsed() < LONGEST_START,
                "moto does not start: run tests/run"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        moto
    }

    /// Where it listens.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// A Firehose client of it.
    #[must_use]
    pub fn firehose(&self) -> aws_sdk_firehose::Client {
        firehose_client(&self.endpoint)
    }

    /// An S3 client of it.
    #[must_use]
    pub fn s3(&self) -> aws_sdk_s3::Client {
        let config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("us-east-1"))
            .endpoint_url(&self.endpoint)
            .force_path_style(true)
            .credentials_provider(credentials())
            .http_client(afterwrite::sink::http_client());
        aws_sdk_s3::Client::from_conf(config.build())
    }
}

/// A Firehose client of an endpoint, `http://host:port`.
pub(crate) fn firehose_client(endpoint: &str) -> aws_sdk_firehose::Client {
    let config = aws_sdk_firehose::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .endpoint_url(endpoint)
        .credentials_provider(credentials())
        .http_client(afterwrite::sink::http_client());
    aws_sdk_firehose::Client::from_conf(config.build())
}

fn credentials() -> Credentials {
    Credentials::new("test", "test", None, None, "test")
}

impl Drop for Moto {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
