//! Items before and after, as text.

use std::sync::Arc;

use afterwrite_model::harmless::harmless;
use afterwrite_preview::recording::RecordCutter;
use afterwrite_preview::tables::ItemDifference;

use crate::deployment::Deployment;
use crate::print::new_table;

/// The items as they may be shown.
pub(crate) fn without_secrets(deployment: &Deployment, items: Vec<ItemDifference>) -> Vec<ItemDifference> {
    let config = &deployment.config;
    RecordCutter::new(Arc::clone(&config.model), config.table_names.clone()).without_secrets(items)
}

/// For each item its table, type and key on a line, and a line for each attribute that differs.
pub(crate) fn difference_text(items: &[ItemDifference]) -> String {
    items.iter().map(item_text).collect::<Vec<_>>().join("\n\n")
}

fn item_text(item: &ItemDifference) -> String {
    let (partition, sort) = item.key_texts();
    let key = [Some(partition), sort].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let mut table = new_table(&["", "attribute", "before", "after"]);
    for difference in item.attributes() {
        let value = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let (before, after) = (value(difference.before), value(difference.after));
        table.add_row([String::new(), difference.attribute, before, after]);
    }
    let heading = format!("{} {} {key}", item.key.table, item.entity_type());
    format!("{}\n{table}", harmless(&heading))
}
