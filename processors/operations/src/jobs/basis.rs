//! The basis of a job: the model, the tables and the arguments that it was planned for.
//!
//! Cursors and units have a meaning only for these: a job that was planned for one model would read half of the tables of another, and report
//! that it is done. So a job continues on nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use afterwrite_ledger::tables::TableScan;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result, hex};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::DeploymentContext;

/// How much of a hash is kept, in bytes.
const DIGEST_LENGTH: usize = 16;

/// The basis of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobBasis {
    /// The model.
    pub model: BasisModel,
    /// The source tables, in the order of the model.
    pub tables: Vec<BasisTable>,
    /// The state table.
    pub state_table: BasisTable,
    /// The table that the job writes in its place, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<BasisTable>,
    /// The settings of the environment that the job works with, by variable; secret ones as a hash.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// A hash of the job's arguments.
    pub arguments: String,
}

/// A model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BasisModel {
    /// Its name.
    pub name: String,
    /// Its generation.
    pub generation: u64,
    /// A hash of all its parts, including the parts that count nothing.
    pub fingerprint: String,
}

/// A deployed table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BasisTable {
    /// Its name in the account.
    pub name: String,
    /// The id that DynamoDB gave it; a table that is created again has another. `None` if the service has no ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl fmt::Display for BasisModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, generation {}, fingerprint {}", self.name, self.generation, self.fingerprint)
    }
}

impl BasisModel {
    /// The identity of a model.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if its description cannot be written.
    pub fn of(model: &Model) -> Result<Self> {
        let described = serde_json::to_string(&model.describe()).map_err(|error| {
            Error::new(ErrorKind::State, "the model cannot be described").caused_by(error)
        })?;
        let fingerprint = digest(&[model.fingerprint().as_bytes(), described.as_bytes()]);
        Ok(Self { name: model.name.to_string(), generation: model.generation, fingerprint })
    }
}

impl BasisTable {
    /// The identity of a deployed table.
    ///
    /// # Errors
    /// As [`TableScan::describe`].
    pub async fn of(tables: &impl TableScan, name: &str) -> Result<Self> {
        Ok(Self { name: name.to_owned(), id: tables.describe(name).await?.id })
    }

    /// Whether it may be the same table.
    fn is(&self, other: &Self) -> bool {
        let is_recreated = self.id.as_ref().zip(other.id.as_ref()).is_some_and(|(one, other)| one != other);
        self.name == other.name && !is_recreated
    }
}

impl JobBasis {
    /// The basis of a job with these arguments in a deployment. `target` is the table that it writes in the place of the state table.
    ///
    /// # Errors
    /// As [`TableScan::describe`].
    pub async fn of<T: TableScan, C>(
        DeploymentContext { model, table_names, state_table, tables, .. }: &DeploymentContext<T, C>,
        target: Option<&str>,
        arguments: &Value,
    ) -> Result<Self> {
        let mut sources = Vec::with_capacity(table_names.len());
        for name in table_names {
            sources.push(BasisTable::of(tables, name).await?);
        }
        let target = match target {
            Some(name) => Some(BasisTable::of(tables, name).await?),
            None => None,
        };
        Ok(Self {
            model: BasisModel::of(model)?,
            tables: sources,
            state_table: BasisTable::of(tables, state_table).await?,
            target,
            settings: BTreeMap::new(),
            arguments: text_digest(&arguments.to_string()),
        })
    }

    /// The same basis with these settings of the environment.
    #[must_use]
    pub fn with_settings(self, settings: BTreeMap<String, String>) -> Self {
        Self { settings, ..self }
    }

    /// The first difference from what a process would run the job on: its words, the planned value and the present one.
    pub(super) fn difference(&self, now: &Self) -> Option<(&'static str, String, String)> {
        if self.model != now.model {
            return Some(("another model", self.model.to_string(), now.model.to_string()));
        }
        if self.tables.len() != now.tables.len() {
            let names = |basis: &Self| {
                let names: Vec<&str> = basis.tables.iter().map(|table| table.name.as_str()).collect();
                names.join(", ")
            };
            return Some(("other tables", names(self), names(now)));
        }
        let targets = self.target.iter().zip(&now.target);
        let tables = self.tables.iter().zip(&now.tables).map(|pair| ("another table", pair));
        let state = [("another state table", (&self.state_table, &now.state_table))];
        let mut pairs = tables.chain(state).chain(targets.map(|pair| ("another table of --into", pair)));
        if let Some((words, (planned, present))) = pairs.find(|(_, (planned, present))| !planned.is(present))
        {
            let described = |table: &BasisTable| match &table.id {
                Some(id) => format!("{}, id {id}", table.name),
                None => table.name.clone(),
            };
            return Some((words, described(planned), described(present)));
        }
        if self.settings != now.settings {
            return Some((
                "other settings",
                changed(&self.settings, &now.settings),
                changed(&now.settings, &self.settings),
            ));
        }
        let is_same = self.arguments == now.arguments && self.target.is_some() == now.target.is_some();
        (!is_same).then(|| ("other arguments", self.arguments.clone(), now.arguments.clone()))
    }
}

/// The settings that are not the same in others: `NAME=value`.
fn changed(settings: &BTreeMap<String, String>, others: &BTreeMap<String, String>) -> String {
    let names: BTreeSet<&String> = settings.keys().chain(others.keys()).collect();
    let changed = names.into_iter().filter(|name| settings.get(*name) != others.get(*name));
    let texts: Vec<String> =
        changed.map(|name| format!("{name}={}", settings.get(name).map_or("", String::as_str))).collect();
    texts.join(", ")
}

/// A hash of a text, in hexadecimal digits.
#[must_use]
pub fn text_digest(text: &str) -> String {
    digest(&[text.as_bytes()])
}

fn digest(texts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        // Lengths keep apart what would be the same text when joined.
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    hex(&hash.finalize(), DIGEST_LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basis() -> JobBasis {
        let table = |name: &str, id: &str| BasisTable { name: name.to_owned(), id: Some(id.to_owned()) };
        JobBasis {
            model: BasisModel { name: "shop".to_owned(), generation: 1, fingerprint: "a".to_owned() },
            tables: vec![table("Shop", "1")],
            state_table: table("state", "2"),
            target: Some(table("fresh", "3")),
            settings: BTreeMap::from([("STREAM".to_owned(), "a".to_owned())]),
            arguments: "b".to_owned(),
        }
    }

    #[test]
    fn every_part_of_a_basis_counts() {
        let planned = basis();
        assert_eq!(planned.difference(&basis()), None);
        type BasisChange = fn(&mut JobBasis);
        let changes: [(&str, BasisChange); 11] = [
            ("another model", |now| now.model.generation = 2),
            ("another model", |now| now.model.fingerprint.push('x')),
            ("other tables", |now| now.tables.push(BasisTable::default())),
            ("another table", |now| now.tables[0].name.push('x')),
            ("another table", |now| now.tables[0].id = Some("9".to_owned())),
            ("another state table", |now| now.state_table.id = Some("9".to_owned())),
            ("another table of --into", |now| now.target.as_mut().unwrap().name.push('x')),
            ("other settings", |now| now.settings.clear()),
            ("other settings", |now| now.settings.entry("STREAM".to_owned()).or_default().push('x')),
            ("other arguments", |now| now.target = None),
            ("other arguments", |now| now.arguments.push('x')),
        ];
        for (words, change) in changes {
            let mut now = basis();
            change(&mut now);
            assert_eq!(planned.difference(&now).map(|(words, ..)| words), Some(words));
        }
        let mut now = basis();
        now.settings = BTreeMap::from([("QUEUE".to_owned(), "q".to_owned())]);
        let (_, before, present) = planned.difference(&now).unwrap();
        assert_eq!((&*before, &*present), ("QUEUE=, STREAM=a", "QUEUE=q, STREAM="));
        let mut now = basis();
        now.tables[0].id = None;
        assert_eq!(planned.difference(&now), None, "a service without ids");
    }

    #[test]
    fn a_part_of_a_model_that_counts_nothing_is_a_part_of_its_identity() {
        let text =
            "name = \"t\"\ngeneration = 1\ntables.t.key = [\"pk\"]\n[entities.e]\nkey = { pk = \"E#{e}\" }\n";
        let caches = format!("{text}[[caches]]\nof = \"e\"\nkeys = [\"e:{{e}}\"]\n");
        let identity = |text: &str| BasisModel::of(&Model::parse(text, "t.toml").unwrap()).unwrap();
        assert_ne!(identity(text), identity(&caches));
        assert_eq!(identity(text), identity(&format!("# A comment.\n{text}")));
    }
}
