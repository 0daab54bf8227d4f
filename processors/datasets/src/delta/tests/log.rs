//! Logs as other writers leave them.

use super::*;

#[test]
fn a_table_is_found_without_the_pointer_and_without_its_first_commits() {
    let bucket = Arc::new(MemoryObjects::default());
    let writer = table(&bucket);
    for number in 0..=201_u64 {
        commit(&writer, &FixedClock(NOW), &change(&[&format!("f{number}")], &[])).unwrap();
    }
    let old: Vec<String> = (0..200).map(|version| commit_key(ROOT, version)).collect();
    block_on(bucket.delete(&old)).unwrap();
    let files = paths(&block_on(writer.snapshot()).unwrap());
    block_on(bucket.delete(&[last_checkpoint_key(ROOT)])).unwrap();
    assert_eq!(paths(&block_on(table(&bucket).snapshot()).unwrap()), files);
    // A pointer to a checkpoint that was removed.
    block_on(bucket.put(&last_checkpoint_key(ROOT), b"{\"version\":100,\"size\":1}".to_vec())).unwrap();
    block_on(bucket.delete(&[checkpoint_key(ROOT, 100)])).unwrap();
    assert_eq!(paths(&block_on(table(&bucket).snapshot()).unwrap()), files);
    block_on(bucket.put(&last_checkpoint_key(ROOT), b"{\"vers".to_vec())).unwrap();
    assert_eq!(paths(&block_on(table(&bucket).snapshot()).unwrap()), files, "the pointer cannot be read");
}

#[test]
fn f1_a_retention_is_read_as_other_writers_write_it() {
    for (written, hours) in [
        ("interval 7 days", Some(7 * 24)),
        ("INTERVAL 30 DAYS", Some(30 * 24)),
        ("interval '1' week", Some(7 * 24)),
        ("interval 30 days 12 hours", Some(30 * 24 + 12)),
        ("2 hours", Some(2)),
        ("interval 0 seconds", Some(0)),
        ("interval 1 month", None),
        ("interval", None),
        ("interval 30", None),
        ("", None),
    ] {
        let time = hours.map(|hours| Duration::from_secs(hours * 60 * 60));
        assert_eq!(super::super::snapshot::interval(written), time, "{written}");
    }
}

#[test]
fn f1_commits_behind_a_checkpoint_that_nobody_named_are_not_lost() {
    let bucket = Arc::new(MemoryObjects::default());
    let writer = table(&bucket);
    for number in 0..=201_u64 {
        commit(&writer, &FixedClock(NOW), &change(&[&format!("f{number}")], &[])).unwrap();
    }
    let files = paths(&block_on(writer.snapshot()).unwrap());
    // The writer of checkpoint 200 stopped before it named it, and another program removed the commits that the checkpoint has.
    block_on(bucket.put(&last_checkpoint_key(ROOT), b"{\"version\":100,\"size\":1}".to_vec())).unwrap();
    let old: Vec<String> = (0..200).map(|version| commit_key(ROOT, version)).collect();
    block_on(bucket.delete(&old)).unwrap();
    assert_eq!(paths(&block_on(table(&bucket).snapshot()).unwrap()), files);
    assert_eq!(commit(&table(&bucket), &FixedClock(NOW), &change(&["next"], &[])).unwrap(), Some(202));

    let checkpoint = checkpoint_key(ROOT, 200);
    block_on(bucket.delete(std::slice::from_ref(&checkpoint))).unwrap();
    let refused = |part: &str| {
        let error = block_on(table(&bucket).snapshot()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        assert!(commit(&table(&bucket), &FixedClock(NOW), &change(&["lost"], &[])).is_err());
        assert!(!bucket.objects().contains_key(&commit_key(ROOT, 101)));
    };
    refused("has a gap");
    for suffix in ["parquet", "json"] {
        let id = format!("checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.{suffix}");
        let later = checkpoint.replace("checkpoint.parquet", &id);
        block_on(bucket.put(&later, b"PAR1".to_vec())).unwrap();
        refused("a later form (v2)");
        block_on(bucket.delete(&[later])).unwrap();
    }
}
