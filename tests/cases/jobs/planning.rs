//! A5: a plan is made although requests are throttled. A9: a redrive without a target is refused before anything is planned.

use afterwrite_local::dynamodb::TableDefinition;
use afterwrite_tests::fault_proxy::FaultProxy;
use afterwrite_tests::faults::FaultRates;

use super::deployment::{STATE, Shop};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a5_jobs_are_planned_and_run_although_requests_are_throttled() {
    for (throttle, seed) in [(20, 1), (100, 2), (100, 3)] {
        let mut shop = Shop::with_orders(60).await;
        let rates = FaultRates { throttle, unavailable: throttle / 2, ..FaultRates::NONE };
        let proxy = FaultProxy::start(&shop.server.endpoint(), rates, seed).await.unwrap();
        shop.endpoint = proxy.endpoint();
        shop.text(0, &["backfill", "--yes", "--without-recovery"]);
        assert_eq!(shop.counted().await, 60, "{throttle} of 1,000 requests");
        shop.text(0, &["verify", "--tolerance", "1"]);
        shop.text(0, &["redrive", "--yes", "--without-recovery"]);
        assert!(proxy.injected().throttles > 0);
        shop.server.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a5_a_verification_and_a_comparison_end_although_a_third_of_the_requests_fail() {
    let mut shop = Shop::with_orders(400).await;
    shop.server.create_table(&TableDefinition::state("other")).await.unwrap();
    for table in [STATE, "other"] {
        shop.text(0, &["backfill", "--yes", "--without-recovery", "--state-table", table]);
    }
    let rates = FaultRates { throttle: 200, unavailable: 130, ..FaultRates::NONE };
    let proxy = FaultProxy::start(&shop.server.endpoint(), rates, 4).await.unwrap();
    shop.endpoint = proxy.endpoint();
    shop.text(0, &["verify", "--tolerance", "1"]);
    shop.text(0, &["state", "diff", STATE, "other"]);
    assert!(proxy.injected().throttles > 0);
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a9_a_redrive_to_a_target_that_it_does_not_have_is_refused() {
    let shop = Shop::with_orders(1).await;
    let redrive = ["redrive", "s3://failures/aws/lambda/", "--yes", "--without-recovery", "--only"];
    for (only, reason) in [
        ("export", "possible values: aggregate, invalidate, archive, notify"),
        ("aggregate,export", "possible values: aggregate, invalidate, archive, notify"),
        ("invalidate", "AFTERWRITE_CACHE_URL"),
        ("aggregate,invalidate", "AFTERWRITE_CLOUDFRONT_DISTRIBUTION"),
    ] {
        let refused = shop.text(2, &[&redrive[..], &[only]].concat());
        assert!(refused.contains(reason), "{only}: {refused}");
    }
    assert_eq!(shop.text(0, &["jobs", "list"]), "There are no jobs.\n");
    shop.server.stop().await.unwrap();
}
