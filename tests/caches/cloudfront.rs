//! CloudFront: within its limits, free when repeated, waited for when busy.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use afterwrite::ErrorKind;
use afterwrite::clock::Clock;
use afterwrite::record::Timestamp;
use afterwrite::relay::invalidate::{CacheInvalidator, InvalidationOutcome};
use afterwrite::relay::{MAX_PATHS, MAX_WILDCARDS};
use afterwrite::sink::cloudfront::CloudFront;
use afterwrite::sink::redis::RedisCache;
use afterwrite::table::Model;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::cloudfront::{FakeCloudFront, client};
use afterwrite_tests::moto::Moto;
use aws_sdk_cloudfront::Client;
use serde_json::Value;

use super::delivery::{deliver, insert, model, question};

const BEGIN: Timestamp = Timestamp::from_epoch_seconds(1_770_000_000);

/// A still clock that the test can read too.
#[derive(Clone)]
struct SharedClock(Arc<StillClock>);

impl SharedClock {
    fn at(now: Timestamp) -> Self {
        Self(Arc::new(StillClock::at(now)))
    }
}

impl Clock for SharedClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        self.0.sleep(duration)
    }

    fn permille(&self) -> u32 {
        self.0.permille()
    }
}

fn invalidator(distribution: CloudFront) -> CacheInvalidator<RedisCache, CloudFront, SharedClock> {
    CacheInvalidator::new(model(), None, Some(distribution), SharedClock::at(BEGIN))
}

async fn invalidate(
    of: &CacheInvalidator<RedisCache, CloudFront, SharedClock>,
    records: &[Value],
) -> InvalidationOutcome {
    deliver(of, &model(), records, BEGIN.plus(Duration::from_secs(600))).await
}

#[tokio::test]
async fn a_batch_that_comes_again_has_the_same_references() {
    let cloudfront = FakeCloudFront::start().await;
    let invalidator = invalidator(cloudfront.distribution());
    let mut records: Vec<Value> = (0..5).map(|id| question(&format!("p{id}"), "q")).collect();
    assert!(invalidate(&invalidator, &records).await.failures.is_empty());
    records.reverse();
    assert!(invalidate(&invalidator, &records).await.failures.is_empty());
    let [first, second] = cloudfront.asked().try_into().unwrap();
    assert_eq!((first.paths.len(), &first), (10, &second));
}

#[tokio::test]
async fn many_changes_stay_within_the_limits() {
    let cloudfront = FakeCloudFront::start().await;
    let records: Vec<Value> = (0..4_000).map(|id| question(&format!("p{id}"), "q")).collect();
    let outcome = invalidate(&invalidator(cloudfront.distribution()), &records).await;
    assert!(outcome.failures.is_empty());
    let wildcards = |path: &&String| path.ends_with('*');
    for asked in cloudfront.asked() {
        assert!(
            asked.paths.len() <= MAX_PATHS && asked.paths.iter().filter(wildcards).count() <= MAX_WILDCARDS
        );
    }
    // Four thousand wildcards come to that of the folder they are in, which covers everything else.
    assert_eq!(outcome.totals.paths, 1);
    assert_eq!(cloudfront.asked()[0].paths, ["/api/projects/*"]);
}

#[tokio::test]
async fn too_many_in_progress_is_waited_for() {
    let cloudfront = FakeCloudFront::start().await;
    cloudfront.busy_for(4);
    let outcome = invalidate(&invalidator(cloudfront.distribution()), &[question("p", "q")]).await;
    assert!(outcome.failures.is_empty());
    let asked = cloudfront.asked();
    assert_eq!((asked.len(), outcome.totals.requests), (5, 5));
    assert!(asked.iter().all(|one| one.reference == asked[0].reference));
}

#[tokio::test]
async fn it_is_waited_for_ten_seconds_and_then_the_records_come_again() {
    let cloudfront = FakeCloudFront::start().await;
    cloudfront.busy_for(usize::MAX);
    let clock = SharedClock::at(BEGIN);
    let invalidator: CacheInvalidator<RedisCache, _, _> =
        CacheInvalidator::new(model(), None, Some(cloudfront.distribution()), clock.clone());
    let records = [question("p", "q"), question("r", "s")];
    let outcome = deliver(&invalidator, &model(), &records, BEGIN.plus(Duration::from_secs(600))).await;
    assert_eq!(outcome.failures.keys().copied().collect::<Vec<_>>(), [0, 1]);
    assert!(outcome.failures.values().all(|error| error.kind() == ErrorKind::Unavailable));
    assert_eq!(clock.now().since(BEGIN), Duration::from_secs(10));
}

#[tokio::test]
async fn a_path_that_is_refused_fails_its_own_record_only() {
    let cloudfront = FakeCloudFront::start().await;
    cloudfront.refuse("/api/projects/p3");
    let records: Vec<Value> = (0..7).map(|id| question(&format!("p{id}"), "q")).collect();
    let outcome = invalidate(&invalidator(cloudfront.distribution()), &records).await;
    assert_eq!(outcome.failures.keys().copied().collect::<Vec<_>>(), [3]);
    assert_eq!(outcome.failures[&3].kind(), ErrorKind::Rejected);
    assert_eq!(outcome.totals.paths, 13, "every other path was begun");
}

/// A new distribution of moto's.
async fn distribution(client: &Client) -> String {
    use aws_sdk_cloudfront::types::{
        DefaultCacheBehavior, DistributionConfig, Origin, Origins, S3OriginConfig, ViewerProtocolPolicy,
    };
    let bucket = S3OriginConfig::builder().origin_access_identity("").build();
    let origin =
        Origin::builder().id("o").domain_name("b.s3.amazonaws.com").s3_origin_config(bucket).build().unwrap();
    let origins = Origins::builder().quantity(1).items(origin).build().unwrap();
    let behavior = DefaultCacheBehavior::builder()
        .target_origin_id("o")
        .viewer_protocol_policy(ViewerProtocolPolicy::AllowAll)
        .build()
        .unwrap();
    let configuration = DistributionConfig::builder()
        .caller_reference("test")
        .origins(origins)
        .default_cache_behavior(behavior)
        .comment("")
        .enabled(true)
        .build()
        .unwrap();
    let created = client.create_distribution().distribution_config(configuration).send().await.unwrap();
    created.distribution().unwrap().id().to_owned()
}

/// The invalidations that moto holds, in the order in which they were asked for: their caller references, and their paths.
async fn held(client: &Client, distribution: &str) -> Vec<(String, Vec<String>)> {
    let list = client.list_invalidations().distribution_id(distribution).send().await.unwrap();
    let list = list.invalidation_list().unwrap();
    assert!(!list.is_truncated());
    let mut held = Vec::new();
    for summary in list.items() {
        let request = client.get_invalidation().distribution_id(distribution).id(summary.id());
        let answer = request.send().await.unwrap();
        let batch = answer.invalidation().unwrap().invalidation_batch().unwrap();
        held.push((batch.caller_reference().to_owned(), batch.paths().unwrap().items().to_vec()));
    }
    held
}

#[tokio::test]
#[ignore = "needs moto: run tests/run"]
async fn what_moto_is_asked_is_what_it_holds() {
    let moto = Moto::start();
    let client = client(moto.endpoint());
    let id = distribution(&client).await;
    let invalidator = invalidator(CloudFront::new(client.clone(), &id));
    let records = [question("p", "q"), question("ü b*", "q")];
    let outcome = invalidate(&invalidator, &records).await;
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    let [(reference, mut paths)] = held(&client, &id).await.try_into().unwrap();
    assert!(reference.starts_with("afterwrite-"));
    paths.sort_unstable();
    let encoded = "/api/projects/%C3%BC%20b%2A";
    assert_eq!(paths, [encoded, &format!("{encoded}/*"), "/api/projects/p", "/api/projects/p/*"]);
    let unknown = self::invalidator(CloudFront::new(client, "NOSUCHDISTRIBUTION"));
    let error = &invalidate(&unknown, &records[..1]).await.failures[&0];
    assert!(error.to_string().contains("AFTERWRITE_CLOUDFRONT_DISTRIBUTION"), "{error}");
}

/// Articles that are on two pages each, in folders that are gone through as a whole.
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
async fn thousands_of_paths_are_asked_of_moto_within_the_limits_and_the_same_again() {
    let moto = Moto::start();
    let client = client(moto.endpoint());
    let id = distribution(&client).await;
    let model = Arc::new(Model::parse(LIBRARY, "library").unwrap_or_else(|errors| panic!("{errors}")));
    let cloudfront = CloudFront::new(client.clone(), &id);
    let invalidator: CacheInvalidator<RedisCache, _, _> =
        CacheInvalidator::new(Arc::clone(&model), None, Some(cloudfront), SharedClock::at(BEGIN));
    let items = [("ARTICLE", 3_500), ("SHELF", 20), ("HALL", 14)];
    let mut records: Vec<Value> = items
        .into_iter()
        .flat_map(|(kind, count)| (0..count).map(move |id| insert("Library", &format!("{kind}#{id}"), kind)))
        .collect();
    let mut asked = Vec::new();
    for _delivery in 0..2 {
        let outcome = deliver(&invalidator, &model, &records, BEGIN.plus(Duration::from_secs(600))).await;
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        let held = held(&client, &id).await;
        asked.push(held[asked.iter().map(Vec::len).sum()..].to_vec());
        records.reverse();
    }
    let [mut first, mut second] = asked.try_into().unwrap();
    assert!(first.len() > 1);
    for (_, paths) in &first {
        let wildcards = paths.iter().filter(|path| path.ends_with('*')).count();
        assert!(paths.len() <= 3_000 && wildcards <= 15, "{} paths, {wildcards} wildcards", paths.len());
    }
    let mut paths: Vec<String> = first.iter().flat_map(|(_, paths)| paths.clone()).collect();
    paths.sort_unstable();
    // Twenty shelves and fourteen halls are too many wildcards: the larger family goes as one, and that makes fifteen.
    let articles = (0..3_500).flat_map(|id| [format!("/articles/{id}"), format!("/api/articles/{id}")]);
    let wildcards = (0..14).map(|id| format!("/halls/{id}/*")).chain(["/shelves/*".to_owned()]);
    let expected: BTreeSet<String> = articles.chain(wildcards).collect();
    assert!(paths.iter().eq(&expected), "{} paths, and not {}", paths.len(), expected.len());
    first.sort_unstable();
    second.sort_unstable();
    let references: BTreeSet<&String> = first.iter().map(|(reference, _)| reference).collect();
    assert_eq!(references.len(), first.len());
    assert!(first == second, "the same paths have other references the second time");
}
