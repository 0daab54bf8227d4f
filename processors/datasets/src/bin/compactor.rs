//! The Lambda function `compactor`: `{"dataset": "attempts", "dt": "2026-02-06"}`, both optional; many small files become few.

use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    afterwrite_datasets::compact::function::run().await
}
