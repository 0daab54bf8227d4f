//! The contract of `ObjectStore` and `Bucket`: in memory, in a folder, and S3 against the embedded server and against moto.

use std::sync::Arc;

use afterwrite_memory::MemoryObjects;
use afterwrite_model::ErrorKind;
use afterwrite_services::s3::S3Bucket;
use afterwrite_services::{Bucket, ObjectBody, ObjectStore as _, PutOutcome};
use afterwrite_tests::archive::{BUCKET, EmbeddedArchive};
use afterwrite_tests::folder_bucket::FolderBucket;
use afterwrite_tests::moto::MotoServer;
use bytes::Bytes;
use futures::future::join_all;
use futures::{StreamExt as _, TryStreamExt as _};

/// More objects than a page of a list or a request to delete can have.
const MANY_OBJECTS: usize = 1_003;

async fn suite(bucket: &impl Bucket) {
    a_put_replaces_the_object(bucket).await;
    a_missing_object_has_no_content(bucket).await;
    objects_of_any_size_are_read_back(bucket).await;
    put_new_writes_once_and_changes_nothing_later(bucket).await;
    a_list_has_the_objects_with_the_prefix_in_key_order(bucket).await;
    many_objects_are_listed_and_deleted(bucket).await;
}

#[tokio::test]
async fn memory() {
    let bucket = MemoryObjects::default();
    suite(&bucket).await;
    one_of_many_concurrent_put_new_writes(&bucket).await;
}

#[tokio::test]
async fn folder() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = FolderBucket(folder.path().to_owned());
    suite(&bucket).await;
    one_of_many_concurrent_put_new_writes(&bucket).await;
}

#[tokio::test]
async fn embedded_s3() {
    let archive = EmbeddedArchive::start().await;
    // With retries, as the compactor has it: the server may close a connection while it refuses a conditional write.
    let bucket = S3Bucket::retrying(archive.s3.client(), Arc::from(BUCKET));
    suite(&bucket).await;
    one_of_many_concurrent_put_new_writes(&bucket).await;
    a_missing_bucket_is_a_configuration_error(&archive.s3.client()).await;
}

/// moto checks whether a key exists and then writes, so concurrent conditional writes can both succeed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto: run tests/run"]
async fn moto_s3() {
    let moto = MotoServer::with_archive().await;
    suite(&S3Bucket::new(&moto.s3(), Arc::from(BUCKET))).await;
    a_missing_bucket_is_a_configuration_error(&moto.s3()).await;
}

async fn content(bucket: &impl Bucket, key: &str) -> Option<Vec<u8>> {
    let chunks: Vec<Bytes> = bucket.get(key).await.unwrap()?.try_collect().await.unwrap();
    Some(chunks.concat())
}

async fn put_new(bucket: &impl Bucket, key: &str, body: &'static [u8]) -> PutOutcome {
    bucket.put_new(key, ObjectBody::Bytes(Bytes::from_static(body))).await.unwrap()
}

async fn a_put_replaces_the_object(bucket: &impl Bucket) {
    for body in ["first", "second", "second"] {
        bucket.put("put/a b/ü+%3D=.gz", body.into()).await.unwrap();
        assert_eq!(content(bucket, "put/a b/ü+%3D=.gz").await.unwrap(), body.as_bytes());
    }
}

async fn a_missing_object_has_no_content(bucket: &impl Bucket) {
    bucket.put("missing/object", b"x".to_vec()).await.unwrap();
    for key in ["missing/object2", "missing/objec", "nowhere/object"] {
        assert_eq!(content(bucket, key).await, None, "{key}");
    }
    bucket.delete(&["missing/object".to_owned()]).await.unwrap();
    assert_eq!(content(bucket, "missing/object").await, None);
}

async fn objects_of_any_size_are_read_back(bucket: &impl Bucket) {
    for size in [0, 1, 64 * 1024, 3_000_001] {
        let body: Vec<u8> = (0..size).map(|position: u32| position.to_le_bytes()[0] ^ 0x5a).collect();
        let key = format!("sizes/{size}");
        bucket.put(&key, body.clone()).await.unwrap();
        assert!(content(bucket, &key).await.unwrap() == body, "{size}");
    }
}

async fn put_new_writes_once_and_changes_nothing_later(bucket: &impl Bucket) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    std::fs::write(&file, "from a file").unwrap();
    assert_eq!(put_new(bucket, "new/bytes", b"first").await, PutOutcome::Written);
    let body = || ObjectBody::File(file.clone());
    assert_eq!(bucket.put_new("new/file", body()).await.unwrap(), PutOutcome::Written);
    for key in ["new/bytes", "new/file"] {
        assert_eq!(put_new(bucket, key, b"second").await, PutOutcome::AlreadyExists, "{key}");
        assert_eq!(bucket.put_new(key, body()).await.unwrap(), PutOutcome::AlreadyExists, "{key}");
    }
    assert_eq!(content(bucket, "new/bytes").await.unwrap(), b"first");
    assert_eq!(content(bucket, "new/file").await.unwrap(), b"from a file");
    bucket.delete(&["new/bytes".to_owned()]).await.unwrap();
    assert_eq!(put_new(bucket, "new/bytes", b"third").await, PutOutcome::Written);
    let unreadable = ObjectBody::File(folder.path().join("nowhere"));
    bucket.put_new("new/unreadable", unreadable).await.unwrap_err();
}

async fn one_of_many_concurrent_put_new_writes(bucket: &impl Bucket) {
    for round in 0..5 {
        let key = format!("concurrent/{round}");
        let outcomes = join_all((0..8).map(|_| put_new(bucket, &key, b"x"))).await;
        let written = outcomes.iter().filter(|outcome| **outcome == PutOutcome::Written).count();
        assert_eq!(written, 1, "round {round}");
    }
}

async fn a_list_has_the_objects_with_the_prefix_in_key_order(bucket: &impl Bucket) {
    for key in ["list/b/2", "list/a", "list/b/10", "list/c", "list2/b", "list/b2"] {
        bucket.put(key, key.into()).await.unwrap();
    }
    for (prefix, expected) in [
        ("list/", vec!["list/a", "list/b/10", "list/b/2", "list/b2", "list/c"]),
        ("list/b", vec!["list/b/10", "list/b/2", "list/b2"]),
        ("list/b/", vec!["list/b/10", "list/b/2"]),
        ("list2", vec!["list2/b"]),
        ("nowhere/", vec![]),
        ("list/none/", vec![]),
    ] {
        let listed = bucket.list(prefix).await.unwrap();
        let keys: Vec<&str> = listed.iter().map(|object| object.key.as_str()).collect();
        assert_eq!(keys, expected, "{prefix}");
        assert!(listed.iter().all(|object| object.size == object.key.len() as u64), "{listed:?}");
    }
}

async fn many_objects_are_listed_and_deleted(bucket: &impl Bucket) {
    let keys: Vec<String> = (0..MANY_OBJECTS).map(|number| format!("many/{number:04}")).collect();
    let puts = keys.iter().map(|key| bucket.put(key, b"x".to_vec()));
    futures::stream::iter(puts).buffered(16).for_each(|put| async { put.unwrap() }).await;
    let listed = bucket.list("many/").await.unwrap();
    assert!(listed.iter().map(|object| &object.key).eq(&keys), "{} listed", listed.len());
    let mut deleted = keys[1..].to_vec();
    deleted.push("many/missing".to_owned());
    bucket.delete(&deleted).await.unwrap();
    let left = bucket.list("many/").await.unwrap();
    assert!(left.iter().map(|object| &object.key).eq(&keys[..1]), "{left:?}");
    bucket.delete(&[]).await.unwrap();
}

async fn a_missing_bucket_is_a_configuration_error(client: &aws_sdk_s3::Client) {
    let bucket = S3Bucket::new(client, Arc::from("elsewhere"));
    for error in [
        bucket.put("key", Vec::new()).await.unwrap_err(),
        put_new_error(&bucket).await,
        bucket.list("").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        for word in ["AFTERWRITE_BUCKET", "elsewhere"] {
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}

async fn put_new_error(bucket: &S3Bucket) -> afterwrite_model::Error {
    bucket.put_new("key", ObjectBody::Bytes(Bytes::new())).await.unwrap_err()
}
