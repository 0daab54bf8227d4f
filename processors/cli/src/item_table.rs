//! Items before and after, as a table.

use std::sync::Arc;

use afterwrite_operations::recording::RecordCutter;
use afterwrite_operations::tables::ItemDifference;
use comfy_table::ContentArrangement;

use crate::deployment::Deployment;
use crate::print::{ResultTable, new_table};

/// The items as they may be shown.
pub(crate) fn without_secrets(deployment: &Deployment, items: Vec<ItemDifference>) -> Vec<ItemDifference> {
    let config = &deployment.config;
    RecordCutter::new(Arc::clone(&config.model), config.table_names.clone()).without_secrets(items)
}

/// One row for each attribute that differs.
pub(crate) fn difference_table(items: &[ItemDifference]) -> ResultTable {
    let mut table = new_table(&["table", "type", "key", "attribute", "before", "after"]);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    for item in items {
        let (partition, sort) = item.key_texts();
        let key = [Some(partition), sort].into_iter().flatten().collect::<Vec<_>>().join(" ");
        for (index, difference) in item.attributes().into_iter().enumerate() {
            let first = |text: &str| if index == 0 { text.to_owned() } else { String::new() };
            let value = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            table.add_row([
                first(&item.key.table),
                first(item.entity_type()),
                first(&key),
                difference.attribute,
                value(difference.before),
                value(difference.after),
            ]);
        }
    }
    table
}
