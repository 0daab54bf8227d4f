//! Lists of the embedded S3, as AWS S3 answers them.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected must fail at once")]

use afterwrite_local::s3::EmbeddedS3;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{Builder, Credentials};
use aws_sdk_s3::error::ProvideErrorMetadata as _;
use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::types::{CommonPrefix, Delete, EncodingType, Object, ObjectIdentifier};

const BUCKET: &str = "lists";

/// The order of their bytes, which is not that of the folders.
const KEYS: [&str; 6] = ["a-b", "a/b", "a/c/d", "a0", "b.txt", "b/c"];

/// The names of a page, and the place where the next one begins.
type NamedPage = (Vec<String>, Option<String>);

async fn with_objects(keys: &[&str]) -> (EmbeddedS3, Client) {
    let server = EmbeddedS3::start().await.unwrap();
    server.create_bucket(BUCKET).await.unwrap();
    let client = server.client();
    for key in keys {
        let put = client.put_object().bucket(BUCKET).key(*key).body(key.as_bytes().to_vec().into());
        Box::pin(put.send()).await.unwrap();
    }
    (server, client)
}

/// Objects and common prefixes in one order.
fn names(objects: &[Object], prefixes: &[CommonPrefix]) -> Vec<String> {
    let keys = objects.iter().filter_map(|object| object.key());
    let prefixes = prefixes.iter().filter_map(|prefix| prefix.prefix());
    let mut names: Vec<String> = keys.chain(prefixes).map(str::to_owned).collect();
    names.sort();
    names
}

fn names_of(page: &ListObjectsV2Output) -> Vec<String> {
    names(page.contents(), page.common_prefixes())
}

async fn page_of_version_2(
    client: &Client,
    delimiter: Option<&str>,
    size: i32,
    after: Option<String>,
) -> NamedPage {
    let list = client.list_objects_v2().bucket(BUCKET).max_keys(size).set_continuation_token(after);
    let page = Box::pin(list.set_delimiter(delimiter.map(str::to_owned)).send()).await.unwrap();
    let names = names_of(&page);
    assert_eq!(page.key_count(), Some(i32::try_from(names.len()).unwrap()));
    assert_eq!(page.is_truncated(), Some(page.next_continuation_token().is_some()));
    (names, page.next_continuation_token().map(str::to_owned))
}

async fn page_of_version_1(
    client: &Client,
    delimiter: Option<&str>,
    size: i32,
    after: Option<String>,
) -> NamedPage {
    let list = client.list_objects().bucket(BUCKET).max_keys(size).set_marker(after);
    let page = Box::pin(list.set_delimiter(delimiter.map(str::to_owned)).send()).await.unwrap();
    let names = names(page.contents(), page.common_prefixes());
    let next = names.last().filter(|_| page.is_truncated() == Some(true));
    // Without a delimiter, the client takes the last key.
    assert_eq!(page.next_marker(), next.filter(|_| delimiter.is_some()).map(String::as_str));
    let next = next.cloned();
    (names, next)
}

async fn listed(client: &Client, prefix: &str) -> Vec<String> {
    let list = client.list_objects_v2().bucket(BUCKET).prefix(prefix);
    names_of(&Box::pin(list.send()).await.unwrap())
}

#[tokio::test]
async fn pages_of_any_size_have_all_names_in_the_order_of_their_bytes() {
    let (_server, client) = with_objects(&KEYS).await;
    for (delimiter, expected) in [
        (None, KEYS.to_vec()),
        (Some("/"), vec!["a-b", "a/", "a0", "b.txt", "b/"]),
        (Some("-b"), vec!["a-b", "a/b", "a/c/d", "a0", "b.txt", "b/c"]),
    ] {
        for (version, size) in (1..=7).flat_map(|size| [(1, size), (2, size)]) {
            let found = names_of_all_pages(&client, version, delimiter, size).await;
            assert_eq!(found, expected, "version {version}, {delimiter:?}, {size}");
        }
    }
}

async fn names_of_all_pages(client: &Client, version: u8, delimiter: Option<&str>, size: i32) -> Vec<String> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let (names, next) = if version == 1 {
            page_of_version_1(client, delimiter, size, after).await
        } else {
            page_of_version_2(client, delimiter, size, after).await
        };
        let is_full = i32::try_from(names.len()).unwrap() == size;
        assert!(is_full || next.is_none(), "version {version}, {size}: {names:?}");
        found.extend(names);
        if next.is_none() {
            return found;
        }
        after = next;
    }
}

#[tokio::test]
async fn a_list_has_the_keys_with_its_prefix_and_stays_within_the_bucket() {
    let (server, client) = with_objects(&KEYS).await;
    server.create_bucket("others").await.unwrap();
    let put = client.put_object().bucket("others").key("a").body(b"x".to_vec().into());
    Box::pin(put.send()).await.unwrap();
    let long = format!("{}/", "x".repeat(300));
    for (prefix, expected) in [
        ("", KEYS.to_vec()),
        ("a", vec!["a-b", "a/b", "a/c/d", "a0"]),
        ("a/", vec!["a/b", "a/c/d"]),
        ("a/c", vec!["a/c/d"]),
        ("a/c/d", vec!["a/c/d"]),
        ("b", vec!["b.txt", "b/c"]),
    ] {
        assert_eq!(listed(&client, prefix).await, expected, "{prefix}");
    }
    let nothing = ["/", "//", "/a", "a//", "a//b", "./a", "a/./b", ".", "..", "../", "../others/", "a/../"];
    for prefix in nothing.into_iter().chain(["nowhere/", "a/nowhere/x", "a/b/", long.as_str()]) {
        assert_eq!(listed(&client, prefix).await, Vec::<String>::new(), "{prefix}");
    }
}

#[tokio::test]
async fn deleted_objects_leave_no_common_prefix() {
    let (_server, client) = with_objects(&KEYS).await;
    for key in ["a/b", "a/c/d"] {
        Box::pin(client.delete_object().bucket(BUCKET).key(key).send()).await.unwrap();
    }
    let (names, _) = page_of_version_2(&client, Some("/"), 1_000, None).await;
    assert_eq!(names, ["a-b", "a0", "b.txt", "b/"]);
}

#[tokio::test]
async fn names_are_encoded_if_the_client_asks_for_it() {
    let keys = ["p%2Fq/r", "plus+dir/k", "sp ace/ü&<"];
    let (_server, client) = with_objects(&keys).await;
    assert_eq!(listed(&client, "").await, keys);
    let list = client.list_objects_v2().bucket(BUCKET).encoding_type(EncodingType::Url);
    let page = Box::pin(list.clone().start_after("a b").send()).await.unwrap();
    assert_eq!(names_of(&page), ["p%252Fq/r", "plus%2Bdir/k", "sp%20ace/%C3%BC%26%3C"]);
    assert_eq!((page.encoding_type(), page.start_after()), (Some(&EncodingType::Url), Some("a%20b")));
    let page = Box::pin(list.prefix("plus").delimiter("+").send()).await.unwrap();
    assert_eq!((names_of(&page), page.delimiter()), (vec!["plus%2B".to_owned()], Some("%2B")));
    let list = client.list_objects().bucket(BUCKET).encoding_type(EncodingType::Url).marker("p%2Fq/r");
    let page = Box::pin(list.prefix("plus+").delimiter("/").max_keys(1).send()).await.unwrap();
    assert_eq!(names(page.contents(), page.common_prefixes()), ["plus%2Bdir/"]);
    assert_eq!((page.prefix(), page.marker()), (Some("plus%2B"), Some("p%252Fq/r")));
}

#[tokio::test]
async fn a_list_begins_after_a_key_and_a_token_replaces_it() {
    let (_server, client) = with_objects(&KEYS).await;
    let list = || client.list_objects_v2().bucket(BUCKET).max_keys(2);
    let page = Box::pin(list().start_after("a/b").send()).await.unwrap();
    assert_eq!(names_of(&page), ["a/c/d", "a0"]);
    let token = page.next_continuation_token().unwrap();
    let page = Box::pin(list().start_after("a/b").continuation_token(token).send()).await.unwrap();
    assert_eq!(
        (names_of(&page), page.continuation_token()),
        (vec!["b.txt".into(), "b/c".into()], Some(token))
    );
    let page = Box::pin(list().start_after("a/b").delimiter("/").send()).await.unwrap();
    assert_eq!(names_of(&page), ["a0", "b.txt"]);
}

#[tokio::test]
async fn the_parameters_of_a_list_are_checked_and_repeated() {
    let (_server, client) = with_objects(&KEYS).await;
    let list = || client.list_objects_v2().bucket(BUCKET).prefix("nowhere/");
    let page = Box::pin(list().max_keys(5_000).delimiter("/").send()).await.unwrap();
    assert_eq!((page.name(), page.prefix()), (Some(BUCKET), Some("nowhere/")));
    assert_eq!((page.max_keys(), page.key_count(), page.delimiter()), (Some(1_000), Some(0), Some("/")));
    let page = Box::pin(list().prefix("").max_keys(0).send()).await.unwrap();
    assert_eq!((page.key_count(), page.is_truncated()), (Some(0), Some(false)));
    for refused in [
        list().max_keys(-1),
        list().continuation_token("junk"),
        list().continuation_token("a/b"),
        list().encoding_type(EncodingType::from("base64")),
    ] {
        let error = Box::pin(refused.send()).await.unwrap_err();
        assert_eq!(error.code(), Some("InvalidArgument"), "{error:?}");
    }
    let error = Box::pin(list().bucket("elsewhere").send()).await.unwrap_err();
    assert_eq!(error.code(), Some("NoSuchBucket"), "{error:?}");
    let error = Box::pin(client.list_objects().bucket("elsewhere").send()).await.unwrap_err();
    assert_eq!(error.code(), Some("NoSuchBucket"), "{error:?}");
}

#[tokio::test]
async fn a_request_with_other_credentials_or_none_is_refused() {
    let (server, _client) = with_objects(&KEYS).await;
    for (id, secret, code) in
        [("embedded", "wrong", "SignatureDoesNotMatch"), ("wrong", "embedded", "NotSignedUp")]
    {
        let credentials = Credentials::new(id, secret, None, None, "test");
        let config = Builder::from(&server.sdk_config()).force_path_style(true);
        let client = Client::from_conf(config.credentials_provider(credentials).build());
        for prefix in ["a/", "nowhere/"] {
            let list = client.list_objects_v2().bucket(BUCKET).prefix(prefix);
            let error = Box::pin(list.send()).await.unwrap_err();
            assert_eq!(error.code(), Some(code), "{prefix}: {error:?}");
        }
    }
    for request in [
        "GET /lists?list-type=2&prefix=nowhere%2F",
        "GET /lists?list-type=2&prefix=a%2F",
        "GET /lists?prefix=nowhere%2F",
        "PUT /elsewhere/key",
    ] {
        let response = unsigned(&server, request).await;
        assert!(response.starts_with("HTTP/1.1 403 "), "{request}: {response}");
    }
    let response = unsigned(&server, "GET /..?list-type=2&prefix=nowhere%2F").await;
    assert!(response.starts_with("HTTP/1.1 4"), "{response}");
}

async fn unsigned(server: &EmbeddedS3, request: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let address = server.endpoint().replacen("http://", "", 1);
    let mut connection = tokio::net::TcpStream::connect(&address).await.unwrap();
    let request =
        format!("{request} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn nothing_is_written_into_a_missing_bucket() {
    let (_server, client) = with_objects(&[]).await;
    let put = client.put_object().bucket("elsewhere").key("key").body(b"x".to_vec().into());
    let error = Box::pin(put.send()).await.unwrap_err();
    assert_eq!(error.code(), Some("NoSuchBucket"), "{error:?}");
    let upload = client.create_multipart_upload().bucket("elsewhere").key("key");
    let error = Box::pin(upload.send()).await.unwrap_err();
    assert_eq!(error.code(), Some("NoSuchBucket"), "{error:?}");
    let buckets = Box::pin(client.list_buckets().send()).await.unwrap();
    let buckets: Vec<&str> = buckets.buckets().iter().filter_map(|bucket| bucket.name()).collect();
    assert_eq!(buckets, [BUCKET]);
}

async fn deletions_have_limits(client: &Client) {
    let delete = |keys: usize, is_quiet: bool| {
        let objects = (0..keys).map(|key| ObjectIdentifier::builder().key(format!("{key}")).build().unwrap());
        Delete::builder().set_objects(Some(objects.collect())).quiet(is_quiet).build().unwrap()
    };
    for (bucket, keys, code) in [(BUCKET, 1_001, "MalformedXML"), ("elsewhere", 1, "NoSuchBucket")] {
        let request = client.delete_objects().bucket(bucket).delete(delete(keys, false));
        assert_eq!(Box::pin(request.send()).await.unwrap_err().code(), Some(code));
    }
    let unnamable = ObjectIdentifier::builder().key("\u{1}").build().unwrap();
    let unnamable = Delete::builder().objects(unnamable).build().unwrap();
    let request = client.delete_objects().bucket(BUCKET).delete(unnamable);
    assert!(Box::pin(request.send()).await.is_err());
    let quiet = client.delete_objects().bucket(BUCKET).delete(delete(2, true));
    assert_eq!(Box::pin(quiet.send()).await.unwrap().deleted().len(), 0);
}

/// Its file would be that of another key, or in another bucket.
#[tokio::test]
async fn a_key_that_is_no_path_of_a_file_is_refused() {
    let (_server, client) = with_objects(&["a/b"]).await;
    let long = "x".repeat(256);
    let wrong = ["a//b", "a/./b", "a/../a/b", "../other/x", "..", "a/b/", "/a/b", "a", "a/b/c", &long];
    for key in wrong {
        let put = client.put_object().bucket(BUCKET).key(key).body(b"x".to_vec().into());
        assert_eq!(Box::pin(put.send()).await.unwrap_err().code(), Some("InvalidArgument"), "{key}");
        let copy = client.copy_object().bucket(BUCKET).key(key).copy_source(format!("{BUCKET}/a/b"));
        assert_eq!(Box::pin(copy.send()).await.unwrap_err().code(), Some("InvalidArgument"), "{key}");
        let get = client.get_object().bucket(BUCKET).key(key);
        assert!(Box::pin(get.send()).await.is_err(), "{key}");
        let delete = client.delete_object().bucket(BUCKET).key(key);
        assert!(Box::pin(delete.send()).await.is_err(), "{key}");
    }
    assert_eq!(listed(&client, "").await, ["a/b"]);
    let objects = wrong.into_iter().chain(["missing"]);
    let objects = objects.map(|key| ObjectIdentifier::builder().key(key).build().unwrap()).collect();
    let delete = Delete::builder().set_objects(Some(objects)).build().unwrap();
    let deleted = Box::pin(client.delete_objects().bucket(BUCKET).delete(delete).send()).await.unwrap();
    let errors: Vec<_> = deleted.errors().iter().map(|error| error.key().unwrap()).collect();
    assert_eq!(errors, wrong);
    assert!(deleted.errors().iter().all(|error| error.code() == Some("InvalidArgument")), "{deleted:?}");
    assert_eq!(deleted.deleted().iter().map(|object| object.key().unwrap()).collect::<Vec<_>>(), ["missing"]);
    deletions_have_limits(&client).await;
    assert_eq!(listed(&client, "").await, ["a/b"]);
    let buckets = Box::pin(client.list_buckets().send()).await.unwrap();
    assert_eq!(buckets.buckets().len(), 1);
}
