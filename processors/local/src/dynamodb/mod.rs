//! A DynamoDB with streams inside this process. AWS SDK clients reach its tables over loopback HTTP.
//!
//! It is [dynoxide](https://docs.rs/dynoxide-rs), in memory or in a file. Its differences from AWS end here:
//!
//! | dynoxide | here |
//! |---|---|
//! | each stream write scans all stream records for the last number, so that writes get slower with every record | its database starts as a copy of one in which that scan has an index (`open_database`) |
//! | a write that changes nothing appears in the stream | [`EmbeddedStream`] drops it, as AWS never emits it |
//! | a table has one list of stream records, under the label of its newest stream | a record belongs to the stream that the table had when it was written (`stream_history`) |
//! | the region is `dynoxide`, the stream's label is not a time, an open shard has an ending | [`EmbeddedStream`] corrects them, and over HTTP the [`StreamServer`](crate::stream_api::StreamServer) |
//! | expired items are deleted when [`EmbeddedDynamoDb::sweep_expired`] is called | kept: a test must know when |
//! | it answers web pages of any origin, and takes any signature | it has an address that only this process knows (`listen`) |
//! | a key of an index has one attribute | the [`StreamServer`](crate::stream_api::StreamServer) answers for indexes with several (`index_keys`) |
//! | one shard for each stream, and never a `TransactionConflict` | kept: tests inject conflicts themselves |

mod database;
mod index_keys;
mod stream;
mod stream_history;
mod table;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use afterwrite_model::{Error, ErrorKind, Result};
use dynoxide::actions::describe_table::DescribeTableRequest;
use dynoxide::actions::describe_time_to_live::DescribeTimeToLiveRequest;
use dynoxide::{Database, DynoxideError};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) use self::database::call;
use self::database::{failed, open_database, open_file};
pub(crate) use self::index_keys::IndexKeys;
pub use self::stream::EmbeddedStream;
pub(crate) use self::stream::aws_arn;
pub(crate) use self::stream_history::{StreamHistory, public_number, stored_number};
pub use self::table::{KeyDefinition, PARKED_INDEX, TableDefinition};
use crate::sdk::sdk_config;

/// A running DynamoDB. [`EmbeddedDynamoDb::stop`] waits for open requests; dropping it stops it too, without waiting.
pub struct EmbeddedDynamoDb {
    address: SocketAddr,
    database: Database,
    history: StreamHistory,
    index_keys: IndexKeys,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Result<(), String>>,
}

impl std::fmt::Debug for EmbeddedDynamoDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedDynamoDb").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Listens on this port of 127.0.0.1. On any port, the address is a random one of 127.0.0.0/8 where the system has these addresses: dynoxide
/// answers web pages and takes any signature, so only a program that gets the address finds it. Other programs use a [`StreamServer`](crate::stream_api::StreamServer).
async fn listen(port: u16) -> std::io::Result<TcpListener> {
    if port == 0 {
        let [second, third, fourth, ..] = uuid::Uuid::new_v4().into_bytes();
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::new(127, second, third, fourth), 0)).await {
            return Ok(listener);
        }
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
}

impl EmbeddedDynamoDb {
    /// Starts a server with an empty database on a free port of this machine, on the current Tokio runtime.
    ///
    /// # Errors
    /// `Configuration` if there is no temporary directory, `Unavailable` if the server does not start.
    pub async fn start() -> Result<Self> {
        Self::serve(open_database()?, 0).await
    }

    /// Starts a server on a port of 127.0.0.1 (0 is any free one), with a database file that outlives it, or else an empty
    /// database in memory.
    ///
    /// # Errors
    /// `Configuration` if the port is in use, or the file cannot be used.
    pub async fn open(file: Option<&Path>, port: u16) -> Result<Self> {
        Self::serve(file.map_or_else(open_database, open_file)?, port).await
    }

    async fn serve(database: Database, port: u16) -> Result<Self> {
        let listener = listen(port).await.map_err(|error| {
            Error::new(ErrorKind::Configuration, "the embedded DynamoDB cannot listen on 127.0.0.1")
                .with("port", port.to_string())
                .hint("Choose another port")
                .caused_by(error)
        })?;
        let address = listener.local_addr().map_err(failed)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(dynoxide::server::serve_with_shutdown(listener, database.clone(), async {
            // A message or a dropped sender: both mean stop.
            let _ = stopped.await;
        }));
        let (history, index_keys) = (StreamHistory::default(), IndexKeys::default());
        Ok(Self { address, database, history, index_keys, stop, server })
    }

    /// The server's URL: `http://<address>:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client of this server.
    #[must_use]
    pub fn client(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&sdk_config(self.endpoint()))
    }

    /// The database itself.
    pub(crate) fn database(&self) -> Database {
        self.database.clone()
    }

    /// The keys of its indexes that the database does not know.
    pub(crate) fn index_keys(&self) -> IndexKeys {
        self.index_keys.clone()
    }

    /// Whether an index has several attributes in a key: then only a [`StreamServer`](crate::stream_api::StreamServer) answers its queries.
    #[must_use]
    pub fn needs_front(&self) -> bool {
        !self.index_keys.is_empty()
    }

    /// The streams of its tables.
    pub(crate) fn history(&self) -> StreamHistory {
        self.history.clone()
    }

    /// Creates a table, ready to use.
    ///
    /// # Errors
    /// `Configuration` if its definition is invalid, `Unavailable` if it exists already.
    pub async fn create_table(&self, table: &TableDefinition) -> Result<()> {
        let (create, set_ttl) = (table.create_request()?, table.ttl_request());
        self.index_keys.note(table);
        let name = table.name.clone();
        let created = call(&self.database, move |database| {
            database.create_table(create)?;
            set_ttl.map_or(Ok(()), |request| database.update_time_to_live(request).map(drop))
        });
        created.await.map_err(|error| error.with("table", name))?;
        self.note_stream(table).await
    }

    /// Remembers the stream before anyone can exchange it.
    async fn note_stream(&self, table: &TableDefinition) -> Result<()> {
        if table.stream {
            self.newest_stream(&table.name).await?;
        }
        Ok(())
    }

    /// Creates a table unless there is one of its name. One that lacks an index or the stream of the definition gets it: the stream has the
    /// changes from now on.
    ///
    /// # Errors
    /// As [`EmbeddedDynamoDb::create_table`].
    pub async fn ensure_table(&self, table: &TableDefinition) -> Result<()> {
        let request = DescribeTableRequest { table_name: table.name.clone() };
        let Ok(known) = call(&self.database, |database| database.describe_table(request)).await else {
            return self.create_table(table).await;
        };
        self.index_keys.note(table);
        let known_indexes = known.table.global_secondary_indexes.unwrap_or_default();
        for (name, key) in &table.indexes {
            if !known_indexes.iter().any(|known| known.index_name == *name) {
                let request = table.index_request(name, key)?;
                call(&self.database, |database| database.update_table(request)).await?;
            }
        }
        if table.stream && known.table.latest_stream_arn.is_none() {
            let request = table.stream_request()?;
            call(&self.database, |database| database.update_table(request)).await?;
        }
        self.note_stream(table).await
    }

    /// Whether there is a table of this name.
    ///
    /// # Errors
    /// `Unavailable` if the database fails.
    pub async fn has_table(&self, table: &str) -> Result<bool> {
        let request = DescribeTableRequest { table_name: table.to_owned() };
        let described = call(&self.database, |database| match database.describe_table(request) {
            Err(DynoxideError::ResourceNotFoundException(_)) => Ok(false),
            described => described.map(|_| true),
        });
        described.await
    }

    /// The newest stream of a table, as AWS shows it.
    ///
    /// # Errors
    /// `Configuration` if there is no such table, or it has no stream.
    pub async fn stream(&self, table: &str) -> Result<EmbeddedStream> {
        self.newest_stream(table).await?.ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the table has no stream")
                .with("table", table)
                .hint("Add a stream of new and old images to it with UpdateTable")
        })
    }

    /// The first stream that a table had in this process; it may have ended.
    ///
    /// # Errors
    /// As [`EmbeddedDynamoDb::stream`], for a table that this process neither created nor ensured.
    pub async fn oldest_stream(&self, table: &str) -> Result<EmbeddedStream> {
        match self.history.oldest(table) {
            Some(label) => Ok(self.stream_of(table, label)),
            None => self.stream(table).await,
        }
    }

    /// The newest stream of a table; `None` if it has none now, or there is no such table.
    ///
    /// # Errors
    /// `Unavailable` if the database fails.
    pub async fn newest_stream(&self, table: &str) -> Result<Option<EmbeddedStream>> {
        let label = self.history.current(&self.database, table).await?;
        Ok(label.map(|label| self.stream_of(table, label)))
    }

    fn stream_of(&self, table: &str, label: String) -> EmbeddedStream {
        EmbeddedStream::new(self.database(), self.history(), table, label)
    }

    /// A stream that the table had in an earlier process, by its ARN; `None` if the ARN is not of this table.
    #[must_use]
    pub fn earlier_stream(&self, table: &str, arn: &str) -> Option<EmbeddedStream> {
        let (_, label) = arn.split_once(&format!(":table/{table}/stream/"))?;
        let label = self.history.adopt(table, label)?;
        Some(self.stream_of(table, label))
    }

    /// The attribute that expires a table's items, if there is one.
    ///
    /// # Errors
    /// `Unavailable` if there is no such table, or the database fails.
    pub async fn ttl_attribute(&self, table: &str) -> Result<Option<String>> {
        let request = DescribeTimeToLiveRequest { table_name: table.to_owned() };
        let described = call(&self.database, |database| database.describe_time_to_live(request)).await?;
        Ok(described.time_to_live_description.attribute_name)
    }

    /// Deletes every item whose time to live has passed, as DynamoDB does at a time of its choice; returns how many.
    ///
    /// # Errors
    /// `Unavailable` if the database fails.
    pub async fn sweep_expired(&self) -> Result<usize> {
        call(&self.database, Database::sweep_ttl).await
    }

    /// Stops: no new connections, open requests finish.
    ///
    /// # Errors
    /// `Unavailable` if the server failed before.
    pub async fn stop(self) -> Result<()> {
        // If the server has ended already, its result has the cause.
        let _ = self.stop.send(());
        let served = self.server.await.map_err(failed)?;
        served.map_err(|cause| failed(std::io::Error::other(cause)))
    }
}
