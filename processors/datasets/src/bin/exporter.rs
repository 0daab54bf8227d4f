//! The Lambda function `exporter`: the archive's objects in, Parquet out.

use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    afterwrite_datasets::export::function::run().await
}
