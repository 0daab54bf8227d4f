//! Filters of sorted rows: what is dropped from the log, and which rows of an item are current.

use super::order::{ChangeKind, KeyedChange, RowKeys, RowRelation, SNAPSHOT_LAG_MS, relate};

/// How many rows were dropped, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DroppedRows {
    pub(super) duplicates: u64,
    pub(super) outdated: u64,
}

/// Which rows of a sorted sequence stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowSelection {
    /// All but copies and, if rows of one item are compared, outdated rows.
    Log,
    /// The rows that are current.
    Current,
    /// As [`RowSelection::Current`], and the newest row of an item that is gone.
    Latest,
}

/// Chooses rows of a sorted sequence. `P` is the place of a row.
#[derive(Debug)]
pub(super) enum RowFilter<P> {
    Log(LogFilter<P>),
    Current(CurrentFilter<P>),
}

impl<P: Copy> RowFilter<P> {
    /// A filter that continues to count from `dropped`.
    pub(super) fn new(selection: RowSelection, dropped: DroppedRows) -> Self {
        match selection {
            RowSelection::Log => Self::Log(LogFilter { pending: None, bytes: Vec::new(), dropped }),
            RowSelection::Current => Self::Current(CurrentFilter::new(dropped, false)),
            RowSelection::Latest => Self::Current(CurrentFilter::new(dropped, true)),
        }
    }

    /// Takes the next row, at `place`. Rows that are decided now and stay are appended to `chosen`.
    pub(super) fn push(&mut self, place: P, keys: &RowKeys, row: usize, chosen: &mut Vec<P>) {
        match self {
            Self::Log(filter) => chosen.extend(filter.push(place, keys, row)),
            Self::Current(filter) => filter.push(place, keys, row, chosen),
        }
    }

    /// Ends the sequence.
    pub(super) fn finish(&mut self, chosen: &mut Vec<P>) {
        match self {
            Self::Log(filter) => chosen.extend(filter.pending.take().map(|(place, _)| place)),
            Self::Current(filter) => filter.end_item(chosen),
        }
    }

    /// The places of the rows that are not decided yet.
    pub(super) fn pending(&mut self) -> Vec<&mut P> {
        match self {
            Self::Log(filter) => filter.pending.iter_mut().map(|(place, _)| place).collect(),
            Self::Current(filter) => filter.candidates.all().map(|candidate| &mut candidate.place).collect(),
        }
    }

    /// The rows that were dropped so far.
    pub(super) fn dropped(&self) -> DroppedRows {
        match self {
            Self::Log(filter) => filter.dropped,
            Self::Current(filter) => filter.dropped,
        }
    }
}

/// Drops rows of the log. A row is decided by the next one, so the filter is one row behind.
#[derive(Debug)]
pub(super) struct LogFilter<P> {
    pending: Option<(P, Option<KeyedChange>)>,
    /// The sort key of the pending row. Its allocation is reused.
    bytes: Vec<u8>,
    dropped: DroppedRows,
}

impl<P> LogFilter<P> {
    /// Takes the next row. Returns the pending row, if this one decides that it stays.
    fn push(&mut self, place: P, keys: &RowKeys, row: usize) -> Option<P> {
        let (bytes, change) = (keys.bytes(row), keys.change(row));
        let relation = self
            .pending
            .as_ref()
            .map(|(_, pending)| relate(&self.bytes, *pending, bytes, change, keys.copy_bytes()));
        if relation == Some(RowRelation::Identical) {
            self.dropped.duplicates += 1;
            return None;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        let (pending, _) = self.pending.replace((place, change))?;
        if relation == Some(RowRelation::Outdated) {
            self.dropped.outdated += 1;
            return None;
        }
        Some(pending)
    }
}

/// Chooses the current rows of each item: its newest row, unless the item is gone; and every row of a life that
/// expired and stays counted. Rows come sorted by item and position.
#[derive(Debug)]
pub(super) struct CurrentFilter<P> {
    /// The bytes of the sort key that identify the item.
    item: Vec<u8>,
    candidates: ItemCandidates<P>,
    dropped: DroppedRows,
    /// Whether the newest row is chosen although the item is gone.
    keeps_gone: bool,
}

/// The rows of one item that may be current.
#[derive(Debug)]
struct ItemCandidates<P> {
    rows: u64,
    /// The newest snapshot.
    snapshot: Option<RowCandidate<P>>,
    /// Stream rows in ascending order of their positions. Each counts in a case in which no later one does, so their times descend.
    changes: Vec<RowCandidate<P>>,
    /// Rows of lives that expired and stay counted, one for each position.
    expired: Vec<RowCandidate<P>>,
}

impl<P> Default for ItemCandidates<P> {
    fn default() -> Self {
        Self { rows: 0, snapshot: None, changes: Vec::new(), expired: Vec::new() }
    }
}

#[derive(Clone, Debug)]
struct RowCandidate<P> {
    place: P,
    kind: ChangeKind,
    changed_at: Option<i64>,
    /// The bytes of the sort key that identify the item and the position.
    position: Box<[u8]>,
    /// The end of the sort key: of copies the least stays.
    copy: Box<[u8]>,
}

impl<P> RowCandidate<P> {
    /// Whether the other row is of the same change and no better than this one.
    fn is_better_copy_of(&self, other: &Self) -> bool {
        self.position == other.position && self.copy <= other.copy
    }
}

impl<P> ItemCandidates<P> {
    fn all(&mut self) -> impl Iterator<Item = &mut RowCandidate<P>> {
        self.snapshot.iter_mut().chain(&mut self.changes).chain(&mut self.expired)
    }
}

impl<P: Copy> ItemCandidates<P> {
    fn add(&mut self, candidate: RowCandidate<P>) {
        self.rows += 1;
        if candidate.kind.is_snapshot() {
            let order = |row: &RowCandidate<P>| (row.changed_at, row.position.clone());
            let is_newer = self.snapshot.as_ref().is_none_or(|known| {
                order(known) < order(&candidate)
                    || (order(known) == order(&candidate) && candidate.copy < known.copy)
            });
            if is_newer {
                self.snapshot = Some(candidate);
            }
            return;
        }
        if candidate.kind == ChangeKind::Expired {
            keep_best_copy(&mut self.expired, &candidate);
        }
        if self.changes.last().is_some_and(|last| last.is_better_copy_of(&candidate)) {
            return;
        }
        // Only a later row that counts can outdate rows that count.
        let counts_longer = |earlier: &RowCandidate<P>| match (candidate.changed_at, earlier.changed_at) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(time), Some(earlier)) => earlier > time,
        };
        let is_same_change = |earlier: &RowCandidate<P>| earlier.position == candidate.position;
        while self.changes.last().is_some_and(|last| is_same_change(last) || !counts_longer(last)) {
            self.changes.pop();
        }
        self.changes.push(candidate);
    }

    /// The newest row.
    fn newest(&self) -> Option<&RowCandidate<P>> {
        let read_at = self.snapshot.as_ref().and_then(|snapshot| snapshot.changed_at);
        let counts = |change: &&RowCandidate<P>| match (change.changed_at, read_at) {
            (None, _) | (_, None) => true,
            (Some(time), Some(read_at)) => time > read_at.saturating_sub(SNAPSHOT_LAG_MS),
        };
        self.changes.iter().rev().find(counts).or(self.snapshot.as_ref())
    }
}

/// Adds a row of an expiry, or replaces a worse copy of it.
fn keep_best_copy<P: Copy>(rows: &mut Vec<RowCandidate<P>>, candidate: &RowCandidate<P>) {
    match rows.last_mut() {
        Some(last) if last.is_better_copy_of(candidate) => {}
        Some(last) if last.position == candidate.position => *last = candidate.clone(),
        Some(_) | None => rows.push(candidate.clone()),
    }
}

impl<P: Copy> CurrentFilter<P> {
    fn new(dropped: DroppedRows, keeps_gone: bool) -> Self {
        Self { item: Vec::new(), candidates: ItemCandidates::default(), dropped, keeps_gone }
    }

    fn push(&mut self, place: P, keys: &RowKeys, row: usize, chosen: &mut Vec<P>) {
        let bytes = keys.bytes(row);
        let Some(KeyedChange { item_bytes, position_bytes, kind, changed_at }) = keys.change(row) else {
            // Without a comparison of rows every row stays.
            return chosen.push(place);
        };
        let (item, _) = bytes.split_at_checked(item_bytes).unwrap_or_default();
        if item != self.item {
            self.end_item(chosen);
            self.item.clear();
            self.item.extend_from_slice(item);
        }
        let position = bytes.get(..position_bytes).unwrap_or_default().into();
        let copy = bytes.get(bytes.len().saturating_sub(keys.copy_bytes())..).unwrap_or_default().into();
        self.candidates.add(RowCandidate { place, kind, changed_at, position, copy });
    }

    fn end_item(&mut self, chosen: &mut Vec<P>) {
        let candidates = std::mem::take(&mut self.candidates);
        // The newest row may be of an expiry that stays counted: it is among those already.
        let newest = candidates.newest().filter(|newest| match newest.kind {
            ChangeKind::Existing | ChangeKind::Snapshot => true,
            ChangeKind::Gone => self.keeps_gone,
            ChangeKind::Expired => false,
        });
        let mut current: Vec<&RowCandidate<P>> = candidates.expired.iter().chain(newest).collect();
        current.sort_by(|one, other| one.position.cmp(&other.position));
        chosen.extend(current.iter().map(|row| row.place));
        let stays = u64::try_from(current.len()).unwrap_or(0);
        self.dropped.outdated += candidates.rows.saturating_sub(stays);
    }
}
