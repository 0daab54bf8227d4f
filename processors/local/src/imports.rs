//! Imports of tables from S3: a server in front of the embedded DynamoDB that also carries out `ImportTable` and `DescribeImport`.
//!
//! It reads gzip DynamoDB JSON from the embedded S3 into a new table, as AWS does: in the background, without a stream record. A line that is not
//! an item is counted as an error, and the import goes on. Of two lines with one key the later one stays.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Read as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use afterwrite_mapping::http::HttpServer;
use afterwrite_model::{Error, ErrorKind, Result};
use dynoxide::{Database, ImportOptions, Item};
use flate2::read::MultiGzDecoder;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::dynamodb::{EmbeddedDynamoDb, call};
use crate::proxy::{ProxyResponse, ReceivedRequest, UpstreamProxy, failure, json_response, unavailable};
use crate::s3::EmbeddedS3;

/// The items that are written at once.
const ITEMS_AT_ONCE: usize = 1_000;

/// A running server.
#[derive(Debug)]
pub struct ImportServer {
    server: HttpServer,
}

struct ImportState {
    proxy: UpstreamProxy,
    database: Database,
    objects: aws_sdk_s3::Client,
    /// By ARN.
    imports: Mutex<BTreeMap<String, TableImport>>,
}

/// An import, as `DescribeImport` shows it.
#[derive(Clone, Debug)]
struct TableImport {
    request: Value,
    status: &'static str,
    imported: u64,
    errors: u64,
    bytes: u64,
    failure: Option<String>,
}

/// A request of `ImportTable`, as far as it is used.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ImportRequest {
    client_token: Option<String>,
    input_format: String,
    #[serde(default)]
    input_compression_type: Option<String>,
    s3_bucket_source: ImportSource,
    table_creation_parameters: Value,
}

#[derive(Debug, Deserialize)]
struct ImportSource {
    #[serde(rename = "S3Bucket")]
    bucket: String,
    #[serde(rename = "S3KeyPrefix", default)]
    prefix: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ImportedLine {
    item: Item,
}

impl ImportServer {
    /// Starts a server for this database and these buckets, on the current Tokio runtime.
    ///
    /// # Errors
    /// `Configuration` if there is no free port.
    pub async fn start(dynamodb: &EmbeddedDynamoDb, buckets: &EmbeddedS3) -> Result<Self> {
        let state = Arc::new(ImportState {
            proxy: UpstreamProxy::new(&dynamodb.endpoint()),
            database: dynamodb.database(),
            objects: buckets.client(),
            imports: Mutex::default(),
        });
        let service = service_fn(move |request| {
            let state = Arc::clone(&state);
            async move { Ok::<_, Infallible>(state.respond(request).await) }
        });
        Ok(Self { server: HttpServer::start("import server of the embedded DynamoDB", service).await? })
    }

    /// The server's URL: `http://127.0.0.1:<port>`. It serves every operation of the embedded DynamoDB.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }
}

impl ImportState {
    async fn respond(self: Arc<Self>, request: Request<Incoming>) -> ProxyResponse {
        let Some(request) = ReceivedRequest::receive(request).await else { return unavailable() };
        match request.operation() {
            "ImportTable" => self.import_table(&request.body).await,
            "DescribeImport" => self.describe_import(&request.body),
            _ => self.proxy.forward(request).await,
        }
    }

    async fn import_table(self: Arc<Self>, body: &[u8]) -> ProxyResponse {
        let Ok(json) = serde_json::from_slice::<Value>(body) else { return invalid("the body is not JSON") };
        let Ok(request) = ImportRequest::deserialize(&json) else {
            return invalid("a parameter is missing or has another type");
        };
        let is_gzip = request.input_compression_type.as_deref() == Some("GZIP");
        if request.input_format != "DYNAMODB_JSON" || !is_gzip {
            return invalid("the embedded DynamoDB imports DYNAMODB_JSON with GZIP");
        }
        let table = request.table_creation_parameters.get("TableName").and_then(Value::as_str).unwrap_or("");
        let table = table.to_owned();
        let token = request.client_token.as_deref().unwrap_or("none");
        let arn = format!("arn:aws:dynamodb:us-east-1:000000000000:table/{table}/import/{token}");
        if let Some(known) = lock(&self.imports).get(&arn) {
            // The request of an import that has begun is idempotent.
            return if known.request == json {
                described(&arn, known)
            } else {
                let message = "another import has this client token";
                failure(StatusCode::BAD_REQUEST, "ImportConflictException", message)
            };
        }
        let Ok(create) = serde_json::from_value(request.table_creation_parameters.clone()) else {
            return invalid("the parameters of the table are invalid");
        };
        if let Err(error) = call(&self.database, move |database| database.create_table(create)).await {
            return failure(StatusCode::BAD_REQUEST, "ResourceInUseException", &error.to_string());
        }
        let import = TableImport {
            request: json,
            status: "IN_PROGRESS",
            imported: 0,
            errors: 0,
            bytes: 0,
            failure: None,
        };
        let response = described(&arn, &import);
        lock(&self.imports).insert(arn.clone(), import);
        tokio::spawn(async move {
            let result = self.import(&arn, &table, &request.s3_bucket_source).await;
            self.change(&arn, |import| match result {
                Ok(()) => import.status = "COMPLETED",
                Err(error) => {
                    import.status = "FAILED";
                    import.failure = Some(error.to_string());
                }
            });
        });
        response
    }

    fn describe_import(&self, body: &[u8]) -> ProxyResponse {
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        let arn = request.get("ImportArn").and_then(Value::as_str).unwrap_or_default();
        match lock(&self.imports).get(arn) {
            Some(import) => described(arn, import),
            None => failure(StatusCode::BAD_REQUEST, "ImportNotFoundException", "there is no such import"),
        }
    }

    async fn import(&self, arn: &str, table: &str, source: &ImportSource) -> Result<()> {
        let mut token = None;
        loop {
            let page = self.objects.list_objects_v2().bucket(&source.bucket).prefix(&source.prefix);
            let page = Box::pin(page.set_continuation_token(token).send()).await.map_err(unreadable)?;
            for key in page.contents().iter().filter_map(|object| object.key()) {
                let object = self.objects.get_object().bucket(&source.bucket).key(key);
                let object = Box::pin(object.send()).await.map_err(unreadable)?;
                let body = object.body.collect().await.map_err(unreadable)?.to_vec();
                self.import_object(arn, table, &body).await?;
            }
            token = page.next_continuation_token().map(str::to_owned);
            if token.is_none() {
                return Ok(());
            }
        }
    }

    async fn import_object(&self, arn: &str, table: &str, packed: &[u8]) -> Result<()> {
        let mut text = String::new();
        MultiGzDecoder::new(packed).read_to_string(&mut text).map_err(unreadable)?;
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        for lines in lines.chunks(ITEMS_AT_ONCE) {
            let read = lines.iter().map(|line| serde_json::from_str::<ImportedLine>(line));
            let items: Vec<Item> = read.filter_map(|line| Some(line.ok()?.item)).collect();
            let (imported, all, name) = (length(items.len()), length(lines.len()), table.to_owned());
            call(&self.database, move |database| {
                database.import_items(&name, items, ImportOptions::default()).map(drop)
            })
            .await?;
            self.change(arn, |import| {
                import.imported += imported;
                import.errors += all - imported;
            });
        }
        self.change(arn, |import| import.bytes += length(text.len()));
        Ok(())
    }

    fn change(&self, arn: &str, change: impl FnOnce(&mut TableImport)) {
        if let Some(import) = lock(&self.imports).get_mut(arn) {
            change(import);
        }
    }
}

fn described(arn: &str, import: &TableImport) -> ProxyResponse {
    let table = arn.split_once("/import/").map_or(arn, |(table, _)| table);
    let mut description = json!({
        "ImportArn": arn,
        "ImportStatus": import.status,
        "TableArn": table,
        "ImportedItemCount": import.imported,
        "ProcessedItemCount": import.imported + import.errors,
        "ProcessedSizeBytes": import.bytes,
        "ErrorCount": import.errors,
    });
    if let (Some(failure), Some(members)) = (&import.failure, description.as_object_mut()) {
        members.insert("FailureCode".to_owned(), "ItemValidationError".into());
        members.insert("FailureMessage".to_owned(), failure.as_str().into());
    }
    json_response(StatusCode::OK, &json!({ "ImportTableDescription": description }))
}

fn invalid(message: &str) -> ProxyResponse {
    failure(StatusCode::BAD_REQUEST, "ValidationException", message)
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Unavailable, "an object of an import cannot be read").caused_by(error)
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
