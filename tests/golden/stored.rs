//! One project whose item has shown a count since before there was Afterwrite.

use std::sync::Arc;

use afterwrite::commit::Ledger;
use afterwrite::record::{AttributeValue, Decimal, Item, Timestamp};
use afterwrite::sink::memory::{IndexDefinition, MemoryTables, TableDefinition};
use afterwrite::table::Model;
use afterwrite_functions::Aggregator;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::replay::STATE;
use serde_json::{Value, json};

const TABLE: &str = "ExamBuddyTable";
const NOW: i64 = 1_770_400_000;

/// A project, after all its questions have been counted.
pub(crate) struct Project(Aggregator<MemoryTables, StillClock>);

impl Project {
    /// The item is there with a count of `stored`; then `questions` are written, in one batch.
    pub(crate) async fn with_questions(questions: u32, stored: i64) -> Self {
        let model = Arc::new(Model::load(Model::DEFAULT_NAME).expect("the default model"));
        let tables = MemoryTables::new();
        tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
        let index = IndexDefinition::new("GSI1", "GSI1PK").sort("GSI1SK");
        tables.create_table(TableDefinition::new(TABLE, "PK").sort("SK").index(index));
        let mut project = item("ADMIN#a1", "PROJECT#p1", "PROJECT#p1");
        project.insert("question_count".into(), Decimal::from(stored).into());
        tables.put(TABLE, project).expect("a project");
        let clock = StillClock::at(Timestamp::from_epoch_seconds(NOW));
        let ledger = Ledger::new(model, vec![Arc::from(TABLE)], Arc::from(STATE), tables, clock);
        let aggregator = Aggregator::new(ledger);
        let records: Vec<Value> = (0..questions).map(question).collect();
        let event = json!({ "Records": records }).to_string();
        let handled = aggregator.handle(event.as_bytes(), Timestamp::from_epoch_ms(i64::MAX)).await;
        assert!(handled.expect("an event").failures.is_empty());
        Self(aggregator)
    }

    /// What the item shows, and whether the rollup's revision stands beside it.
    pub(crate) fn shown(&self) -> (i64, bool) {
        let items = self.0.ledger().tables().scan(TABLE);
        let number = |name: &str| items.first()?.get(name)?.as_number()?.to_i64();
        (number("question_count").expect("a count"), number("question_count_rev").is_some())
    }
}

fn item(partition: &str, sort: &str, index: &str) -> Item {
    let names = ["PK", "SK", "GSI1PK", "GSI1SK"];
    let values = [partition, sort, index, index];
    names.into_iter().zip(values).map(|(name, value)| (name.into(), AttributeValue::text(value))).collect()
}

fn question(number: u32) -> Value {
    let keys = json!({ "PK": { "S": "PROJECT#p1" }, "SK": { "S": format!("QUESTION#q{number}") } });
    json!({
        "eventName": "INSERT",
        "eventSourceARN": format!("arn:aws:dynamodb:eu-west-1:1:table/{TABLE}/stream/2026-02-06T10:00:00.000"),
        "dynamodb": {
            "ApproximateCreationDateTime": NOW - 60,
            "Keys": keys,
            "NewImage": keys,
            "SequenceNumber": format!("{:021}", number + 1),
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    })
}
