//! A3: a backfill of another table than the ledger follows is refused before it subtracts everything.

use super::deployment::{ORDERS, Shop};

const BACKFILL: [&str; 3] = ["backfill", "--yes", "--without-recovery"];

async fn counted_shop(orders: u64) -> Shop {
    let shop = Shop::with_orders(orders).await;
    shop.text(0, &BACKFILL);
    assert_eq!(shop.counted().await, orders);
    shop.create_table("Staging").await;
    shop
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a3_a_live_table_that_has_none_of_the_counted_items_is_refused() {
    let shop = counted_shop(40).await;
    let staging = ["--tables", "Orders=Staging"];
    // Orders of another table with the same keys.
    for order in 40..60 {
        shop.put_order("Staging", order).await;
    }
    let jobs = shop.text(0, &["jobs", "list"]);
    for more in [&[][..], &["--all"], &["--only", "shop=3"]] {
        let refused = shop.text(2, &[&BACKFILL[..], &staging, more].concat());
        for words in ["none of the items that the ledger counts", "Staging", "AFTERWRITE_TABLES"] {
            assert!(refused.contains(words), "no {words}: {refused}");
        }
    }
    assert_eq!((shop.counted().await, shop.text(0, &["jobs", "list"])), (40, jobs));
    shop.text(0, &BACKFILL);
    shop.text(0, &["verify", "--tolerance", "0"]);
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a3_a_repair_of_a_table_that_has_none_of_the_counted_items_is_refused() {
    let shop = counted_shop(40).await;
    let report = shop.folder.path().join("drift.jsonl").display().to_string();
    let staging = ["--tables", "Orders=Staging", "--tolerance", "0"];
    shop.text(1, &[&["verify", "--report", &report][..], &staging].concat());
    for write in [&["--dry-run"][..], &["--yes", "--without-recovery"]] {
        let refused = shop.text(2, &[&["repair", &report][..], write, &staging].concat());
        for words in ["none of the items that the ledger counts", "Staging", "AFTERWRITE_TABLES"] {
            assert!(refused.contains(words), "no {words}: {refused}");
        }
    }
    assert_eq!(shop.counted().await, 40);
    shop.text(0, &["verify", "--tolerance", "0"]);
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a3_a_table_that_has_some_or_all_of_the_counted_items_is_refused_unless_it_is_named_as_the_new_one() {
    let shop = counted_shop(40).await;
    let staging = ["--tables", "Orders=Staging"];
    let replaced = ["--tables", "Orders=Staging,Orders=Orders"];
    shop.put_order("Staging", 5).await;
    let refused = shop.text(2, &[&BACKFILL[..], &staging].concat());
    for words in
        ["the ledger follows another table", "tables of the earlier backfills: Orders", "--accept-lives"]
    {
        assert!(refused.contains(words), "no {words}: {refused}");
    }
    let refused = shop.text(2, &[&BACKFILL[..], &replaced].concat());
    for words in ["lacks most of the items", "entries looked at: 40", "entries without an item: 39"] {
        assert!(refused.contains(words), "no {words}: {refused}");
    }
    // A copy.
    for order in 0..40 {
        shop.put_order("Staging", order).await;
    }
    let refused = shop.text(2, &[&BACKFILL[..], &staging].concat());
    assert!(refused.contains("the ledger follows another table"), "{refused}");
    assert_eq!(shop.counted().await, 40);
    shop.text(0, &[&BACKFILL[..], &replaced].concat());
    // From now on, a backfill has read it.
    shop.text(0, &[&BACKFILL[..], &staging].concat());
    assert_eq!(shop.counted().await, 40);
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a3_a_table_that_the_ledger_follows_may_lack_most_items_and_the_plan_says_so() {
    let shop = counted_shop(40).await;
    for order in 0..30 {
        shop.delete_order(ORDERS, order).await;
    }
    let plan = shop.text(2, &["backfill", "--without-recovery"]);
    assert!(plan.contains("30 of 40 sampled ledger entries have no item in Orders"), "{plan}");
    shop.text(0, &BACKFILL);
    assert_eq!(shop.counted().await, 10);
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a3_a_table_that_was_emptied_is_counted_if_it_is_accepted_and_a_few_items_may_end_at_once() {
    let shop = counted_shop(20).await;
    shop.server.client().delete_table().table_name(ORDERS).send().await.unwrap();
    shop.create_table(ORDERS).await;
    let refused = shop.text(2, &BACKFILL);
    assert!(refused.contains("afterwrite backfill --accept-lives --yes"), "{refused}");
    shop.text(0, &[&BACKFILL[..], &["--accept-lives"]].concat());
    assert_eq!(shop.counted().await, 0);
    shop.text(0, &BACKFILL);
    shop.server.stop().await.unwrap();

    let shop = counted_shop(19).await;
    for order in 0..19 {
        shop.delete_order(ORDERS, order).await;
    }
    shop.text(0, &BACKFILL);
    assert_eq!(shop.counted().await, 0);
    shop.server.stop().await.unwrap();
}
