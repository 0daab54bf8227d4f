//! `afterwrite model init`: a first model of a table, from a sample of its items.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use afterwrite_bulk::export::SUMMARY;
use afterwrite_inference::{
    InferenceHints, InferredModel, KeyAttribute, SampledIndex, TableSample, infer_key, named_key,
    sample_items,
};
use afterwrite_input::{InputObject, RecordInput, TimeRange};
use afterwrite_model::record::Item;
use afterwrite_model::table::KeyType;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::dynamodb_client;
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::s3::S3Bucket;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{ScalarAttributeType, TableDescription};
use clap::{ArgGroup, Args};

use super::check::counted;
use crate::inputs::objects_of;
use crate::print::{print, tell};

/// Items that are read of a table.
const TABLE_ITEMS: u32 = 4000;

/// Items that are read of a file.
const FILE_ITEMS: u32 = 100_000;

/// Missing files of a table export that an error lists.
const MOST_LISTED_FILES: usize = 5;

/// The name of a table that a file does not name.
const UNNAMED_TABLE: &str = "MyTable";

/// The arguments of `afterwrite model init`.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("source").args(["table", "from"]).required(true).multiple(true),
    after_help = "The sample is read with Scan, spread over the table; it costs read units, and needs the permissions dynamodb:Scan and dynamodb:DescribeTable. A file is a full table export, the output of `aws dynamodb scan`, or JSON lines with an item each, gzip or plain; an export names its table, and --table names it otherwise. The model has constant words of keys, and types and states that occur many times, but no other values of items; docs/MODEL.md has the rules. Proposals are comments.\n\nExamples:\n  afterwrite model init --table Orders --out orders.toml\n  afterwrite model init --table Orders --sample 10000\n  afterwrite model init --from scan.json --table Orders --key PK,SK\n  afterwrite model init --table Orders --type-attribute _model_name\n  afterwrite model init --from s3://my-exports/AWSDynamoDB/01700000/\n\nExit codes: 0 success, 1 no kind of items could be described, 2 wrong usage, an unreadable file or a table that does not exist, 3 the table cannot be read."
)]
pub struct InitArguments {
    /// The table to read; with --from, the name of the table of these items.
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// The items to read: a file, a folder, s3://BUCKET/PREFIX, or - for standard input.
    #[arg(long, value_name = "FILE")]
    from: Option<RecordInput>,
    /// The number of items to read; default: 4000 of a table, 100000 of files.
    #[arg(long, value_name = "ITEMS", value_parser = clap::value_parser!(u32).range(1..))]
    sample: Option<u32>,
    /// The key attributes of the items of a file, separated by a comma; default: a guess.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "from")]
    key: Vec<String>,
    /// The character that separates the parts of keys; default: the character that shows most kinds of items.
    #[arg(long, value_name = "CHAR", value_parser = separator)]
    separator: Option<char>,
    /// The attribute that names the type of an item; default: a usual name such as `type` or `_model_name`, or one whose values divide the
    /// items into kinds.
    #[arg(long, value_name = "NAME")]
    type_attribute: Option<String>,
    /// Write the model to a new file instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl InitArguments {
    /// Reads a sample, and prints or writes the model. Returns whether a kind of items could be described.
    ///
    /// # Errors
    /// A table or a file that cannot be read; a file that cannot be written.
    pub async fn run(&self) -> Result<bool> {
        let sample = match (&self.table, &self.from) {
            (_, Some(input)) => Box::pin(self.of_input(input)).await?,
            (Some(table), None) => Box::pin(self.of_table(table)).await?,
            (None, None) => return Err(Error::new(ErrorKind::Configuration, "name a table or a file")),
        };
        if sample.items.is_empty() {
            return Err(Error::new(ErrorKind::Configuration, "no items found")
                .with("in", self.source())
                .hint("Name a table, a file or a prefix with items"));
        }
        let hints = InferenceHints { separator: self.separator, type_attribute: self.type_attribute.clone() };
        let model = InferredModel::with(&sample, &hints);
        if sample.has_guessed_key {
            tell(&sample.key_guess());
        }
        for sentence in &model.left_out {
            tell(sentence);
        }
        if model.entities == 0 {
            eprintln!("afterwrite: no kind of items could be described, so there is no model");
            return Ok(false);
        }
        match &self.out {
            None => print(&model.toml)?,
            Some(path) => {
                write_new(path, &model.toml)?;
                let written =
                    [(model.entities, "entity", "entities"), (model.proposals, "proposal", "proposals")];
                let (written, items) = (counted(&written).join(" and "), sample.items.len());
                print(&format!("{}: {written} from {items} items\n", path.display()))?;
            }
        }
        Ok(true)
    }

    /// The place that the items are read from.
    fn source(&self) -> String {
        match (&self.from, &self.table) {
            (Some(input), _) => input.to_string(),
            (None, table) => table.clone().unwrap_or_default(),
        }
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
        let indexes = indexes.collect();
        let sample = TableSample { table: name.to_owned(), key, has_guessed_key: false, indexes, items };
        Ok(sample.without_heartbeat())
    }

    async fn of_input(&self, input: &RecordInput) -> Result<TableSample> {
        let most = usize::try_from(self.sample.unwrap_or(FILE_ITEMS)).unwrap_or(usize::MAX);
        let mut objects = objects_of(std::slice::from_ref(input), &TimeRange::default()).await?;
        let table = match &self.table {
            Some(name) => Some(name.clone()),
            None => exported_table(input, &objects).await?,
        };
        check_data_files(&objects).await?;
        // The folder of a table export has manifests next to its data.
        objects.retain(|object| !object.is_manifest());
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
        let has_guessed_key = self.key.is_empty() && !items.is_empty();
        let key = if has_guessed_key { infer_key(&items)? } else { named_key(&items, &self.key)? };
        let table = table.unwrap_or_else(|| UNNAMED_TABLE.to_owned());
        let sample = TableSample { table, key, has_guessed_key, indexes: Vec::new(), items };
        Ok(sample.without_heartbeat())
    }
}

/// The table that the summary of an export names. It is in the folder of the export, above the folder `data`.
async fn exported_table(input: &RecordInput, objects: &[InputObject<S3Bucket>]) -> Result<Option<String>> {
    let mut summaries: Vec<InputObject<S3Bucket>> = Vec::new();
    if let RecordInput::Path(path) = input {
        let above = path.ancestors().skip(1).take(2).map(|folder| folder.join(SUMMARY));
        summaries.extend(above.filter(|path| path.is_file()).map(InputObject::File));
    }
    for object in objects.iter().chain(&summaries) {
        if let Some(table) = Box::pin(object.exported_table()).await? {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

/// Checks that all data files that the manifests of table exports list are among the objects.
///
/// # Errors
/// `Configuration` if some are missing.
async fn check_data_files(objects: &[InputObject<S3Bucket>]) -> Result<()> {
    // They may have been unpacked.
    let unpacked = |name: &str| name.trim_end_matches(".gz").to_owned();
    let names: BTreeSet<String> = objects.iter().map(|object| unpacked(&object.file_name())).collect();
    for object in objects {
        let mut missing = Box::pin(object.exported_files()).await?;
        missing.retain(|file| !names.contains(&unpacked(file)));
        if !missing.is_empty() {
            return Err(Error::new(ErrorKind::Configuration, "data files of the table export are missing")
                .with("manifest", object.name())
                .with("missing", listed(&missing))
                .hint("Copy the folder `data` of the export with all its files, or name one data file"));
        }
    }
    Ok(())
}

/// The first of these files, and the number of the remaining ones.
fn listed(files: &[String]) -> String {
    let (first, others) = files.split_at(files.len().min(MOST_LISTED_FILES));
    match others.len() {
        0 => first.join(", "),
        others => format!("{} and {others} others", first.join(", ")),
    }
}

/// A separator, as a model can declare it.
fn separator(text: &str) -> std::result::Result<char, String> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) if !one.is_alphanumeric() && !"{}".contains(one) && !one.is_control() => Ok(one),
        _ => Err("one character that is neither a letter, a digit nor a brace, like #".to_owned()),
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

    use afterwrite_bulk::export::FILES;
    use afterwrite_model::table::Model;

    use super::*;

    fn arguments(from: &Path, out: &Path) -> InitArguments {
        InitArguments {
            table: None,
            from: Some(RecordInput::Path(from.to_owned())),
            sample: None,
            key: Vec::new(),
            separator: None,
            type_attribute: None,
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
        fs::write(folder.path().join(FILES), "{\"itemCount\":1,\"dataFileS3Key\":\"e/data/a.json.gz\"}\n")
            .unwrap();
        let error = arguments(folder.path(), Path::new("-"))
            .of_input(&RecordInput::Path(folder.path().to_owned()))
            .await
            .unwrap_err();
        assert!(error.report().contains("a.json.gz"), "{}", error.report());
        let item = "{\"Item\":{\"PK\":{\"S\":\"USER#1\"},\"SK\":{\"S\":\"META\"}}}\n";
        // The content shows whether it is compressed, not the name.
        fs::write(folder.path().join("data/a.json.gz"), item).unwrap();
        let sample = arguments(folder.path(), Path::new("-"))
            .of_input(&RecordInput::Path(folder.path().to_owned()))
            .await;
        assert_eq!(sample.unwrap().items.len(), 1);
    }

    #[tokio::test]
    async fn an_export_names_its_table_and_other_files_take_the_name_from_the_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        let arn = "arn:aws:dynamodb:us-east-1:123456789012:table/Orders/export/01";
        fs::write(folder.path().join(SUMMARY), format!("{{\"tableArn\":\"{arn}\"}}")).unwrap();
        fs::write(data.join("a.json.gz"), "{\"Item\":{\"PK\":{\"S\":\"USER#1\"},\"SK\":{\"S\":\"META\"}}}\n")
            .unwrap();
        let mut arguments = arguments(folder.path(), Path::new("-"));
        let file = data.join("a.json.gz");
        for path in [folder.path(), data.as_path(), file.as_path()] {
            let sample = arguments.of_input(&RecordInput::Path(path.to_owned())).await.unwrap();
            assert_eq!(sample.table, "Orders", "{}", path.display());
            assert!(sample.has_guessed_key);
        }
        (arguments.table, arguments.key) = (Some("Mine".to_owned()), vec!["PK".to_owned(), "SK".to_owned()]);
        let sample = arguments.of_input(&RecordInput::Path(data)).await.unwrap();
        assert_eq!((sample.table.as_str(), sample.has_guessed_key), ("Mine", false));
    }

    #[tokio::test]
    async fn a_file_without_items_and_items_that_cannot_be_described_give_no_model() {
        let folder = tempfile::tempdir().unwrap();
        let (from, out) = (folder.path().join("items.json"), folder.path().join("model.toml"));
        fs::write(&from, "").unwrap();
        let error = arguments(&from, &out).run().await.unwrap_err();
        assert!(error.report().contains("no items found"), "{}", error.report());
        fs::write(&from, "{\"PK\":\"7\",\"SK\":\"b\"}\n{\"PK\":\"8#9\",\"SK\":\"b\"}\n").unwrap();
        assert!(!arguments(&from, &out).run().await.unwrap());
        assert!(!out.exists());
    }
}
