//! The servers of `afterwrite dev`.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_local::cloudfront::EmbeddedCloudFront;
use afterwrite_local::conflicts::ConflictProxy;
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, TableDefinition};
use afterwrite_local::eventbridge::EmbeddedEventBridge;
use afterwrite_local::firehose::{DeliveryStreamOptions, EmbeddedFirehose};
use afterwrite_local::s3::{CreatedObject, EmbeddedS3, S3Options};
use afterwrite_local::sdk::{CREDENTIAL, REGION};
use afterwrite_local::sqs::EmbeddedSqs;
use afterwrite_local::stream_api::StreamServer;
use afterwrite_mapping::FaultSwitch;
use afterwrite_model::Result;
use afterwrite_model::table::Model;
use afterwrite_services::config::{EmbeddedEndpoints, EnvironmentSettings, FunctionConfig};
use afterwrite_services::s3::S3Bucket;
use tokio::sync::{Mutex, mpsc};

use super::DevArguments;
use super::data::DataFolder;
use super::events::EventDisplay;
use super::tables::source_tables;

/// The state table.
pub(super) const STATE_TABLE: &str = "AfterwriteState";
/// The bucket of the archive, the datasets and discarded batches.
pub(super) const BUCKET: &str = "afterwrite-dev";
/// The queue of notifications about archive objects.
pub(super) const ARCHIVE_QUEUE: &str = "archive-objects";
/// The queue of stale paths.
pub(super) const PATH_QUEUE: &str = "stale-paths";
/// The queue of events, with `--events sqs`.
pub(super) const EVENT_QUEUE: &str = "events";
const DELIVERY_STREAM: &str = "afterwrite-archive";
const DISTRIBUTION: &str = "dev";
/// The age at which archived lines become an object.
const ARCHIVE_AFTER: Duration = Duration::from_secs(5);

/// The running servers.
pub(super) struct DevServers {
    pub(super) dynamodb: EmbeddedDynamoDb,
    /// The attribute that expires items of each source table.
    pub(super) time_to_live: Vec<Option<String>>,
    /// In front of DynamoDB, for everyone else.
    pub(super) streams: StreamServer,
    /// In front of DynamoDB, for the functions in this process.
    conflicts: ConflictProxy,
    /// In front of the streams' server, for functions in processes of their own.
    program_conflicts: ConflictProxy,
    pub(super) s3: EmbeddedS3,
    firehose: EmbeddedFirehose,
    pub(super) sqs: EmbeddedSqs,
    pub(super) cloudfront: EmbeddedCloudFront,
    pub(super) eventbridge: EmbeddedEventBridge,
    /// The folder of the data: while it is open, no other process uses it.
    _data: Option<DataFolder>,
    /// The objects that were created in the bucket.
    pub(super) created: Mutex<mpsc::UnboundedReceiver<CreatedObject>>,
}

impl DevServers {
    pub(super) async fn start(
        arguments: &DevArguments,
        config: &FunctionConfig,
        faults: &FaultSwitch,
    ) -> Result<Self> {
        let port = |offset: u16| if arguments.port == 0 { 0 } else { arguments.port + offset };
        let data = arguments.data_folder(&config.model.name)?;
        let file = data.as_ref().map(DataFolder::database);
        let dynamodb = EmbeddedDynamoDb::open(file.as_deref(), 0).await?;
        let streams = StreamServer::start(&dynamodb, port(0)).await?;
        let stream = config.model.state_source().is_some();
        let state = TableDefinition { stream, ..TableDefinition::state(STATE_TABLE).ranked(&config.model) };
        dynamodb.ensure_table(&state).await?;
        let time_to_live = ensure_source_tables(&dynamodb, config).await?;
        let conflicts = ConflictProxy::start(&table_endpoint(&dynamodb, &streams), faults).await?;
        let program_conflicts = ConflictProxy::start(&streams.endpoint(), faults).await?;
        let (sender, created) = mpsc::unbounded_channel();
        let folder = data.as_ref().map(DataFolder::bucket);
        let s3 = EmbeddedS3::open(S3Options { folder, port: port(1), created: Some(sender) }).await?;
        s3.ensure_bucket(BUCKET).await?;
        let options = DeliveryStreamOptions {
            buffer_for: ARCHIVE_AFTER,
            ..DeliveryStreamOptions::new(DELIVERY_STREAM, BUCKET)
        };
        let firehose = EmbeddedFirehose::start_at(port(2), options, &s3.client()).await?;
        let sqs = EmbeddedSqs::start(port(3), &[ARCHIVE_QUEUE, PATH_QUEUE, EVENT_QUEUE]).await?;
        let cloudfront = EmbeddedCloudFront::start(port(4), DISTRIBUTION).await?;
        let eventbridge = EmbeddedEventBridge::start(port(5)).await?;
        let servers = Self {
            dynamodb,
            time_to_live,
            streams,
            conflicts,
            program_conflicts,
            s3,
            firehose,
            sqs,
            cloudfront,
            eventbridge,
            _data: data,
            created: Mutex::new(created),
        };
        servers.require_signatures();
        Ok(servers)
    }

    /// S3 always checks signatures: all servers take the same credentials.
    fn require_signatures(&self) {
        self.streams.require_signatures();
        self.conflicts.require_signatures();
        self.program_conflicts.require_signatures();
        self.firehose.require_signatures();
        self.sqs.require_signatures();
        self.cloudfront.require_signatures();
        self.eventbridge.require_signatures();
    }

    /// Sets the functions' settings: these servers in place of AWS.
    pub(super) fn configure(&self, settings: &mut EnvironmentSettings, events: EventDisplay, model: &Model) {
        settings.state_table = Some(STATE_TABLE.to_owned());
        settings.bucket = Some(BUCKET.to_owned());
        settings.firehose_stream = Some(DELIVERY_STREAM.to_owned());
        settings.cdn_queue = Some(self.sqs.url(PATH_QUEUE));
        settings.distribution = Some(DISTRIBUTION.to_owned());
        settings.projections = None;
        events.configure(settings, EVENT_QUEUE, model);
        settings.embedded = Some(self.endpoints());
    }

    /// The endpoints for functions in processes of their own: they do not get the address of the DynamoDB behind the servers.
    pub(super) fn program_endpoints(&self) -> EmbeddedEndpoints {
        EmbeddedEndpoints { dynamodb: self.program_conflicts.endpoint(), ..self.endpoints() }
    }

    /// The endpoints for functions in this process.
    pub(super) fn endpoints(&self) -> EmbeddedEndpoints {
        EmbeddedEndpoints {
            region: REGION.to_owned(),
            credential: CREDENTIAL.to_owned(),
            dynamodb: self.conflicts.endpoint(),
            firehose: self.firehose.endpoint(),
            s3: self.s3.endpoint(),
            sqs: self.sqs.endpoint(),
            cloudfront: self.cloudfront.endpoint(),
            eventbridge: self.eventbridge.endpoint(),
        }
    }

    /// The bucket.
    pub(super) fn bucket(&self) -> S3Bucket {
        S3Bucket::retrying(self.s3.client(), Arc::from(BUCKET))
    }

    /// Writes the buffered records of the delivery stream.
    pub(super) async fn flush(&self) -> Result<()> {
        self.firehose.flush().await
    }
}

/// The endpoint of the tables for functions in this process: the database itself, unless it lacks an index as the model declares it.
fn table_endpoint(dynamodb: &EmbeddedDynamoDb, streams: &StreamServer) -> String {
    if dynamodb.needs_front() { streams.endpoint() } else { dynamodb.endpoint() }
}

/// Creates the source tables, or the missing indexes of existing tables. Returns the attribute that expires the items of each.
async fn ensure_source_tables(
    dynamodb: &EmbeddedDynamoDb,
    config: &FunctionConfig,
) -> Result<Vec<Option<String>>> {
    config.check_table_names()?;
    let mut time_to_live = Vec::new();
    for table in source_tables(&config.model, &config.table_names) {
        if table.name == STATE_TABLE {
            time_to_live.push(None);
            continue;
        }
        dynamodb.ensure_table(&table).await?;
        time_to_live.push(dynamodb.ttl_attribute(&table.name).await?);
    }
    Ok(time_to_live)
}
