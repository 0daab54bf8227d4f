//! The rollups that an address asks for, by the values of their keys.

use afterwrite_model::Result;

use super::shape::RollupShape;
use crate::links::VALUE;
use crate::query::PageQuery;

/// The parameters of the first and the last bucket.
pub(crate) const FROM: &str = "from";
pub(crate) const TO: &str = "to";
/// The buckets before or after a bound, if the other bound is not given.
const DEFAULT_BUCKETS: i64 = 30;

/// The rollups that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AskedRollups {
    /// None yet.
    Nothing,
    /// The rollup with these values, aligned with the variables.
    One(Vec<String>),
    /// The rollups from one bucket to another.
    Buckets(AskedBuckets),
    /// The rollups with this `PK`, without a shard, whose `SK` has this beginning.
    Listed {
        /// The `PK`.
        partition: String,
        /// The beginning of the `SK`.
        beginning: String,
    },
    /// Values are missing: the sentence says which.
    Incomplete(String),
}

/// Buckets from one to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AskedBuckets {
    /// The values of the key, aligned with the variables; that of the bucket is empty.
    pub(crate) values: Vec<String>,
    /// The variable that is the bucket.
    pub(crate) bucket: usize,
    /// The first bucket.
    pub(crate) from: String,
    /// The last bucket.
    pub(crate) to: String,
}

impl AskedBuckets {
    /// The values of the rollup of one bucket.
    pub(crate) fn values_of(&self, bucket: &str) -> Vec<String> {
        let mut values = self.values.clone();
        if let Some(value) = values.get_mut(self.bucket) {
            bucket.clone_into(value);
        }
        values
    }
}

/// The parameter with the value of a variable.
pub(crate) fn parameter(variable: &str) -> String {
    format!("{VALUE}{variable}")
}

/// The rollups that a query asks for.
///
/// # Errors
/// `Configuration` if a bucket has another form, or the last bucket is before the first.
pub(crate) fn asked(shape: &RollupShape<'_>, query: &PageQuery) -> Result<AskedRollups> {
    let values: Vec<Option<&str>> =
        shape.rollup.variables.iter().map(|variable| query.get(&parameter(variable))).collect();
    let known = |index: usize| values.get(index).copied().flatten();
    let owned = || values.iter().map(|value| value.unwrap_or_default().to_owned()).collect::<Vec<_>>();
    if values.iter().all(Option::is_some) {
        return Ok(AskedRollups::One(owned()));
    }
    let (from, to) = (query.get(FROM), query.get(TO));
    if let Some((bucket, format)) = shape.bucket()
        && (0..values.len()).all(|index| index == bucket || known(index).is_some())
        && (from.is_some() || to.is_some())
    {
        for bound in [from, to].into_iter().flatten() {
            shape.check_form(bucket, bound)?;
        }
        let near = |bound: Option<&str>, buckets| format.bucket.shifted(bound?, buckets);
        let first = from.map(str::to_owned).or_else(|| near(to, -DEFAULT_BUCKETS));
        let last = to.map(str::to_owned).or_else(|| near(from, DEFAULT_BUCKETS));
        let (from, to) = (first.unwrap_or_default(), last.unwrap_or_default());
        if from > to {
            return Err(shape.refused("the last bucket is before the first"));
        }
        return Ok(AskedRollups::Buckets(AskedBuckets { values: owned(), bucket, from, to }));
    }
    Ok(listed(shape, &values))
}

/// The rollups of a partition, if its values are known.
fn listed(shape: &RollupShape<'_>, values: &[Option<&str>]) -> AskedRollups {
    let known = |index: usize| values.get(index).copied().flatten();
    let in_partition = |index: usize| shape.reader.fields.get(index).is_some_and(|field| field.is_partition);
    let missing: Vec<usize> = (0..values.len()).filter(|index| known(*index).is_none()).collect();
    let missing_of_partition: Vec<usize> =
        missing.iter().copied().filter(|index| in_partition(*index)).collect();
    if !missing_of_partition.is_empty() {
        if values.iter().all(Option::is_none) {
            return AskedRollups::Nothing;
        }
        return AskedRollups::Incomplete(missing_text(shape, &missing_of_partition));
    }
    let first_missing = missing.first().copied().unwrap_or(values.len());
    if let Some(later) =
        (first_missing..values.len()).find(|index| !in_partition(*index) && known(*index).is_some())
    {
        let (later, first) = (shape.variable(later), shape.variable(first_missing));
        return AskedRollups::Incomplete(format!(
            "`{later}` is given, but `{first}`, which is before it in the key, is not"
        ));
    }
    // A value that no key contains marks the place up to which the sort key is known.
    const END: &str = "\u{0}";
    let marked: Vec<&str> = values.iter().map(|value| value.unwrap_or(END)).collect();
    let (partition, sort) = shape.rollup.key(&marked);
    let beginning = sort.split(END).next().unwrap_or_default().to_owned();
    AskedRollups::Listed { partition, beginning }
}

fn missing_text(shape: &RollupShape<'_>, missing: &[usize]) -> String {
    let names: Vec<String> = missing.iter().map(|index| format!("`{}`", shape.variable(*index))).collect();
    let is_bucket = |index: &usize| shape.bucket().is_some_and(|(bucket, _)| bucket == *index);
    if missing.iter().all(is_bucket) {
        return format!("Write {}, or the first and the last bucket", names.join(", "));
    }
    format!("A rollup is found by its partition key: write {}, too", names.join(", "))
}

#[cfg(test)]
mod tests {
    use afterwrite_model::table::Model;

    use super::*;

    const GAMES: &str = r##"
name = "games"
generation = 1
tables.t.key = ["pk", "sk"]
[entities.match]
key = { pk = "PLAYER#{player}", sk = "MATCH#{match}" }
attributes = { game = "S", level = "S", at = "S" }
[rollups.day]
key = { PK = "GAME#{game}", SK = "LEVEL#{level}#DAY#{at:day}" }
[rollups.pair]
key = { PK = "PAIR#{game}#{level}", SK = "ALL" }
[[aggregates]]
name = "days"
of = "match"
into = ["day", "pair"]
measures.matches = "count"
"##;

    fn asked_for(query: &str) -> Result<AskedRollups> {
        let model = Model::parse(GAMES, "games.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let shape = RollupShape::named(&model, "day")?;
        asked(&shape, &PageQuery::parse(query))
    }

    fn listed_part(query: &str) -> (String, String) {
        match asked_for(query) {
            Ok(AskedRollups::Listed { partition, beginning }) => (partition, beginning),
            other => panic!("{query}: {other:?}"),
        }
    }

    #[test]
    fn the_values_that_are_given_decide() {
        assert_eq!(asked_for("").ok(), Some(AskedRollups::Nothing));
        let one = vec!["go".to_owned(), "1".to_owned(), "2026-02-06".to_owned()];
        assert_eq!(asked_for("v.game=go&v.level=1&v.at%3Aday=2026-02-06").ok(), Some(AskedRollups::One(one)));
        let part = |beginning: &str| ("GAME#g%".to_owned(), beginning.to_owned());
        assert_eq!(listed_part("v.game=g%25"), part("LEVEL#"));
        assert_eq!(listed_part("v.game=g%25&v.level=1"), part("LEVEL#1#DAY#"));
        for (query, missing) in [
            ("v.level=1", "`game`"),
            ("v.game=go&v.at%3Aday=2026-02-06", "`level`, which is before it"),
            ("v.level=1&from=2026-02-06", "`game`"),
        ] {
            match asked_for(query) {
                Ok(AskedRollups::Incomplete(text)) => assert!(text.contains(missing), "{text}"),
                other => panic!("{query}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_bound_that_is_missing_is_thirty_buckets_away() {
        let bounds = |query: &str| match asked_for(&format!("v.game=go&v.level=1&{query}")) {
            Ok(AskedRollups::Buckets(asked)) => (asked.from.clone(), asked.to.clone()),
            other => panic!("{query}: {other:?}"),
        };
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(bounds("from=2026-02-06&to=2026-02-07"), pair("2026-02-06", "2026-02-07"));
        assert_eq!(bounds("from=2026-03-01"), pair("2026-03-01", "2026-03-31"));
        assert_eq!(bounds("to=2026-03-31"), pair("2026-03-01", "2026-03-31"));
        for wrong in ["from=2026-02-30", "from=2026", "from=2026-02-07&to=2026-02-06"] {
            assert!(asked_for(&format!("v.game=go&v.level=1&{wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_of_which_no_key_can_be_made_are_refused() {
        let model = Model::parse(GAMES, "games.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let shape = RollupShape::named(&model, "day").unwrap_or_else(|error| panic!("{error}"));
        let key = |level: &str| shape.checked_key(&["go".into(), level.into(), "2026-02-06".into()]);
        assert_eq!(key("1").ok(), Some(("GAME#go".to_owned(), "LEVEL#1#DAY#2026-02-06".to_owned())));
        // A day is read from the end of the key, so the level has one reading.
        assert!(key("1#DAY#2").is_ok());
        let pair = RollupShape::named(&model, "pair").unwrap_or_else(|error| panic!("{error}"));
        let refused = pair.checked_key(&["go#1".into(), "2".into()]).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|error| error.contains("`game` has text of the key in it")));
        assert!(pair.checked_key(&["go".into(), "1#2".into()]).is_ok());
        assert!(key(&"x".repeat(1_100)).is_err());
        assert!(shape.checked_key(&["go".into(), "1".into(), "today".into()]).is_err());
    }
}
