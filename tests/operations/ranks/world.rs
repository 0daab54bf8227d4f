//! A game on an embedded DynamoDB: players' scores, which the deployed aggregator counts and ranks, and an oracle that sorts them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_demo::item::SdkItem;
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_local::sdk::{CREDENTIAL, REGION};
use afterwrite_mapping::{ShardPosition, StreamSource as _};
use afterwrite_model::table::Model;
use afterwrite_tests::deployment::event;
use afterwrite_tests::programs::{embedded_afterwrite, program};
use afterwrite_tests::runtime_api::{FunctionProcess, InvocationResult, RuntimeApi};
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;
use tempfile::TempDir;

pub(super) const STATE: &str = "state";
const SOURCE: &str = "Scores";
/// The shards of the groups of games.
const SHARDS: usize = 3;

/// The model of this generation. `ranks` are the lines of its two rollups.
pub(super) fn model(generation: u32, ranks: [&str; 2]) -> String {
    let [total, board] = ranks;
    format!(
        r##"
name = "game"
generation = {generation}
tables.{SOURCE}.key = ["pk", "sk"]

[entities.score]
key = {{ pk = "PLAYER#{{player}}", sk = "SCORE#{{score_id}}" }}
attributes = {{ game = "S", points = "N" }}

[rollups.total]
key = {{ PK = "PLAYER#{{player}}", SK = "GAME#{{game}}" }}
{total}

[rollups.board]
key = {{ PK = "GAME#{{game}}", SK = "PLAYER#{{player}}" }}
{board}

[[aggregates]]
name = "totals"
of = "score"
into = "total"
[aggregates.measures]
points = {{ sum = "points" }}
scores = "count"
mean = {{ avg = "points", over = "scores" }}

[[aggregates]]
name = "boards"
of = "score"
into = "board"
measures.points = {{ sum = "points" }}
"##
    )
}

/// The ranks of the tests: groups with shards and without, of a sum and of an average; one index is shared by two rollups.
pub(super) const RANKS: [&str; 2] = [
    "rank.points = { within = \"GAME#{game}\", shards = 3 }\nrank.mean = { within = \"GAME#{game}\" }",
    "rank.points = {}",
];

/// A change of a score.
pub(super) type Score = (&'static str, u32);

/// One entry of an order: the value, `PK` and `SK`.
pub(super) type RankedItem = (String, String, String);

pub(super) struct GameWorld {
    dynamodb: EmbeddedDynamoDb,
    folder: TempDir,
    /// The scores that exist, by player and number: game and points.
    scores: BTreeMap<(u32, u32), Score>,
    /// Every player of a game that was ever counted.
    counted: BTreeSet<(u32, &'static str)>,
    delivered: usize,
}

fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

impl GameWorld {
    pub(super) async fn start() -> Self {
        let dynamodb = EmbeddedDynamoDb::start().await.unwrap();
        let source = TableDefinition {
            name: SOURCE.to_owned(),
            key: KeyDefinition::new("pk", "sk"),
            stream: true,
            ..TableDefinition::default()
        };
        dynamodb.create_table(&source).await.unwrap();
        dynamodb.create_table(&TableDefinition::state(STATE)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        Self { dynamodb, folder, scores: BTreeMap::new(), counted: BTreeSet::new(), delivered: 0 }
    }

    /// Deploys a model, with the indexes that it needs.
    pub(super) async fn deploy(&self, text: &str) {
        fs::write(self.folder.path().join("model.toml"), text).unwrap();
        let model = Model::parse(text, "model.toml").unwrap_or_else(|errors| panic!("{errors}"));
        self.dynamodb.ensure_table(&TableDefinition::state(STATE).ranked(&model)).await.unwrap();
    }

    /// Creates an empty state table with the indexes of the deployed model.
    pub(super) async fn create_state_table(&self, name: &str) {
        let text = fs::read_to_string(self.folder.path().join("model.toml")).unwrap();
        let model = Arc::new(Model::parse(&text, "model.toml").unwrap_or_else(|errors| panic!("{errors}")));
        self.dynamodb.create_table(&TableDefinition::state(name).ranked(&model)).await.unwrap();
    }

    /// The application writes a score; `None` deletes it.
    pub(super) async fn write(&mut self, (player, number): (u32, u32), score: Option<Score>) {
        let client = self.dynamodb.client();
        let (pk, sk) = (text(format!("PLAYER#p{player}")), text(format!("SCORE#{number}")));
        match score {
            Some((game, points)) => {
                let put = client.put_item().table_name(SOURCE).item("pk", pk).item("sk", sk);
                let put = put.item("game", text(game)).item("points", AttributeValue::N(points.to_string()));
                put.send().await.unwrap();
                self.scores.insert((player, number), (game, points));
                self.counted.insert((player, game));
            }
            None => {
                let delete = client.delete_item().table_name(SOURCE).key("pk", pk).key("sk", sk);
                delete.send().await.unwrap();
                self.scores.remove(&(player, number));
            }
        }
    }

    /// The records of the stream, as Lambda delivers them, under the label that DescribeTable names.
    async fn records(&self) -> Vec<Value> {
        let stream = self.dynamodb.stream(SOURCE).await.unwrap();
        let table = self.dynamodb.client().describe_table().table_name(SOURCE).send().await.unwrap();
        let label = table.table.unwrap().latest_stream_label.unwrap();
        let arn = format!("arn:aws:dynamodb:{REGION}:000000000000:table/{SOURCE}/stream/{label}");
        let mut records = Vec::new();
        for shard in stream.describe(None).await.unwrap().shards {
            let mut next = Some(stream.iterator(&shard.id, &ShardPosition::TrimHorizon).await.unwrap());
            while let Some(iterator) = next {
                let page = stream.read(&iterator).await.unwrap();
                next = page.next.filter(|_| !page.records.is_empty());
                for record in page.records {
                    let mut record: serde_json::Map<String, Value> =
                        serde_json::from_str(&record.json).unwrap();
                    record.insert("eventSourceARN".to_owned(), arn.as_str().into());
                    records.push(record.into());
                }
            }
        }
        records
    }

    /// The deployed function counts the records that it has not seen.
    pub(super) async fn deliver(&mut self) {
        let records = self.records().await;
        let api = RuntimeApi::start().await.unwrap();
        let model = self.folder.path().join("model.toml");
        let endpoint = self.dynamodb.endpoint();
        let settings = [
            ("AFTERWRITE_MODEL", model.to_str().unwrap()),
            ("AFTERWRITE_STATE_TABLE", STATE),
            ("AWS_ENDPOINT_URL_DYNAMODB", &*endpoint),
            ("AWS_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", CREDENTIAL),
            ("AWS_SECRET_ACCESS_KEY", CREDENTIAL),
        ];
        let function = FunctionProcess::start(&program("aggregator"), &api, &settings).unwrap();
        for batch in records.get(self.delivered..).unwrap().chunks(40) {
            let result = api.invoke(event(batch), Duration::from_secs(30)).await;
            let InvocationResult::Response(response) = result else { panic!("{result:?}") };
            assert_eq!(&*response, b"{\"batchItemFailures\":[]}");
        }
        self.delivered = records.len();
        let _output = function.stop();
    }

    /// Writes all records of the stream into a file, for a replay.
    pub(super) async fn record(&self, name: &str) {
        let lines: String = self.records().await.iter().map(|record| format!("{record}\n")).collect();
        fs::write(self.folder.path().join(name), lines).unwrap();
    }

    /// Runs a command, which must end with this code; returns its standard output.
    pub(super) fn run(&self, code: i32, arguments: &[&str]) -> String {
        let output = tokio::task::block_in_place(|| self.output(arguments));
        let [out, errors] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{out}\n{errors}");
        out
    }

    fn output(&self, arguments: &[&str]) -> Output {
        let mut command = embedded_afterwrite(&self.dynamodb.endpoint(), STATE);
        command.args(arguments).current_dir(self.folder.path()).env("AFTERWRITE_MODEL", "model.toml");
        command.output().unwrap()
    }

    /// The rollups of a state table.
    pub(super) async fn rollups(&self, table: &str) -> Vec<SdkItem> {
        let pages = self.dynamodb.client().scan().table_name(table).into_paginator().items().send();
        let items: Vec<SdkItem> = pages.collect::<Result<_, _>>().await.unwrap();
        items.into_iter().filter(|item| item.get("EntityType") == Some(&text("ROLLUP"))).collect()
    }

    /// Another program sets an attribute of a rollup, or removes it.
    pub(super) async fn overwrite(&self, rollup: &SdkItem, attribute: &str, value: Option<&str>) {
        let update = self.dynamodb.client().update_item().table_name(STATE);
        let update = update.key("PK", rollup["PK"].clone()).key("SK", rollup["SK"].clone());
        let update = update.expression_attribute_names("#a", attribute);
        let update = match value {
            Some(value) => {
                update.update_expression("SET #a = :v").expression_attribute_values(":v", text(value))
            }
            None => update.update_expression("REMOVE #a"),
        };
        update.send().await.unwrap();
    }

    /// A group of an index in descending order, as a reader queries it: one query a shard, merged. Items with equal values are in the order of
    /// their keys, which DynamoDB does not promise.
    async fn group(
        &self,
        table: &str,
        (index, measure): (&str, &str),
        group: &str,
        shards: usize,
    ) -> Vec<RankedItem> {
        let mut merged = Vec::new();
        for shard in 0..shards {
            let name = if shards > 1 { format!("{group}#{shard}") } else { group.to_owned() };
            let query = self.dynamodb.client().query().table_name(table).index_name(index);
            let query = query.key_condition_expression("#g = :g").expression_attribute_names("#g", index);
            let query = query.expression_attribute_values(":g", text(name)).scan_index_forward(false);
            let items: Vec<SdkItem> = query.into_paginator().items().send().try_collect().await.unwrap();
            let values: Vec<f64> =
                items.iter().map(|item| item[measure].as_n().unwrap().parse().unwrap()).collect();
            assert!(values.is_sorted_by(|one, other| one >= other), "{values:?}");
            merged.extend(items.iter().map(|item| ranked(item, measure)));
        }
        sorted(merged)
    }

    async fn index_count(&self, table: &str, index: &str) -> usize {
        let pages = self.dynamodb.client().scan().table_name(table).index_name(index).into_paginator();
        pages.items().send().try_collect().await.unwrap().len()
    }

    /// The players of a game whose scores were counted and have all gone since. A score that was written and changed within one batch was never
    /// counted.
    async fn emptied(&self, table: &str) -> BTreeSet<(u32, &'static str)> {
        let zero = AttributeValue::N("0".to_owned());
        let emptied = self.rollups(table).await.into_iter().filter(|item| item.get("scores") == Some(&zero));
        let emptied = emptied.map(|item| {
            let (_, player, game) = ranked(&item, "scores");
            let is_item = |(known, of): &&(u32, &str)| {
                player == format!("PLAYER#p{known}") && game == format!("GAME#{of}")
            };
            *self.counted.iter().find(is_item).expect("a score that was written")
        });
        emptied.collect()
    }

    /// Compares every group of the two rollups with the oracle. A player whose scores have gone stays with 0.
    pub(super) async fn check(&self, table: &str, groups: GroupNames) {
        let mut totals: BTreeMap<(u32, &str), (u32, u32)> = BTreeMap::new();
        totals.extend(self.emptied(table).await.into_iter().map(|key| (key, (0, 0))));
        for ((player, _), (game, points)) in &self.scores {
            let total = totals.entry((*player, game)).or_default();
            *total = (total.0 + points, total.1 + 1);
        }
        let all: BTreeSet<String> = totals.keys().map(|(_, game)| groups.total(game)).collect();
        for name in &all {
            let of_group = || totals.iter().filter(|((_, game), _)| groups.total(game) == *name);
            let item = |player: &u32, game: &str, value: String| {
                (value, format!("PLAYER#p{player}"), format!("GAME#{game}"))
            };
            let points =
                of_group().map(|((player, game), (points, _))| item(player, game, points.to_string()));
            let found = self.group(table, ("rank_points", "points"), name, SHARDS).await;
            assert_eq!(found, sorted(points.collect()), "{name}");
            let means = of_group()
                .filter(|(_, (_, count))| *count > 0)
                .map(|((player, game), total)| item(player, game, mean(*total)));
            let found = self.group(table, ("rank_mean", "mean"), name, 1).await;
            assert_eq!(found, sorted(means.collect()), "{name}");
        }
        let games: BTreeSet<&str> = totals.keys().map(|(_, game)| *game).collect();
        for game in games {
            let board = totals.iter().filter(|((_, other), _)| *other == game);
            let board = board.map(|((player, _), (points, _))| {
                (points.to_string(), format!("GAME#{game}"), format!("PLAYER#p{player}"))
            });
            let found = self.group(table, ("rank_points", "points"), &format!("board#GAME#{game}"), 1).await;
            assert_eq!(found, sorted(board.collect()), "{game}");
        }
        assert_eq!(
            self.index_count(table, "rank_points").await,
            2 * totals.len(),
            "nothing is in another group"
        );
        let averaged = totals.values().filter(|(_, count)| *count > 0).count();
        assert_eq!(self.index_count(table, "rank_mean").await, averaged);
    }

    pub(super) async fn stop(self) {
        self.dynamodb.stop().await.unwrap();
    }
}

/// The groups of the rollup `total`.
#[derive(Clone, Copy)]
pub(super) enum GroupNames {
    /// One for each game.
    ByGame,
    /// One for all games.
    All,
}

impl GroupNames {
    fn total(self, game: &str) -> String {
        match self {
            Self::ByGame => format!("total#GAME#{game}"),
            Self::All => "total#ALL".to_owned(),
        }
    }
}

/// An average as a rollup has it, of numbers whose averages have at most 6 decimals.
fn mean((points, count): (u32, u32)) -> String {
    let millionths = (u64::from(points) * 2_000_000 / u64::from(count)).div_ceil(2);
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The number of an item with its key.
pub(super) fn ranked(item: &SdkItem, measure: &str) -> RankedItem {
    let key = |name: &str| item[name].as_s().unwrap().clone();
    (item[measure].as_n().unwrap().clone(), key("PK"), key("SK"))
}

/// In descending order of the values, then by their keys.
fn sorted(mut items: Vec<RankedItem>) -> Vec<RankedItem> {
    let value = |item: &RankedItem| item.0.parse::<f64>().unwrap();
    items.sort_by(|one, other| {
        value(other).total_cmp(&value(one)).then_with(|| (&one.1, &one.2).cmp(&(&other.1, &other.2)))
    });
    items
}
