//! CloudFront: requests within its limits, equal requests for equal batches, waiting while it is busy.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_local::cloudfront::InvalidationRequest;
use afterwrite_model::ErrorKind;
use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_relay::invalidate::{CacheInvalidator, InvalidationOutcome};
use afterwrite_relay::{MAX_PATHS, MAX_WILDCARDS};
use afterwrite_services::PathTarget;
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::redis::RedisCache;
use afterwrite_services::sqs::SqsQueue;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::cloudfront::{distribution, start_cloudfront};
use afterwrite_tests::moto::MotoServer;
use afterwrite_tests::sdk::sdk_config;
use serde_json::Value;

use super::delivery::{deliver, insert, model, question};

pub(crate) const BEGIN: Timestamp = Timestamp::from_epoch_seconds(1_770_000_000);

/// A clock that the test can read, and that advances only by sleeps.
#[derive(Clone)]
pub(crate) struct SharedClock(Arc<StillClock>);

impl SharedClock {
    pub(crate) fn at(now: Timestamp) -> Self {
        Self(Arc::new(StillClock::at(now)))
    }
}

impl Clock for SharedClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    /// Advances the time only when it is awaited: the deadline of a request does not.
    async fn sleep(&self, duration: Duration) {
        self.0.sleep(duration).await;
    }

    fn until(&self, time: Timestamp) -> impl Future<Output = ()> + Send {
        self.0.until(time)
    }

    fn permille(&self) -> u32 {
        self.0.permille()
    }
}

type CdnInvalidator = CacheInvalidator<RedisCache, CloudFront, SqsQueue, SharedClock>;

fn invalidator(distribution: CloudFront) -> CdnInvalidator {
    CacheInvalidator::new(None, Some(PathTarget::Distribution(distribution)), SharedClock::at(BEGIN))
}

async fn invalidate(of: &CdnInvalidator, records: &[Value]) -> InvalidationOutcome {
    deliver(of, &model(), records, BEGIN.plus(Duration::from_secs(600))).await
}

#[tokio::test]
async fn a_redelivered_batch_has_the_same_references() {
    let cloudfront = start_cloudfront().await;
    let invalidator = invalidator(distribution(&cloudfront));
    let mut records: Vec<Value> = (0..5).map(|id| question(&format!("p{id}"), "q")).collect();
    assert!(invalidate(&invalidator, &records).await.failures.is_empty());
    records.reverse();
    assert!(invalidate(&invalidator, &records).await.failures.is_empty());
    let [first, second] = cloudfront.requests().try_into().unwrap();
    assert_eq!((first.paths.len(), first.is_started, second.is_started), (10, true, false));
    assert_eq!((first.paths, first.reference), (second.paths, second.reference));
}

#[tokio::test]
async fn many_changes_are_coalesced_within_the_limits() {
    let cloudfront = start_cloudfront().await;
    let records: Vec<Value> = (0..4_000).map(|id| question(&format!("p{id}"), "q")).collect();
    let outcome = invalidate(&invalidator(distribution(&cloudfront)), &records).await;
    assert!(outcome.failures.is_empty());
    let wildcards = |path: &&String| path.ends_with('*');
    for InvalidationRequest { paths, .. } in cloudfront.requests() {
        assert!(paths.len() <= MAX_PATHS && paths.iter().filter(wildcards).count() <= MAX_WILDCARDS);
    }
    // Four thousand wildcards become that of their common folder, which covers all other paths.
    assert_eq!(outcome.totals.paths, 1);
    assert_eq!(cloudfront.requests()[0].paths, ["/api/projects/*"]);
}

#[tokio::test]
async fn a_busy_distribution_is_waited_for() {
    let cloudfront = start_cloudfront().await;
    cloudfront.busy_for(3);
    let outcome = invalidate(&invalidator(distribution(&cloudfront)), &[question("p", "q")]).await;
    assert!(outcome.failures.is_empty());
    let requests = cloudfront.requests();
    assert_eq!((requests.len(), outcome.totals.requests), (4, 4));
    assert!(requests.iter().all(|request| request.reference == requests[0].reference));
}

#[tokio::test]
async fn after_a_short_wait_the_records_fail_and_their_keys_are_gone() {
    let cloudfront = start_cloudfront().await;
    cloudfront.busy_for(usize::MAX);
    let clock = SharedClock::at(BEGIN);
    let target = PathTarget::Distribution(distribution(&cloudfront));
    let invalidator: CdnInvalidator = CacheInvalidator::new(None, Some(target), clock.clone());
    let records = [question("p", "q"), question("r", "s")];
    let outcome = deliver(&invalidator, &model(), &records, BEGIN.plus(Duration::from_secs(600))).await;
    assert_eq!(outcome.failures.keys().copied().collect::<Vec<_>>(), [0, 1]);
    assert!(outcome.failures.values().all(|error| error.kind() == ErrorKind::Unavailable));
    assert_eq!(outcome.keys_gone, BTreeSet::from([0, 1]));
    // The next batch's keys wait as long.
    assert_eq!(clock.now().since(BEGIN), Duration::from_millis(1_500));
}

#[tokio::test]
async fn a_refused_path_is_reported_and_holds_up_nothing() {
    let cloudfront = start_cloudfront().await;
    cloudfront.refuse("/api/projects/p3");
    let records: Vec<Value> = (0..7).map(|id| question(&format!("p{id}"), "q")).collect();
    let outcome = invalidate(&invalidator(distribution(&cloudfront)), &records).await;
    assert!(outcome.failures.is_empty(), "a redelivery would be refused again: {:?}", outcome.failures);
    let [refused] = &outcome.refused[..] else { panic!("one path") };
    assert_eq!((&*refused.path, refused.error.kind()), ("/api/projects/p3", ErrorKind::Rejected));
    assert_eq!(outcome.totals.paths, 13, "every other path is invalidated");
}

#[tokio::test]
#[ignore = "needs moto: run tests/run"]
async fn moto_has_the_paths_of_a_batch() {
    let moto = MotoServer::start();
    let sdk = sdk_config(moto.endpoint());
    let id = moto.create_distribution().await;
    let invalidator = invalidator(CloudFront::new(sdk.clone(), &id));
    let records = [question("p", "q"), question("ü b*", "q")];
    let outcome = invalidate(&invalidator, &records).await;
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    let [(reference, mut paths)] = moto.invalidations(&id).await.try_into().unwrap();
    assert!(reference.starts_with("afterwrite-"));
    paths.sort_unstable();
    let encoded = "/api/projects/%C3%BC%20b%2A";
    assert_eq!(paths, [encoded, &format!("{encoded}/*"), "/api/projects/p", "/api/projects/p/*"]);
    let unknown = self::invalidator(CloudFront::new(sdk, "NOSUCHDISTRIBUTION"));
    let error = &invalidate(&unknown, &records[..1]).await.failures[&0];
    assert!(error.to_string().contains("AFTERWRITE_CLOUDFRONT_DISTRIBUTION"), "{error}");
}

/// Articles with two pages each, and folders that are invalidated as a whole.
const LIBRARY: &str = r#"
name = "library"
generation = 1

[tables.Library]
key = ["PK", "SK"]

[entities.article]
key = { PK = "ARTICLE#{article_id}", SK = "ARTICLE" }

[entities.shelf]
key = { PK = "SHELF#{shelf_id}", SK = "SHELF" }

[entities.hall]
key = { PK = "HALL#{hall_id}", SK = "HALL" }

[[caches]]
of = "article"
paths = ["/articles/{article_id}", "/api/articles/{article_id}"]

[[caches]]
of = "shelf"
paths = ["/shelves/{shelf_id}/*"]

[[caches]]
of = "hall"
paths = ["/halls/{hall_id}/*"]
"#;

#[tokio::test]
#[ignore = "needs moto: run tests/run"]
async fn thousands_of_paths_are_sent_within_the_limits_and_equal_when_redelivered() {
    let moto = MotoServer::start();
    let sdk = sdk_config(moto.endpoint());
    let id = moto.create_distribution().await;
    let model = Arc::new(Model::parse(LIBRARY, "library").unwrap_or_else(|errors| panic!("{errors}")));
    let cloudfront = CloudFront::new(sdk.clone(), &id);
    let target = PathTarget::Distribution(cloudfront);
    let invalidator: CdnInvalidator = CacheInvalidator::new(None, Some(target), SharedClock::at(BEGIN));
    let items = [("ARTICLE", 3_500), ("SHELF", 20), ("HALL", 14)];
    let mut records: Vec<Value> = items
        .into_iter()
        .flat_map(|(kind, count)| (0..count).map(move |id| insert("Library", &format!("{kind}#{id}"), kind)))
        .collect();
    let mut deliveries = Vec::new();
    for _delivery in 0..2 {
        let outcome = deliver(&invalidator, &model, &records, BEGIN.plus(Duration::from_secs(600))).await;
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        let invalidations = moto.invalidations(&id).await;
        deliveries.push(invalidations[deliveries.iter().map(Vec::len).sum()..].to_vec());
        records.reverse();
    }
    let [mut first, mut second] = deliveries.try_into().unwrap();
    assert!(first.len() > 1);
    for (_, paths) in &first {
        let wildcards = paths.iter().filter(|path| path.ends_with('*')).count();
        assert!(paths.len() <= 3_000 && wildcards <= 15, "{} paths, {wildcards} wildcards", paths.len());
    }
    let mut paths: Vec<String> = first.iter().flat_map(|(_, paths)| paths.clone()).collect();
    paths.sort_unstable();
    // Twenty shelves and fourteen halls are too many wildcards: those of the shelves become one, which makes fifteen.
    let articles = (0..3_500).flat_map(|id| [format!("/articles/{id}"), format!("/api/articles/{id}")]);
    let wildcards = (0..14).map(|id| format!("/halls/{id}/*")).chain(["/shelves/*".to_owned()]);
    let expected: BTreeSet<String> = articles.chain(wildcards).collect();
    assert!(paths.iter().eq(&expected), "{} paths, and not {}", paths.len(), expected.len());
    first.sort_unstable();
    second.sort_unstable();
    let references: BTreeSet<&String> = first.iter().map(|(reference, _)| reference).collect();
    assert_eq!(references.len(), first.len());
    assert!(first == second, "the same paths have other references in the second delivery");
}
