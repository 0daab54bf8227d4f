//! A project whose item has a count from before Afterwrite was deployed.

use afterwrite_functions::StreamAggregator;
use afterwrite_memory::MemoryTables;
use afterwrite_model::record::{Decimal, Timestamp};
use afterwrite_tests::clock::StillClock;

use super::platform::{TABLE, aggregator, created, item, tables};

/// A project, after all its questions have been counted.
pub(crate) struct MirroringProject(StreamAggregator<MemoryTables, StillClock>);

impl MirroringProject {
    /// The item exists with the count `stored`; then `questions` are written in one batch.
    pub(crate) async fn with_questions(questions: u32, stored: i64) -> Self {
        let tables = tables();
        let mut project = item("ADMIN#a1", "PROJECT#p1", "PROJECT#p1");
        project.insert("question_count".into(), Decimal::from(stored).into());
        tables.put(TABLE, project).expect("a project");
        let aggregator = aggregator(tables);
        let questions: Vec<String> = (0..questions).map(|number| format!("QUESTION#q{number}")).collect();
        let event = created(questions.iter().map(|question| ("PROJECT#p1", &**question)));
        let handled = aggregator.handle(event.as_bytes(), Timestamp::from_epoch_ms(i64::MAX)).await;
        assert!(handled.expect("an event").failures.is_empty());
        Self(aggregator)
    }

    /// The count of the item, and whether it has the rollup's revision.
    pub(crate) fn shown(&self) -> (i64, bool) {
        let items = self.0.ledger().tables().scan(TABLE);
        let number = |name: &str| items.first()?.get(name)?.as_number()?.to_i64();
        (number("question_count").expect("a count"), number("question_count_rev").is_some())
    }
}
