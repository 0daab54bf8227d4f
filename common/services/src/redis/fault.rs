//! The error that a caller gets for an error of Redis. The server's message may quote keys, so it is read but never passed on.

use afterwrite_model::{Error, ErrorKind};
use redis::{ErrorKind as Kind, RedisError, ServerErrorKind};

use super::CacheTopology;

/// Whether a node accepts no writes because another node is the primary.
pub(super) fn is_replica(error: &RedisError) -> bool {
    matches!(error.kind(), Kind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
        || is_replica_in_script(error)
}

/// Before version 7, Redis reports the error of a script's command as an error of the script, with the code inside the text.
fn is_replica_in_script(error: &RedisError) -> bool {
    error.detail().is_some_and(|detail| detail.contains("-READONLY "))
}

pub(super) fn timeout_error() -> Error {
    Error::new(ErrorKind::Unavailable, "the cache did not respond in time")
}

/// The error of a cache that is a cluster or a single node, contrary to its setting; or of a redirection that could not be followed.
fn mode_error(error: &RedisError, topology: CacheTopology) -> Option<Error> {
    let is_redirected = matches!(
        error.kind(),
        Kind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot)
    );
    // In cluster mode redirections are followed. A remaining one leads to a node that is gone.
    if is_redirected && topology == CacheTopology::Cluster {
        return Some(Error::new(ErrorKind::Unavailable, "the node that has the key could not be reached"));
    }
    if error.detail().unwrap_or_default().contains("cluster support disabled") {
        let message = "the cache is not a cluster";
        return Some(
            Error::new(ErrorKind::Configuration, message).hint("Set AFTERWRITE_CACHE_CLUSTER to false"),
        );
    }
    let message = "the cache is a cluster";
    is_redirected
        .then(|| Error::new(ErrorKind::Configuration, message).hint("Set AFTERWRITE_CACHE_CLUSTER to true"))
}

pub(super) fn cache_error(error: &RedisError, topology: CacheTopology) -> Error {
    let kind = error.kind();
    let code = error.code().unwrap_or_default();
    let new_error = |kind, message: &str| Error::new(kind, message).with("code", code);
    if let Some(mode_error) = mode_error(error, topology) {
        return mode_error.with("code", code);
    }
    if matches!(kind, Kind::AuthenticationFailed | Kind::Server(ServerErrorKind::NoPerm))
        || matches!(code, "NOAUTH" | "WRONGPASS")
    {
        return new_error(ErrorKind::Configuration, "the cache denied access").hint(
            "Name a user and password in the cache's address (AFTERWRITE_CACHE_URL, or the secret of AFTERWRITE_CACHE_SECRET) who may UNLINK, SET, EVAL, EXPIRE and INCR the keys and PUBLISH on afterwrite:invalidated",
        );
    }
    if error.is_timeout() {
        return timeout_error();
    }
    if is_replica_in_script(error) {
        return new_error(ErrorKind::Unavailable, "the cache cannot serve the command now");
    }
    if matches!(kind, Kind::Server(ServerErrorKind::ResponseError | ServerErrorKind::ExecAbort)) {
        return new_error(ErrorKind::Rejected, "the cache refused the command");
    }
    if matches!(kind, Kind::Server(_) | Kind::Extension) {
        return new_error(ErrorKind::Unavailable, "the cache cannot serve the command now");
    }
    if kind == Kind::InvalidClientConfig {
        return Error::new(ErrorKind::Configuration, "the settings of the cache cannot be used");
    }
    // The error of a connection contains at most an address.
    Error::new(ErrorKind::Unavailable, "the cache could not be reached")
        .hint("Check the cache's address (AFTERWRITE_CACHE_URL, or the secret of AFTERWRITE_CACHE_SECRET), the function's subnets and its security group")
}
