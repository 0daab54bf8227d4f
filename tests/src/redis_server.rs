//! Real redis servers, started by the tests that need them.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue};

/// Names the program where it is not on the path; `tests/run` sets it.
const PROGRAM: &str = "AFTERWRITE_TEST_REDIS_SERVER";

/// A running redis-server on 127.0.0.1; dropping it kills it.
pub struct RedisServer {
    child: Child,
    /// Its port.
    pub port: u16,
    folder: tempfile::TempDir,
}

/// A port that nobody listens on.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port()
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// If there is no redis-server: such a test must fail, not pass without having looked.
    pub async fn start() -> Self {
        Self::start_on(free_port(), &[]).await
    }

    /// Starts a server on this port, with more arguments.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_on(port: u16, arguments: &[&str]) -> Self {
        let server = Self::spawn(&["--port", &port.to_string()], port, arguments);
        let limit = Instant::now() + Duration::from_secs(10);
        while server.try_connect().await.is_none() {
            assert!(Instant::now() < limit, "redis-server does not answer");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server
    }

    /// Starts a server that speaks TLS only, without waiting for it.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn spawn(port_arguments: &[&str], port: u16, arguments: &[&str]) -> Self {
        let program = std::env::var_os(PROGRAM).unwrap_or_else(|| "redis-server".into());
        let folder = tempfile::tempdir().expect("a folder");
        let child = Command::new(&program)
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--dir")
            .arg(folder.path())
            .args(port_arguments)
            .args(arguments)
            .stdout(Stdio::null())
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{}: {error}: run tests/run, or install redis-server", program.display())
            });
        Self { child, port, folder }
    }

    /// Where it keeps its files.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Kills it; what it held in memory only is lost.
    ///
    /// # Panics
    /// If it cannot be killed.
    pub fn kill(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("the server is killed");
    }

    async fn try_connect(&self) -> Option<MultiplexedConnection> {
        let client = redis::Client::open(self.url()).expect("an address");
        let mut connection = client.get_multiplexed_async_connection().await.ok()?;
        redis::cmd("PING").query_async::<String>(&mut connection).await.ok()?;
        Some(connection)
    }

    /// A connection of the test's own.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn connection(&self) -> MultiplexedConnection {
        self.try_connect().await.expect("redis-server answers")
    }

    /// Carries out a command, given as words.
    ///
    /// # Panics
    /// If it fails.
    pub async fn run<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = Cmd::new();
        words.iter().for_each(|word| {
            command.arg(*word);
        });
        let mut connection = self.connection().await;
        let answer = command.query_async(&mut connection).await;
        answer.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}
