//! Reads the pages of one shard, and decides what happens if the stream no longer keeps records that are due.
//!
//! | the shard | records that are not kept |
//! |---|---|
//! | was begun by an earlier run, read in part, or continues a delivered shard | a gap: the mapping ends, or goes on with the oldest record that is kept |
//! | precedes the mapping | not this mapping's records: it goes on with the oldest record that is kept |
//! | has nothing that is kept | the shard is finished. DynamoDB may list a shard that it has removed |

use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, Result};

use crate::context::MappingContext;
use crate::control::RunMode;
use crate::retry::retrying;
use crate::stream::{RecordPage, ShardPosition, StreamReadError, StreamShard, StreamSource};

/// The reader's place in a shard.
pub(crate) struct ShardReader {
    pub(crate) iterator: Option<String>,
    pub(crate) position: ShardPosition,
    /// Whether all records after the position belong to the mapping: an earlier run began the shard, this one has read a part of it, or the
    /// mapping has delivered the shard's parent.
    pub(crate) is_owed: bool,
    /// Whether the last read found the end.
    pub(crate) is_at_end: bool,
}

/// A shard ends after so many reads that found nothing of it kept. DynamoDB may list a shard that it has removed.
pub(crate) const MAX_LOSSES: u32 = 3;

/// The outcome of a read.
pub(crate) enum ReadOutcome {
    /// A page, and when its read began.
    Page(RecordPage, ReadMoment, Timestamp),
    Gap(ShardPosition),
}

/// The state of the mapping when a read began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMoment {
    Delivering,
    /// Draining, while records that were read before were not delivered: the function may write to the stream meanwhile.
    Draining,
    /// Draining, and everything that was read was delivered.
    DrainingQuietly,
}

/// One read, after a pause if the last one found the end.
pub(crate) async fn read<'a, Source: StreamSource, Function, C: Clock>(
    context: MappingContext<'a, Function, C>,
    source: &'a Source,
    shard: &'a StreamShard,
    mut reader: ShardReader,
    stops_at_gaps: bool,
    is_quiet: bool,
) -> (Result<ReadOutcome>, ShardReader) {
    if reader.is_at_end {
        context.clock.sleep(context.pace.poll_interval).await;
    }
    let moment = match context.control.mode() {
        RunMode::Delivering => ReadMoment::Delivering,
        RunMode::Draining | RunMode::Stopping if is_quiet => ReadMoment::DrainingQuietly,
        RunMode::Draining | RunMode::Stopping => ReadMoment::Draining,
    };
    let began = context.clock.now();
    let page = page_or_gap(&context, source, shard, &mut reader, stops_at_gaps).await;
    if let Ok(Ok(page)) = &page
        && let Some(last) = page.records.last()
    {
        (reader.position, reader.is_owed) = (ShardPosition::After(last.sequence_number.clone()), true);
    }
    let outcome = page.map(|page| match page {
        Ok(page) => ReadOutcome::Page(page, moment, began),
        Err(gap) => ReadOutcome::Gap(gap),
    });
    (outcome, reader)
}

/// Reads one page; `Err` with the position if it stops at a gap there. A shard without kept records ends.
async fn page_or_gap<Source: StreamSource, Function, C: Clock>(
    context: &MappingContext<'_, Function, C>,
    source: &Source,
    shard: &StreamShard,
    reader: &mut ShardReader,
    stops_at_gaps: bool,
) -> Result<Result<RecordPage, ShardPosition>> {
    for losses in 1.. {
        let loss = match read_page(context, source, shard, reader).await? {
            ShardRead::Page(page) => return Ok(Ok(page)),
            ShardRead::Lost(loss) => loss,
        };
        if loss == RecordLoss::Gone && losses < MAX_LOSSES {
            context.clock.sleep(context.pace.poll_interval).await;
            continue;
        }
        if reader.is_owed {
            if stops_at_gaps {
                return Ok(Err(reader.position.clone()));
            }
            context.progress.count(|counts| counts.gaps += 1);
        }
        (reader.position, reader.is_owed) = (ShardPosition::TrimHorizon, false);
        if losses >= MAX_LOSSES {
            break;
        }
    }
    Ok(Ok(RecordPage { records: Vec::new(), is_at_end: true, next: None }))
}

/// The outcome of reading a page.
enum ShardRead {
    Page(RecordPage),
    Lost(RecordLoss),
}

/// Why the records at a position cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordLoss {
    /// They are not kept any more.
    Trimmed,
    /// The shard is not kept any more.
    Gone,
}

/// Reads one page. An expired iterator is replaced.
async fn read_page<Source: StreamSource, Function, C: Clock>(
    context: &MappingContext<'_, Function, C>,
    source: &Source,
    shard: &StreamShard,
    reader: &mut ShardReader,
) -> Result<ShardRead> {
    loop {
        let iterator = match reader.iterator.take() {
            Some(iterator) => iterator,
            None => {
                match retrying(context, || attempt(source.iterator(&shard.id, &reader.position))).await? {
                    Attempt::Done(iterator) => {
                        if reader.position == ShardPosition::Latest {
                            // New records belong to the mapping. Another iterator at the newest record would skip them.
                            (reader.position, reader.is_owed) = (shard.beginning(), true);
                        }
                        iterator
                    }
                    Attempt::Expired => continue,
                    Attempt::Lost(loss) => return Ok(ShardRead::Lost(loss)),
                }
            }
        };
        match retrying(context, || attempt(source.read(&iterator))).await? {
            Attempt::Done(page) => return Ok(ShardRead::Page(page)),
            // Open the shard again, after the last record that was read.
            Attempt::Expired => {}
            Attempt::Lost(loss) => return Ok(ShardRead::Lost(loss)),
        }
    }
}

/// The outcome of a request that did not fail.
enum Attempt<T> {
    Done(T),
    Expired,
    Lost(RecordLoss),
}

async fn attempt<T>(request: impl Future<Output = Result<T, StreamReadError>>) -> Result<Attempt<T>, Error> {
    match request.await {
        Ok(done) => Ok(Attempt::Done(done)),
        Err(StreamReadError::IteratorExpired) => Ok(Attempt::Expired),
        Err(StreamReadError::Trimmed) => Ok(Attempt::Lost(RecordLoss::Trimmed)),
        Err(StreamReadError::Gone) => Ok(Attempt::Lost(RecordLoss::Gone)),
        Err(StreamReadError::ReadFailed(error)) => Err(error),
    }
}
