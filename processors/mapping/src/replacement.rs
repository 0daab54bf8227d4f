//! Tables whose stream is replaced while a mapping delivers it.

use std::cell::OnceCell;
use std::future::pending;

use afterwrite_model::Result;

use crate::control::MappingControl;
use crate::mapping::MappingEnd;

/// Runs the mapping of a stream until `control` stops it, or until `following` has the table's next stream and this one is delivered to its
/// end. Returns the next stream, too, if there is one.
///
/// # Errors
/// The error of the mapping, or of `following`.
pub async fn until_replaced<S>(
    run: impl AsyncFnOnce(&MappingControl) -> Result<MappingEnd>,
    following: impl Future<Output = Result<S>>,
    control: &MappingControl,
) -> Result<(MappingEnd, Option<S>)> {
    let (current, next) = (MappingControl::default(), OnceCell::new());
    let stop = async {
        control.stopped().await;
        current.stop();
        pending::<Result<MappingEnd>>().await
    };
    let drain = async {
        let following = following.await?;
        current.drain();
        // It is set once.
        let _ = next.set(following);
        pending::<Result<MappingEnd>>().await
    };
    let ended = tokio::select! {
        ended = run(&current) => ended?,
        failed = stop => failed?,
        failed = drain => failed?,
    };
    Ok((ended, next.into_inner()))
}
