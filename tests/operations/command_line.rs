//! `afterwrite backfill` as an operator runs it: the release binary against embedded servers, through the AWS SDK.

use std::process::Output;

use afterwrite_demo::item::SdkItem;
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, TableDefinition};
use afterwrite_local::imports::ImportServer;
use afterwrite_local::s3::EmbeddedS3;
use afterwrite_services::Bucket as _;
use afterwrite_services::s3::S3Bucket;
use afterwrite_tests::archive::BUCKET;
use afterwrite_tests::programs::embedded_afterwrite;
use serde_json::Value;

use super::world::{OperationWorld, STATE, sdk_item};

/// The servers of a deployment, with the items of a world.
pub(crate) struct Deployment {
    pub(crate) dynamodb: EmbeddedDynamoDb,
    pub(crate) s3: EmbeddedS3,
    imports: ImportServer,
}

impl Deployment {
    pub(crate) async fn of(world: &OperationWorld) -> Self {
        let dynamodb = EmbeddedDynamoDb::start().await.unwrap();
        dynamodb.create_table(&TableDefinition::state(STATE)).await.unwrap();
        let client = dynamodb.client();
        for table in world.workload.tables() {
            dynamodb.create_table(&table).await.unwrap();
            for item in world.rows(&table.name) {
                let item = Some(sdk_item(&item));
                client.put_item().table_name(&table.name).set_item(item).send().await.unwrap();
            }
        }
        let s3 = EmbeddedS3::start().await.unwrap();
        s3.create_bucket(BUCKET).await.unwrap();
        let imports = ImportServer::start(&dynamodb, &s3).await.unwrap();
        Self { dynamodb, s3, imports }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = embedded_afterwrite(&self.imports.endpoint(), STATE);
        command.args(arguments).env("AWS_ENDPOINT_URL_S3", self.s3.endpoint()).output().unwrap()
    }

    /// The JSON of a command with this exit code.
    pub(crate) fn json(&self, code: i32, arguments: &[&str]) -> Value {
        let output = tokio::task::block_in_place(|| self.run(arguments));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{errors}");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// All items of a table.
    pub(crate) async fn rows(&self, table: &str) -> Vec<SdkItem> {
        let client = self.dynamodb.client();
        let pages = client.scan().table_name(table).into_paginator().items().send();
        pages.collect::<Result<_, _>>().await.unwrap()
    }

    async fn dataset_objects(&self) -> usize {
        let bucket = S3Bucket::new(&self.s3.client(), BUCKET.into());
        let all = bucket.list("datasets/").await.unwrap();
        all.iter().filter(|object| object.key.contains("_log/dt=")).count()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn datasets_are_filled_if_there_is_a_bucket_and_the_plan_states_if_not() {
    let world = OperationWorld::new("exambuddy", 3, 30, 1000);
    let deployment = Deployment::of(&world).await;
    let notes = |plan: &Value| plan["notes"].to_string();

    let plan = deployment.json(2, &["backfill", "--json", "--without-recovery"]);
    assert!(notes(&plan).contains("datasets are not filled") && plan["put_requests"] == 0, "{plan}");
    let plan = deployment.json(2, &["backfill", "--json", "--without-recovery", "--without-datasets"]);
    assert!(!notes(&plan).contains("datasets"), "{plan}");
    let bucket = ["--without-recovery", "--bucket", BUCKET, "--segments", "1"];
    let plan = deployment.json(2, &[&["backfill", "--json"], &bucket[..]].concat());
    assert!(notes(&plan).contains("PUT requests") && plan["put_requests"].as_u64() > Some(0), "{plan}");
    deployment.json(2, &["backfill", "--datasets-only", "--yes"]);
    assert_eq!(deployment.dataset_objects().await, 0);

    let only = ["backfill", "--datasets-only", "--yes", "--json", "--bucket", BUCKET, "--segments", "1"];
    let report = deployment.json(0, &only);
    let totals = &report["totals"];
    assert!(totals["dataset_rows"].as_u64() > Some(0) && totals["reconciled"].is_null(), "{report}");
    let files = deployment.dataset_objects().await;
    assert_eq!(totals["dataset_files"].as_u64(), u64::try_from(files).ok());

    let arguments = ["backfill", "--yes", "--json", "--without-recovery", "--bucket", BUCKET];
    let report = deployment.json(0, &arguments);
    let totals = &report["totals"];
    assert!(totals["dataset_rows"].as_u64() > Some(0) && totals["reconciled"].as_u64() > Some(0), "{report}");
    assert!(deployment.dataset_objects().await > files);
    deployment.s3.stop().await.unwrap();
    deployment.dynamodb.stop().await.unwrap();
}
