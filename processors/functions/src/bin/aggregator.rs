//! The Lambda function `aggregator`: a table's stream in, its rollups, counters and mirrors right.

use afterwrite::config::Projection;
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    afterwrite_functions::host::run("aggregator", &[Projection::Aggregate]).await
}
