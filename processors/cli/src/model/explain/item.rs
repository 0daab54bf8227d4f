//! The item to explain, as `aws dynamodb get-item` prints it or as plain JSON.

use std::io::Read as _;

use afterwrite_input::item_json::ItemJson;
use afterwrite_model::{Error, ErrorKind, Result};

/// The item of a file.
#[derive(Debug)]
pub(super) struct ItemFile(ItemJson);

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
        if ItemJson::is_too_deep(&text) {
            let message = "the item is nested deeper than an item of DynamoDB can be";
            return Err(Error::new(ErrorKind::Configuration, message)
                .with("file", file)
                .hint("DynamoDB nests maps and lists up to 32 levels deep"));
        }
        ItemJson::parse(&text).map(Self).ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the file does not hold an item").with("file", file).hint(
                "Write the item as one JSON object, plainly or as `aws dynamodb get-item` prints it: {\"PK\": {\"S\": \"…\"}, …}",
            )
        })
    }

    /// The item.
    pub(super) fn json(&self) -> &ItemJson {
        &self.0
    }
}
