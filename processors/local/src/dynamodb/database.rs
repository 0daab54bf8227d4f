//! The database of the embedded DynamoDB, with the index that its streams need.

use std::path::Path;

use afterwrite_model::{Error, ErrorKind, Result};
use dynoxide::Database;

/// Serves the two queries that every stream write and every stream read makes: the table's last sequence number, and the
/// records after one.
const STREAM_INDEX: &str = "CREATE INDEX IF NOT EXISTS afterwrite_stream_position
    ON _stream_records (table_name, CAST(sequence_number AS INTEGER))";

/// Opens an empty in-memory database whose stream records are indexed.
///
/// The library gives no access to its connection, but it can restore a snapshot. So the index is created in a database
/// file through a connection of our own, and the file is read into memory.
pub(super) fn open_database() -> Result<Database> {
    let directory = tempfile::tempdir().map_err(|error| {
        Error::new(ErrorKind::Configuration, "there is no temporary directory")
            .hint("Make the system's temporary directory writable")
            .caused_by(error)
    })?;
    let file = directory.path().join("empty.db");
    let file = file.to_str().ok_or_else(|| {
        Error::new(ErrorKind::Configuration, "the path of the temporary directory is not UTF-8")
            .hint("Set TMPDIR to another directory")
    })?;
    drop(Database::new(file).map_err(failed)?);
    add_stream_index(Path::new(file)).map_err(failed)?;
    let database = Database::memory().map_err(failed)?;
    database.restore_from(file).map_err(failed)?;
    Ok(database)
}

/// Opens a database file, or creates it.
pub(super) fn open_file(file: &Path) -> Result<Database> {
    let unusable = |error: Box<dyn std::error::Error + Send + Sync>| {
        Error::new(ErrorKind::Configuration, "the database file of the embedded DynamoDB cannot be used")
            .with("file", file.display().to_string())
            .hint("Name a folder that can be written, and that no other process uses")
            .caused_by(error)
    };
    let path = file.to_str().ok_or_else(|| unusable("the path is not UTF-8".into()))?;
    drop(Database::new(path).map_err(|error| unusable(error.into()))?);
    add_stream_index(file).map_err(|error| unusable(error.into()))?;
    Database::new(path).map_err(|error| unusable(error.into()))
}

fn add_stream_index(file: &Path) -> rusqlite::Result<()> {
    let connection = rusqlite::Connection::open(file)?;
    connection.execute_batch(STREAM_INDEX)?;
    connection.close().map_err(|(_, error)| error)
}

/// Runs a request on a thread that may block.
pub(crate) async fn call<T: Send + 'static>(
    database: &Database,
    request: impl FnOnce(&Database) -> dynoxide::Result<T> + Send + 'static,
) -> Result<T> {
    let database = database.clone();
    tokio::task::spawn_blocking(move || request(&database)).await.map_err(failed)?.map_err(failed)
}

pub(super) fn failed(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Unavailable, "the embedded DynamoDB failed").caused_by(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library's query at every stream write.
    const LAST_NUMBER: &str = "EXPLAIN QUERY PLAN
        SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) + 1 FROM _stream_records WHERE table_name = ?1";

    #[test]
    fn the_last_sequence_number_is_read_from_an_index() {
        let directory = tempfile::tempdir().unwrap();
        let copy = directory.path().join("copy.db");
        open_database().unwrap().vacuum_into(copy.to_str().unwrap()).unwrap();
        let connection = rusqlite::Connection::open(copy).unwrap();
        let plan: String = connection.query_row(LAST_NUMBER, ["any"], |row| row.get("detail")).unwrap();
        assert!(plan.contains("INDEX afterwrite_stream_position"), "{plan}");
    }
}
