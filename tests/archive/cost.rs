//! The savings of packing lines into records: Firehose bills each record as a multiple of 5 KB. `docs/PERFORMANCE.md` shows the output.

use afterwrite_memory::{MemoryObjects, MemoryStream};
use afterwrite_model::clock::SystemClock;
use afterwrite_relay::archive::{ArchiveTotals, ChangeArchiver};
use afterwrite_services::firehose::BILLED_BYTES;
use afterwrite_tests::archive::lines;

use super::{deadline, recorded_lines};

#[tokio::test]
async fn packing_halves_the_bill_even_in_batches_of_ten() {
    let texts = recorded_lines(&[]);
    let alone: usize = texts.iter().map(|(_, text)| text.len().div_ceil(BILLED_BYTES)).sum();
    let bytes: usize = texts.iter().map(|(_, text)| text.len()).sum();
    println!("{} lines, {bytes} bytes; a record each: {alone} billed units of 5 KB", texts.len());
    for (batch_size, most_per_cent) in [(1, 100), (10, 50), (100, 40), (1_000, 40)] {
        let archiver = ChangeArchiver::new(MemoryStream::default(), MemoryObjects::default(), SystemClock);
        let mut totals = ArchiveTotals::default();
        for batch in texts.chunks(batch_size) {
            totals += archiver.archive(&lines(batch), deadline(60)).await.totals;
        }
        let units = usize::try_from(totals.billed_units).unwrap();
        println!(
            "batches of {batch_size}: {} records, {units} billed units, {}.{} % of a record each",
            totals.firehose_records,
            units * 100 / alone,
            units * 1_000 / alone % 10
        );
        assert!(units * 100 <= alone * most_per_cent);
        assert_eq!(totals.lines, texts.len() as u64);
    }
}
