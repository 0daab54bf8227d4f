//! Changes of an item's life that no counted record shows: an attribute of the item's ledger entry.
//!
//! ```text
//!        after            the missing record             before
//! ────────●──────────────────────✕────────────────────────●────────▶ positions of the item's records
//!   the counted state     removed the item         the next image, if any
//! ```
//!
//! A reconciliation counts an item as its table has it. If the item is gone and its entity keeps what expired, only the missing record
//! shows whether the total is right. So the entry names the life that ended: each later job that reads the entry can report it, also after
//! the process that reconciled the item was killed. The first removal between `after` and `before` is the missing record: once it is counted
//! or settled, the life is removed from the list. The record of another life does not remove it.

use afterwrite_model::record::{ChangeRecord, Operation, Position, Timestamp};

use crate::policy::{CLOCK_TOLERANCE, SERVICE_TIME_TOLERANCE, TOMBSTONE_LIFETIME};

/// The unrecorded changes of the item's life, separated by `;`: kind, the epoch second when the change was found, the epoch second of the
/// reconciliation that counted the life (or `-`), `after`, and `before` if it is known.
pub const UNRECORDED: &str = "unrecorded";
/// The most changes that an entry names; the newest ones are kept.
const MOST_LIVES: usize = 20;

/// A change of an item's life without a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeChange {
    /// The item ended, and was subtracted. If it expired, it is settled when the record of its expiry is delivered.
    Vanished,
    /// The item exists, although a record of an earlier stream of the table deleted it. If it expired and the table was restored, it counts
    /// twice. No record shows that.
    Revived,
    /// A reconciliation has counted the item although its newest record removed it: the record of its insertion is still to come. No job
    /// reports it.
    Began,
}

/// A change of an item's life without a record, and where its record is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnrecordedLife {
    /// The change.
    pub change: LifeChange,
    /// When it was found.
    pub(crate) found_at: Timestamp,
    /// When a reconciliation counted the life that ended, if one did: older records are of earlier lives.
    pub(crate) counted_at: Option<Timestamp>,
    /// The position of the newest record of the life that is counted.
    pub(crate) after: Position<'static>,
    /// The position of the first record of the next life.
    pub(crate) before: Option<Position<'static>>,
}

impl LifeChange {
    const ALL: [Self; 3] = [Self::Vanished, Self::Revived, Self::Began];

    fn name(self) -> &'static str {
        match self {
            Self::Vanished => "vanished",
            Self::Revived => "revived",
            Self::Began => "began",
        }
    }
}

impl UnrecordedLife {
    /// A life that ended between two records of its item.
    pub(crate) fn between(after: &Position<'_>, before: &Position<'_>, found_at: Timestamp) -> Self {
        let (after, before) = (after.clone().into_owned(), Some(before.clone().into_owned()));
        Self { change: LifeChange::Vanished, found_at, counted_at: None, after, before }
    }

    /// Whether the change must still be named: a life that vanished as long as a tombstone is kept, a revived life always.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        match self.change {
            LifeChange::Vanished => now < self.found_at.plus(TOMBSTONE_LIFETIME),
            LifeChange::Revived => true,
            LifeChange::Began => false,
        }
    }

    /// Whether a record may belong to the end of the life, or to the beginning of the next life.
    fn may_concern(&self, record: &ChangeRecord<'_>) -> bool {
        let times = self.counted_at.zip(record.created_at);
        record.position > self.after
            && self.before.as_ref().is_none_or(|before| record.position < *before)
            && times.is_none_or(|(counted, created)| created >= counted.minus(CLOCK_TOLERANCE))
    }

    /// Whether an entry with this `as_of` that counts the item counts this life: records of before its end were delivered after the end was
    /// found, and neither a record nor a reconciliation has shown the next life.
    pub(crate) fn is_still_of(&self, as_of: Option<Timestamp>) -> bool {
        self.change == LifeChange::Vanished && self.before.is_none() && self.is_current(as_of)
    }

    /// Whether no reconciliation has counted the item since the life was found, by the `as_of` of its entry.
    pub(crate) fn is_current(&self, as_of: Option<Timestamp>) -> bool {
        as_of.is_none_or(|as_of| as_of <= self.found_at)
    }

    /// Whether no record has shown the beginning of the life that is counted.
    pub(crate) fn is_begun(&self) -> bool {
        match self.change {
            LifeChange::Revived | LifeChange::Began => true,
            LifeChange::Vanished => false,
        }
    }

    /// Whether the life was found before a time.
    #[must_use]
    pub fn is_found_before(&self, time: Timestamp) -> bool {
        self.found_at < time
    }

    /// Whether a record is of the next life, or its insertion: an insertion after the life was counted, or any record of a time at which the
    /// item was known to be gone. Others may be of the life itself: its end can be found before its records are delivered.
    fn is_of_next(&self, record: &ChangeRecord<'_>) -> bool {
        let known_since = match record.operation {
            Operation::Insert => self.counted_at,
            Operation::Modify | Operation::Remove => Some(self.found_at),
        };
        let times = known_since.zip(record.created_at);
        times.is_none_or(|(known, created)| created > known.plus(SERVICE_TIME_TOLERANCE))
    }

    /// The life after these records of its item, which are ordered by position; `None` if one of them shows its end. `left` are the indexes of
    /// the records that stay uncounted.
    fn after_records(
        mut self,
        records: &[&ChangeRecord<'_>],
        left: &[usize],
        shows_end: &impl Fn(usize) -> bool,
    ) -> Option<Self> {
        match self.change {
            LifeChange::Vanished => {}
            LifeChange::Revived => return Some(self),
            LifeChange::Began => {
                // An insertion that a removal follows is of an earlier life. An insertion that stays uncounted is delivered again: without the
                // life in the entry, the insertion would show that the counted item had ended before it.
                let mut records = records.iter().enumerate();
                let newest = records.rfind(|(_, record)| {
                    record.position > self.after
                        && (record.operation == Operation::Insert || record.new.is_none())
                });
                let is_shown = newest.is_some_and(|(index, record)| {
                    record.operation == Operation::Insert && !left.contains(&index)
                });
                return (!is_shown).then_some(self);
            }
        }
        let concerned = records.iter().enumerate().filter(|(_, record)| self.may_concern(record));
        for (index, record) in concerned {
            if self.before.is_none() && self.is_of_next(record) {
                self.before = Some(record.position.clone().into_owned());
                return Some(self);
            }
            if record.new.is_none() {
                return (!shows_end(index)).then_some(self);
            }
        }
        Some(self)
    }

    fn to_text(&self) -> String {
        let counted = self.counted_at.map_or("-".to_owned(), |at| at.epoch_seconds().to_string());
        let (name, found, after) = (self.change.name(), self.found_at.epoch_seconds(), self.after.to_text());
        let before = self.before.as_ref().map(|before| format!(" {}", before.to_text())).unwrap_or_default();
        format!("{name} {found} {counted} {after}{before}")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let (name, found, counted, after) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let time = |text: &str| text.parse().ok().map(Timestamp::from_epoch_seconds);
        let position = |text| Position::parse(text).ok().map(Position::into_owned);
        let before = parts.next();
        Some(Self {
            change: LifeChange::ALL.into_iter().find(|change| change.name() == name)?,
            found_at: time(found)?,
            counted_at: if counted == "-" { None } else { Some(time(counted)?) },
            after: position(after)?,
            before: if let Some(before) = before { Some(position(before)?) } else { None },
        })
    }
}

/// The lives after these records of their item, which are ordered by position. `left` are the indexes of the records that stay uncounted;
/// `shows_end` decides whether the removal with an index is counted, or settled.
pub(crate) fn lives_after(
    lives: &[UnrecordedLife],
    records: &[&ChangeRecord<'_>],
    left: &[usize],
    shows_end: impl Fn(usize) -> bool,
) -> Vec<UnrecordedLife> {
    lives.iter().filter_map(|life| life.clone().after_records(records, left, &shows_end)).collect()
}

/// The lives that an entry keeps when it is written; `is_live` if it is no tombstone.
pub(crate) fn kept_lives(
    mut lives: Vec<UnrecordedLife>,
    is_live: bool,
    now: Timestamp,
) -> Vec<UnrecordedLife> {
    lives.retain(|life| life.is_open(now) || (is_live && life.change == LifeChange::Began));
    lives.drain(..lives.len().saturating_sub(MOST_LIVES));
    lives
}

/// The value of [`UNRECORDED`].
pub(super) fn lives_text(lives: &[UnrecordedLife]) -> String {
    lives.iter().map(UnrecordedLife::to_text).collect::<Vec<_>>().join(";")
}

/// Reads the value of [`UNRECORDED`].
pub(super) fn parse_lives(text: &str) -> Option<Vec<UnrecordedLife>> {
    text.split(';').map(UnrecordedLife::parse).collect()
}

#[cfg(test)]
mod tests {
    use afterwrite_model::record::RecordDecoder;
    use afterwrite_model::table::Model;

    use super::*;

    const LABEL: &str = "2026-02-06T10:00:00.000";

    /// A record of an item, as Lambda delivers it.
    fn record(sequence_number: u32, operation: &str) -> String {
        let keys = r#"{"PK":{"S":"ADMIN#a"},"SK":{"S":"PROJECT#p"}}"#;
        let images = match operation {
            "INSERT" => format!(r#""NewImage":{keys}"#),
            "MODIFY" => format!(r#""OldImage":{keys},"NewImage":{keys}"#),
            _ => format!(r#""OldImage":{keys}"#),
        };
        format!(
            r#"{{"eventName":"{operation}","eventSourceARN":"arn:aws:dynamodb:eu-west-1:1:table/T/stream/{LABEL}","dynamodb":{{"ApproximateCreationDateTime":1770400000,"Keys":{keys},{images},"SequenceNumber":"{sequence_number}"}}}}"#
        )
    }

    /// The lives of an entry at position 10, which a reconciliation has counted, after these records.
    fn begun_after(operations: &[&str], left: &[usize]) -> usize {
        let model = Model::load(Model::DEFAULT_NAME).unwrap();
        let lines: Vec<String> =
            (11..).zip(operations).map(|(number, operation)| record(number, operation)).collect();
        let mut decoder = RecordDecoder::new(&model.attributes);
        let records: Vec<_> = lines.iter().map(|line| decoder.record(line.as_bytes()).unwrap()).collect();
        let records: Vec<&ChangeRecord<'_>> = records.iter().collect();
        let life = UnrecordedLife {
            change: LifeChange::Began,
            found_at: Timestamp::from_epoch_seconds(1_770_400_100),
            counted_at: Some(Timestamp::from_epoch_seconds(1_770_400_050)),
            after: Position::new(LABEL, "10").unwrap(),
            before: None,
        };
        lives_after(&[life], &records, left, |_| true).len()
    }

    /// The last insertion shows the beginning of the life that is counted, unless a removal follows it: then it began another life.
    #[test]
    fn a_removed_insertion_does_not_show_the_beginning_of_the_life_that_is_counted() {
        for operations in
            [&[][..], &["REMOVE"], &["MODIFY"], &["INSERT", "REMOVE"], &["INSERT", "REMOVE", "MODIFY"]]
        {
            assert_eq!(begun_after(operations, &[]), 1, "{operations:?}");
        }
        for operations in [&["INSERT"][..], &["REMOVE", "INSERT"], &["INSERT", "REMOVE", "INSERT", "MODIFY"]]
        {
            assert_eq!(begun_after(operations, &[]), 0, "{operations:?}");
        }
    }

    /// The lookup of an inserted item may find nothing yet: the insertion is delivered again, and must meet the same entry.
    #[test]
    fn an_insertion_that_stays_uncounted_does_not_show_the_beginning_of_the_life_that_is_counted() {
        assert_eq!(begun_after(&["INSERT"], &[0]), 1);
        assert_eq!(begun_after(&["INSERT", "MODIFY"], &[1]), 0);
        assert_eq!(begun_after(&["REMOVE", "INSERT", "MODIFY"], &[1, 2]), 1);
    }
}
