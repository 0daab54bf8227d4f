//! Tables: keys, streams, indexes, time to live, recovery; and the caller's permissions.

use std::collections::BTreeSet;

use afterwrite_ledger::state::{BEHIND, EXPIRES_AT, PARTITION_KEY, SORT_KEY};
use afterwrite_model::table::{Lookup, Model, RankIndex, SecondaryIndex, Table, index_key_text};
use afterwrite_operations::redrive::PARKED_INDEX;

use super::facts::{DeploymentFacts, IndexFacts, Looked, TableFacts};
use super::{HealthFinding, on_part};

/// The view type that the functions need.
const VIEW_TYPE: &str = "NEW_AND_OLD_IMAGES";

pub(super) fn judge_tables(model: &Model, facts: &DeploymentFacts) -> Vec<HealthFinding> {
    let mut findings = Vec::new();
    for (index, table) in model.application_tables() {
        let Some((name, looked)) = facts.tables.get(index) else { continue };
        let advice = "Create it, or name the deployed table in AFTERWRITE_TABLES";
        on_part(&mut findings, "source table", name, looked, advice, |found, findings| {
            judge_source(model, (index, table), name, found, findings);
        });
    }
    let (name, looked) = &facts.state_table;
    let advice = "Create it with the text keys PK and SK, or name it in AFTERWRITE_STATE_TABLE";
    on_part(&mut findings, "state table", name, looked, advice, |found, findings| {
        judge_state(model, name, found, findings);
        findings.extend(model.rank_indexes().iter().map(|index| judge_rank(name, index, found)));
    });
    for call in &facts.dry_calls {
        findings.push(if call.is_allowed {
            HealthFinding::new("permission", &call.subject, true, format!("you may {}", call.permission), "")
        } else {
            let why = format!("you lack {}, which operations such as verify need", call.permission);
            HealthFinding::unchecked("permission", &call.subject, why)
        });
    }
    findings
}

fn judge_source(
    model: &Model,
    (index, table): (usize, &Table),
    name: &str,
    found: &TableFacts,
    findings: &mut Vec<HealthFinding>,
) {
    let wanted: Vec<(String, String)> =
        table.key().map(|key| (key.name.to_string(), key.key_type.name().to_owned())).collect();
    findings.push(HealthFinding::new(
        "key",
        name,
        found.key == wanted,
        key_text(&found.key),
        format!(
            "The model has {}: correct the model, or name another table in AFTERWRITE_TABLES",
            key_text(&wanted)
        ),
    ));
    findings.push(judge_view(name, found, ""));
    findings.extend(table.indexes.iter().map(|index| judge_index(name, index, found)));
    let own = model.entities.iter().filter(|entity| entity.table == index);
    let expiring: BTreeSet<&str> =
        own.filter_map(|entity| Some(&**model.attributes.name(entity.ttl.as_ref()?.root))).collect();
    for attribute in expiring {
        let advice = format!(
            "Enable time to live on {attribute}, or correct `ttl` in the model: a removed item whose {attribute} has passed counts as expired, also if the application removed it"
        );
        judge_time_to_live(name, attribute, &advice, found, findings);
    }
    let lookups = model.lookups.iter();
    for lookup in lookups.filter(|lookup| model.entities.get(lookup.of).is_some_and(|of| of.table == index)) {
        // An item that is read by its primary key needs no index.
        if let Some(index) = lookup.index() {
            findings.push(judge_lookup(name, (lookup, index), found));
        }
    }
}

/// Time to live is enabled on this attribute.
fn judge_time_to_live(
    table: &str,
    wanted: &str,
    advice: &str,
    found: &TableFacts,
    findings: &mut Vec<HealthFinding>,
) {
    let kind = "time to live";
    match &found.ttl {
        Some(looked) => on_part(findings, kind, table, looked, advice, |attribute, findings| {
            findings.push(HealthFinding::new(kind, table, attribute == wanted, attribute.as_str(), advice));
        }),
        None => findings.push(HealthFinding::new(kind, table, false, "disabled", advice)),
    }
}

/// The stream has the view type that the functions need. `reason` begins the advice.
fn judge_view(table: &str, found: &TableFacts, reason: &str) -> HealthFinding {
    let view = found.stream_view.as_deref();
    let advice = format!(
        "{reason}Enable a stream with the view type {VIEW_TYPE}; a stream's type cannot be changed, so disable another one first"
    );
    let found = view.unwrap_or("no stream");
    HealthFinding::new("stream view type", table, view == Some(VIEW_TYPE), found, advice)
}

/// The state table has a stream only if the model's rollups are sources.
fn judge_state_stream(model: &Model, name: &str, found: &TableFacts) -> HealthFinding {
    if model.state_source().is_some() {
        let reason = "Rollups of the model are sources. The Terraform module and the SAM template create the stream and its mappings; `afterwrite backfill` counts what was missed until then. ";
        return judge_view(name, found, reason);
    }
    HealthFinding::new(
        "no stream",
        name,
        found.stream_view.is_none(),
        found.stream_view.as_deref().unwrap_or("no stream"),
        "Disable the stream of the state table, unless something else reads it: nothing of Afterwrite does",
    )
}

/// An index that the model declares exists, with its key and all attributes.
fn judge_index(table: &str, wanted: &SecondaryIndex, found: &TableFacts) -> HealthFinding {
    let subject = format!("{table}/{}", wanted.name);
    let key = wanted.key_text();
    let advice = format!(
        "Create the index {} on {key}, with all attributes: the model declares that the application needs it",
        wanted.name
    );
    let Some(index) = found.indexes.iter().find(|known| *known.name == *wanted.name) else {
        return HealthFinding::new("index", &subject, false, "does not exist", advice);
    };
    let found = index.keys.iter().zip(&index.types).map(|(name, key_type)| format!("{name} ({key_type})"));
    let found = parted(index, found.collect());
    let is_right = found == key && index.copies.is_none();
    let found = format!("on {found}, copies {}", copies(index));
    HealthFinding::new("index", &subject, is_right, found, advice)
}

/// The index of a lookup exists, with its key and the attributes that the lookup gives.
fn judge_lookup(table: &str, (lookup, index): (&Lookup, &str), found: &TableFacts) -> HealthFinding {
    let wanted: Vec<&str> = lookup.key.iter().map(|(name, _)| &**name).collect();
    let subject = format!("{table}/{index}");
    let advice = format!(
        "Lookup {} needs the index {index} on {}, with all attributes",
        lookup.name,
        wanted.join(", ")
    );
    let Some(index) = found.indexes.iter().find(|known| *known.name == *index) else {
        return HealthFinding::new("lookup index", &subject, false, "does not exist", advice);
    };
    // A query states the whole partition key, and the sort key from the left.
    let has_keys = wanted.iter().zip(&index.keys).all(|(wanted, key)| wanted == key)
        && (index.in_partition..=index.keys.len()).contains(&wanted.len());
    let found = format!("on {}, copies {}", parted(index, index.keys.clone()), copies(index));
    HealthFinding::new("lookup index", &subject, has_keys && index.copies.is_none(), found, advice)
}

/// The index of a rank exists, with its key and all attributes.
fn judge_rank(table: &str, wanted: &RankIndex, found: &TableFacts) -> HealthFinding {
    let RankIndex { attribute, measure } = wanted;
    let subject = format!("{table}/{attribute}");
    let key = [(attribute.to_string(), "S".to_owned()), (measure.to_string(), "N".to_owned())];
    let advice = format!(
        "Create the index {attribute} on {}, with all attributes: the model ranks {measure}, and readers query it. The Terraform module and the SAM template create it. Rollups that were written before the model ranked them get into it by `afterwrite backfill`",
        key_text(&key)
    );
    let Some(index) = found.indexes.iter().find(|known| *known.name == **attribute) else {
        return HealthFinding::new("rank index", &subject, false, "does not exist", advice);
    };
    let keys: Vec<(String, String)> = index.keys.iter().cloned().zip(index.types.iter().cloned()).collect();
    let found = format!("on {}, copies {}", key_text(&keys), copies(index));
    let is_right = keys == key && index.in_partition == 1 && index.copies.is_none();
    HealthFinding::new("rank index", &subject, is_right, found, advice)
}

/// The texts of an index's key attributes, with brackets around several of one key.
fn parted(index: &IndexFacts, mut attributes: Vec<String>) -> String {
    let sort = attributes.split_off(index.in_partition.min(attributes.len()));
    index_key_text([attributes, sort])
}

fn copies(index: &IndexFacts) -> String {
    match index.copies.as_deref() {
        None => "all attributes".to_owned(),
        Some([]) => "keys only".to_owned(),
        Some(some) => some.join(", "),
    }
}

fn judge_state(model: &Model, name: &str, found: &TableFacts, findings: &mut Vec<HealthFinding>) {
    let wanted = [PARTITION_KEY, SORT_KEY].map(|name| (name.to_owned(), "S".to_owned()));
    findings.push(HealthFinding::new(
        "key",
        name,
        found.key == wanted,
        key_text(&found.key),
        "The state table's keys are the texts PK and SK: create another table",
    ));
    findings.push(judge_state_stream(model, name, found));
    let advice = format!(
        "Enable time to live on {EXPIRES_AT}: tombstones, markers and rollups that expire are never removed otherwise"
    );
    judge_time_to_live(name, EXPIRES_AT, &advice, found, findings);
    findings.push(match found.is_recoverable {
        None => HealthFinding::unchecked(
            "recovery",
            name,
            "the permission dynamodb:DescribeContinuousBackups is missing",
        ),
        Some(is_enabled) => HealthFinding::new(
            "recovery",
            name,
            is_enabled,
            if is_enabled { "point-in-time recovery" } else { "none" },
            "Enable point-in-time recovery: a wrong repair cannot be undone otherwise",
        ),
    });
    let is_listed = found.indexes.iter().any(|index| index.name == PARKED_INDEX && index.keys == [BEHIND]);
    findings.push(HealthFinding::new(
        "parked index",
        name,
        is_listed,
        if is_listed { "exists" } else { "does not exist" },
        "Create the sparse index `parked` on behind (S): `redrive --parked` reads it",
    ));
}

fn key_text(key: &[(String, String)]) -> String {
    key.iter().map(|(name, kind)| format!("{name} ({kind})")).collect::<Vec<_>>().join(", ")
}

/// Whether a table is part of a global table.
pub(super) fn is_global(table: &Looked<TableFacts>) -> bool {
    table.found().is_some_and(|table| table.replicas > 0)
}
