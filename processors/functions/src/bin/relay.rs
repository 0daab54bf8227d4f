//! The Lambda function `relay`: a table's stream in, its caches invalidated and every change archived.

use afterwrite::config::Projection;
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    afterwrite_functions::host::run("relay", &[Projection::Invalidate, Projection::Archive]).await
}
