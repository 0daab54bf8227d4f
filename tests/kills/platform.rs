//! The servers that survive every kill, and the environment by which programs find them.

use std::time::Duration;

use afterwrite_demo::workloads;
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, TableDefinition};
use afterwrite_local::eventbridge::EmbeddedEventBridge;
use afterwrite_local::firehose::{DeliveryStreamOptions, EmbeddedFirehose};
use afterwrite_local::s3::{CreatedObject, EmbeddedS3, S3Options};
use afterwrite_local::sdk::{CREDENTIAL, REGION};
use afterwrite_local::stream_api::StreamServer;
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const MODEL: &str = "exambuddy";
const MODEL_FILE: &str = "model.toml";
pub(crate) const SOURCE: &str = "ExamBuddyTable";
pub(crate) const STATE: &str = "State";
pub(crate) const BUCKET: &str = "bucket";
const DELIVERY_STREAM: &str = "archive";

/// The built-in model with an event rule.
const EVENTS: &str = r#"
[[events]]
name = "attempt_completed"
of = "attempt"
when.status = ["COMPLETED"]
detail = ["attempt_id", "status"]
"#;
const BUS: &str = "arn:aws:events:us-east-1:000000000000:event-bus/kills";

/// The servers.
pub(crate) struct Platform {
    pub(crate) dynamodb: EmbeddedDynamoDb,
    /// DynamoDB for programs, which see the stream as the consumers inside the process do.
    served: StreamServer,
    pub(crate) s3: EmbeddedS3,
    pub(crate) firehose: EmbeddedFirehose,
    pub(crate) bus: EmbeddedEventBridge,
    /// Holds the model's file.
    folder: TempDir,
    /// The objects that appear in the bucket.
    pub(crate) created: Mutex<UnboundedReceiver<CreatedObject>>,
}

impl Platform {
    pub(crate) async fn start() -> Self {
        let dynamodb = EmbeddedDynamoDb::start().await.unwrap();
        dynamodb.create_table(&TableDefinition::state(STATE)).await.unwrap();
        for table in workloads::of(MODEL).unwrap().tables() {
            dynamodb.create_table(&table).await.unwrap();
        }
        let (sender, created) = unbounded_channel();
        let s3 = EmbeddedS3::open(S3Options { created: Some(sender), ..S3Options::default() }).await.unwrap();
        s3.create_bucket(BUCKET).await.unwrap();
        let options = DeliveryStreamOptions {
            buffer_for: Duration::from_secs(1),
            ..DeliveryStreamOptions::new(DELIVERY_STREAM, BUCKET)
        };
        let firehose = EmbeddedFirehose::start(options, &s3.client()).await.unwrap();
        let served = StreamServer::start(&dynamodb, 0).await.unwrap();
        let bus = EmbeddedEventBridge::start(0).await.unwrap();
        let folder = TempDir::new().unwrap();
        let model = include_str!("../../common/model/src/table/models/exambuddy.toml");
        std::fs::write(folder.path().join(MODEL_FILE), [model, EVENTS].concat()).unwrap();
        Self { dynamodb, served, s3, firehose, bus, folder, created: Mutex::new(created) }
    }

    /// The environment of a program.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let variables = [
            ("AFTERWRITE_MODEL", self.folder.path().join(MODEL_FILE).to_string_lossy().into_owned()),
            ("AFTERWRITE_EVENTS", BUS.to_owned()),
            ("AFTERWRITE_STATE_TABLE", STATE.to_owned()),
            ("AFTERWRITE_BUCKET", BUCKET.to_owned()),
            ("AFTERWRITE_FIREHOSE_STREAM", DELIVERY_STREAM.to_owned()),
            ("AWS_ENDPOINT_URL_DYNAMODB", self.served.endpoint()),
            ("AWS_ENDPOINT_URL_DYNAMODB_STREAMS", self.served.endpoint()),
            ("AWS_ENDPOINT_URL_S3", self.s3.endpoint()),
            ("AWS_ENDPOINT_URL_FIREHOSE", self.firehose.endpoint()),
            ("AWS_ENDPOINT_URL_EVENTBRIDGE", self.bus.endpoint()),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", CREDENTIAL.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", CREDENTIAL.to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ];
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The keys of all objects with this prefix.
    pub(crate) async fn keys(&self, prefix: &str) -> Vec<String> {
        let pages = self.s3.client().list_objects_v2().bucket(BUCKET).prefix(prefix).into_paginator().send();
        let pages = pages.collect::<Result<Vec<_>, _>>().await.unwrap();
        let objects = pages.iter().flat_map(|page| page.contents());
        objects.filter_map(|object| object.key().map(str::to_owned)).collect()
    }

    /// The content of an object.
    pub(crate) async fn object(&self, key: &str) -> Vec<u8> {
        let got = self.s3.client().get_object().bucket(BUCKET).key(key).send().await.unwrap();
        got.body.collect().await.unwrap().to_vec()
    }
}
