//! A job whose process was killed: its totals lack contributions to expired sources that the last steps dropped.

use afterwrite_local::dynamodb::TableDefinition;
use aws_sdk_dynamodb::types::AttributeValue;

use super::deployment::{STATE, Shop};

/// A rollup that is a source and expires in 2070.
const EXPIRING: &str = r##"
[rollups.century]
key = { PK = "CENTURY#{shop}", SK = "ALL" }
expires = { after = "36500 days", of = "shop" }
[rollups.all]
key = { PK = "ALL", SK = "ALL" }
[[aggregates]]
name = "centuries"
of = "order"
into = "century"
measures.orders = "count"
[[aggregates]]
name = "all"
of = "century"
into = "all"
measures.centuries = "count"
"##;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_job_that_was_killed_does_not_end_as_if_nothing_was_dropped() {
    let shop = Shop::with_orders(1_000).await;
    let client = shop.server.client();
    client.delete_table().table_name(STATE).send().await.unwrap();
    let state = TableDefinition { stream: true, ..TableDefinition::state(STATE) };
    shop.server.create_table(&state).await.unwrap();
    let model = std::fs::read_to_string(shop.path("model.toml")).unwrap();
    let times = "attributes = { price = \"N\" }\ntimes = { shop = \"seconds\" }";
    let model = model.replace("attributes = { price = \"N\" }", times);
    let backfill = ["backfill", "--all", "--yes", "--without-recovery", "--rate=100", "--workers=1"];
    for (expiring, status, code) in [("", "running", 0), (EXPIRING, "paused", 0), (EXPIRING, "running", 1)] {
        std::fs::write(shop.path("model.toml"), [&model, expiring].concat()).unwrap();
        let id = shop.paused_in(shop.folder.path(), &backfill);
        // A process that is killed leaves its job as it was.
        let update = client.update_item().table_name(STATE);
        let update = update.key("PK", AttributeValue::S(format!("AFTERWRITE#JOB#{id}")));
        let update = update.key("SK", AttributeValue::S("-".to_owned()));
        let update = update.update_expression("SET #s = :s").condition_expression("attribute_exists(PK)");
        let update = update.expression_attribute_names("#s", "status");
        let update = update.expression_attribute_values(":s", AttributeValue::S(status.to_owned()));
        update.send().await.unwrap();
        let text = shop.text(code, &["jobs", "resume", &id]);
        assert_eq!(text.contains("an earlier process of this job ended"), code == 1, "{text}");
    }
    shop.server.stop().await.unwrap();
}
