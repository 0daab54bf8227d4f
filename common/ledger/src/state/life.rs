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
    const ALL: [Self; 2] = [Self::Vanished, Self::Revived];

    fn name(self) -> &'static str {
        match self {
            Self::Vanished => "vanished",
            Self::Revived => "revived",
        }
    }
}

impl UnrecordedLife {
    /// Whether the change must still be named: a life that vanished as long as a tombstone is kept, a revived life always.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.change == LifeChange::Revived || now < self.found_at.plus(TOMBSTONE_LIFETIME)
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
        let is_reconciled_since = as_of.is_some_and(|as_of| as_of > self.found_at);
        self.change == LifeChange::Vanished && self.before.is_none() && !is_reconciled_since
    }

    /// Whether a record with a new image shows the next life: an insertion after the life was counted, or any image of a time at which the
    /// item was known to be gone. Others may be of the life itself: its end can be found before its records are delivered.
    fn is_of_next(&self, record: &ChangeRecord<'_>) -> bool {
        let known_since = match record.operation {
            Operation::Insert => self.counted_at,
            Operation::Modify | Operation::Remove => Some(self.found_at),
        };
        let times = known_since.zip(record.created_at);
        times.is_none_or(|(known, created)| created > known.plus(SERVICE_TIME_TOLERANCE))
    }

    /// The life after these records of its item, which are ordered by position; `None` if one of them shows its end.
    fn after_records(
        mut self,
        records: &[&ChangeRecord<'_>],
        shows_end: &impl Fn(usize) -> bool,
    ) -> Option<Self> {
        if self.change == LifeChange::Revived {
            return Some(self);
        }
        let concerned = records.iter().enumerate().filter(|(_, record)| self.may_concern(record));
        for (index, record) in concerned {
            if record.new.is_none() {
                return (!shows_end(index)).then_some(self);
            }
            if self.is_of_next(record) {
                self.before = Some(record.position.clone().into_owned());
                return Some(self);
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

/// The lives after these records of their item, which are ordered by position. `shows_end` decides whether the removal with an index is
/// counted, or settled.
pub(crate) fn lives_after(
    lives: &[UnrecordedLife],
    records: &[&ChangeRecord<'_>],
    shows_end: impl Fn(usize) -> bool,
) -> Vec<UnrecordedLife> {
    lives.iter().filter_map(|life| life.clone().after_records(records, &shows_end)).collect()
}

/// The lives that an entry keeps when it is written.
pub(crate) fn kept_lives(mut lives: Vec<UnrecordedLife>, now: Timestamp) -> Vec<UnrecordedLife> {
    lives.retain(|life| life.is_open(now));
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
