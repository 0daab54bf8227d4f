//! A6: a job that this version cannot read is listed, and the others as usual.

use afterwrite_ledger::tables::Tables as _;
use afterwrite_memory::{MemoryTables, item_key};
use afterwrite_model::effect::{AttributeChange, Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributePath, AttributeValue, Decimal};
use afterwrite_operations::jobs::ListedJob;
use aws_sdk_dynamodb::types::AttributeValue as Sdk;

use super::deployment::Shop;
use super::store::{NOW, new_job, store, tables};

async fn change(tables: &MemoryTables, id: &str, attribute: &str, value: AttributeValue<'static>) {
    let key = item_key(super::store::STATE, &format!("AFTERWRITE#JOB#{id}"), "-");
    let action = WriteAction::Update(vec![AttributeChange::Set(AttributePath::from(attribute), value)]);
    tables.write(&Write { key, condition: WriteCondition::Always, action }).await.unwrap();
}

#[tokio::test]
async fn a6_a_job_that_cannot_be_read_does_not_hide_the_others() {
    for (attribute, value) in [
        ("version", AttributeValue::N(Decimal::from(3))),
        ("kind", AttributeValue::text("polish")),
        ("status", AttributeValue::text("waiting")),
        ("work", AttributeValue::text("{}")),
        ("plan", AttributeValue::text("not JSON")),
        ("created_at", AttributeValue::text("yesterday")),
    ] {
        let (tables, clock) = (tables(), NOW);
        let store = store(&tables, clock);
        let first = store.create(new_job(1)).await.unwrap().id;
        let second = super::store::store(&tables, clock.plus(std::time::Duration::from_secs(5)));
        let second = second.create(new_job(1)).await.unwrap().id;
        change(&tables, &second, attribute, value).await;
        let listed = store.list().await.unwrap();
        let [ListedJob::Unreadable { id, error }, ListedJob::Readable(job)] = &listed[..] else {
            panic!("{attribute}: {listed:?}");
        };
        assert_eq!((id, &job.id), (&second, &first));
        assert!(error.to_string().contains("version"), "{error}");
        let error = store.load(&second).await.unwrap_err().to_string();
        assert!(error.contains(&second), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a6_jobs_list_names_a_job_of_a_later_version() {
    let shop = Shop::with_orders(3).await;
    for _ in 0..2 {
        shop.text(0, &["backfill", "--yes", "--without-recovery"]);
    }
    let jobs = shop.json(0, &["jobs", "list", "--json"]);
    let id = jobs[0]["id"].as_str().unwrap().to_owned();
    let change = shop.update_job(&id).update_expression("SET version = :later");
    change.expression_attribute_values(":later", Sdk::N("9".to_owned())).send().await.unwrap();
    let listed = shop.json(0, &["jobs", "list", "--json"]);
    assert_eq!((&listed[0]["id"], &listed[0]["status"]), (&id.as_str().into(), &"unreadable".into()));
    assert_eq!(listed[1]["status"], "done");
    let table = shop.text(0, &["jobs", "list"]);
    assert!(table.contains("unreadable") && table.contains("later version"), "{table}");
    assert!(shop.text(3, &["jobs", "show", &id]).contains("later version"));
    shop.server.stop().await.unwrap();
}
