//! moto, an independent implementation of AWS's APIs, as a process on 127.0.0.1.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use afterwrite_local::cloudfront::elements;
use afterwrite_services::cloudfront::CLOUDFRONT;
use afterwrite_services::secret::SECRETS_MANAGER;
use afterwrite_services::service_api::{ApiRequest, AwsService, ServiceApi};
use aws_sdk_firehose::types::ExtendedS3DestinationConfiguration;
use serde_json::{Value, json};

use crate::archive::{BUCKET, STREAM};
use crate::redis_server::free_port;
use crate::sdk::sdk_config;
use crate::sqs;

/// The Python interpreter that has moto; `tests/run` sets it.
const PYTHON: &str = "AFTERWRITE_TEST_PYTHON";
/// Starting takes a second or two, and much longer on a busy machine.
const MAX_START_TIME: Duration = Duration::from_secs(60);
/// Starts at a port each: another process may take a free port before moto does.
const MAX_STARTS: usize = 3;

/// Whether the server at a port is moto, and not a server of another test.
fn is_moto(port: u16) -> std::io::Result<bool> {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    connection.set_read_timeout(Some(MAX_START_TIME))?;
    connection.write_all(b"GET /moto-api/ HTTP/1.0\r\n\r\n")?;
    let mut response = Vec::new();
    connection.read_to_end(&mut response)?;
    Ok(String::from_utf8_lossy(&response).contains("Moto"))
}

/// A running moto server; dropping it stops it.
pub struct MotoServer {
    process: Child,
    endpoint: String,
}

impl MotoServer {
    /// Starts a server and waits until it responds.
    ///
    /// # Panics
    /// If moto is not available: a test that needs it must fail.
    #[must_use]
    pub fn start() -> Self {
        let started = (0..MAX_STARTS).find_map(|_| Self::start_at(free_port()));
        started.expect("moto starts: run tests/run")
    }

    /// Starts a server at a port; `None` if it ends, because another process has taken the port meanwhile.
    fn start_at(port: u16) -> Option<Self> {
        let python = std::env::var_os(PYTHON).map(PathBuf::from);
        let python = python.unwrap_or_else(|| panic!("{PYTHON} is not set: run tests/run"));
        let mut command = Command::new(python);
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("the Python interpreter");
        let mut moto = Self { process, endpoint: format!("http://127.0.0.1:{port}") };
        let started = Instant::now();
        while !is_moto(port).unwrap_or(false) {
            if moto.process.try_wait().expect("its state").is_some() {
                return None;
            }
            assert!(started.elapsed() < MAX_START_TIME, "moto does not start: run tests/run");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(moto)
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
        let configuration = "<DistributionConfig xmlns=\"http://cloudfront.amazonaws.com/doc/2020-05-31/\">\
             <CallerReference>test</CallerReference><Comment></Comment><Enabled>true</Enabled><Origins><Quantity>1</Quantity><Items>\
             <Origin><Id>o</Id><DomainName>b.s3.amazonaws.com</DomainName>\
             <S3OriginConfig><OriginAccessIdentity></OriginAccessIdentity></S3OriginConfig></Origin></Items></Origins>\
             <DefaultCacheBehavior><TargetOriginId>o</TargetOriginId><ViewerProtocolPolicy>allow-all</ViewerProtocolPolicy>\
             </DefaultCacheBehavior></DistributionConfig>";
        let path = "/2020-05-31/distribution";
        let created = self.cloudfront("CreateDistribution", "POST", path, configuration).await;
        elements(&created, "Id").into_iter().next().expect("its id")
    }

    /// The invalidations of a distribution, in order of creation: caller references with their paths.
    ///
    /// # Panics
    /// If they cannot be read.
    pub async fn invalidations(&self, distribution: &str) -> Vec<(String, Vec<String>)> {
        let path = format!("/2020-05-31/distribution/{distribution}/invalidation");
        let list = self.cloudfront("ListInvalidations", "GET", &path, "").await;
        assert_eq!(elements(&list, "IsTruncated"), ["false"]);
        let mut invalidations = Vec::new();
        for id in elements(&list, "Id") {
            let batch = self.cloudfront("GetInvalidation", "GET", &format!("{path}/{id}"), "").await;
            let reference = elements(&batch, "CallerReference").into_iter().next().expect("a reference");
            invalidations.push((reference, elements(&batch, "Path")));
        }
        invalidations
    }

    async fn cloudfront(&self, action: &'static str, method: &'static str, path: &str, body: &str) -> String {
        let headers = vec![("content-type", "application/xml".to_owned())];
        let request = ApiRequest { action, method, path: path.to_owned(), headers, body: body.to_owned() };
        self.call(&CLOUDFRONT, request).await
    }

    /// Sends a request; returns the text of the response.
    pub(crate) async fn call(&self, service: &'static AwsService, request: ApiRequest) -> String {
        let api = ServiceApi::new(service, sdk_config(&self.endpoint));
        let response = api.send(request).await.expect("a response");
        String::from_utf8(response.to_vec()).expect("a text")
    }

    /// Creates a secret with this text; returns its ARN.
    ///
    /// # Panics
    /// If it cannot be created.
    pub async fn create_secret(&self, name: &str, text: &str) -> String {
        let secret = json!({ "Name": name, "SecretString": text });
        let request = ApiRequest::json(SECRETS_MANAGER.name, "CreateSecret", &secret);
        let created: Value =
            serde_json::from_str(&self.call(&SECRETS_MANAGER, request).await).expect("a secret");
        created["ARN"].as_str().expect("its ARN").to_owned()
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
        let config = aws_sdk_s3::config::Builder::from(&sdk_config(&self.endpoint)).force_path_style(true);
        aws_sdk_s3::Client::from_conf(config.build())
    }
}

/// A Firehose client of an endpoint, `http://host:port`.
pub(crate) fn firehose_client(endpoint: &str) -> aws_sdk_firehose::Client {
    aws_sdk_firehose::Client::new(&sdk_config(endpoint))
}

impl Drop for MotoServer {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
