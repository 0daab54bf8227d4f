//! Links from one page to another. Keys are hostile: every address is made here, or by [`PageQuery::address`].
//!
//! [`PageQuery::address`]: crate::query::PageQuery::address

use crate::query::address;

/// The page of an item of a table of the model, by the texts of its key: a number is its digits, binary is base64.
pub(crate) fn item_link(table: &str, partition: &str, sort: Option<&str>) -> String {
    let sort = sort.map(|sort| ("sk", sort));
    address("/item", [("table", table), ("pk", partition)].into_iter().chain(sort))
}

/// The page of a stored rollup, by its key in the state table.
pub(crate) fn rollup_link(partition: &str, sort: &str) -> String {
    address("/rollups/at", [("pk", partition), ("sk", sort)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_keys_stay_in_their_parameters() {
        assert_eq!(item_link("T", "a&sk=b", None), "/item?table=T&pk=a%26sk%3Db");
        assert_eq!(item_link("T", "a", Some("#\"'<é")), "/item?table=T&pk=a&sk=%23%22%27%3C%C3%A9");
        assert_eq!(rollup_link("DAY#1", "A B"), "/rollups/at?pk=DAY%231&sk=A%20B");
    }
}
