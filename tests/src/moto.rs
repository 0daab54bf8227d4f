//! moto, an independent implementation of AWS's APIs, as a process on 127.0.0.1.

use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aws_sdk_cloudfront::types::{
    DefaultCacheBehavior, DistributionConfig, Origin, Origins, S3OriginConfig, ViewerProtocolPolicy,
};
use aws_sdk_firehose::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_firehose::types::ExtendedS3DestinationConfiguration;

use crate::archive::{BUCKET, STREAM};
use crate::cloudfront;
use crate::redis_server::free_port;
use crate::sqs;

/// The Python interpreter that has moto; `tests/run` sets it.
const PYTHON: &str = "AFTERWRITE_TEST_PYTHON";
/// Starting takes a second or two, and much longer on a busy machine.
const MAX_START_TIME: Duration = Duration::from_secs(60);

/// A running moto server; dropping it stops it.
pub struct MotoServer {
    process: Child,
    endpoint: String,
}

impl MotoServer {
    /// Starts a server and waits until it accepts connections.
    ///
    /// # Panics
    /// If moto is not available: a test that needs it must fail.
    #[must_use]
    pub fn start() -> Self {
        let python = std::env::var_os(PYTHON).map(PathBuf::from);
        let python = python.unwrap_or_else(|| panic!("{PYTHON} is not set: run tests/run"));
        let port = free_port();
        let mut command = Command::new(python);
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("the Python interpreter");
        let mut moto = Self { process, endpoint: format!("http://127.0.0.1:{port}") };
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let ended = moto.process.try_wait().expect("its state");
            assert!(
                ended.is_none() && started.elapsed() < MAX_START_TIME,
                "moto does not start: run tests/run"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        moto
    }

    /// Starts a server with the bucket and the delivery stream of the archive. moto's Firehose neither compresses nor supports a prefix
    /// with times; it writes an object for each request.
    ///
    /// # Panics
    /// If they cannot be created.
    pub async fn with_archive() -> Self {
        let moto = Self::start();
        moto.s3().create_bucket().bucket(BUCKET).send().await.expect("a bucket");
        let destination = ExtendedS3DestinationConfiguration::builder()
            .role_arn("arn:aws:iam::123456789012:role/delivery")
            .bucket_arn(format!("arn:aws:s3:::{BUCKET}"))
            .prefix("archive/")
            .build()
            .expect("a destination");
        let create = moto.firehose().create_delivery_stream().delivery_stream_name(STREAM);
        let created = create.extended_s3_destination_configuration(destination).send();
        Box::pin(created).await.expect("a delivery stream");
        moto
    }

    /// Creates a CloudFront distribution; returns its id.
    ///
    /// # Panics
    /// If it cannot be created.
    pub async fn create_distribution(&self) -> String {
        let bucket = S3OriginConfig::builder().origin_access_identity("").build();
        let origin = Origin::builder().id("o").domain_name("b.s3.amazonaws.com").s3_origin_config(bucket);
        let origins = Origins::builder().quantity(1).items(origin.build().expect("an origin"));
        let behavior = DefaultCacheBehavior::builder()
            .target_origin_id("o")
            .viewer_protocol_policy(ViewerProtocolPolicy::AllowAll)
            .build();
        let configuration = DistributionConfig::builder()
            .caller_reference("test")
            .origins(origins.build().expect("origins"))
            .default_cache_behavior(behavior.expect("a behavior"))
            .comment("")
            .enabled(true)
            .build()
            .expect("a configuration");
        let create = cloudfront::client(&self.endpoint).create_distribution();
        let created = Box::pin(create.distribution_config(configuration).send()).await;
        created.expect("a distribution").distribution().expect("its description").id().to_owned()
    }

    /// The invalidations of a distribution, in order of creation: caller references with their paths.
    ///
    /// # Panics
    /// If they cannot be read.
    pub async fn invalidations(&self, distribution: &str) -> Vec<(String, Vec<String>)> {
        let client = cloudfront::client(&self.endpoint);
        let list = client.list_invalidations().distribution_id(distribution).send().await.expect("a list");
        let list = list.invalidation_list().expect("a list");
        assert!(!list.is_truncated());
        let mut invalidations = Vec::new();
        for summary in list.items() {
            let get = client.get_invalidation().distribution_id(distribution).id(summary.id());
            let response = get.send().await.expect("an invalidation");
            let batch = response.invalidation().and_then(|invalidation| invalidation.invalidation_batch());
            let batch = batch.expect("its paths");
            let paths = batch.paths().expect("its paths").items().to_vec();
            invalidations.push((batch.caller_reference().to_owned(), paths));
        }
        invalidations
    }

    /// Creates a secret with this text; returns its ARN.
    ///
    /// # Panics
    /// If it cannot be created.
    pub async fn create_secret(&self, name: &str, text: &str) -> String {
        let config = aws_sdk_secretsmanager::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("us-east-1"))
            .endpoint_url(&self.endpoint)
            .credentials_provider(credentials())
            .http_client(afterwrite::sink::http_client());
        let client = aws_sdk_secretsmanager::Client::from_conf(config.build());
        let created = Box::pin(client.create_secret().name(name).secret_string(text).send()).await;
        created.expect("a secret").arn().expect("its ARN").to_owned()
    }

    /// Creates a queue; returns its URL.
    ///
    /// # Panics
    /// If it cannot be created.
    pub async fn create_queue(&self, name: &str) -> String {
        let created = sqs::client(&self.endpoint).create_queue().queue_name(name).send().await;
        created.expect("a queue").queue_url().expect("its URL").to_owned()
    }

    /// Receives all messages of a queue and deletes them.
    ///
    /// # Panics
    /// If they cannot be received.
    pub async fn take_messages(&self, url: &str) -> Vec<String> {
        let client = sqs::client(&self.endpoint);
        let mut messages = Vec::new();
        loop {
            let receive = client.receive_message().queue_url(url).max_number_of_messages(10);
            let received = receive.wait_time_seconds(0).send().await.expect("messages");
            if received.messages().is_empty() {
                return messages;
            }
            for message in received.messages() {
                messages.push(message.body().unwrap_or_default().to_owned());
                let handle = message.receipt_handle().expect("a handle");
                let delete = client.delete_message().queue_url(url).receipt_handle(handle);
                delete.send().await.expect("a deletion");
            }
        }
    }

    /// Its endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// A Firehose client.
    #[must_use]
    pub fn firehose(&self) -> aws_sdk_firehose::Client {
        firehose_client(&self.endpoint)
    }

    /// An S3 client.
    #[must_use]
    pub fn s3(&self) -> aws_sdk_s3::Client {
        let config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("us-east-1"))
            .endpoint_url(&self.endpoint)
            .force_path_style(true)
            .credentials_provider(credentials())
            .http_client(afterwrite::sink::http_client());
        aws_sdk_s3::Client::from_conf(config.build())
    }
}

/// A Firehose client of an endpoint, `http://host:port`.
pub(crate) fn firehose_client(endpoint: &str) -> aws_sdk_firehose::Client {
    let config = aws_sdk_firehose::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .endpoint_url(endpoint)
        .credentials_provider(credentials())
        .http_client(afterwrite::sink::http_client());
    aws_sdk_firehose::Client::from_conf(config.build())
}

fn credentials() -> Credentials {
    Credentials::new("test", "test", None, None, "test")
}

impl Drop for MotoServer {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
