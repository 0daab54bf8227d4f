//! The stand-ins for AWS with the resources of an applied state, and the functions with the environment of that state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_local::cloudfront::EmbeddedCloudFront;
use afterwrite_local::dynamodb::EmbeddedDynamoDb;
use afterwrite_local::firehose::{DeliveryStreamOptions, EmbeddedFirehose};
use afterwrite_local::s3::{CreatedObject, EmbeddedS3, S3Options};
use afterwrite_local::sdk::{CREDENTIAL, REGION};
use afterwrite_local::sqs::EmbeddedSqs;
use afterwrite_services::s3::S3Bucket;
use afterwrite_tests::call_recorder::CallRecorder;
use afterwrite_tests::cloudfront::start_cloudfront;
use afterwrite_tests::programs::program;
use afterwrite_tests::secrets::FakeSecrets;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::applied::{AppliedState, FAILURES, text};
use super::lambda::{FunctionSetup, LocalFunction};
use super::read;

/// The roles and programs that call AWS.
pub(crate) const PRINCIPALS: [&str; 8] =
    ["aggregator", "relay", "invalidator", "exporter", "compactor", "verifier", "firehose", "redrive"];
/// The folder that Lambda unpacks a zip into.
const TASK_ROOT: &str = "/var/task/";

/// The servers of a deployment.
pub(crate) struct LocalCloud {
    pub(crate) dynamodb: EmbeddedDynamoDb,
    pub(crate) s3: EmbeddedS3,
    pub(crate) firehose: EmbeddedFirehose,
    pub(crate) sqs: EmbeddedSqs,
    pub(crate) cloudfront: EmbeddedCloudFront,
    _secrets: FakeSecrets,
    pub(crate) recorder: CallRecorder,
    /// The objects that appear in the buckets.
    pub(crate) created: Mutex<UnboundedReceiver<CreatedObject>>,
    /// The deployed names of the two buckets.
    pub(crate) bucket: String,
    pub(crate) failures: String,
    /// The unpacked zip of the functions, and their logs.
    package: TempDir,
}

impl LocalCloud {
    /// Starts all servers and creates the tables, buckets and queues of the state, and the secret with the cache's address.
    pub(crate) async fn start(state: &AppliedState, cache_url: Option<String>) -> Self {
        let recorder = CallRecorder::start(state.scope(), &PRINCIPALS).await.expect("ports");
        let dynamodb = EmbeddedDynamoDb::start().await.expect("a DynamoDB");
        for table in state.tables() {
            dynamodb.create_table(&table).await.expect("a table");
        }
        let (sender, created) = unbounded_channel();
        let options = S3Options { created: Some(sender), ..S3Options::default() };
        let s3 = EmbeddedS3::open(options).await.expect("an S3");
        let (bucket, failures) = (state.bucket("archive"), state.bucket("failures"));
        for name in [&*bucket, FAILURES] {
            s3.create_bucket(name).await.expect("a bucket");
        }
        let sqs = start_queues(state).await;
        let cloudfront = start_cloudfront().await;
        let secret = state.variable("aggregator", "AFTERWRITE_CACHE_SECRET");
        let secrets = FakeSecrets::start(secret.zip(cache_url).into_iter().collect()).await;
        for (service, endpoint) in [
            ("dynamodb", dynamodb.endpoint()),
            ("s3", s3.endpoint()),
            ("sqs", sqs.endpoint()),
            ("cloudfront", cloudfront.endpoint()),
            ("secretsmanager", secrets.endpoint()),
        ] {
            recorder.serve(service, &endpoint);
        }
        let firehose = start_firehose(state, &bucket_client(&s3, &recorder, "firehose")).await;
        recorder.serve("firehose", &firehose.endpoint());
        let package = tempfile::tempdir().expect("a folder");
        let model = read("common/model/src/table/models/exambuddy.toml");
        std::fs::write(package.path().join("model.toml"), model).expect("a file");
        let created = Mutex::new(created);
        Self {
            dynamodb,
            s3,
            firehose,
            sqs,
            cloudfront,
            _secrets: secrets,
            recorder,
            created,
            bucket,
            failures,
            package,
        }
    }

    /// The deployed functions by their names in the module, each with the environment of the state. `limit` replaces their time limits;
    /// `run` names their logs.
    pub(crate) fn functions(
        &self,
        state: &AppliedState,
        run: &str,
        limit: Option<Duration>,
    ) -> BTreeMap<String, LocalFunction> {
        let deployed = state.functions().into_iter();
        deployed
            .map(|(name, values)| (name.to_owned(), self.function(state, run, (name, values), limit)))
            .collect()
    }

    fn function(
        &self,
        state: &AppliedState,
        run: &str,
        (name, values): (&str, &Value),
        limit: Option<Duration>,
    ) -> LocalFunction {
        let set = values["environment"][0]["variables"].as_object().expect("variables");
        let mut variables: Vec<(String, String)> =
            set.iter().map(|(name, value)| (name.clone(), self.unpacked(text(value)))).collect();
        variables.extend(self.credentials(name));
        let timeout = Duration::from_secs(values["timeout"].as_u64().expect("a time"));
        assert!(state.by_key("aws_lambda_alias", "live").contains_key(name), "everything invokes the alias");
        let folder = self.package.path().join(run.replace(' ', "-"));
        std::fs::create_dir_all(&folder).expect("a folder");
        LocalFunction::new(FunctionSetup {
            name: text(&values["function_name"]),
            program: &program(name),
            folder: &folder,
            variables,
            timeout,
            limit: limit.unwrap_or(timeout),
        })
    }

    /// Changes the model in the zip, for functions that start from now on.
    pub(crate) fn change_model(&self, before: &str, after: &str) {
        let path = self.package.path().join("model.toml");
        let model = std::fs::read_to_string(&path).expect("a model");
        assert!(model.contains(before), "the model has no {before}");
        std::fs::write(&path, model.replace(before, after)).expect("a model");
    }

    /// Adds rules to the model in the zip, for functions that start from now on.
    pub(crate) fn extend_model(&self, rules: &str) {
        let path = self.package.path().join("model.toml");
        let model = std::fs::read_to_string(&path).expect("a model");
        std::fs::write(&path, model + rules).expect("a model");
    }

    /// A path in the zip, as it is here.
    fn unpacked(&self, value: &str) -> String {
        match value.strip_prefix(TASK_ROOT) {
            Some(file) => self.package.path().join(file).display().to_string(),
            None => value.to_owned(),
        }
    }

    /// The variables with which the AWS SDK of a principal reaches these servers.
    pub(crate) fn credentials(&self, principal: &str) -> Vec<(String, String)> {
        let variables = [
            ("AWS_ENDPOINT_URL", self.recorder.endpoint(principal)),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", CREDENTIAL.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", CREDENTIAL.to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ];
        variables.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// The bucket of failed records, as the mapping of a function writes to it.
    pub(crate) fn failures_of(&self, principal: &str) -> S3Bucket {
        let client = bucket_client(&self.s3, &self.recorder, principal);
        S3Bucket::new(&client, Arc::from(FAILURES))
    }

    /// The keys of the objects of a bucket with this prefix.
    pub(crate) async fn keys(&self, bucket: &str, prefix: &str) -> Vec<String> {
        let pages = self.s3.client().list_objects_v2().bucket(bucket).prefix(prefix).into_paginator().send();
        let pages = pages.collect::<Result<Vec<_>, _>>().await.expect("a list of objects");
        let objects = pages.iter().flat_map(|page| page.contents());
        objects.filter_map(|object| object.key().map(str::to_owned)).collect()
    }

    /// The content of an object of the archive's bucket.
    pub(crate) async fn object(&self, key: &str) -> Vec<u8> {
        let get = self.s3.client().get_object().bucket(&self.bucket).key(key);
        let got = get.send().await.expect("an object");
        got.body.collect().await.expect("its content").to_vec()
    }
}

/// The queues of the state, and the queues of its events.
async fn start_queues(state: &AppliedState) -> EmbeddedSqs {
    let consumers = state.event_queues();
    let queues = state.queues().into_iter().chain(consumers.iter().map(String::as_str));
    EmbeddedSqs::start(0, &queues.collect::<Vec<_>>()).await.expect("queues")
}

/// A client of the buckets whose calls are recorded as those of `principal`.
fn bucket_client(s3: &EmbeddedS3, recorder: &CallRecorder, principal: &str) -> aws_sdk_s3::Client {
    let config = aws_sdk_s3::config::Builder::from(&s3.sdk_config());
    let config = config.endpoint_url(recorder.endpoint(principal)).force_path_style(true);
    aws_sdk_s3::Client::from_conf(config.build())
}

/// The delivery stream of the state. It writes objects at once: the test does not wait for its buffering.
async fn start_firehose(state: &AppliedState, s3: &aws_sdk_s3::Client) -> EmbeddedFirehose {
    let stream = state.one("aws_kinesis_firehose_delivery_stream", "archive").expect("a delivery stream");
    let destination = &stream["extended_s3_configuration"][0];
    let prefix = text(&destination["prefix"]);
    assert_eq!(
        prefix, "archive/dt=!{timestamp:yyyy-MM-dd}/hh=!{timestamp:HH}/",
        "the prefix that is emulated"
    );
    assert_eq!(text(&destination["compression_format"]), "GZIP");
    let bucket = text(&destination["bucket_arn"]).trim_start_matches("arn:aws:s3:::").to_owned();
    let options = DeliveryStreamOptions {
        buffer_for: Duration::from_secs(1),
        ..DeliveryStreamOptions::new(text(&stream["name"]), &bucket)
    };
    EmbeddedFirehose::start(options, s3).await.expect("a delivery stream")
}
