//! The cache's address in a secret: a function reads it when it starts, and neither its log nor its errors contain it.

use afterwrite_tests::deployment::{FunctionDeployment, event};
use afterwrite_tests::moto::MotoServer;
use afterwrite_tests::programs::program;
use afterwrite_tests::redis_server::RedisServer;

use super::{TIME, assert_all_handled, refusal_to_start_of};

const USER: &str = "relay";
const PASSWORD: &str = "correct-horse";
const REGION: &str = "us-east-1";

#[tokio::test]
#[ignore = "needs moto, redis-server and the release binaries: run tests/run"]
async fn relay_connects_with_the_password_of_the_secret() {
    let (deployment, redis, moto) =
        (FunctionDeployment::new().await, RedisServer::start().await, MotoServer::start());
    let password = format!(">{PASSWORD}");
    redis.run::<()>(&["ACL", "SETUSER", USER, "on", &password, "~*", "&*", "+@all"]).await;
    redis.run::<()>(&["SET", "question:q1", "cached"]).await;
    let address = redis.url().replace("redis://", &format!("redis://{USER}:{PASSWORD}@"));
    let arn = moto.create_secret("cache", &format!("{address}\n")).await;
    let settings = [
        ("AFTERWRITE_PROJECTIONS", "invalidate"),
        ("AFTERWRITE_CACHE_SECRET", &*arn),
        ("AWS_ENDPOINT_URL_SECRETS_MANAGER", moto.endpoint()),
        ("AWS_REGION", REGION),
        ("AWS_LAMBDA_LOG_LEVEL", "TRACE"),
    ];
    let (api, running) = deployment.function(&program("relay"), &settings).await;
    deployment.put_question("p1", "q1").await;
    let records = deployment.records().await;
    assert_all_handled(api.invoke(event(&records), TIME).await, &running);
    assert!(redis.run::<Vec<String>>(&["KEYS", "*"]).await.is_empty());
    let log = running.stop();
    assert!(log.contains("KeysInvalidated") && !log.contains(PASSWORD), "{log}");
}

#[tokio::test]
#[ignore = "needs moto and the release binaries: run tests/run"]
async fn a_secret_that_cannot_be_used_is_named_without_its_text() {
    let moto = MotoServer::start();
    let refusal = async |arn: &str, url: &str| {
        let settings = [
            ("AFTERWRITE_MODEL", "exambuddy"),
            ("AFTERWRITE_PROJECTIONS", "invalidate"),
            ("AFTERWRITE_CACHE_SECRET", arn),
            ("AFTERWRITE_CACHE_URL", url),
            ("AWS_ENDPOINT_URL_SECRETS_MANAGER", moto.endpoint()),
            ("AWS_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ];
        refusal_to_start_of("relay", &settings).await
    };
    let json = format!("{{\"username\": \"{USER}\", \"password\": \"{PASSWORD}\"}}");
    let unreadable = moto.create_secret("unreadable", &json).await;
    let missing = unreadable.replace("unreadable", "missing");
    for (arn, url, words) in [
        (&missing, "", ["GetSecretValue: it does not exist", &missing, "Set AFTERWRITE_CACHE_SECRET"]),
        (&unreadable, "", ["is not a cache address", "AFTERWRITE_CACHE_SECRET", "rediss://host:6379"]),
        (&unreadable, "redis://cache", ["are both set", "AFTERWRITE_CACHE_SECRET", "AFTERWRITE_CACHE_URL"]),
    ] {
        let error = refusal(arn, url).await;
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        assert!(!error.contains(PASSWORD), "{error}");
    }
}
