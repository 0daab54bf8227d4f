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
    // The lease of a killed process stays, whatever operators do with the job after that.
    let ends = [
        ("", "running", true, 0),
        (EXPIRING, "paused", false, 0),
        (EXPIRING, "running", true, 1),
        (EXPIRING, "paused", true, 1),
        (EXPIRING, "failed", false, 1),
    ];
    for (expiring, status, is_killed, code) in ends {
        std::fs::write(shop.path("model.toml"), [&model, expiring].concat()).unwrap();
        let id = shop.paused_in(shop.folder.path(), &backfill);
        end_as(&shop, &id, status, is_killed).await;
        if status == "failed" {
            let refused = shop.text(2, &["jobs", "pause", &id]);
            assert!(refused.contains("a step of it has failed"), "{refused}");
        }
        let text = shop.text(code, &["jobs", "resume", &id]);
        assert_eq!(text.contains("an earlier process of this job ended"), code == 1, "{text}");
    }
    shop.server.stop().await.unwrap();
}

/// Leaves a job as a process that was killed, or whose step failed, leaves it.
async fn end_as(shop: &Shop, id: &str, status: &str, is_killed: bool) {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let update = shop.update_job(id).condition_expression("attribute_exists(PK)");
    let update = update.expression_attribute_names("#s", "status");
    let update = update.expression_attribute_values(":s", text(status));
    let update = if is_killed {
        let update = update.update_expression("SET #s = :s, lease_owner = :o, lease_until = :u");
        let update = update.expression_attribute_values(":o", text("a killed process"));
        update.expression_attribute_values(":u", AttributeValue::N("1000".to_owned()))
    } else {
        update.update_expression("SET #s = :s")
    };
    update.send().await.unwrap();
}
