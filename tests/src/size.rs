//! How much a test does: the usual size in every run, today's largest in `tests/run --full`.

/// `tests/run --full` sets it.
const FULL: &str = "AFTERWRITE_TEST_FULL";

/// The size of a test: `usual` in every run, and `full` before a release and after a change to the ledger (`tests/run --full`).
#[must_use]
pub fn size<T>(usual: T, full: T) -> T {
    if is_full() { full } else { usual }
}

/// Whether this run is `tests/run --full`.
#[must_use]
pub fn is_full() -> bool {
    std::env::var_os(FULL).is_some()
}
