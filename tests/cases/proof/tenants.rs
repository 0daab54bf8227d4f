//! B2. `--only` selects the items that count into the rollups of a tenant, by whatever names they give the keys' values.

use std::sync::Arc;

use afterwrite_memory::MemoryTables;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::record::{AttributeValue, Decimal, Item};
use afterwrite_model::table::Model;
use afterwrite_operations::TenantFilter;
use afterwrite_operations::backfill::BackfillArguments;
use afterwrite_operations::verify::{VerifyArguments, VerifyReport};

use super::world::{ProofWorld, STATE, TABLE};

const MODEL: &str = r##"
name = "tenants"
generation = 1
[tables.Shop]
key = ["pk"]
[entities.project]
key = { pk = "PROJECT#{project_id}" }
[entities.attempt]
key = { pk = "ATTEMPT#{attempt}" }
attributes = { project = "S", at = "S", owner = "S", tags = "L" }
derive.project_id = { part = ["project", "PROJECT#{project_id}"] }
[entities.visit]
key = { pk = "VISIT#{visit}" }
attributes = { owner = "S", project = "S" }
[entities.follow]
key = { pk = "FOLLOW#{follower}" }
[entities.owner]
key = { pk = "OWNER#{shop}" }
attributes = { name = "S" }
[entities.order]
key = { pk = "ORDER#{order}" }
attributes = { shop = "S" }
[lookups.of_shop]
of = "owner"
index = "byShop"
key = { gsi = "{shop}" }
gives = ["name"]
[rollups.project]
key = { PK = "PROJECT#{project_id}", SK = "ALL" }
[rollups.day]
key = { PK = "DAY#{at:day}", SK = "ALL" }
[rollups.user]
key = { PK = "USER#{username}", SK = "ALL" }
[rollups.tag]
key = { PK = "TAG#{tag}", SK = "ALL" }
[rollups.name]
key = { PK = "NAME#{name}", SK = "ALL" }
[rollups.pair]
key = { PK = "PAIR#{owner}#{project}", SK = "ALL" }
[[aggregates]]
name = "pairs"
of = "visit"
into = "pair"
measures.pairs = "count"
[[aggregates]]
name = "attempts"
of = "attempt"
into = ["project", "day"]
measures.attempts = "count"
[[aggregates]]
name = "tags"
of = "attempt"
for_each = { tag = "tags" }
at_most = 5
into = "tag"
measures.tagged = "count"
[[aggregates]]
name = "follows"
of = "follow"
into = "user"
bind = { username = "follower" }
measures.following = "count"
[[aggregates]]
name = "orders"
of = "order"
lookup = "of_shop"
into = "name"
measures.orders = "count"
"##;

fn put(world: &ProofWorld, key: &str, attributes: &[(&'static str, AttributeValue<'static>)]) {
    let mut item = Item::from([("pk".into(), AttributeValue::text(key.to_owned()))]);
    item.extend(attributes.iter().map(|(name, value)| ((*name).into(), value.clone())));
    world.tables.put(TABLE, item).unwrap();
}

/// An attempt of project 1 on a day, with a tag.
fn put_attempt(world: &ProofWorld, number: u32) {
    let text = AttributeValue::text;
    let attributes = [
        ("project", text("PROJECT#1")),
        ("at", text("2026-11-20T10:00:00Z")),
        ("owner", text("nobody")),
        ("tags", AttributeValue::L(vec![text("new")])),
    ];
    put(world, &format!("ATTEMPT#{number}"), &attributes);
}

fn key_of(world: &ProofWorld, key: &str) -> ItemKey {
    let key = Item::from([("pk".into(), AttributeValue::text(key.to_owned()))]);
    world.tables.key_of(TABLE, &key).unwrap()
}

fn only(variable: &str, value: &str) -> Option<TenantFilter> {
    Some(format!("{variable}={value}").parse().unwrap())
}

async fn verify(world: &ProofWorld, tenant: Option<TenantFilter>) -> VerifyReport {
    world.verify(VerifyArguments { only: tenant, ..VerifyArguments::default() }).await.unwrap()
}

fn world() -> ProofWorld {
    let model =
        Model::parse(MODEL, "tenants.toml").unwrap_or_else(|errors| panic!("{}", errors.into_error()));
    ProofWorld::new(0).with(Arc::new(model))
}

/// The number in a rollup.
fn number(world: &ProofWorld, partition: &str, measure: &str) -> Option<String> {
    let rows = MemoryTables::scan(&world.tables, STATE);
    let row = rows.iter().find(|row| row.get("PK") == Some(&AttributeValue::text(partition.to_owned())))?;
    Some(row.get(measure)?.as_number()?.to_string())
}

const TENANTS: [(&str, &str); 4] =
    [("project_id", "1"), ("at:day", "2026-11-20"), ("username", "u1"), ("tag", "new")];

#[tokio::test]
async fn b2_a_tenant_has_the_items_that_count_into_its_rollups_by_other_names() {
    let world = world();
    put(&world, "PROJECT#1", &[]);
    put_attempt(&world, 1);
    put(&world, "FOLLOW#u1", &[]);
    world.backfill(BackfillArguments::default()).await.unwrap();
    // Nothing counts these.
    put_attempt(&world, 2);
    put(&world, "FOLLOW#u2", &[]);
    for (variable, value) in TENANTS {
        let report = verify(&world, only(variable, value)).await;
        let expected = u64::from(variable != "username");
        assert_eq!(report.summary.drift, expected, "{variable}: {report:#?}");
    }
    assert_eq!(verify(&world, only("username", "u2")).await.summary.drift, 1);
    world
        .backfill(BackfillArguments { all: true, only: only("tag", "new"), ..BackfillArguments::default() })
        .await
        .unwrap();
    for (partition, measure) in
        [("PROJECT#1", "attempts"), ("DAY#2026-11-20", "attempts"), ("TAG#new", "tagged")]
    {
        assert_eq!(number(&world, partition, measure).as_deref(), Some("2"), "{partition}");
    }
    assert_eq!(number(&world, "USER#u2", "following"), None, "another tenant's");
    world
        .backfill(BackfillArguments { only: only("username", "u2"), ..BackfillArguments::default() })
        .await
        .unwrap();
    assert_eq!(number(&world, "USER#u2", "following").as_deref(), Some("1"));
}

#[tokio::test]
async fn a_tenant_owns_the_entries_of_a_rollup_by_any_division_of_its_key() {
    let world = world();
    for number in 1..=3 {
        let attributes = [("owner", AttributeValue::text("a#b")), ("project", AttributeValue::text("p"))];
        put(&world, &format!("VISIT#{number}"), &attributes);
    }
    world.backfill(BackfillArguments::default()).await.unwrap();
    assert_eq!(number(&world, "PAIR#a#b#p", "pairs").as_deref(), Some("3"));
    // The record of the deletion is lost: only the key of the rollup shows that the entry is the tenant's.
    world.tables.delete(&key_of(&world, "VISIT#1")).unwrap();
    let tenant = only("owner", "a#b");
    assert!(verify(&world, tenant.clone()).await.summary.drift > 0);
    let arguments = BackfillArguments { all: true, only: tenant, ..BackfillArguments::default() };
    world.backfill(arguments).await.unwrap();
    assert_eq!(number(&world, "PAIR#a#b#p", "pairs").as_deref(), Some("2"));
}

#[tokio::test]
async fn b2_a_tenant_by_an_index_may_have_the_items_whose_lookups_are_unknown() {
    let world = world();
    put(&world, "ORDER#1", &[("shop", AttributeValue::text("s1"))]);
    let report = verify(&world, only("name", "p")).await;
    assert_eq!((report.summary.items, report.summary.undecided), (1, 1), "{report:#?}");
}

#[tokio::test]
async fn c6_a_backfill_of_a_tenant_subtracts_items_that_are_gone_or_another_ones() {
    let world = world();
    put_attempt(&world, 1);
    put_attempt(&world, 2);
    put_attempt(&world, 3);
    world.backfill(BackfillArguments::default()).await.unwrap();
    // The records of both changes are lost.
    world.tables.delete(&key_of(&world, "ATTEMPT#1")).unwrap();
    let moved = [
        ("project", AttributeValue::text("PROJECT#2")),
        ("at", AttributeValue::text("2026-11-21T10:00:00Z")),
    ];
    put(&world, "ATTEMPT#2", &moved);
    let arguments =
        BackfillArguments { all: true, only: only("project_id", "1"), ..BackfillArguments::default() };
    world.backfill(arguments).await.unwrap();
    assert_eq!(number(&world, "PROJECT#1", "attempts").as_deref(), Some("1"));
    assert_eq!(verify(&world, None).await.summary.drift, 0);
}

/// Names that a model writes in quotes, and attributes inside maps.
const ODD_NAMES: &str = r##"
name = "odd"
generation = 1
[tables.Shop]
key = ["pk"]
[entities.order]
key = { pk = "ORDER#{'o:id'}" }
attributes = { "'am.ount'" = "N", "details.tenant" = "S", "'wh en'" = "S" }
[rollups.tenant]
key = { PK = "TENANT#{'the=tenant'}", SK = "ALL" }
[rollups.day]
key = { PK = "DAY#{'wh en':day}", SK = "ALL" }
[[aggregates]]
name = "tenants"
of = "order"
into = "tenant"
bind = { "'the=tenant'" = "details.tenant" }
measures.orders = "count"
[[aggregates]]
name = "days"
of = "order"
into = "day"
measures.orders = "count"
"##;

#[tokio::test]
async fn k14_a_tenant_has_the_name_that_the_model_writes() {
    let model =
        Model::parse(ODD_NAMES, "odd.toml").unwrap_or_else(|errors| panic!("{}", errors.into_error()));
    let world = ProofWorld::new(0).with(Arc::new(model));
    let text = AttributeValue::text;
    for (order, tenant, when) in [(1, "b=c", "2026-11-20"), (2, "a", "2026-11-21")] {
        let details = AttributeValue::M([("tenant".into(), text(tenant))].into_iter().collect());
        let attributes =
            [("am.ount", Decimal::from(order).into()), ("details", details), ("wh en", text(when))];
        put(&world, &format!("ORDER#{order}"), &attributes);
    }
    world.backfill(BackfillArguments::default()).await.unwrap();
    // The rollups that have the variable are judged, too.
    for (written, judged) in [
        ("'o:id'=1", (1, 0)),
        ("'am.ount'=1", (1, 0)),
        ("details.tenant=b=c", (1, 0)),
        ("'details'.'tenant'=b=c", (1, 0)),
        ("'the=tenant'=b=c", (1, 1)),
        ("'wh en':day=2026-11-20", (1, 1)),
        ("wh en:day=2026-11-20", (1, 1)),
        ("'wh en'=2026-11-20", (1, 0)),
        ("wh en=2026-11-20", (1, 0)),
        // Other values: of an attribute in a map, and of an attribute with a colon.
        ("am.ount=1", (0, 0)),
        ("'details.tenant'=b=c", (0, 0)),
        ("'wh en:day'=2026-11-20", (0, 0)),
    ] {
        let VerifyReport { summary, .. } = verify(&world, Some(written.parse().unwrap())).await;
        assert_eq!((summary.items, summary.rollups), judged, "{written}");
        assert_eq!(summary.drift, 0, "{written}");
    }
    // The record of a deletion is lost: only the key of the entry shows the tenant.
    world.tables.delete(&key_of(&world, "ORDER#1")).unwrap();
    for written in ["'o:id'=1", "'the=tenant'=b=c", "'wh en':day=2026-11-20"] {
        assert!(verify(&world, Some(written.parse().unwrap())).await.summary.drift > 0, "{written}");
    }
}
