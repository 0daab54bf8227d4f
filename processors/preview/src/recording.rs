//! Change records → JSON lines without the secret attributes, as the archive has them.

use std::sync::Arc;

use afterwrite_model::Result;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{SecretAttributes, archive_line};
use afterwrite_model::record::RecordDecoder;
use afterwrite_model::table::Model;

use crate::tables::ItemDifference;

/// Makes lines of records.
#[derive(Debug)]
pub struct RecordCutter {
    model: Arc<Model>,
    names: Vec<Arc<str>>,
    secrets: SecretAttributes,
}

impl RecordCutter {
    /// A cutter; `names` has the deployed name of each of [`Model::tables`].
    #[must_use]
    pub fn new(model: Arc<Model>, names: Vec<Arc<str>>) -> Self {
        let secrets = SecretAttributes::new(&model);
        Self { model, names, secrets }
    }

    /// The line of a record, with the newline. Of an item that matches no entity, the secret attributes of all entities are removed.
    ///
    /// # Errors
    /// [`afterwrite_model::ErrorKind::Record`] if the record cannot be searched for secrets.
    pub fn line(&self, json: &str) -> Result<String> {
        let mut decoder = RecordDecoder::new(&self.model.attributes);
        let record = decoder.record(json.as_bytes()).ok();
        let table =
            record.as_ref().and_then(|record| self.model.table_deployed_as(&self.names, &record.table));
        let source = record.as_ref().zip(table);
        let source = source.and_then(|(record, table)| SourceKey::of_keys(&self.model, table, &record.keys));
        let candidates = source.as_ref().map(|source| source.candidates(&self.model));
        let candidates = candidates.filter(|candidates| !candidates.is_empty());
        archive_line(json, &self.secrets.of_change(record.as_ref().zip(candidates.as_ref())))
    }

    /// The same items without their secret attributes. Items of other tables than the model's have none.
    #[must_use]
    pub fn without_secrets(&self, mut items: Vec<ItemDifference>) -> Vec<ItemDifference> {
        for item in &mut items {
            let Some(table) = self.names.iter().position(|name| *name == item.key.table) else { continue };
            for state in item.before.iter_mut().chain(&mut item.after) {
                self.secrets.cut_item(&self.model, table, state);
            }
        }
        items
    }
}
