//! Real redis-servers, single or as a cluster, started by the tests that need them.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue};

/// The program, if it is not on the path; `tests/run` sets it.
const PROGRAM: &str = "AFTERWRITE_TEST_REDIS_SERVER";

/// A running redis-server on 127.0.0.1; dropping it stops it.
pub struct RedisServer {
    child: Child,
    /// Its port.
    pub port: u16,
    folder: tempfile::TempDir,
}

/// A free port.
///
/// # Panics
/// If no port is available.
#[must_use]
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port()
}

impl RedisServer {
    /// Starts a server and waits until it responds.
    ///
    /// # Panics
    /// If redis-server is not available: a test that needs it must fail.
    pub async fn start() -> Self {
        Self::start_on(free_port(), &[]).await
    }

    /// Starts a server on this port, with additional arguments.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_on(port: u16, arguments: &[&str]) -> Self {
        let server = Self::spawn(&["--port", &port.to_string()], port, arguments);
        let limit = Instant::now() + Duration::from_secs(10);
        while server.try_connect().await.is_none() {
            assert!(Instant::now() < limit, "redis-server does not respond");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server
    }

    /// Starts a server without waiting for it: one that accepts TLS connections only, for example.
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

    /// The folder of its files.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Kills the server; data that is only in memory is lost.
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

    /// A connection for the test.
    ///
    /// # Panics
    /// If the server does not respond.
    pub async fn connection(&self) -> MultiplexedConnection {
        self.try_connect().await.expect("redis-server responds")
    }

    /// Runs a command.
    ///
    /// # Panics
    /// If it fails.
    pub async fn run<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = Cmd::new();
        words.iter().for_each(|word| {
            command.arg(*word);
        });
        let mut connection = self.connection().await;
        let response = command.query_async(&mut connection).await;
        response.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// The slots of each master of a [`RedisCluster`].
pub const CLUSTER_SLOTS: [(u16, u16); 3] = [(0, 5_460), (5_461, 10_922), (10_923, 16_383)];

/// A cluster of three masters without replicas. Each serves its own slots even if another one is gone.
pub struct RedisCluster {
    /// The masters, in the order of [`CLUSTER_SLOTS`].
    pub masters: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts the masters and waits until they are connected.
    ///
    /// # Panics
    /// If the cluster does not start.
    pub async fn start() -> Self {
        let (mut masters, mut buses) = (Vec::new(), Vec::new());
        for _ in CLUSTER_SLOTS {
            let bus = free_port().to_string();
            let arguments = [
                ["--cluster-enabled", "yes"],
                ["--cluster-port", &bus],
                ["--cluster-node-timeout", "2000"],
                ["--cluster-require-full-coverage", "no"],
            ];
            masters.push(RedisServer::start_on(free_port(), &arguments.concat()).await);
            buses.push(bus);
        }
        for (number, (master, (first, last))) in (1_u8..).zip(masters.iter().zip(CLUSTER_SLOTS)) {
            let (first, last, epoch) = (first.to_string(), last.to_string(), number.to_string());
            master.run::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await;
            master.run::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await;
        }
        for (master, bus) in masters.iter().zip(&buses).skip(1) {
            masters[0].run::<()>(&["CLUSTER", "MEET", "127.0.0.1", &master.port.to_string(), bus]).await;
        }
        let cluster = Self { masters };
        cluster.wait_until_connected().await;
        cluster
    }

    async fn wait_until_connected(&self) {
        let limit = Instant::now() + Duration::from_secs(30);
        for master in &self.masters {
            loop {
                let info: String = master.run(&["CLUSTER", "INFO"]).await;
                let nodes: String = master.run(&["CLUSTER", "NODES"]).await;
                // Published messages are forwarded only between connected nodes.
                let is_connected = !nodes.contains("handshake") && !nodes.contains("disconnected");
                if info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3") && is_connected
                {
                    break;
                }
                assert!(Instant::now() < limit, "the cluster does not connect: {info}{nodes}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// The address of the first master.
    #[must_use]
    pub fn url(&self) -> String {
        self.masters[0].url()
    }

    /// Sets all of these keys, each on the master that has its slot.
    ///
    /// # Panics
    /// If a master refuses them.
    pub async fn fill(&self, keys: &BTreeSet<String>) {
        let mut slots = redis::pipe();
        keys.iter().for_each(|key| {
            slots.cmd("CLUSTER").arg("KEYSLOT").arg(key);
        });
        let slots: Vec<u16> =
            slots.query_async(&mut self.masters[0].connection().await).await.expect("slots");
        for (master, (first, last)) in self.masters.iter().zip(CLUSTER_SLOTS) {
            let mut pipeline = redis::pipe();
            for (key, _) in keys.iter().zip(&slots).filter(|(_, slot)| (first..=last).contains(slot)) {
                pipeline.cmd("SET").arg(key).arg("cached").ignore();
            }
            pipeline.exec_async(&mut master.connection().await).await.expect("keys of the master");
        }
    }

    /// The index of the master that has a key's slot at the start.
    pub async fn home(&self, key: &str) -> usize {
        Self::home_among(&self.masters, key).await
    }

    /// The same for the masters of a cluster that was taken apart.
    ///
    /// # Panics
    /// If no master has the slot.
    pub async fn home_among(masters: &[RedisServer], key: &str) -> usize {
        let slot: u16 = masters[0].run(&["CLUSTER", "KEYSLOT", key]).await;
        CLUSTER_SLOTS.iter().position(|(first, last)| (*first..=*last).contains(&slot)).expect("a master")
    }
}
