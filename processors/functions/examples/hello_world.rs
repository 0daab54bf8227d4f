//! The smallest possible function: the cold start that Afterwrite's code adds to.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let hello = |_: LambdaEvent<Value>| async { Ok::<_, Error>(json!({ "hello": "world" })) };
    lambda_runtime::run(service_fn(hello)).await
}
