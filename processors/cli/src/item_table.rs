//! Items before and after, as a table.

use afterwrite_operations::tables::ItemDifference;
use comfy_table::{ContentArrangement, Table};

use crate::print::new_table;

/// One row for each attribute that differs.
pub(crate) fn difference_table(items: &[ItemDifference]) -> Table {
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
