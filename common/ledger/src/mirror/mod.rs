//! Mirrors: copies of rollups' measures on an application's items.
//!
//! In: the items of a batch that are counted. Out: conditional writes to the mirroring items.
//!
//! A mirror does not count. A single conditional write sets the copy to the rollup's value together with the rollup's
//! `rev`. The rollup is read strongly consistent and its `rev` only grows, so of two copies the one with the larger
//! `rev` is newer, and an older copy never replaces a newer one. Ledger transactions therefore never touch what the
//! application writes.
//!
//! A copy is refreshed
//! - after a commit to the rollup;
//! - when a record is found counted already, because the author of that commit may have crashed before it refreshed
//!   anything;
//! - when the item's own record, or its table when it is reconciled, shows another value, because the application re-created the
//!   item or overwrote the copy.
//!
//! Each of these reads the rollup *after* the event, so the last refresh leaves the current value. Nothing is written that
//! is there already: a copy that the commit did not certainly change is read first.
//!
//! An application may copy an item with all its attributes, ours included. So next to the revision a copy has the name of
//! the rollup that it belongs to (`<attribute>_of`), and the revision of another rollup never keeps a copy from being set.
//! Nor does a revision that this rollup has not reached: the item is of a table that was restored next to a new state
//! table, or the rollup has expired and begins again.
//!
//! Counting and showing are two outcomes. A copy that the item cannot take (its place is not a map, the item is too
//! large) is reported, and tried again at the next change; it fails no record.
//!
//! The rollup's key determines the item. If that key depends on a lookup of the item itself (for example its first
//! owner), the item may have moved since the lookup was remembered. The remembered lookup then also lists every other
//! key at which the item has been seen. An item that moved notes its new key *before* it reads the rollup, and a
//! committer reads these notes *after* its commit, so whichever is second refreshes the copy at the new key.

mod places;
mod refreshes;
mod write;

use std::collections::BTreeSet;

use afterwrite_model::effect::ItemKey;
use afterwrite_model::projection::{RollupTarget, TargetId};
use afterwrite_model::table::{Mirror, Rollup};
use afterwrite_model::{Error, ErrorKind, Result};
use futures::future::join;

use self::places::{MirrorPlaces, PlacedCopies, UnsetCopies};
use self::refreshes::{MirrorRefresh, MirrorRefreshes, RefreshSearch, RefreshedRollups};
use self::write::CopyWriter;
use super::batch::{BatchContext, LedgerBatch, MirrorProgress};
use super::core::lookups::LookupChoice;
use super::core::{ItemInput, LedgerCore};
use super::policy::REFRESHED_AT_ONCE;
use super::requests::{send_all, time_ended};
use super::state::rollup::{rollup_key, rollup_origin, rollup_revision};
use crate::tables::misaligned_read;

/// The most mirroring items that are read at once: DynamoDB returns up to 16 MB at a time.
const ITEMS_AT_ONCE: usize = 100;

/// The copies that a batch may have made stale.
#[derive(Debug, Default)]
struct StaleCopies<'m> {
    /// The batch changed their rollups.
    certain: Vec<PlacedCopies<'m>>,
    /// Their items must be read first, to know.
    doubtful: Vec<PlacedCopies<'m>>,
    /// Their rollups could not be read.
    unset: Vec<UnsetCopies>,
}

/// A rollup whose copies must be refreshed.
struct CopiedRollup<'m, 'b> {
    mirror: &'m Mirror,
    target: &'b RollupTarget,
    key: ItemKey,
    refresh: &'b MirrorRefresh,
    /// Whether the item may have been seen at other keys, which are noted.
    has_notes: bool,
}

/// Refreshes the copies that a batch made stale.
pub(crate) struct MirrorRefresher<'l> {
    pub(crate) context: BatchContext<'l>,
}

impl MirrorRefresher<'_> {
    fn search(&self) -> RefreshSearch<'_> {
        RefreshSearch { context: self.context }
    }

    fn places(&self) -> MirrorPlaces<'_> {
        MirrorPlaces { core: self.context.core }
    }

    fn writer(&self) -> CopyWriter<'_> {
        CopyWriter { core: self.context.core, requests: self.context.requests }
    }

    /// Refreshes the copies that committed items may have made stale, each once. Items that wait for a lookup are left out. Returns the
    /// error of copies that another attempt can set.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] only.
    pub(crate) async fn refresh(&self, batch: &mut LedgerBatch<'_>) -> Result<Option<Error>> {
        if self.context.core.model.mirrors.is_empty() {
            return Ok(None);
        }
        if !batch.unrefreshed().any(|(_, item)| item.concerns_mirrors()) {
            return self.finish_unconcerned(batch).await;
        }
        self.search().require_lookups(batch);
        self.resolve_untried(batch).await?;
        let (mut delayed, mut done) = (None, RefreshedRollups::new());
        let ready: Vec<usize> = self.search().ready_items(batch).into_iter().collect();
        for together in ready.chunks(REFRESHED_AT_ONCE) {
            if self.context.requests.is_over() {
                return Ok(Some(time_ended()));
            }
            let together = together.iter().copied().collect();
            delayed = self.refresh_together(batch, &together, &mut done).await?.or(delayed);
        }
        Ok(delayed)
    }

    /// The end of a refresh if no item of the batch has made a copy stale: nothing is searched or read.
    async fn finish_unconcerned(&self, batch: &mut LedgerBatch<'_>) -> Result<Option<Error>> {
        self.resolve_untried(batch).await?;
        let unconcerned: BTreeSet<usize> = batch.unrefreshed().map(|(index, _)| index).collect();
        if !unconcerned.is_empty() && self.context.requests.is_over() {
            return Ok(Some(time_ended()));
        }
        batch.note_mirrors(&unconcerned, MirrorProgress::Refreshed);
        Ok(None)
    }

    /// Tries the lookups that were not tried yet, also the outputs that items offer to lookups of other items.
    async fn resolve_untried(&self, batch: &mut LedgerBatch<'_>) -> Result<()> {
        if self.context.core.model.has_lookups() {
            self.context.lookups.resolve(LookupChoice::Untried, &mut batch.lookups).await?;
        }
        Ok(())
    }

    /// Refreshes the copies that these items may have made stale, each once.
    async fn refresh_together(
        &self,
        batch: &mut LedgerBatch<'_>,
        together: &BTreeSet<usize>,
        done: &mut RefreshedRollups,
    ) -> Result<Option<Error>> {
        let unset = match self.refresh_items(batch, together, done).await {
            Err(error) if error.kind() == ErrorKind::Configuration => return Err(error),
            Err(error) => vec![UnsetCopies { items: self.with_mirrors(batch, together), error }],
            Ok(unset) => unset,
        };
        batch.note_mirrors(together, MirrorProgress::Refreshed);
        let mut delayed = None;
        for UnsetCopies { items, error } in unset {
            if error.is_retryable() {
                batch.note_mirrors(&items, MirrorProgress::Delayed);
                delayed = Some(error);
            } else {
                self.fail_items(batch, &items, &error);
            }
        }
        Ok(delayed)
    }

    /// Fails the items whose copies could not be refreshed before the deadline: their records are redelivered, found counted, and
    /// their copies refreshed again.
    pub(crate) fn give_up(&self, batch: &mut LedgerBatch<'_>, error: &Error) {
        let unrefreshed = batch.unrefreshed().map(|(index, _)| index).collect();
        let items = self.with_mirrors(batch, &unrefreshed);
        self.fail_items(batch, &items, error);
    }

    fn fail_items(&self, batch: &mut LedgerBatch<'_>, indexes: &BTreeSet<usize>, error: &Error) {
        for index in indexes {
            batch.step(*index, ItemInput::GivenUp(error.restated()), self.context.step_context());
        }
    }

    /// The items of `indexes` that show a mirror or change a mirrored rollup.
    fn with_mirrors(&self, batch: &LedgerBatch<'_>, indexes: &BTreeSet<usize>) -> BTreeSet<usize> {
        let is_mirrored = |target: &TargetId| batch.targets.rollups(*target).any(Rollup::is_mirrored);
        let has_mirrors = |index: &&usize| {
            let item = batch.item(**index);
            item.facts.has_mirrors()
                || self.search().feeds_mirrors(item)
                || item.counted.departed_targets.iter().any(is_mirrored)
        };
        indexes.iter().filter(has_mirrors).copied().collect()
    }

    async fn refresh_items(
        &self,
        batch: &mut LedgerBatch<'_>,
        ready: &BTreeSet<usize>,
        done: &mut RefreshedRollups,
    ) -> Result<Vec<UnsetCopies>> {
        let mut refreshes = self.search().stale_refreshes(batch, ready, done);
        let mut unset = self.search().shown_refreshes(batch, ready, &mut refreshes).await?;
        unset.extend(self.write_copies(batch, &refreshes).await?);
        let failed: BTreeSet<usize> = unset.iter().flat_map(|unset| &unset.items).copied().collect();
        let is_done = |refresh: &MirrorRefresh| refresh.shown.is_none() && refresh.items.is_disjoint(&failed);
        done.extend(refreshes.into_iter().filter(|(_, refresh)| is_done(refresh)).map(|(rollup, _)| rollup));
        Ok(unset)
    }

    /// Sets every stale copy. The copies that the batch certainly made stale are set while the rollups of all other copies are read.
    /// Returns the copies that could not be set.
    async fn write_copies(
        &self,
        batch: &mut LedgerBatch<'_>,
        refreshes: &MirrorRefreshes,
    ) -> Result<Vec<UnsetCopies>> {
        let StaleCopies { certain, doubtful, mut unset } = self.place_copies(batch, refreshes).await?;
        let check = async {
            let (stale, unread) = self.stale_copies(doubtful).await?;
            Ok::<_, Error>((self.set_all(stale).await, unread))
        };
        let (certain, checked) = join(self.set_all(certain), check).await;
        let (checked, unread) = checked?;
        unset.extend(unread);
        for (copies, result) in certain.into_iter().chain(checked) {
            match result {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Configuration => return Err(error),
                Err(error) if error.kind().is_poison() => {
                    let key = copies.key.attributes().filter_map(|attribute| attribute.value.as_text());
                    let unwritable = self.writer().unwritable(copies.mirror, key, error);
                    batch.unwritable_mirrors.push(unwritable);
                }
                Err(error) => unset.push(UnsetCopies { items: copies.items, error }),
            }
        }
        Ok(unset)
    }

    async fn set_all<'m>(&self, copies: Vec<PlacedCopies<'m>>) -> Vec<(PlacedCopies<'m>, Result<()>)> {
        let requests = copies.into_iter().map(|copies| async move {
            // Preparing the writes of thousands of copies takes a small function longer than sending its response may.
            let result = if self.context.requests.is_over() {
                Err(time_ended())
            } else {
                self.writer().set_copies(&copies).await
            };
            (copies, result)
        });
        send_all(requests).await
    }

    /// The rollups to copy, and the keys to read: for each rollup its key, and the key of the notes of further places, if there is one.
    fn copied_rollups<'m, 'b>(
        &'m self,
        batch: &'b LedgerBatch<'_>,
        refreshes: &'b MirrorRefreshes,
    ) -> Result<(Vec<CopiedRollup<'m, 'b>>, Vec<ItemKey>)> {
        let LedgerCore { model, keys: state_keys, .. } = self.context.core;
        let (mut sources, mut keys) = (Vec::new(), Vec::new());
        for ((mirror, target), refresh) in refreshes {
            let target = batch.targets.get(*target);
            let mirror = model.mirrors.get(*mirror).zip(rollup_key(state_keys, target));
            let Some((mirror, key)) = mirror else { continue };
            keys.push(key.clone());
            let notes = self.places().notes_key(mirror, target)?;
            sources.push(CopiedRollup { mirror, target, key, refresh, has_notes: notes.is_some() });
            keys.extend(notes);
        }
        Ok((sources, keys))
    }

    /// The values of the copies at every place where they are not known to be right.
    async fn place_copies(
        &self,
        batch: &LedgerBatch<'_>,
        refreshes: &MirrorRefreshes,
    ) -> Result<StaleCopies<'_>> {
        let (sources, keys) = self.copied_rollups(batch, refreshes)?;
        let mut stored = self.context.requests.read(&keys).await?.items.into_iter();
        let mut copies = StaleCopies::default();
        for CopiedRollup { mirror, target, key, refresh, has_notes } in sources {
            let rollup = stored.next().ok_or_else(misaligned_read)?;
            let notes = if has_notes { stored.next().ok_or_else(misaligned_read)? } else { Ok(None) };
            let (rollup, notes) = match rollup.and_then(|rollup| Ok((rollup, notes?))) {
                Ok(read) => read,
                Err(unprocessed) => {
                    copies
                        .unset
                        .push(UnsetCopies { items: refresh.items.clone(), error: unprocessed.into() });
                    continue;
                }
            };
            let values = self.places().mirror_values(mirror, rollup.as_ref());
            if refresh.shown.as_ref().is_some_and(|shown| *shown == values) {
                continue;
            }
            let revision = rollup_revision(rollup.as_ref());
            let is_certain = refresh.is_changed && !self.places().is_guarded(mirror);
            let placed = if is_certain { &mut copies.certain } else { &mut copies.doubtful };
            placed.extend(self.places().place_keys(mirror, target, notes.as_ref()).into_iter().map(
                |place| PlacedCopies {
                    key: place,
                    mirror,
                    rollup: key.clone(),
                    origin: rollup_origin(target),
                    values: values.clone(),
                    revision: revision.clone(),
                    items: refresh.items.clone(),
                    guards: Vec::new(),
                },
            ));
        }
        Ok(copies)
    }

    /// The copies that their items do not show, and those whose items could not be read. Only a few items are held at once, because
    /// items may be large.
    async fn stale_copies<'m>(
        &self,
        placed: Vec<PlacedCopies<'m>>,
    ) -> Result<(Vec<PlacedCopies<'m>>, Vec<UnsetCopies>)> {
        let (mut stale, mut unread) = (Vec::new(), Vec::new());
        let mut placed = placed.into_iter().peekable();
        while placed.peek().is_some() {
            let together: Vec<_> = placed.by_ref().take(ITEMS_AT_ONCE).collect();
            let keys: Vec<_> = together.iter().map(|copies| copies.key.clone()).collect();
            for (copies, item) in together.into_iter().zip(self.context.requests.read(&keys).await?.items) {
                match item {
                    // An item that does not exist, or is of another entity, shows nothing.
                    Ok(item) => {
                        let item = item.filter(|item| !self.writer().is_right(&copies, item));
                        stale.extend(item.and_then(|item| self.places().guarded(copies, &item)));
                    }
                    Err(unprocessed) => {
                        unread.push(UnsetCopies { items: copies.items, error: unprocessed.into() });
                    }
                }
            }
        }
        Ok((stale, unread))
    }
}
