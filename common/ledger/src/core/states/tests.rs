//! Every transition of an item is in the table at the head of `states.rs`, and the table has no other transition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use afterwrite_model::ErrorKind;
use afterwrite_model::entity::{ItemCandidates, SourceKey};
use afterwrite_model::projection::RollupTargets;
use afterwrite_model::record::{BadRecord, ChangeRecord, Position, decode};

use super::super::decide::{ItemRecord, ItemRecords, SourceItem};
use super::super::{DroppedAggregates, LedgerCore, LedgerItem, PoisonPolicy, StepContext, TombstoneHistory};
use super::*;
use crate::policy::{CLOCK_TOLERANCE, PeerGroup, TOMBSTONE_LIFETIME};
use crate::state::StateKeys;
use crate::state::entry::LedgerEntry;
use crate::state::parked::ParkedPosition;
use crate::tally::CommitTally;

/// Attempts count for the owner of their project. Attempts that TTL deletes stay counted.
const MODEL: &str = r##"
    name = "exams"
    generation = 1
    [tables.t]
    key = ["PK", "SK"]
    [entities.project]
    key = { PK = "ADMIN#{admin_id}", SK = "PROJECT#{project_id}" }
    [entities.attempt]
    key = { PK = "CANDIDATE#{candidate_id}", SK = "ATTEMPT#{attempt_id}" }
    attributes = { project_id = "S" }
    on_expiry = "keep"
    [lookups.owner]
    of = "project"
    index = "GSI1"
    key = { GSI1PK = "PROJECT#{project_id}" }
    gives = ["admin_id"]
    [rollups.admin]
    key = { PK = "ADMIN#{admin_id}", SK = "ROLLUP" }
    [[aggregates]]
    name = "attempts"
    of = "attempt"
    lookup = "owner"
    into = "admin"
    measures.attempts = "count"
"##;

/// The time of the first step, in epoch seconds. Each further step is ten minutes later.
const NOW: i64 = 1_700_000_000;
const STEP_SECONDS: i64 = 600;
/// The creation time of a record that is too old to be applied from the third step on.
const AGING: i64 = NOW + STEP_SECONDS * 3 / 2 - TOMBSTONE_LIFETIME.as_secs().cast_signed()
    + CLOCK_TOLERANCE.as_secs().cast_signed();
/// A time before which no tombstone is stored any more.
const LONG_AGO: i64 = NOW - 60 * 24 * 60 * 60;
/// So many steps reach every transition.
const MOST_STEPS: usize = 5;

/// The state of an item, the input, and the next states.
type Transitions = BTreeMap<(String, String), BTreeSet<String>>;

fn attempt(attributes: &[(&'static str, &'static str)]) -> Item {
    let key = [("PK", "CANDIDATE#c1"), ("SK", "ATTEMPT#t1")];
    let attributes = key.iter().chain(attributes);
    attributes.map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

/// The JSON of a record of the attempt.
fn record_json(number: u32, operation: &str, created: i64, image: &str, more: &str) -> String {
    let key = r#""PK":{"S":"CANDIDATE#c1"},"SK":{"S":"ATTEMPT#t1"}"#;
    format!(
        r#"{{"eventID":"e{number}","eventName":"{operation}",{more}
        "eventSourceARN":"arn:aws:dynamodb:eu-central-1:123456789012:table/t/stream/2023-11-01T00:00:00.000",
        "dynamodb":{{"ApproximateCreationDateTime":{created},"Keys":{{{key}}},"SequenceNumber":"{number}",
        "StreamViewType":"NEW_AND_OLD_IMAGES",{image}}}}}"#
    )
}

/// The records that items of the test have, one each.
fn event() -> String {
    let image = |name: &str, attributes: &str| {
        format!(r#""{name}":{{"PK":{{"S":"CANDIDATE#c1"}},"SK":{{"S":"ATTEMPT#t1"}}{attributes}}}"#)
    };
    let project = r#","project_id":{"S":"p1"}"#;
    let expired = r#""userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},"#;
    let records = [
        record_json(100, "INSERT", NOW, &image("NewImage", project), ""),
        record_json(100, "INSERT", LONG_AGO, &image("NewImage", project), ""),
        record_json(100, "INSERT", NOW, &image("NewImage", ""), ""),
        record_json(100, "INSERT", AGING, &image("NewImage", project), ""),
        record_json(100, "INSERT", AGING, &image("NewImage", ""), ""),
        record_json(100, "INSERT", LONG_AGO, &image("NewImage", ""), ""),
        record_json(100, "REMOVE", NOW, &image("OldImage", project), expired),
        record_json(100, "REMOVE", NOW, &image("OldImage", ""), expired),
    ];
    format!(r#"{{"Records":[{}]}}"#, records.join(","))
}

/// Everything that the steps of the test's items depend on.
struct StepWorld {
    core: LedgerCore,
    tally: CommitTally,
    owners: LookupResults,
    no_owners: LookupResults,
    position: Position<'static>,
}

impl StepWorld {
    fn new(position: Position<'static>, poison: PoisonPolicy) -> Self {
        let model = Arc::new(Model::parse(MODEL, "exams.toml").unwrap_or_else(|errors| panic!("{errors}")));
        let mut owners = LookupResults::default();
        owners.note_found(LookupKey { lookup: 0, key: "p1".into() }, Arc::from(["a1".into()]));
        let core = LedgerCore {
            model,
            table_names: vec![Arc::from("t")],
            keys: StateKeys::new(Arc::from("state")),
            poison,
            names_keys: false,
            history: TombstoneHistory::Expiring,
            dropped: DroppedAggregates::Keep,
        };
        let (tally, no_owners) = (CommitTally::default(), LookupResults::default());
        Self { core, tally, owners, no_owners, position }
    }

    fn context(&self, step: i64) -> StepContext<'_> {
        let now = Timestamp::from_epoch_ms((NOW + step * STEP_SECONDS) * 1000);
        StepContext { core: &self.core, now, service_now: now, tally: &self.tally }
    }

    fn targets(&self) -> RollupTargets {
        RollupTargets::of(&self.core.model)
    }

    fn key(&self) -> ItemKey {
        self.core.keys.item("LEDGER#t#CANDIDATE#c1", "ATTEMPT#t1")
    }

    fn image(&self, attributes: &[(&'static str, &'static str)]) -> Option<Image<'static>> {
        Some(Image::from_item(&attempt(attributes), &self.core.model.attributes))
    }

    /// The entries that a read or a refused write may find.
    fn entry(&self, number: usize) -> Option<Option<Item>> {
        let start = || Position::start_of(self.position.label().to_owned());
        let entry = |position| LedgerEntry { rev: 1, generation: 1, ..LedgerEntry::before(position) };
        let behind = || {
            Some(ParkedPosition { position: self.position.clone(), reason: ErrorKind::Record.name().into() })
        };
        let at = Timestamp::from_epoch_ms((NOW + 3600) * 1000);
        let entry = match number {
            0 => return Some(None),
            1 => entry(start()),
            2 => entry(self.position.clone()),
            3 => LedgerEntry { behind: behind(), ..entry(start()) },
            4 => LedgerEntry { behind: behind(), as_of: Some(at), ..entry(self.position.clone()) },
            5 => LedgerEntry { generation: 2, ..entry(start()) },
            6 => {
                let mut item = entry(start()).encode(&self.targets());
                item.insert("position".into(), "unreadable".into());
                return Some(Some(item));
            }
            _ => return None,
        };
        Some(Some(entry.encode(&self.targets())))
    }

    /// The input with this number; `None` if no input has it.
    fn input<'r>(&self, number: usize) -> Option<ItemInput<'r, '_>> {
        let at = Timestamp::from_epoch_ms(NOW * 1000);
        Some(match number {
            0..10 => {
                ItemInput::EntryRead { key: self.key(), entry: self.entry(number)?, markers: Vec::new() }
            }
            10 => ItemInput::ItemRead { image: self.image(&[("project_id", "p1")]), at },
            11 => ItemInput::ItemRead { image: self.image(&[]), at },
            12 => ItemInput::ItemRead { image: None, at },
            20 => ItemInput::LookupsResolved(&self.owners),
            21 => ItemInput::LookupsResolved(&self.no_owners),
            30 => ItemInput::Written,
            31 => ItemInput::Rejected(Error::new(ErrorKind::Rejected, "never")),
            32 => ItemInput::Rejected(Error::new(ErrorKind::State, "not now")),
            33 => ItemInput::ResponseLost,
            34 => ItemInput::GivenUp(Error::new(ErrorKind::Conflict, "late")),
            35 => ItemInput::Refused { entry: None, markers: Vec::new() },
            40..50 => ItemInput::Refused { entry: Some(self.entry(number - 40)?), markers: Vec::new() },
            _ => return None,
        })
    }
}

/// An item that the test takes through its states.
struct WalkedItem<'r> {
    source: &'r SourceKey<'r>,
    candidates: &'r ItemCandidates<'r, 'r>,
    record: Option<Result<&'r ChangeRecord<'r>, &'r BadRecord<'r>>>,
    start: WalkStart,
}

#[derive(Clone, Copy, Debug)]
enum WalkStart {
    Delivered,
    /// Its transaction was rejected before.
    Separated,
    Requested,
    Exported,
}

impl<'r> WalkedItem<'r> {
    fn begin(&self, world: &StepWorld) -> LedgerItem<'r> {
        let record = self.record.map(|record| ItemRecord { index: 0, uncountable: None, record });
        let records: ItemRecords<'r> = record.into_iter().collect();
        let item = SourceItem { source: self.source, candidates: self.candidates, records };
        match self.start {
            WalkStart::Delivered => LedgerItem::new(item),
            WalkStart::Separated => {
                let mut item = LedgerItem::new(item);
                item.peers.group = PeerGroup::numbered(1);
                item
            }
            WalkStart::Requested => LedgerItem::reconciling(item, "label"),
            WalkStart::Exported => {
                let image = world.image(&[("project_id", "p1")]).unwrap_or_default();
                let at = Timestamp::from_epoch_ms(NOW * 1000);
                LedgerItem::exported(item, "label", ExportedImage { image, at })
            }
        }
    }

    /// The item after these inputs.
    fn after(&self, world: &StepWorld, path: &[usize]) -> LedgerItem<'r> {
        let (mut item, mut targets) = (self.begin(world), world.targets());
        for (input, step) in path.iter().filter_map(|number| world.input(*number)).zip(0..) {
            item.step(input, world.context(step), &mut targets);
        }
        item
    }

    /// Adds all transitions after these inputs.
    fn walk(&self, world: &StepWorld, path: &mut Vec<usize>, transitions: &mut Transitions) {
        let before = self.after(world, path);
        for number in 0..50 {
            let Some(input) = world.input(number) else { continue };
            let transition = (state_name(&before.state), input_name(&input));
            path.push(number);
            let after = self.after(world, path);
            transitions.entry(transition).or_default().insert(state_name(&after.state));
            if !after.state.is_finished() && path.len() < MOST_STEPS {
                self.walk(world, path, transitions);
            }
            path.pop();
        }
    }
}

fn state_name(state: &ItemState<'_>) -> String {
    let name = match state {
        ItemState::Unread(_) => "Unread",
        ItemState::NeedsItem(_) => "NeedsItem",
        ItemState::AwaitingLookup(_) => "AwaitingLookup",
        ItemState::Planned(_) => "Planned",
        ItemState::Committed(_) => "Committed",
        ItemState::Failed(_) => "Failed",
    };
    name.to_owned()
}

fn input_name(input: &ItemInput<'_, '_>) -> String {
    let name = match input {
        ItemInput::EntryRead { .. } => "EntryRead",
        ItemInput::ItemRead { .. } => "ItemRead",
        ItemInput::LookupsResolved(_) => "LookupsResolved",
        ItemInput::Written => "Written",
        ItemInput::Refused { .. } => "Refused",
        ItemInput::Rejected(_) => "Rejected",
        ItemInput::ResponseLost => "ResponseLost",
        ItemInput::GivenUp(_) => "GivenUp",
    };
    name.to_owned()
}

/// The transitions of the table at the head of `states.rs`.
fn documented() -> Transitions {
    let rows = include_str!("../states.rs").lines().filter(|line| line.starts_with("//! | `"));
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let row = |line: &str| {
        let cells: Vec<_> = line.split('|').map(names).collect();
        ((cells[1][0].clone(), cells[2][0].clone()), cells[3].iter().cloned().collect())
    };
    rows.map(row).collect()
}

#[test]
fn the_table_has_every_transition_of_an_item() {
    let event = event();
    let model = Model::parse(MODEL, "exams.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let batch = decode(event.as_bytes(), &model.attributes).unwrap();
    let records: Vec<_> = batch.records.iter().map(|record| record.as_ref().map_err(|bad| &**bad)).collect();
    let source = SourceKey { table: 0, partition: "CANDIDATE#c1".into(), sort: Some("ATTEMPT#t1".into()) };
    let candidates = source.candidates(&model);
    let position = records[0].unwrap().position.clone().into_owned();
    let mut transitions = Transitions::new();
    for poison in [PoisonPolicy::Park, PoisonPolicy::Fail] {
        let world = StepWorld::new(position.clone(), poison);
        let delivered = records.iter().map(|record| (Some(*record), WalkStart::Delivered));
        let separated = records.iter().map(|record| (Some(*record), WalkStart::Separated));
        let reconciled = [WalkStart::Requested, WalkStart::Exported].map(|start| (None, start));
        for (record, start) in delivered.chain(separated).chain(reconciled) {
            let item = WalkedItem { source: &source, candidates: &candidates, record, start };
            item.walk(&world, &mut Vec::new(), &mut transitions);
        }
    }
    transitions.retain(|_, next| next.iter().any(|name| name != "Failed"));
    assert_eq!(transitions, documented());
}
