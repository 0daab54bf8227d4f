//! `afterwrite cost`: the monthly cost of a deployment of a model, before it exists.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_demo::workload::Workload;
use afterwrite_demo::{records, workloads};
use afterwrite_deployment::cost::{
    CostEstimate, CostSettings, CostTrial, DeliverySettings, DeployedModule, DeploymentPart, EntityRate,
    EventTargetKind, PriceList, StreamReaders, UNMATCHED, entity_counts, estimate, lookup_indexes,
};
use afterwrite_input::{RecordInput, TimeRange};
use afterwrite_ledger::tables::{IndexProjection, TableIndex};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use clap::Args;

use crate::arguments::{ObservabilityArgument, pair, unknown};
use crate::feed::RecordFeed;
use crate::inputs::objects_of;
use crate::print::{align_right, json, new_table, print};

/// The seed of a sample that the demo makes.
const SAMPLE_SEED: u64 = 7;
/// A trial lasts this long if the demo's sample can be made large enough: 24 windows.
const TRIAL_SECONDS: f64 = 120.0;
/// The most records of a sample that the demo makes, about.
const MOST_RECORDS: usize = 60_000;

/// The arguments of `afterwrite cost`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite cost exambuddy --rate attempt=5/s --rate question=1/s\n  afterwrite cost shop --rate order=20/s --cloudfront --month 24\n  afterwrite cost my-model.toml --rate order=300/min --sample changes.jsonl\n  afterwrite cost my-model.toml --rate order=1/s --sample a.jsonl --events queue\n  afterwrite cost exambuddy --rate attempt=100/d --observability minimal\n  afterwrite cost glad --rate skill=1000/d --json | jq .dollars\n\nA trial passes a sample of change records, at these rates, through the functions' own code, on tables in memory that charge by DynamoDB's rules. For a built-in model, the demo makes the sample; for your own, name change records (`afterwrite record` writes them), or the fixtures of `afterwrite model test`. Every assumption is printed. AWS is not called.\n\nExit codes: 0 success, 2 wrong usage or a sample that does not fit the model, 3 the command could not finish."
)]
pub struct CostArguments {
    /// A built-in model's name or the path of a TOML file.
    model: String,
    /// The changes of an entity's items: ENTITY=NUMBER/s, /min, /h or /d. Can be repeated; entities without a rate do not change. The name `unmatched` is for items that match no entity.
    #[arg(help_heading = "Load", long, value_name = "ENTITY=RATE", required = true, value_parser = entity_rate)]
    rate: Vec<EntityRate>,
    /// Change records to learn sizes and keys from: files, folders, s3://BUCKET/PREFIX, or -. Default: the demo's records, for a built-in model.
    #[arg(help_heading = "Load", long, value_name = "INPUT")]
    sample: Vec<RecordInput>,
    /// The key attributes of an index of a source table. The indexes of lookups are known. Can be repeated.
    #[arg(help_heading = "Source tables", long, value_name = "TABLE=PK[,SK]", value_parser = index)]
    index: Vec<(String, TableIndex)>,
    /// The most records of a batch.
    #[arg(help_heading = "Deployment", long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    batch_size: u16,
    /// The seconds for which Lambda collects a batch.
    #[arg(help_heading = "Deployment", long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u16).range(0..=300))]
    window: u16,
    /// The shards of each stream: four for a new on-demand table, one more for each 1,000 writes a second beyond.
    #[arg(help_heading = "Source tables", long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    shards: u64,
    /// The month for which storage is priced; nothing is deleted before.
    #[arg(help_heading = "Load", long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=1200))]
    month: u16,
    /// Queries of the datasets a day.
    #[arg(help_heading = "Load", long, value_name = "N", default_value_t = 100)]
    queries: u32,
    /// There is no archive, and so no datasets.
    #[arg(help_heading = "Deployment", long)]
    without_archive: bool,
    /// Stale paths are invalidated in CloudFront.
    #[arg(help_heading = "Deployment", long)]
    cloudfront: bool,
    /// Stale keys are removed from a Redis, whose address is a secret. The Redis itself is not priced.
    #[arg(help_heading = "Deployment", long)]
    cache: bool,
    /// The kind of the targets of events, or of the target that rules name TO: bus, queue, fifo-queue, topic or fifo-topic. Can be repeated. Default: bus.
    #[arg(help_heading = "Deployment", long, value_name = "[TO=]KIND", value_parser = event_target)]
    events: Vec<EventTargetArgument>,
    /// One function hosts everything, as for a global table.
    #[arg(help_heading = "Deployment", long)]
    single_reader: bool,
    /// The metrics and alarms of the deployment.
    #[arg(help_heading = "Deployment", long, value_enum, default_value_t)]
    observability: ObservabilityArgument,
    /// Print the estimate as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The most changes of an entity in a second: far more than any table has.
const MAX_RATE: f64 = 1_000_000.0;
/// The writes that a shard of a stream takes in a second.
const SHARD_RATE: f64 = 1000.0;

/// `ENTITY=NUMBER/UNIT`.
fn entity_rate(written: &str) -> std::result::Result<EntityRate, String> {
    const FORM: &str = "write ENTITY=NUMBER/s, /min, /h or /d, such as order=20/s";
    let (entity, rate) = pair(written)?;
    let (number, unit) = rate.split_once('/').ok_or(FORM)?;
    let number: f64 = number.parse().map_err(|_| FORM)?;
    let seconds = match unit {
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(FORM.to_owned()),
    };
    let per_second = number / seconds;
    if per_second > MAX_RATE {
        return Err(format!("write a rate of at most {MAX_RATE} changes a second"));
    }
    (per_second > 0.0).then_some(EntityRate { entity, per_second }).ok_or_else(|| FORM.to_owned())
}

/// The kind of one target of events, or of all others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EventTargetArgument {
    to: Option<String>,
    kind: EventTargetKind,
}

/// `KIND` or `TO=KIND`.
fn event_target(written: &str) -> std::result::Result<EventTargetArgument, String> {
    let (to, word) =
        written.split_once('=').map_or((None, written), |(to, word)| (Some(to.to_owned()), word));
    let kind = EventTargetKind::ALL.into_iter().find(|kind| kind.word() == word).ok_or_else(|| {
        let words = EventTargetKind::ALL.map(EventTargetKind::word).join(", ");
        format!("write KIND or TO=KIND; KIND is one of {words}")
    })?;
    Ok(EventTargetArgument { to, kind })
}

/// `TABLE=PK,SK`.
fn index(written: &str) -> std::result::Result<(String, TableIndex), String> {
    let (table, keys) = pair(written)?;
    let keys: Vec<Arc<str>> = keys.split(',').map(Arc::from).collect();
    if keys.len() > 2 || keys.iter().any(|key| key.is_empty()) {
        return Err("write TABLE=PK or TABLE=PK,SK".to_owned());
    }
    Ok((table, TableIndex { keys, projection: IndexProjection::All }))
}

impl CostArguments {
    /// Prints the estimate.
    ///
    /// # Errors
    /// A model that does not load; a sample that cannot be read, or does not fit the model and the rates.
    pub async fn run(&self) -> Result<bool> {
        let model = Arc::new(Model::load(&self.model)?);
        for rate in &self.rate {
            // The changes of rollups follow from the changes of items.
            let sources = model.entities.iter().filter(|entity| entity.rollup.is_none());
            let names = sources.map(|entity| &*entity.name).chain([UNMATCHED]);
            if !names.clone().any(|name| name == rate.entity) {
                return Err(unknown("an entity that the model does not have", &rate.entity, names));
            }
        }
        self.check_shards(&model)?;
        self.check_indexes(&model)?;
        let workload = workloads::of(&self.model).ok();
        let records = match (workload, self.sample.is_empty()) {
            (_, false) => self.sample_records().await?,
            (Some(workload), true) => demo_records(workload, &self.rate, &model),
            (None, true) => {
                return Err(Error::new(
                    ErrorKind::Configuration,
                    "a model of your own needs a sample of changes",
                )
                .hint("Pass --sample FILE: change records, as `afterwrite record --stream` writes them"));
            }
        };
        let trial = CostTrial {
            indexes: self.indexes(&model, workload),
            model: Arc::clone(&model),
            records: &records,
            rates: &self.rate,
            delivery: self.delivery(),
            events: self.event_targets(&model)?,
        };
        let totals = Box::pin(trial.run()).await?;
        let estimate = estimate(&totals, &self.settings(&model), &PriceList::built_in()?);
        print(&if self.json { json(&estimate)? } else { estimate_text(&model.name, &estimate) })?;
        Ok(true)
    }

    /// The tables of --index are the model's.
    fn check_indexes(&self, model: &Model) -> Result<()> {
        for (table, _) in &self.index {
            let names = model.application_tables().map(|(_, table)| &*table.name);
            if !names.clone().any(|name| name == table) {
                return Err(unknown("a table that the model does not have", table, names));
            }
        }
        Ok(())
    }

    /// Each table's stream takes the changes.
    fn check_shards(&self, model: &Model) -> Result<()> {
        for (index, table) in model.application_tables() {
            let is_of_table = |rate: &&EntityRate| {
                model.entities.iter().any(|entity| entity.table == index && *entity.name == *rate.entity)
            };
            let changes: f64 = self.rate.iter().filter(is_of_table).map(|rate| rate.per_second).sum();
            let needed = (changes / SHARD_RATE).ceil();
            if u32::try_from(self.shards).is_ok_and(|shards| f64::from(shards) < needed) {
                let message = "a shard takes 1,000 changes a second: the stream of a table needs more shards";
                let error = Error::new(ErrorKind::Configuration, message).with("table", &*table.name);
                return Err(error.hint(format!("Write --shards {needed}, or more if the table has more")));
            }
        }
        Ok(())
    }

    /// The kind of each target that the model's event rules name.
    fn event_targets(&self, model: &Model) -> Result<BTreeMap<Option<Arc<str>>, EventTargetKind>> {
        let mut targets: BTreeMap<_, _> =
            model.event_targets().into_iter().map(|to| (to, EventTargetKind::default())).collect();
        if targets.is_empty() && !self.events.is_empty() {
            let message = "--events is for a model with event rules, and this model has none";
            return Err(Error::new(ErrorKind::Configuration, message).hint("Leave the argument out"));
        }
        for argument in self.events.iter().filter(|argument| argument.to.is_none()) {
            targets.values_mut().for_each(|kind| *kind = argument.kind);
        }
        for EventTargetArgument { to, kind } in &self.events {
            let Some(to) = to else { continue };
            match targets.get_mut(&Some(Arc::from(to.as_str()))) {
                Some(target) => *target = *kind,
                None => {
                    let names = targets.keys().flatten().map(|name| &**name);
                    return Err(unknown("a target that no event rule names", to, names));
                }
            }
        }
        Ok(targets)
    }

    fn delivery(&self) -> DeliverySettings {
        DeliverySettings {
            batch_size: usize::from(self.batch_size),
            window_seconds: f64::from(self.window),
            shards: self.shards,
        }
    }

    fn settings(&self, model: &Model) -> CostSettings {
        let parts = [
            (DeploymentPart::Archive, !self.without_archive),
            (DeploymentPart::Cache, self.cache),
            (DeploymentPart::Distribution, self.cloudfront),
        ];
        let parts = parts.into_iter().filter(|(_, is_deployed)| *is_deployed).map(|(part, _)| part);
        let readers = if self.single_reader { StreamReaders::Single } else { StreamReaders::Separate };
        CostSettings {
            module: DeployedModule::new(model, parts, readers).observed(self.observability.level()),
            queries_a_day: f64::from(self.queries),
            month: f64::from(self.month),
        }
    }

    async fn sample_records(&self) -> Result<Vec<String>> {
        let objects = objects_of(&self.sample, &TimeRange::default()).await?;
        let mut feed = RecordFeed::of_inputs(objects, TimeRange::default());
        let mut records = Vec::new();
        while let Some(next) = Box::pin(feed.next()).await? {
            records.push(next.map_err(|(name, rejected)| {
                Error::new(ErrorKind::Configuration, "the sample has a text that is not a change record")
                    .with("file", name)
                    .with("line", rejected.line.to_string())
                    .with("reason", rejected.reason.to_string())
            })?);
        }
        Ok(records)
    }

    /// The indexes of --index, of lookups, and of the demo's tables.
    fn indexes(&self, model: &Model, workload: Option<&Workload>) -> BTreeMap<String, Vec<TableIndex>> {
        let mut indexes = if workload.is_none() { lookup_indexes(model) } else { BTreeMap::new() };
        let mut add = |table: String, index: TableIndex| {
            let known = indexes.entry(table).or_default();
            if !known.contains(&index) {
                known.push(index);
            }
        };
        for table in workload.map(Workload::tables).unwrap_or_default() {
            for (_, key) in &table.indexes {
                let keys = key.attributes().map(|name| Arc::from(name.as_str())).collect();
                add(table.name.clone(), TableIndex { keys, projection: IndexProjection::All });
            }
        }
        for (table, index) in &self.index {
            add(table.clone(), index.clone());
        }
        indexes
    }
}

/// Records of the demo: enough for a trial of [`TRIAL_SECONDS`], or [`MOST_RECORDS`].
fn demo_records(workload: &Workload, rates: &[EntityRate], model: &Model) -> Vec<String> {
    let now = SystemClock.now().epoch_seconds();
    let mut size = workload.usual_size;
    loop {
        let sample = records::records(workload, SAMPLE_SEED, size, now);
        let seconds = trial_seconds(&sample, rates, model);
        if seconds >= TRIAL_SECONDS || sample.len() >= MOST_RECORDS {
            return sample;
        }
        size *= 2;
    }
}

/// How long the sample lasts at these rates.
fn trial_seconds(sample: &[String], rates: &[EntityRate], model: &Model) -> f64 {
    let counts = entity_counts(model, sample);
    let seconds = |rate: &EntityRate| counts.get(&*rate.entity).copied().unwrap_or(0.0) / rate.per_second;
    rates.iter().map(seconds).fold(f64::INFINITY, f64::min)
}

fn estimate_text(model: &str, estimate: &CostEstimate) -> String {
    let CostEstimate { region, prices_of, records, dollars, .. } = estimate;
    let mut table = new_table(&["part", "a month", "", "dollars"]);
    for line in &estimate.parts {
        table.add_row([&*line.part, &amount(line.quantity), line.unit, &format!("{:.2}", line.dollars)]);
    }
    table.add_row(["total", "", "", &format!("{dollars:.2}")]);
    align_right(&mut table, 1..2);
    align_right(&mut table, 3..4);
    let mut notes = new_table(&[]);
    for assumption in &estimate.assumptions {
        notes.add_row(["-", assumption]);
    }
    format!(
        "{model}: {} records a month, {:.2} write units and ${:.2} a million records ({region}, prices of {prices_of})\n\n{table}\n\nAssumptions\n{notes}\n",
        amount(*records),
        estimate.write_units_a_record,
        estimate.dollars_a_million_records
    )
}

/// A quantity with three significant digits or more.
fn amount(number: f64) -> String {
    if number >= 1e6 {
        format!("{:.2} M", number / 1e6)
    } else if number >= 100.0 {
        format!("{number:.0}")
    } else {
        format!("{number:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_for_a_unit_of_time() {
        let per_second = |written| entity_rate(written).map(|rate| rate.per_second);
        assert_eq!(per_second("order=20/s"), Ok(20.0));
        assert_eq!(per_second("order=30/min"), Ok(0.5));
        assert_eq!(per_second("order=36/h"), Ok(0.01));
        assert_eq!(per_second("order=86.4/d"), Ok(0.001));
        for wrong in
            ["order", "order=20", "order=x/s", "order=-1/s", "order=1/week", "order=inf/s", "order=NaN/s"]
        {
            assert!(per_second(wrong).is_err(), "{wrong}");
        }
        assert!(per_second("order=1000000/s").is_ok());
        assert!(per_second("order=1e9/s").is_err_and(|error| error.contains("1000000")));
    }
}
