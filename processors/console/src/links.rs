//! Links from one page to another. Keys are hostile: every address is made here, or by [`PageQuery::address`].
//!
//! [`PageQuery::address`]: crate::query::PageQuery::address

use std::sync::Arc;

use crate::query::address;

/// The pages of this module's links.
pub(crate) const ITEM: &str = "/item";
pub(crate) const ROLLUPS: &str = "/rollups";
pub(crate) const ROLLUPS_OF: &str = "/rollups/of";
pub(crate) const ROLLUP_AT: &str = "/rollups/at";
pub(crate) const RANK: &str = "/rollups/rank";
const CONTRIBUTORS: &str = "/rollups/contributors";

/// The beginning of a parameter with the value of a variable of a rollup's key.
pub(crate) const VALUE: &str = "v.";

/// The page of an item of a table, by its name in the model or its deployed name, and by the texts of its key: a number is its digits, binary is
/// base64.
pub(crate) fn item_link(table: &str, partition: &str, sort: Option<&str>) -> String {
    let sort = sort.map(|sort| ("sk", sort));
    address(ITEM, [("table", table), ("pk", partition)].into_iter().chain(sort))
}

/// The page of a stored rollup, by its key in the state table.
pub(crate) fn rollup_link(partition: &str, sort: &str) -> String {
    address(ROLLUP_AT, [("pk", partition), ("sk", sort)])
}

/// The items that are counted into a stored rollup.
pub(crate) fn contributors_link(partition: &str, sort: &str) -> String {
    address(CONTRIBUTORS, [("pk", partition), ("sk", sort)])
}

/// The rollups of a name with these values of their keys.
pub(crate) fn series_link<'v>(
    rollup: &str,
    values: impl IntoIterator<Item = (&'v Arc<str>, &'v str)>,
    more: &[(&str, &str)],
) -> String {
    let values = values.into_iter().map(|(variable, value)| (format!("{VALUE}{variable}"), value));
    let values: Vec<(String, &str)> = values.collect();
    let values = values.iter().map(|(name, value)| (name.as_str(), *value));
    address(ROLLUPS_OF, [("name", rollup)].into_iter().chain(values).chain(more.iter().copied()))
}

/// The form for the order of a rollup's items by a measure, with these values of the group filled in.
pub(crate) fn ranks_link(rollup: &str, measure: &str, values: &[(String, &str)]) -> String {
    let values = values.iter().map(|(name, value)| (name.as_str(), *value));
    address(RANK, [("name", rollup), ("measure", measure)].into_iter().chain(values))
}

/// The order of a rollup's items by a measure, in the group of the item with this key.
pub(crate) fn rank_link(rollup: &str, measure: &str, partition: &str, sort: &str) -> String {
    address(RANK, [("name", rollup), ("measure", measure), ("pk", partition), ("sk", sort)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_keys_stay_in_their_parameters() {
        assert_eq!(item_link("T", "a&sk=b", None), "/item?table=T&pk=a%26sk%3Db");
        assert_eq!(item_link("T", "a", Some("#\"'<é")), "/item?table=T&pk=a&sk=%23%22%27%3C%C3%A9");
        assert_eq!(rollup_link("DAY#1", "A B"), "/rollups/at?pk=DAY%231&sk=A%20B");
        let variable = Arc::from("at:day");
        let link = series_link("r", [(&variable, "&from=x")], &[("from", "2026")]);
        assert_eq!(link, "/rollups/of?name=r&v%2Eat%3Aday=%26from%3Dx&from=2026");
    }
}
