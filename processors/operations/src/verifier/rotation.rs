//! The samples that runs judge one after the other: each begins where the last one ended, so that every key is judged once in each round.
//!
//! ```text
//! round   ├─ run 1 ─┼─ run 2 ─┼─ run 3 ─┼─ … ─┼─ run 1/share ─┤ next round
//! ```
//!
//! The bucket of the reports keeps how far they are. Without a bucket, the process does: a new process begins with a random sample. A run
//! that fails moves nothing: the next one judges its sample. Of a table that is too large for one run, the next run judges the same sample
//! in the segments that were not read.

use std::sync::{Mutex, MutexGuard, PoisonError};

use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket;
use futures::TryStreamExt as _;
use serde::{Deserialize, Serialize};

use super::timed::TimedResult;
use crate::jobs::{JobBasis, WorkUnit, count, text_digest};
use crate::verify::{FindingPlace, KeySample, VerifyReport};

/// The object that has the rotation.
const ROTATION: &str = "reports/rotation.json";
const PLACES: u64 = 1 << 32;
/// The phases whose segments the next run goes on with.
const SEGMENTED: std::ops::RangeInclusive<u32> = 3..=4;

/// Which shares of a table were judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JudgedShares {
    /// Of the items.
    pub items: f64,
    /// Of the rollups.
    pub rollups: f64,
    /// Of the items and rows of datasets.
    pub dataset_rows: f64,
}

impl JudgedShares {
    fn combined(self, other: Self, combine: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            items: combine(self.items, other.items),
            rollups: combine(self.rollups, other.rollups),
            dataset_rows: combine(self.dataset_rows, other.dataset_rows),
        }
    }

    /// The shares of its sample that a run has judged: of the part that it has read itself, without undecided targets. The segments of items
    /// that earlier runs have read are a part of `items_before`.
    fn of(result: &TimedResult, items_before: f64) -> Self {
        let TimedResult { report, share, .. } = result;
        let summary = &report.summary;
        let decided = |looked: u64, is_place: &dyn Fn(FindingPlace) -> bool| {
            let undecided = undecided(report, is_place);
            let number = crate::jobs::approximate;
            if looked == 0 { 1.0 } else { number(looked.saturating_sub(undecided)) / number(looked) }
        };
        let is_rollup = |place: FindingPlace| place == FindingPlace::Rollup;
        let is_row = |place: FindingPlace| place == FindingPlace::Dataset;
        Self {
            items: (share.items - items_before).max(0.0) * decided(summary.items, &FindingPlace::is_of_item),
            rollups: share.rollups * decided(summary.rollups, &is_rollup),
            dataset_rows: share.dataset_items.min(share.dataset_rows)
                * decided(summary.dataset_keys, &is_row),
        }
    }
}

fn undecided(report: &VerifyReport, is_place: impl Fn(FindingPlace) -> bool) -> u64 {
    let findings = report.findings.iter();
    let undecided = findings.filter(|finding| !finding.is_drift() && is_place(finding.place()));
    count(undecided.count())
}

/// How much was judged, since when.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundReport {
    /// When the first run of the round began.
    pub since: String,
    /// When the last run of the round ended; `None` if the round goes on.
    pub until: Option<String>,
    /// Its runs.
    pub runs: u64,
    /// The shares of the tables that they judged.
    #[serde(flatten)]
    pub judged: JudgedShares,
}

/// The rotation in the report of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RotationReport {
    /// The round that goes on, with this run.
    pub round: Option<RoundReport>,
    /// The round before it, in which everything was judged once.
    pub last_round: Option<RoundReport>,
}

/// A round of samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SampleRound {
    since_ms: i64,
    until_ms: Option<i64>,
    runs: u64,
    /// The places of finished samples, of 2^32.
    places: u64,
    /// Of the finished samples.
    judged: JudgedShares,
}

impl SampleRound {
    /// The report of a round, with what was judged of a sample that is not finished.
    fn report(&self, unfinished: JudgedShares) -> RoundReport {
        let time = |ms: i64| Timestamp::from_epoch_ms(ms).to_string();
        RoundReport {
            since: time(self.since_ms),
            until: self.until_ms.map(time),
            runs: self.runs,
            judged: self.judged.combined(unfinished, |round, sample| rounded(round + sample)),
        }
    }
}

/// A share with as many digits as matter.
fn rounded(share: f64) -> f64 {
    (share.min(1.0) * 1e6).round() / 1e6
}

/// A sample of which segments were not read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct UnfinishedSample {
    share: f64,
    segments: u32,
    /// The units that were read, by their place among the units of these phases: first and last of each row.
    read: Vec<(usize, usize)>,
    judged: JudgedShares,
    /// The share of the segments of items that were read.
    items_read: f64,
}

/// The samples that the runs of a verifier judge one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleRotation {
    /// A hash of the model, the tables and the state table. Another one begins a new round.
    subject: String,
    /// Where the next sample begins.
    seed: u32,
    #[serde(default)]
    unfinished: Option<UnfinishedSample>,
    #[serde(default)]
    round: Option<SampleRound>,
    #[serde(default)]
    last_round: Option<SampleRound>,
}

impl SampleRotation {
    /// The rotation of a deployment before the first run, which judges a random sample.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if the basis cannot be written.
    pub fn new(basis: &JobBasis, clock: &impl Clock) -> Result<Self> {
        let subject = serde_json::to_string(basis).map_err(|error| {
            Error::new(ErrorKind::State, "the tables of a verification cannot be described").caused_by(error)
        })?;
        let subject = text_digest(&subject);
        // A share of 1 has no seed.
        let seed = KeySample::random(0.5, clock).seed;
        Ok(Self { subject, seed, unfinished: None, round: None, last_round: None })
    }

    /// The sample of the next run, of this share.
    #[must_use]
    pub fn sample(&self, share: f64) -> KeySample {
        KeySample { share, seed: self.seed }
    }

    /// The segments of the next run: the segments of the unfinished run, else `segments`.
    #[must_use]
    pub fn segments(&self, share: f64, segments: u32) -> u32 {
        self.unfinished_of(share).map_or(segments, |unfinished| unfinished.segments)
    }

    fn unfinished_of(&self, share: f64) -> Option<&UnfinishedSample> {
        self.unfinished.as_ref().filter(|unfinished| (unfinished.share - share).abs() < f64::EPSILON)
    }

    /// Marks the units that an earlier run has read of the same sample.
    pub fn mark_read(&self, share: f64, units: &mut [WorkUnit]) {
        let Some(unfinished) = self.unfinished_of(share) else { return };
        let segmented = units.iter_mut().filter(|unit| SEGMENTED.contains(&unit.phase));
        for (place, unit) in segmented.enumerate() {
            unit.is_done = unfinished.read.iter().any(|(first, last)| (*first..=*last).contains(&place));
        }
    }

    /// Notes a run of this sample.
    pub fn note(
        &mut self,
        (sample, segments): (KeySample, u32),
        units: &[WorkUnit],
        result: &TimedResult,
        (begun, ended): (Timestamp, Timestamp),
    ) {
        let before = self.unfinished_of(sample.share);
        let (before, items_before) =
            before.map(|before| (before.judged, before.items_read)).unwrap_or_default();
        // Each segment of items is read by one run; everything else is read again by each.
        let now = JudgedShares::of(result, items_before);
        let judged = JudgedShares { items: before.items + now.items, ..now.combined(before, f64::max) };
        let new = SampleRound {
            since_ms: begun.epoch_ms(),
            until_ms: None,
            runs: 0,
            places: 0,
            judged: JudgedShares::default(),
        };
        let mut round = self.round.take().unwrap_or(new);
        round.runs += 1;
        let is_read = |unit: &&WorkUnit| result.done.contains(&unit.name);
        let segmented: Vec<&WorkUnit> = units.iter().filter(|unit| SEGMENTED.contains(&unit.phase)).collect();
        if segmented.iter().all(is_read) {
            let places = sample.places().min(PLACES - round.places);
            let weight = KeySample::share_of(places);
            round.places += places;
            round.judged = round.judged.combined(judged, |round, sample| sample.mul_add(weight, round));
            (self.seed, self.unfinished) = (sample.next().seed, None);
        } else {
            let read = rows(segmented.iter().map(is_read));
            self.unfinished = Some(UnfinishedSample {
                share: sample.share,
                segments,
                read,
                judged,
                items_read: result.share.items,
            });
        }
        if round.places >= PLACES {
            round.until_ms = Some(ended.epoch_ms());
            self.last_round = Some(round);
        } else {
            self.round = Some(round);
        }
    }

    /// How much was judged, since when.
    #[must_use]
    pub fn report(&self) -> RotationReport {
        let unfinished = self.unfinished.as_ref().map_or_else(JudgedShares::default, |unfinished| {
            unfinished.judged.combined(JudgedShares::default(), |judged, _| judged * unfinished.share)
        });
        RotationReport {
            round: self.round.as_ref().map(|round| round.report(unfinished)),
            last_round: self.last_round.as_ref().map(|round| round.report(JudgedShares::default())),
        }
    }
}

/// The rows of `true`: the first and the last place of each.
fn rows(values: impl Iterator<Item = bool>) -> Vec<(usize, usize)> {
    let mut rows: Vec<(usize, usize)> = Vec::new();
    for (place, _) in values.enumerate().filter(|(_, value)| *value) {
        match rows.last_mut() {
            Some((_, last)) if *last + 1 == place => *last = place,
            Some(_) | None => rows.push((place, place)),
        }
    }
    rows
}

/// Keeps the rotation between runs: in the bucket of the reports, or, without one, as long as the process lives.
#[derive(Debug)]
pub struct RotationStore<B> {
    bucket: Option<B>,
    memory: Mutex<Option<SampleRotation>>,
}

impl<B: Bucket> RotationStore<B> {
    /// A store in this bucket, if there is one.
    pub fn new(bucket: Option<B>) -> Self {
        Self { bucket, memory: Mutex::default() }
    }

    /// Reads the rotation; `first` if there is none of the same model and tables.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub async fn load(&self, first: SampleRotation) -> Result<SampleRotation> {
        let stored: Option<SampleRotation> = match &self.bucket {
            Some(bucket) => read(bucket).await?,
            None => self.lock().clone(),
        };
        Ok(match stored {
            Some(stored) if stored.subject == first.subject => stored,
            // Go on where the last run ended: the first runs of a new model judge no sample twice.
            Some(stored) => SampleRotation { seed: stored.seed, ..first },
            None => first,
        })
    }

    /// Stores the rotation.
    ///
    /// # Errors
    /// As [`Bucket::put`](afterwrite_services::ObjectStore::put).
    pub async fn save(&self, rotation: &SampleRotation) -> Result<()> {
        *self.lock() = Some(rotation.clone());
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let json = serde_json::to_vec(rotation).map_err(|error| {
            Error::new(ErrorKind::State, "the rotation of samples cannot be stored").caused_by(error)
        })?;
        bucket.put(ROTATION, json).await
    }

    fn lock(&self) -> MutexGuard<'_, Option<SampleRotation>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rotation in a bucket. A rotation that only another version can read begins again.
async fn read(bucket: &impl Bucket) -> Result<Option<SampleRotation>> {
    let object = bucket.get(ROTATION).await.map_err(|error| {
        Error::new(error.kind(), "the object that names the next sample cannot be read")
            .with("object", ROTATION)
            .hint("The role of the function needs s3:GetObject for it: apply the module, or the template, of this version")
            .caused_by(error)
    })?;
    let Some(chunks) = object else { return Ok(None) };
    let bytes = chunks.try_collect::<Vec<_>>().await?.concat();
    Ok(serde_json::from_slice(&bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verifier::timed::VerifiedShare;
    use crate::verify::{FindingSubject, FindingVerdict, FoundItem, VerifyFinding, VerifySummary};

    #[test]
    fn the_rows_of_units_are_short() {
        assert_eq!(rows([true, true, false, true].into_iter()), [(0, 1), (3, 3)]);
        assert_eq!(rows([false].into_iter()), []);
    }

    #[test]
    fn b1_undecided_items_of_the_first_run_are_not_judged_by_the_second() {
        let basis = JobBasis::default();
        let clock = afterwrite_model::clock::SystemClock;
        let mut rotation = SampleRotation::new(&basis, &clock).unwrap();
        let unit = |segment: u32| WorkUnit { name: segment.to_string(), phase: 3, ..WorkUnit::default() };
        let units: Vec<WorkUnit> = (0..8).map(unit).collect();
        let run = |segments: std::ops::Range<u32>, items: f64, undecided: usize| {
            let item = FoundItem { table: String::new(), partition: String::new(), sort: None };
            let mut finding = VerifyFinding::of(FindingSubject::Entry(item, None));
            finding.verdict = FindingVerdict::Undecided(None);
            let summary = VerifySummary { items: 100, ..VerifySummary::default() };
            let report = VerifyReport { summary, findings: vec![finding; undecided] };
            let share = VerifiedShare { items, rollups: 1.0, ..VerifiedShare::default() };
            TimedResult { report, share, done: segments.map(|segment| segment.to_string()).collect() }
        };
        let time = Timestamp::from_epoch_seconds(0);
        let sample = rotation.sample(1.0);
        rotation.note((sample, 8), &units, &run(0..4, 0.5, 32), (time, time));
        assert_eq!(rotation.report().round.unwrap().judged.items, 0.34);
        rotation.note((sample, 8), &units, &run(0..8, 1.0, 0), (time, time));
        let last = rotation.report().last_round.unwrap();
        assert_eq!((last.judged.items, last.judged.rollups, last.runs), (0.84, 1.0, 2));
    }
}
