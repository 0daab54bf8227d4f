//! The members of distinct counts in an estimate: how many there are, where they are written, and how long their keys are.

use std::collections::BTreeMap;

use afterwrite_operations::jobs::approximate;

use super::figures as f;

/// The members of a distinct count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberTotals {
    /// Members that did not exist before.
    pub new: u64,
    /// The bytes of the longest sort key.
    pub longest_key: usize,
    /// The changes of each partition, by its key: all members of one rollup.
    pub partitions: BTreeMap<String, u64>,
}

impl MemberTotals {
    /// Adds a change of a member.
    pub(super) fn add(&mut self, partition: &str, sort: &str, is_new: bool) {
        self.new += u64::from(is_new);
        self.longest_key = self.longest_key.max(sort.len());
        *self.partitions.entry(partition.to_owned()).or_default() += 1;
    }
}

/// The distinct counts, by name, whose members pass a limit in a trial of so many seconds, or come near to it.
pub(super) fn problems<'m>(
    counts: impl Iterator<Item = (&'m String, &'m MemberTotals)>,
    seconds: f64,
) -> Vec<String> {
    counts.flat_map(|(name, members)| problems_of(name, members, seconds)).collect()
}

fn problems_of(name: &str, members: &MemberTotals, seconds: f64) -> impl Iterator<Item = String> {
    let a_second = |number: u64| if seconds > 0.0 { approximate(number) / seconds } else { 0.0 };
    let new_an_hour = a_second(members.new) * 3600.0;
    let many = (new_an_hour > f::MEMBERS_AN_HOUR).then(|| {
        format!(
            "The distinct count {name} gets {:.0} million new members an hour: each is an item of the state table that stays while one item has its value. Count the values of a shorter time, or let the rollup expire.",
            new_an_hour / 1e6
        )
    });
    let busiest = a_second(members.partitions.values().copied().max().unwrap_or(0));
    let hot = (busiest * f::MEMBER_WRITE_UNITS > f::PARTITION_WRITE_UNITS).then(|| {
        format!(
            "The members of one rollup of {name} change {busiest:.0} times a second, with {:.0} write units each, and are one partition, which takes {:.0}: writes are throttled. Count by a shorter time, or by a part of the values.",
            f::MEMBER_WRITE_UNITS,
            f::PARTITION_WRITE_UNITS
        )
    });
    let long = (members.longest_key > f::SORT_KEY_BYTES / 2).then(|| {
        format!(
            "The longest key of a member of {name} has {} bytes in the sample, and a sort key has at most {}: an item with a longer value is a misfit. Count a hash of the value.",
            members.longest_key,
            f::SORT_KEY_BYTES
        )
    });
    many.into_iter().chain(hot).chain(long)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problems of a trial of ten seconds in which members of one rollup change.
    fn found(changes: u64, new: u64, longest_key: usize) -> Vec<String> {
        let partitions = BTreeMap::from([("SHOP#1#DISTINCT#customers".to_owned(), changes)]);
        let members = MemberTotals { new, longest_key, partitions };
        problems(std::iter::once((&"shop.customers".to_owned(), &members)), 10.0)
    }

    #[test]
    fn members_are_named_that_are_too_many_too_busy_or_too_long() {
        assert_eq!(found(4_000, 4_000, 100), Vec::<String>::new());
        let busy = found(6_000, 10, 100);
        assert!(busy.len() == 1 && busy[0].contains("change 600 times a second"), "{busy:?}");
        let many = found(30_000, 30_000, 100);
        assert!(many.len() == 2 && many[0].contains("shop.customers gets 11 million new"), "{many:?}");
        let long = found(10, 10, 900);
        assert!(long.len() == 1 && long[0].contains("has 900 bytes"), "{long:?}");
    }
}
