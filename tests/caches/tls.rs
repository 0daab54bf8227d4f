//! `rediss://`: certificates are verified.

use std::time::Duration;

use afterwrite::commit::{Clock, SystemClock};
use afterwrite::projection::StaleKey;
use afterwrite::sink::Cache;
use afterwrite::sink::redis::{Redis, Topology};
use afterwrite::table::Remedy;
use afterwrite_tests::redis_server::{RedisServer, free_port};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

/// A server for a name, whose certificate is this authority's.
fn server(authority: &CertifiedIssuer<'static, KeyPair>, name: &str) -> RedisServer {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    let folder = tempfile::tempdir().unwrap().keep();
    let file = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (certificate, key) =
        (file("certificate.pem", certificate.pem()), file("key.pem", key.serialize_pem()));
    let authority = file("authority.pem", authority.pem());
    let port = free_port();
    let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &authority];
    let arguments: Vec<&str> = files.into_iter().chain(["--tls-auth-clients", "no"]).collect();
    RedisServer::spawn(&["--port", "0", "--tls-port", &port.to_string()], port, &arguments)
}

async fn invalidate(server: &RedisServer, authority: Option<String>, tries: usize) -> afterwrite::Result<()> {
    let url = format!("rediss://localhost:{}", server.port);
    let redis = Redis::new(&url, Topology::Single, authority.map(String::into_bytes)).unwrap();
    let stale = StaleKey { key: "k".to_owned(), remedy: Remedy::Delete, records: vec![0], rule: 0 };
    let mut answer = Ok(());
    for _ in 0..tries {
        let invalidated =
            redis.invalidate(std::slice::from_ref(&stale), SystemClock.now(), Duration::from_secs(5));
        answer = invalidated.await.answers.pop().unwrap();
        if answer.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    answer
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_certificate_is_verified() {
    let (ours, other) = (authority(), authority());
    let good = server(&ours, "localhost");
    invalidate(&good, Some(ours.pem()), 50).await.expect("the authority that signed it is trusted");
    invalidate(&good, Some(other.pem()), 1).await.expect_err("another authority is trusted");
    invalidate(&good, None, 1).await.expect_err("the machine's authorities are trusted");
    let elsewhere = server(&ours, "elsewhere.example");
    // It serves by now, or a moment later; in either case the name is wrong.
    invalidate(&elsewhere, Some(ours.pem()), 10).await.expect_err("the certificate is for another name");
}
