//! `rediss://`: certificates are verified.

use std::iter;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use afterwrite_model::projection::StaleKey;
use afterwrite_model::table::CacheRemedy;
use afterwrite_services::Cache;
use afterwrite_services::redis::{CacheTopology, RedisCache};
use afterwrite_tests::redis_server::{RedisServer, free_port};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use redis::aio::MultiplexedConnection;
use redis::io::AsyncDNSResolver;
use redis::{AsyncConnectionConfig, Client, RedisFuture, TlsCertificates, cmd};

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

/// A server with a certificate for a name, signed by an authority.
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

/// Resolves every name to this machine.
struct LoopbackResolver;

impl AsyncDNSResolver for LoopbackResolver {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        _name: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Box::pin(async move { Ok(Box::new(iter::once(address)) as Box<_>) })
    }
}

/// A connection for the test to a server by its name, as soon as it responds.
async fn connection(
    server: &RedisServer,
    name: &str,
    authority: &CertifiedIssuer<'static, KeyPair>,
) -> MultiplexedConnection {
    let certificates = TlsCertificates { client_tls: None, root_cert: Some(authority.pem().into_bytes()) };
    let url = format!("rediss://{name}:{}", server.port);
    let client = Client::build_with_tls(url, certificates).unwrap();
    let limit = Instant::now() + Duration::from_secs(10);
    loop {
        let settings = AsyncConnectionConfig::new().set_dns_resolver(LoopbackResolver);
        match Box::pin(client.get_multiplexed_async_connection_with_config(&settings)).await {
            Ok(connection) => return connection,
            Err(error) => assert!(Instant::now() < limit, "{name} does not respond: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn keys(connection: &mut MultiplexedConnection) -> Vec<String> {
    let mut keys: Vec<String> = cmd("KEYS").arg("*").query_async(connection).await.unwrap();
    keys.sort_unstable();
    keys
}

/// Deletes the key `stale` on the server, under the name `localhost`.
async fn invalidate(server: &RedisServer, authority: Option<String>) -> afterwrite_model::Result<()> {
    let url = format!("rediss://localhost:{}", server.port);
    let redis = RedisCache::new(&url, CacheTopology::Single, authority.map(String::into_bytes)).unwrap();
    let stale = StaleKey { key: "stale".to_owned(), remedy: CacheRemedy::Delete, records: vec![0], rule: 0 };
    let mut invalidated = redis.invalidate(&[stale], Duration::from_secs(5)).await;
    invalidated.results.pop().unwrap()
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_certificate_is_verified() {
    let (ours, other) = (authority(), authority());
    let good = server(&ours, "localhost");
    let elsewhere = server(&ours, "elsewhere.example");
    // Both accept clients that use the names in their certificates.
    let mut at_good = connection(&good, "localhost", &ours).await;
    let mut at_elsewhere = connection(&elsewhere, "elsewhere.example", &ours).await;
    for connection in [&mut at_good, &mut at_elsewhere] {
        for key in ["stale", "unrelated"] {
            cmd("SET").arg(key).arg("cached").exec_async(connection).await.unwrap();
        }
    }
    invalidate(&good, Some(other.pem())).await.expect_err("another authority is trusted");
    invalidate(&good, None).await.expect_err("the machine's authorities are trusted");
    invalidate(&elsewhere, Some(ours.pem())).await.expect_err("the certificate is for another name");
    assert_eq!(keys(&mut at_good).await, ["stale", "unrelated"]);
    assert_eq!(keys(&mut at_elsewhere).await, ["stale", "unrelated"]);
    invalidate(&good, Some(ours.pem())).await.expect("the authority that signed it is trusted");
    assert_eq!(keys(&mut at_good).await, ["unrelated"]);
}
