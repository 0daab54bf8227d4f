//! The least function there can be: what a cold start costs before anything of ours.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let hello = |_: LambdaEvent<Value>| async { Ok::<_, Error>(json!({ "hello": "world" })) };
    lambda_runtime::run(service_fn(hello)).await
}
