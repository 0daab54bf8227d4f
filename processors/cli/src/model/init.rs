//! `afterwrite model init`: a first model of a table, from a sample of its items.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use afterwrite::config::dynamodb_client;
use afterwrite::record::Item;
use afterwrite::sink::dynamodb::DynamoDb;
use afterwrite::table::KeyType;
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_operations::inference::{
    InferredModel, KeyAttribute, SampledIndex, TableSample, infer_key, named_key, sample_items,
};
use afterwrite_operations::input::{RecordInput, TimeRange};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{ScalarAttributeType, TableDescription};
use clap::Args;

use crate::inputs::objects_of;
use crate::print::print;

/// Items that are read of a table.
const TABLE_ITEMS: u32 = 1000;

/// Items that are read of a file.
const FILE_ITEMS: u32 = 100_000;

/// The name of a table that a file does not name.
const UNNAMED_TABLE: &str = "MyTable";

/// The arguments of `afterwrite model init`.
#[derive(Debug, Args)]
#[command(
    after_help = "The sample is read with Scan, spread over the table; it costs read units, and needs the permissions\ndynamodb:Scan and dynamodb:DescribeTable. A file is a table export, the output of `aws dynamodb scan`,\nor JSON lines with an item each, gzip or plain. The model has constant words of keys, and types and\nstatuses that occur many times, but no other values of items. Proposals are comments.\n\nExamples:\n  afterwrite model init --table Orders --out orders.toml\n  afterwrite model init --table Orders --sample 5000\n  afterwrite model init --from scan.json --key PK,SK\n  afterwrite model init --from s3://my-exports/AWSDynamoDB/01700000/data/\n\nExit codes: 0 success, 2 wrong usage or an unreadable file, 3 the table cannot be read."
)]
pub struct InitArguments {
    /// The table to read.
    #[arg(long, value_name = "NAME", required_unless_present = "from", conflicts_with_all = ["from", "key"])]
    table: Option<String>,
    /// The items to read: a file, a folder, s3://BUCKET/PREFIX, or - for standard input.
    #[arg(long, value_name = "FILE")]
    from: Option<RecordInput>,
    /// The number of items to read; default: 1000 of a table, 100000 of files.
    #[arg(long, value_name = "ITEMS", value_parser = clap::value_parser!(u32).range(1..))]
    sample: Option<u32>,
    /// The key attributes of the items of a file, separated by a comma; default: inferred.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    key: Vec<String>,
    /// Write the model to a new file instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl InitArguments {
    /// Reads a sample, and prints or writes the model.
    ///
    /// # Errors
    /// A table or a file that cannot be read; a file that cannot be written.
    pub async fn run(&self) -> Result<bool> {
        let sample = match (&self.table, &self.from) {
            (Some(table), _) => Box::pin(self.of_table(table)).await?,
            (None, Some(input)) => Box::pin(self.of_input(input)).await?,
            (None, None) => return Err(Error::new(ErrorKind::Configuration, "name a table or a file")),
        };
        let model = InferredModel::of(&sample);
        match &self.out {
            None => print(&model.toml)?,
            Some(path) => {
                write_new(path, &model.toml)?;
                print(&format!(
                    "{}: {} entities and {} proposals from {} items\n",
                    path.display(),
                    model.entities,
                    model.proposals,
                    sample.items.len()
                ))?;
            }
        }
        if model.undescribed > 0 {
            eprintln!(
                "afterwrite: {} items of the sample match no entity of the model; comments in it name why",
                model.undescribed
            );
        }
        Ok(true)
    }

    async fn of_table(&self, name: &str) -> Result<TableSample> {
        let client = Box::pin(dynamodb_client()).await?;
        let description = describe(&client, name).await?;
        let most = self.sample.unwrap_or(TABLE_ITEMS);
        let items = Box::pin(sample_items(&DynamoDb::new(client), &Arc::from(name), most)).await?;
        let indexes = description.global_secondary_indexes().iter().map(|index| SampledIndex {
            name: index.index_name().unwrap_or_default().to_owned(),
            keys: index.key_schema().iter().map(|key| key.attribute_name().to_owned()).collect(),
        });
        let key = description.key_schema().iter();
        let key = key.map(|key| key_attribute(&description, key.attribute_name())).collect();
        Ok(TableSample { table: name.to_owned(), key, indexes: indexes.collect(), items })
    }

    async fn of_input(&self, input: &RecordInput) -> Result<TableSample> {
        let most = usize::try_from(self.sample.unwrap_or(FILE_ITEMS)).unwrap_or(usize::MAX);
        let mut objects = objects_of(std::slice::from_ref(input), &TimeRange::default()).await?;
        // The folder of a table export has manifests next to its data.
        let is_data = |name: &str| name.ends_with(".json.gz");
        if objects.iter().any(|object| is_data(&object.name())) {
            objects.retain(|object| is_data(&object.name()));
        }
        let mut items: Vec<Item> = Vec::new();
        let count = objects.len();
        for (index, object) in objects.iter().enumerate() {
            // Each file has an equal part of the rest.
            let share = (most - items.len()).div_ceil((count - index).max(1));
            items.extend(Box::pin(object.items(share)).await?);
        }
        let key = if self.key.is_empty() { infer_key(&items)? } else { named_key(&items, &self.key)? };
        Ok(TableSample { table: UNNAMED_TABLE.to_owned(), key, indexes: Vec::new(), items })
    }
}

async fn describe(client: &Client, table: &str) -> Result<TableDescription> {
    let described = Box::pin(client.describe_table().table_name(table).send()).await;
    let described = described.map_err(|error| {
        let is_missing = error.as_service_error().is_some_and(|error| error.is_resource_not_found_exception());
        let kind = if is_missing { ErrorKind::Configuration } else { ErrorKind::Unavailable };
        Error::new(kind, "the table cannot be described")
            .with("table", table)
            .hint("Check the table's name, AWS_REGION, the credentials and the permission dynamodb:DescribeTable")
            .caused_by(error)
    })?;
    described.table.ok_or_else(|| {
        Error::new(ErrorKind::Unavailable, "the response has no description of the table")
            .with("table", table)
    })
}

fn key_attribute(table: &TableDescription, name: &str) -> KeyAttribute {
    let definition =
        table.attribute_definitions().iter().find(|definition| definition.attribute_name() == name);
    let key_type = match definition.map(|definition| definition.attribute_type()) {
        Some(ScalarAttributeType::N) => KeyType::Number,
        Some(ScalarAttributeType::B) => KeyType::Binary,
        Some(_) | None => KeyType::Text,
    };
    KeyAttribute { name: name.to_owned(), key_type }
}

/// Writes a file that does not exist yet.
fn write_new(path: &Path, text: &str) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        Error::new(ErrorKind::Configuration, "the model cannot be written")
            .with("file", path.display().to_string())
            .hint("Name a file that does not exist yet, in a folder that can be written")
            .caused_by(error)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use afterwrite::table::Model;

    use super::*;

    fn arguments(from: &Path, out: &Path) -> InitArguments {
        InitArguments {
            table: None,
            from: Some(RecordInput::Path(from.to_owned())),
            sample: None,
            key: Vec::new(),
            out: Some(out.to_owned()),
        }
    }

    #[tokio::test]
    async fn a_file_becomes_a_model_that_loads_and_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let (from, out) = (folder.path().join("scan.json"), folder.path().join("model.toml"));
        let items: Vec<String> = (0..9)
            .map(|index| format!("{{\"PK\":{{\"S\":\"USER#u{index}\"}},\"SK\":{{\"S\":\"ORDER#{index}\"}}}}"))
            .collect();
        fs::write(&from, format!("{{\n\"Items\": [{}],\n\"Count\": 9\n}}\n", items.join(",\n"))).unwrap();
        assert!(arguments(&from, &out).run().await.unwrap());
        let model = Model::load(&out.to_string_lossy()).unwrap();
        assert_eq!(model.entities.len(), 1);
        let error = arguments(&from, &out).run().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    }

    #[tokio::test]
    async fn the_manifests_of_a_table_export_are_not_items() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(folder.path().join("manifest-files.json"), "{\"itemCount\":1,\"dataFileS3Key\":\"x\"}\n")
            .unwrap();
        let item = "{\"Item\":{\"PK\":{\"S\":\"USER#1\"},\"SK\":{\"S\":\"META\"}}}\n";
        // The content shows whether it is compressed, not the name.
        fs::write(folder.path().join("data/a.json.gz"), item).unwrap();
        let sample = arguments(folder.path(), Path::new("-"))
            .of_input(&RecordInput::Path(folder.path().to_owned()))
            .await;
        assert_eq!(sample.unwrap().items.len(), 1);
    }
}
