//! How long a compaction takes: two million changes of exam attempts, one in ten twice, in forty files, for real as far as the
//! bucket goes, which is a folder.
//!
//! ```text
//! cargo bench --workspace --bench compaction -- [folder] [rows]
//! ```
//!
//! The folder keeps the input (`datasets/`), for others to sort; what was compacted is told and removed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use afterwrite::record::Timestamp;
use afterwrite::sink::s3::{Body, Bucket, Chunks, Listed, ObjectStore, Put};
use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_datasets::compact::{Compactor, Options};
use afterwrite_datasets::schema;
use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, new_null_array,
};
use arrow_schema::DataType;
use bytes::Bytes;
use futures::stream::{StreamExt as _, once};
use parquet::arrow::ArrowWriter;

const DAY: &str = "2026-02-06";
const FILES: u64 = 40;

/// A folder as a bucket.
#[derive(Debug)]
struct Folder(PathBuf);

fn io(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "the folder cannot be read or written").caused_by(error)
}

impl ObjectStore for Folder {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<()> {
        let path = self.0.join(key);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(io)?;
        std::fs::write(path, body).map_err(io)
    }
}

impl Bucket for Folder {
    async fn get(&self, key: &str) -> Result<Option<Chunks>> {
        let body = std::fs::read(self.0.join(key)).map_err(io)?;
        Ok(Some(once(async { Ok(Bytes::from(body)) }).boxed()))
    }

    async fn put_new(&self, key: &str, body: Body) -> Result<Put> {
        let body = match body {
            Body::Bytes(bytes) => bytes.to_vec(),
            Body::File(path) => std::fs::read(path).map_err(io)?,
        };
        self.put(key, body).await.map(|()| Put::Written)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        let mut listed = BTreeMap::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).map_err(io)? {
                let path = entry.map_err(io)?.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let key = path.strip_prefix(&self.0).unwrap_or(&path).to_string_lossy().into_owned();
                let size = path.metadata().map_err(io)?.len();
                listed.insert(key.clone(), Listed { key, size, modified: Timestamp::from_epoch_ms(0) });
            }
        }
        Ok(listed.into_values().filter(|object| object.key.starts_with(prefix)).collect())
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        keys.iter().try_for_each(|key| std::fs::remove_file(self.0.join(key)).map_err(io))
    }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Changes of attempts: of each `rows / 2` the beginning and the end.
fn change(number: u64, rows: u64) -> Change {
    let attempt = number % (rows / 2).max(1);
    let mut random = Random(attempt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    random.next();
    let uuid = |random: &mut Random| {
        let (high, low) = (random.next(), random.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            high & 0xffff,
            low >> 52,
            low & 0xffff,
            low >> 16 & 0xffff_ffff_ffff
        )
    };
    let is_end = number >= rows / 2;
    let began = 1_770_336_000_000 + random.next() % 86_400_000 / 1000 * 1000;
    let (id, candidate) = (uuid(&mut random), format!("candidate-{:06}", random.next() % 200_000));
    let (project, taken) = (random.next() % 500, 300 + random.next() % 3000);
    Change {
        id,
        candidate,
        project,
        began,
        changed: if is_end { began + taken * 1000 } else { began },
        sequence: number * 997 + random.next() % 997,
        end: is_end.then(|| (random.next() % 50, taken)),
    }
}

struct Change {
    id: String,
    candidate: String,
    project: u64,
    began: u64,
    changed: u64,
    sequence: u64,
    end: Option<(u64, u64)>,
}

impl Change {
    fn text(&self, column: &str) -> String {
        match column {
            "candidate_id" => self.candidate.clone(),
            "project_id" => format!("project-{:04}", self.project),
            "admin_id" => format!("admin-{:03}", self.project % 40),
            "status" => if self.end.is_some() { "COMPLETED" } else { "IN_PROGRESS" }.to_owned(),
            schema::POSITION => format!("2026-01-01T00:00:00.000#{:040}", self.sequence),
            schema::OPERATION => if self.end.is_some() { "MODIFY" } else { "INSERT" }.to_owned(),
            _ => self.id.clone(),
        }
    }

    fn number(&self, column: &str) -> Option<i64> {
        let number = match column {
            "started_at" => Some(self.began),
            schema::CHANGED_AT => Some(self.changed),
            "completed_at" => self.end.map(|_| self.changed),
            "score" => self.end.map(|(score, _)| score),
            "time_taken_seconds" => self.end.map(|(_, taken)| taken),
            _ => Some(50),
        };
        number.and_then(|number| i64::try_from(number).ok())
    }
}

fn column(name: &str, data_type: &DataType, changes: &[Change]) -> ArrayRef {
    let numbers = changes.iter().map(|change| change.number(name));
    if name == schema::RESCUED {
        return new_null_array(data_type, changes.len());
    }
    if *data_type == DataType::Utf8 {
        return Arc::new(StringArray::from_iter_values(changes.iter().map(|change| change.text(name))));
    }
    if *data_type == DataType::Int64 {
        return Arc::new(numbers.collect::<Int64Array>());
    }
    Arc::new(numbers.collect::<TimestampMillisecondArray>().with_timezone("UTC"))
}

async fn generate(
    model: &Model,
    folder: &Folder,
    rows: u64,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dataset = model.datasets.iter().find(|dataset| &*dataset.name == "attempts").ok_or("no dataset")?;
    let schema = schema::schema(dataset);
    let each = rows / FILES;
    for file in 0..FILES {
        // The last tenth of each file begins the next.
        let changes: Vec<Change> =
            (file * each..(file + 1) * each + each / 10).map(|number| change(number, rows)).collect();
        let columns = schema.fields().iter().map(|field| column(field.name(), field.data_type(), &changes));
        let batch = RecordBatch::try_new(schema.clone(), columns.collect())?;
        let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(schema::writer_properties()))?;
        writer.write(&batch)?;
        let key = format!("datasets/attempts/dt={DAY}/{file:032x}-{}.parquet", schema::fingerprint(dataset));
        folder.put(&key, writer.into_inner()?).await?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let scratch = tempfile::tempdir()?;
    let path = arguments.first().map_or_else(|| scratch.path().to_owned(), PathBuf::from);
    let rows: u64 = arguments.get(1).map_or(Ok(2_000_000), |rows| rows.parse())?;
    let model = Arc::new(Model::load("exambuddy")?);
    let folder = Arc::new(Folder(path));
    if folder.list("datasets/").await.map_or(true, |listed| listed.is_empty()) {
        generate(&model, &folder, rows).await?;
    }
    for memory in [256 * 1024 * 1024, 8 * 1024 * 1024 * 1024] {
        let compactor =
            Compactor::new(Arc::clone(&model), Arc::clone(&folder), Options { memory, ..Options::default() });
        let begun = Instant::now();
        let compacted = compactor.compact(Some("attempts"), None, Timestamp::from_epoch_ms(0)).await?;
        let seconds = begun.elapsed().as_secs_f64();
        println!("{memory} bytes of memory: {seconds:.2} s, {compacted:?}");
        let written = folder.list("").await?.into_iter().map(|object| object.key);
        let written: Vec<String> =
            written.filter(|key| key.contains("/compacted-") || key.starts_with("compactions/")).collect();
        folder.delete(&written).await?;
    }
    Ok(())
}
