//! A DynamoDB with streams inside this process, for the ordinary AWS SDK to talk to over loopback HTTP.
//!
//! It is [dynoxide](https://docs.rs/dynoxide-rs), held in memory. What it does otherwise than AWS ends here:
//!
//! | dynoxide | here |
//! |---|---|
//! | each stream write scans all stream records for the last number, so that writes get slower with every record | its database starts as a copy of one in which that scan has an index (`indexed_database`) |
//! | a write that changes nothing appears in the stream | [`EmbeddedStream`] drops it, as AWS never emits it |
//! | the region is `dynoxide`, the stream's label no time, an open shard has an ending, a TTL mark is spelt as in Lambda's JSON | [`EmbeddedStream`] says what AWS would say |
//! | expired items go when [`EmbeddedDynamoDb::sweep_expired`] is called | that is wanted: a test must know when |
//! | one shard a stream, and never a `TransactionConflict` | remains so: tests inject conflicts themselves |

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use afterwrite::{Error, ErrorKind, Result};
use aws_config::SdkConfig;
use dynoxide::Database;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::http::sdk_config;
use super::stream::{AwsStream, EmbeddedStream};

/// The region that the embedded server says it is in.
pub const REGION: &str = super::http::REGION;

/// Serves the two questions that every stream write and every read of a stream asks: the table's last sequence number,
/// and the records after one.
const STREAM_INDEX: &str = "CREATE INDEX afterwrite_stream_position
    ON _stream_records (table_name, CAST(sequence_number AS INTEGER))";

/// How an embedded server starts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The port on 127.0.0.1; 0 takes one that is free.
    pub port: u16,
}

/// A running DynamoDB. [`EmbeddedDynamoDb::stop`] ends it in good order; dropping it ends it too, a little later.
pub struct EmbeddedDynamoDb {
    address: SocketAddr,
    database: Database,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Result<(), String>>,
}

impl std::fmt::Debug for EmbeddedDynamoDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedDynamoDb").field("address", &self.address).finish_non_exhaustive()
    }
}

impl EmbeddedDynamoDb {
    /// Starts a server with an empty database, on the current Tokio runtime.
    ///
    /// # Errors
    /// `Configuration` if the port is taken or there is no room for temporary files.
    pub async fn start(options: Options) -> Result<Self> {
        let database = indexed_database()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await.map_err(|error| {
            Error::new(ErrorKind::Configuration, "the embedded DynamoDB cannot listen")
                .with("port", options.port.to_string())
                .hint("Stop what listens there, or choose another port")
                .caused_by(error)
        })?;
        let address = listener.local_addr().map_err(not_started)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(dynoxide::server::serve_with_shutdown(listener, database.clone(), async {
            // An answer or a dropped sender: both mean stop.
            let _ = stopped.await;
        }));
        Ok(Self { address, database, stop, server })
    }

    /// Where it listens: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A configuration for any AWS SDK client of this server. It reads neither the environment nor a profile.
    #[must_use]
    pub fn sdk_config(&self) -> SdkConfig {
        sdk_config(self.endpoint())
    }

    /// A client of the tables.
    #[must_use]
    pub fn client(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.sdk_config())
    }

    /// The stream of a table, as AWS would show it.
    ///
    /// # Errors
    /// `Configuration` if there is no such table or it has no stream.
    pub async fn stream(&self, table: &str) -> Result<EmbeddedStream> {
        let described = self.client().describe_table().table_name(table).send().await;
        let arn = described
            .map_err(|error| not_available("describing a table", table, error))?
            .table
            .and_then(|table| table.latest_stream_arn);
        let arn = arn.ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the table has no stream")
                .with("table", table)
                .hint("Create it with a stream of new and old images")
        })?;
        Ok(EmbeddedStream::new(AwsStream::new(&self.sdk_config(), arn)))
    }

    /// Deletes every item whose time to live has passed, as DynamoDB does in its own time, and says how many.
    ///
    /// # Errors
    /// `Unavailable` if the database cannot do it.
    pub async fn sweep_expired(&self) -> Result<usize> {
        let database = self.database.clone();
        let swept = tokio::task::spawn_blocking(move || database.sweep_ttl()).await;
        swept.map_err(|error| not_available("sweeping expired items", "all", error))?.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the embedded DynamoDB cannot sweep expired items")
                .caused_by(error.to_string())
        })
    }

    /// Stops: no new connections, requests under way finish.
    ///
    /// # Errors
    /// `Unavailable` if the server had failed before.
    pub async fn stop(self) -> Result<()> {
        // The server may have ended already: then nobody receives, and its result says why.
        let _ = self.stop.send(());
        let served = self.server.await.map_err(|error| not_started(error.to_string()))?;
        served.map_err(not_started)
    }
}

/// An empty in-memory database whose stream records are indexed.
///
/// The library gives no access to its connection, but it can restore a snapshot. So the index is put into a database
/// file through a connection of our own, and the file is read into memory.
fn indexed_database() -> Result<Database> {
    let directory = tempfile::tempdir().map_err(|error| {
        Error::new(ErrorKind::Configuration, "there is no temporary directory")
            .hint("Make the system's temporary directory writable")
            .caused_by(error)
    })?;
    let file = directory.path().join("empty.db");
    let file = file.to_str().ok_or_else(|| {
        Error::new(ErrorKind::Configuration, "the temporary directory's name is no text")
            .hint("Name another one in TMPDIR")
    })?;
    drop(Database::new(file).map_err(|error| not_started(error.to_string()))?);
    add_stream_index(Path::new(file)).map_err(not_started)?;
    let database = Database::memory().map_err(|error| not_started(error.to_string()))?;
    database.restore_from(file).map_err(|error| not_started(error.to_string()))?;
    Ok(database)
}

fn add_stream_index(file: &Path) -> rusqlite::Result<()> {
    let connection = rusqlite::Connection::open(file)?;
    connection.execute_batch(STREAM_INDEX)?;
    connection.close().map_err(|(_, error)| error)
}

fn not_started(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Unavailable, "the embedded DynamoDB does not run").caused_by(cause)
}

pub(super) fn not_available(
    doing: &str,
    what: &str,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{doing} failed")).with("of", what).caused_by(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the library asks at every stream write.
    const LAST_NUMBER: &str = "EXPLAIN QUERY PLAN
        SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) + 1 FROM _stream_records WHERE table_name = ?1";

    #[test]
    fn finding_the_last_sequence_number_reads_an_index() {
        let directory = tempfile::tempdir().unwrap();
        let copy = directory.path().join("copy.db");
        indexed_database().unwrap().vacuum_into(copy.to_str().unwrap()).unwrap();
        let connection = rusqlite::Connection::open(copy).unwrap();
        let plan: String = connection.query_row(LAST_NUMBER, ["any"], |row| row.get("detail")).unwrap();
        assert!(plan.contains("INDEX afterwrite_stream_position"), "{plan}");
    }
}
