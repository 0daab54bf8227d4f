//! Lines of any size are archived: the delivery stream refuses requests over a limit, so a wrong request fails these tests.

use afterwrite_tests::archive::{EmbeddedArchive, lines};
use afterwrite_tests::random::SeededRandom;

use super::deadline;

const LIMIT: usize = 1_024_000;

/// A line of this many bytes that contains its number.
fn line(number: usize, bytes: usize) -> (String, String) {
    let opening = format!("{{\"eventID\":\"{number}\",\"x\":\"");
    let filling = "x".repeat(bytes.saturating_sub(opening.len() + "\"}\n".len()));
    (format!("event-{number}"), format!("{opening}{filling}\"}}\n"))
}

async fn assert_archived(sizes: &[usize]) {
    let archive = EmbeddedArchive::start().await;
    let texts: Vec<(String, String)> =
        sizes.iter().enumerate().map(|(number, bytes)| line(number, *bytes)).collect();
    let outcome = archive.archiver(archive.stream()).archive(&lines(&texts), deadline(120)).await;
    assert!(outcome.failures.is_empty(), "{sizes:?}: {:?}", outcome.failures);
    let large = texts.iter().filter(|(_, text)| text.len() > LIMIT).count();
    assert_eq!(outcome.totals.direct_objects, large as u64, "{sizes:?}");
    let objects = archive.read_back().await;
    let mut read: Vec<&str> = objects.values().flat_map(|text| text.split_inclusive('\n')).collect();
    let mut sent: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
    read.sort_unstable();
    sent.sort_unstable();
    assert!(read == sent, "{sizes:?}: the archived lines differ");
}

#[tokio::test]
async fn lines_around_the_limit_of_a_record_are_archived() {
    assert_archived(&[LIMIT - 1, LIMIT, LIMIT + 1]).await;
    assert_archived(&[LIMIT; 9]).await;
    assert_archived(&[LIMIT / 2, LIMIT / 2, LIMIT / 2 + 1, LIMIT / 2]).await;
}

#[tokio::test]
async fn lines_of_any_size_are_archived() {
    let mut random = SeededRandom::new(42);
    for _ in 0..6 {
        let mut sizes = Vec::new();
        while sizes.iter().sum::<usize>() < 12_000_000 {
            let most = random.pick(&[200, 5_000, 50_000, 500_000, 1_100_000, 3_000_000]).unwrap();
            sizes.push(usize::try_from(40 + random.below(*most)).unwrap());
        }
        assert_archived(&sizes).await;
    }
}
