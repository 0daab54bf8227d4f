//! Mirrors: copies of rollups' measures on applications' items.
//!
//! A mirror is no counter: it is set, by a plain conditional write, to what the rollup holds, together with the rollup's `rev`.
//! The rollup's `rev` only grows and is read strongly consistent, so of two copies the one with the larger `rev` is the
//! newer, and an older one never replaces it. Our transactions thus never touch what the application writes.
//!
//! A copy is refreshed by whoever commits to the rollup; by whoever finds such a commit done already (its author may have
//! crashed before it refreshed anything); and when the item's own record shows another value, because the application
//! re-created the item or wrote over the copy. Each reads the rollup *after* that happened, so the last of them leaves
//! what is right.
//!
//! Where the item is follows from the rollup's key. If that key depends on a lookup of the item itself (its first owner, say),
//! the item may since have moved: then the remembered lookup also holds every other key at which the item has been seen. A
//! mover notes its new key before it reads the rollup, and a committer reads those notes after it has committed:
//! whichever comes second serves the new place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::{StreamExt as _, iter};

use super::lookup::{LookupResults, PendingLookups};
use super::requests::CONCURRENCY;
use super::rounds::LedgerBatch;
use super::work::LedgerItemState;
use super::{InvocationContext, Ledger, keys};
use crate::clock::Clock;
use crate::effect::{
    AttributeChange, ItemKey, KeyAttribute, Path, Write, WriteAction, WriteCondition, WriteRefusal,
};
use crate::entity::{ItemIdentity, key_value};
use crate::projection::{
    ImageScope, ItemContributions, LookupAnswers as _, RollupTarget, RollupTargets, TargetId, TargetKey,
    answers, attribute, contributions, questions,
};
use crate::record::{AttributeValue, Decimal, Image, Item};
use crate::sink::{Tables, WriteError};
use crate::table::{KeySchema, Mirror, MirroredAttribute, Term, ValueFormat};
use crate::{Error, ErrorKind, Result};

/// What the attributes of a remembered lookup begin with that hold where else the looked-up item has been seen.
const SEEN_AT: &str = "seen_at#";

/// One rollup whose copies by one mirror are to be refreshed.
#[derive(Debug, Default)]
struct MirrorRefresh {
    /// The items of the batch on whose account.
    works: BTreeSet<usize>,
    /// What an item's own record shows, if that is the only reason: equal values then need no write.
    shown: Option<Vec<Option<AttributeValue<'static>>>>,
}

/// By mirror and rollup.
type MirrorRefreshes = BTreeMap<(usize, TargetId), MirrorRefresh>;

impl<T: Tables, C: Clock> Ledger<T, C> {
    /// Refreshes every copy that the batch has reason to. An item whose copies cannot be refreshed in time has failed: its
    /// records come again, are found counted, and lead here once more.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] alone.
    pub(super) async fn refresh_mirrors(
        &self,
        batch: &mut LedgerBatch<'_>,
        invocation: &InvocationContext,
    ) -> Result<()> {
        if self.model.mirrors.is_empty() {
            return Ok(());
        }
        let mut refreshes = MirrorRefreshes::new();
        let outcome = async {
            self.ask_of_skipped(batch, invocation).await?;
            self.collect(batch, &mut refreshes, invocation).await?;
            self.refresh(batch, &refreshes, invocation).await
        };
        match outcome.await {
            Err(error) if error.kind() == ErrorKind::Configuration => Err(error),
            Err(error) => {
                // Wherever it was, what has not been collected yet has not been refreshed either.
                let concerns = |work: &LedgerItemState<'_>| {
                    work.is_done() && (!work.identity.entity.mirrors.is_empty() || self.feeds_mirrors(work))
                };
                let all = batch.works.iter().enumerate().filter(|(_, work)| concerns(work));
                let all: BTreeSet<usize> = all.map(|(index, _)| index).collect();
                batch.fail_done(&all, &error);
                Ok(())
            }
            Ok(failed) => {
                for (works, error) in failed {
                    batch.fail_done(&works, &error);
                }
                Ok(())
            }
        }
    }

    /// The contributions of records that were counted elsewhere say whose mirrors their author may have left stale; they may
    /// need lookups.
    async fn ask_of_skipped(
        &self,
        batch: &mut LedgerBatch<'_>,
        invocation: &InvocationContext,
    ) -> Result<()> {
        let mut attempt = 0;
        loop {
            let asked = self.questions_of_skipped(batch);
            let delayed = self.answer(asked, &mut batch.answered, invocation).await?;
            let Some(error) = delayed.into_values().next() else { return Ok(()) };
            attempt += 1;
            if !self.wait(attempt, invocation).await {
                return Err(error);
            }
        }
    }

    fn questions_of_skipped(&self, batch: &mut LedgerBatch<'_>) -> PendingLookups {
        let mut asked = PendingLookups::new();
        let LedgerBatch { works, answered, .. } = batch;
        // What an item shows may depend on what it answers itself. Mostly that is known by now; if asking failed in a round that
        // had nothing left to commit, it is not.
        for work in works.iter().filter(|work| work.is_done() && !work.identity.entity.mirrors.is_empty()) {
            for (question, outputs) in
                work.newest_image().into_iter().flat_map(|image| answers(&self.model, work.identity, image))
            {
                self.ask(question, Some(outputs), &mut asked, answered);
            }
        }
        for work in works.iter_mut().filter(|work| work.is_counted_elsewhere() && self.feeds_mirrors(work)) {
            work.decode_old_images(&self.model.vocabulary, |_| true);
            for image in work.all_images() {
                for question in questions(&self.model, work.identity, image).into_iter().flatten() {
                    self.ask(question, None, &mut asked, answered);
                }
            }
        }
        asked
    }

    fn feeds_mirrors(&self, work: &LedgerItemState<'_>) -> bool {
        let mut rollups = self.aggregates(work).flat_map(|aggregate| &aggregate.into);
        rollups.any(|destination| {
            self.model.rollups.get(destination.rollup).is_some_and(|rollup| !rollup.mirrors.is_empty())
        })
    }

    async fn collect(
        &self,
        batch: &mut LedgerBatch<'_>,
        refreshes: &mut MirrorRefreshes,
        invocation: &InvocationContext,
    ) -> Result<()> {
        let LedgerBatch { works, targets, answered } = batch;
        for (index, work) in works.iter().enumerate().filter(|(_, work)| work.is_done()) {
            for target in self.stale_after(work, targets, answered) {
                for mirror in targets.rollups(target).flat_map(|rollup| &rollup.mirrors) {
                    let refresh = refreshes.entry((*mirror, target)).or_default();
                    refresh.works.insert(index);
                    refresh.shown = None;
                }
            }
        }
        for (index, work) in works.iter().enumerate().filter(|(_, work)| work.is_done()) {
            let Some(image) = work.newest_image() else { continue };
            for mirror_index in &work.identity.entity.mirrors {
                let Some(mirror) = self.model.mirrors.get(*mirror_index) else { continue };
                let Some(target) = self.source_of(mirror, work, image, targets, answered) else { continue };
                self.note_place(mirror, targets.get(target), work, answered, invocation).await?;
                let shown = mirror.attributes.iter().map(|shown| attribute(image, &shown.image).cloned());
                let shown: Vec<_> = shown.map(|value| value.map(AttributeValue::into_owned)).collect();
                let refresh = refreshes
                    .entry((*mirror_index, target))
                    .or_insert_with(|| MirrorRefresh { works: BTreeSet::new(), shown: Some(shown.clone()) });
                // Where an item has moved, several show one rollup, and not all of them may show the same.
                if refresh.shown.as_ref().is_some_and(|other| *other != shown) {
                    refresh.shown = None;
                }
                refresh.works.insert(index);
            }
        }
        Ok(())
    }

    /// The rollups whose copies may be stale on account of this item: those that its commit changed; and, where something was counted
    /// elsewhere, all that its records and its entry speak of.
    fn stale_after(
        &self,
        work: &LedgerItemState<'_>,
        targets: &mut RollupTargets,
        answered: &LookupResults,
    ) -> Vec<TargetId> {
        let mut stale = work.to_mirror.clone();
        if !work.is_counted_elsewhere() || !self.feeds_mirrors(work) {
            return stale;
        }
        for image in work.all_images() {
            let projected =
                contributions(&self.model, work.identity, image, answered, work.sharding(), targets);
            let Ok(projected) = projected else { continue };
            stale.extend(projected.extremes.iter().map(|extreme| extreme.target));
            stale.extend(shown_targets(&projected.contributions, targets));
        }
        stale.extend(shown_targets(work.current(), targets));
        stale.extend(work.entry.iter().flat_map(|entry| &entry.left));
        stale
    }

    /// The rollup that an item of the mirroring entity shows.
    fn source_of(
        &self,
        mirror: &Mirror,
        work: &LedgerItemState<'_>,
        image: &Image<'_>,
        targets: &mut RollupTargets,
        answered: &LookupResults,
    ) -> Option<TargetId> {
        let rollup = self.model.rollups.get(mirror.from)?;
        let bare = ImageScope::of(&self.model, work.identity, image);
        let outputs: Vec<_> = match &mirror.lookup {
            Some(lookup) => vec![answered.outputs(&bare.question(lookup).ok()?)?],
            None => Vec::new(),
        };
        let scope = ImageScope { outputs: &outputs, ..bare };
        let value = |(term, format): &(Term, ValueFormat)| {
            let mut value = String::new();
            scope.render_value(term, *format, &mut value).ok().map(|()| value)
        };
        let values = mirror.rollup_variables.iter().map(value).collect::<Option<Vec<_>>>()?;
        let (partition, sort) = (rollup.partition.render(&values), rollup.sort.render(&values));
        let key = TargetKey { partition: &partition, sort: &sort, shard: None };
        Some(targets.intern(mirror.from, key, None))
    }

    /// The values of the variables in the key of the item that shows a rollup, as they follow from the rollup's key.
    fn item_values<'t>(&self, mirror: &Mirror, target: &'t RollupTarget) -> Option<Vec<&'t str>> {
        let rollup = self.model.rollups.get(mirror.from)?;
        let mut found = vec![None; rollup.variables.len()];
        let is_read = rollup.partition.parse(&target.partition, &mut found)
            && rollup.sort.parse(&target.sort, &mut found);
        let values = mirror.item_variables.iter().map(|index| *found.get(*index)?).collect::<Option<_>>()?;
        is_read.then_some(values)
    }

    /// The place of the item that shows a rollup: partition and sort key.
    fn place_of(&self, mirror: &Mirror, target: &RollupTarget) -> Option<(String, Option<String>)> {
        let key = &self.model.entities.get(mirror.onto)?.key;
        let values = self.item_values(mirror, target)?;
        Some((key.partition.render(&values), key.sort.as_ref().map(|template| template.render(&values))))
    }

    /// Notes where an item that has moved is now, before anyone reads the rollup it shows.
    async fn note_place(
        &self,
        mirror: &Mirror,
        target: &RollupTarget,
        work: &LedgerItemState<'_>,
        answered: &LookupResults,
        invocation: &InvocationContext,
    ) -> Result<()> {
        let (Some(lookup), Some((partition, sort))) = (&mirror.lookup, self.place_of(mirror, target)) else {
            return Ok(());
        };
        let is_there = *partition == *work.source.partition && sort.as_deref() == work.source.sort.as_deref();
        let empty = Image::default();
        let image = work.newest_image().unwrap_or(&empty);
        let Ok(question) = ImageScope::of(&self.model, work.identity, image).question(lookup) else {
            return Ok(());
        };
        if is_there || answered.outputs(&question).is_none() {
            return Ok(());
        }
        let place = [Some(work.source.partition.as_ref()), work.source.sort.as_deref()];
        let name = format!("{SEEN_AT}{}", place.iter().flatten().copied().collect::<Vec<_>>().join("#"));
        let place = place.into_iter().flatten().map(|key| AttributeValue::text(key)).collect();
        let write = Write {
            key: self.keys.lookup(&self.model, &question),
            condition: WriteCondition::ItemExists,
            action: WriteAction::Update(vec![AttributeChange::Set(
                Path::from(name.as_str()),
                AttributeValue::L(place),
            )]),
        };
        self.write_retrying(&write, invocation).await.map_err(|error| self.failed(&write, error))
    }

    /// Reads the rollups, then sets every copy. Gives the items whose copies could not be set, and why.
    async fn refresh(
        &self,
        batch: &LedgerBatch<'_>,
        refreshes: &MirrorRefreshes,
        invocation: &InvocationContext,
    ) -> Result<Vec<(BTreeSet<usize>, Error)>> {
        let entries: Vec<_> = refreshes
            .iter()
            .filter_map(|((mirror, target), refresh)| {
                let (mirror, target) = (self.model.mirrors.get(*mirror)?, batch.targets.get(*target));
                let rollup = self.keys.rollup(target)?;
                Some((mirror, target, refresh, rollup, self.notes_key(mirror, target)))
            })
            .collect();
        let keys: Vec<ItemKey> = entries
            .iter()
            .flat_map(|(.., rollup, notes)| [Some(rollup.clone()), notes.clone()])
            .flatten()
            .collect();
        let mut read = self.read(&keys, invocation).await?.items.into_iter();
        let mut writes = Vec::new();
        for (mirror, target, refresh, _, notes) in entries {
            let rollup = read.next().flatten();
            let notes = notes.and_then(|_| read.next().flatten());
            let values = self.values(mirror, rollup.as_ref());
            if refresh.shown.as_ref().is_some_and(|shown| *shown == values) {
                continue;
            }
            let revision =
                rollup.as_ref().and_then(|item| item.get(keys::REV)).cloned().unwrap_or(Decimal::ZERO.into());
            for key in self.places(mirror, target, notes.as_ref()) {
                writes.push((refresh.works.clone(), key, mirror, values.clone(), revision.clone()));
            }
        }
        let sent = writes.into_iter().map(|(works, key, mirror, values, revision)| async move {
            (works, self.set_copies(&key, mirror, &values, &revision, invocation).await)
        });
        let answers: Vec<_> = iter(sent).buffered(CONCURRENCY).collect().await;
        let mut failed = Vec::new();
        for (works, answer) in answers {
            match answer {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Configuration => return Err(error),
                Err(error) => failed.push((works, error)),
            }
        }
        Ok(failed)
    }

    /// The key of the remembered lookup that may hold where else the item has been seen.
    fn notes_key(&self, mirror: &Mirror, target: &RollupTarget) -> Option<ItemKey> {
        let lookup = mirror.lookup.as_ref()?;
        let entity = self.model.entities.get(mirror.onto)?;
        let identity = ItemIdentity { entity, variables: self.item_values(mirror, target)? };
        let image = Image::default();
        let question = ImageScope::of(&self.model, &identity, &image).question(lookup).ok()?;
        Some(self.keys.lookup(&self.model, &question))
    }

    /// What the copies should hold: a measure that never counted is nought, an average or extreme of nothing is absent.
    fn values(&self, mirror: &Mirror, rollup: Option<&Item>) -> Vec<Option<AttributeValue<'static>>> {
        let is_computed = |measure: &str| {
            self.model.rollups.get(mirror.from).is_some_and(|rollup| {
                rollup.averages.iter().any(|average| *average.name == *measure)
                    || rollup.extremes.iter().any(|extreme| **extreme == *measure)
            })
        };
        let value = |shown: &MirroredAttribute| {
            let held = rollup.and_then(|item| item.get(shown.measure.as_ref())).cloned();
            held.or_else(|| (!is_computed(&shown.measure)).then_some(Decimal::ZERO.into()))
        };
        mirror.attributes.iter().map(value).collect()
    }

    fn places(&self, mirror: &Mirror, target: &RollupTarget, notes: Option<&Item>) -> Vec<ItemKey> {
        let mut places: Vec<(String, Option<String>)> = self.place_of(mirror, target).into_iter().collect();
        for (name, value) in notes.into_iter().flatten() {
            if let (true, AttributeValue::L(place)) = (name.starts_with(SEEN_AT), value) {
                let mut texts = place.iter().filter_map(AttributeValue::as_text).map(str::to_owned);
                places.extend(texts.next().map(|partition| (partition, texts.next())));
            }
        }
        places.into_iter().filter_map(|(partition, sort)| self.place_key(mirror, partition, sort)).collect()
    }

    fn place_key(&self, mirror: &Mirror, partition: String, sort: Option<String>) -> Option<ItemKey> {
        let table = self.model.entities.get(mirror.onto)?.table;
        let schema = self.model.tables.get(table)?;
        let attribute = |key: &KeySchema, text: String| {
            Some(KeyAttribute { name: Arc::clone(&key.name), value: key_value(text, key.key_type)? })
        };
        let sort = match (&schema.sort_key, sort) {
            (Some(key), Some(text)) => Some(attribute(key, text)?),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => return None,
        };
        let table = Arc::clone(self.table_names.get(table)?);
        Some(ItemKey { table, partition: attribute(&schema.partition_key, partition)?, sort })
    }

    /// Sets the copies of one mirror on one item, unless it is gone or shows something newer.
    async fn set_copies(
        &self,
        key: &ItemKey,
        mirror: &Mirror,
        values: &[Option<AttributeValue<'static>>],
        revision: &AttributeValue<'static>,
        invocation: &InvocationContext,
    ) -> Result<()> {
        let mut by_parent: BTreeMap<_, Vec<MirrorCopy<'_>>> = BTreeMap::new();
        for (shown, value) in mirror.attributes.iter().zip(values) {
            by_parent.entry(shown.path.parent()).or_default().push((shown, value.as_ref()));
        }
        for (parent, copies) in by_parent {
            let write = set_write(key, &copies, revision);
            let mut answer = self.write_retrying(&write, invocation).await;
            let nested = copies.first().filter(|_| parent.is_some()).map(|(shown, _)| &shown.path);
            if let (Err(WriteError::Refused(WriteRefusal::Invalid(_))), Some(path)) = (&answer, nested) {
                self.create_maps(key, path, invocation).await?;
                answer = self.write_retrying(&write, invocation).await;
            }
            match answer {
                Ok(()) => invocation.tally.mirrors.add(1),
                Err(WriteError::Refused(WriteRefusal::Condition(_))) => {}
                Err(error) => return Err(self.failed(&write, error)),
            }
        }
        Ok(())
    }

    /// Creates the maps around a nested copy, where the item is there and they are not; outermost first.
    async fn create_maps(&self, key: &ItemKey, copy: &Path, invocation: &InvocationContext) -> Result<()> {
        for path in copy.maps() {
            let write = Write {
                key: key.clone(),
                condition: WriteCondition::All(vec![
                    WriteCondition::ItemExists,
                    WriteCondition::Absent(path.clone()),
                ]),
                action: WriteAction::Update(vec![AttributeChange::Set(
                    path,
                    AttributeValue::M(BTreeMap::new()),
                )]),
            };
            match self.write_retrying(&write, invocation).await {
                // What is there and no map is refused once more, and then for good, when the copies are set.
                Ok(()) | Err(WriteError::Refused(WriteRefusal::Condition(_) | WriteRefusal::Invalid(_))) => {}
                Err(error) => return Err(self.failed(&write, error)),
            }
        }
        Ok(())
    }

    fn failed(&self, write: &Write, error: WriteError) -> Error {
        match error {
            WriteError::Refused(refusal) => self.refused(write, refusal),
            WriteError::Failed(error) => error,
        }
    }
}

/// One copy: where it is shown, and the value, if there is one.
type MirrorCopy<'c> = (&'c MirroredAttribute, Option<&'c AttributeValue<'static>>);

fn shown_targets(contributions: &ItemContributions, targets: &RollupTargets) -> Vec<TargetId> {
    let mut shown = Vec::new();
    for share in &contributions.shares {
        let targets =
            share.targets.iter().copied().filter(|target| targets.shows_any(*target, &share.measures));
        shown.extend(targets);
    }
    shown
}

/// Sets the copies if the item is there and one of them is absent, older, or of this revision but another value.
fn set_write(key: &ItemKey, copies: &[MirrorCopy<'_>], revision: &AttributeValue<'static>) -> Write {
    let (mut stale, mut changes) = (Vec::new(), Vec::new());
    for (shown, value) in copies {
        let (path, revision_path) = (shown.path.clone(), shown.revision_path.clone());
        stale.push(WriteCondition::Absent(revision_path.clone()));
        stale.push(WriteCondition::Less(revision_path.clone(), revision.clone()));
        let differs = match value {
            Some(value) => WriteCondition::Any(vec![
                WriteCondition::Absent(path.clone()),
                WriteCondition::Differs(path.clone(), (*value).clone()),
            ]),
            // We never write a null, so whatever is there differs from it.
            None => WriteCondition::Differs(path.clone(), AttributeValue::Null),
        };
        stale.push(WriteCondition::All(vec![
            WriteCondition::Equals(revision_path.clone(), revision.clone()),
            differs,
        ]));
        changes.push(match value {
            Some(value) => AttributeChange::Set(path, (*value).clone()),
            None => AttributeChange::Remove(path),
        });
        changes.push(AttributeChange::Set(revision_path, revision.clone()));
    }
    let condition = WriteCondition::All(vec![WriteCondition::ItemExists, WriteCondition::Any(stale)]);
    Write { key: key.clone(), condition, action: WriteAction::Update(changes) }
}
