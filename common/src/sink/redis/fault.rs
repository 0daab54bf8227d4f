//! What an error of Redis means for its caller. The server's own words may quote keys, so they are read but never passed on.

use redis::{ErrorKind as Kind, RedisError, ServerErrorKind};

use super::{CacheTopology, too_late};
use crate::{Error, ErrorKind};

/// Whether a node answered that it takes no writes, because another is the primary.
pub(super) fn is_replica(error: &RedisError) -> bool {
    matches!(error.kind(), Kind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}

pub(super) fn fault(error: &RedisError, topology: CacheTopology) -> Error {
    let kind = error.kind();
    let code = error.code().unwrap_or_default().to_owned();
    let detail = error.detail().unwrap_or_default();
    let fault = |kind, message: &str| Error::new(kind, message).with("code", code.clone());
    let is_disabled = detail.contains("cluster support disabled");
    let is_redirected = matches!(
        kind,
        Kind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot)
    );
    // Cluster mode follows directions by itself. One that is left over leads to a node that is gone.
    if is_redirected && topology == CacheTopology::Cluster {
        return fault(ErrorKind::Unavailable, "the node that has the key could not be reached");
    }
    if is_disabled || is_redirected {
        let (is, set) = if is_disabled { ("is no cluster", "false") } else { ("is a cluster", "true") };
        return fault(ErrorKind::Configuration, &format!("the cache {is}"))
            .hint(format!("Set AFTERWRITE_CACHE_CLUSTER to {set}"));
    }
    if kind == Kind::AuthenticationFailed
        || kind == Kind::Server(ServerErrorKind::NoPerm)
        || matches!(code.as_str(), "NOAUTH" | "WRONGPASS")
    {
        return fault(ErrorKind::Configuration, "the cache denied access").hint(
            "Give AFTERWRITE_CACHE_URL a user and password that may UNLINK, SET and INCR the keys and PUBLISH on afterwrite:invalidated",
        );
    }
    if error.is_timeout() {
        return too_late();
    }
    let is_refused =
        matches!(kind, Kind::Server(ServerErrorKind::ResponseError | ServerErrorKind::ExecAbort));
    if is_refused {
        return fault(ErrorKind::Rejected, "the cache refused the command");
    }
    if matches!(kind, Kind::Server(_) | Kind::Extension) {
        return fault(ErrorKind::Unavailable, "the cache cannot serve the command for now");
    }
    if kind == Kind::InvalidClientConfig {
        return Error::new(ErrorKind::Configuration, "the settings of the cache cannot be used");
    }
    // A connection's error holds an address at most.
    let address = "Check AFTERWRITE_CACHE_URL, the function's subnets and its security group";
    Error::new(ErrorKind::Unavailable, "the cache could not be reached").hint(address)
}
