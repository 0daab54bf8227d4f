//! The item to explain, as `aws dynamodb get-item` prints it or as plain JSON.

use std::io::Read as _;

use afterwrite_input::item_json::ItemJson;
use afterwrite_model::record::Item;
use afterwrite_model::{Error, ErrorKind, Result};

/// The item of a file.
#[derive(Debug)]
pub(super) struct ItemFile {
    json: ItemJson,
    values: Item,
}

impl ItemFile {
    /// Reads the item of a file, or of standard input if the file is `-`.
    ///
    /// # Errors
    /// The file cannot be read, or does not hold an item.
    pub(super) fn read(file: &str) -> Result<Self> {
        let mut text = String::new();
        let read = match file {
            "-" => std::io::stdin().read_to_string(&mut text).map(|_| ()),
            file => std::fs::read_to_string(file).map(|read| text = read),
        };
        read.map_err(|error| {
            Error::new(ErrorKind::Configuration, "the item cannot be read")
                .with("file", file)
                .hint("Name a file of JSON with --item, or - for standard input")
                .caused_by(error)
        })?;
        let (json, values) = ItemJson::read(&text).map_err(|error| error.with("file", file))?;
        Ok(Self { json, values })
    }

    /// The item, as it is written.
    pub(super) fn json(&self) -> &ItemJson {
        &self.json
    }

    /// The item.
    pub(super) fn values(&self) -> &Item {
        &self.values
    }
}
