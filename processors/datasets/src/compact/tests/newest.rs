//! The rows that are dropped if the model keeps only the newest.

use super::*;

/// The rows of an item that compaction keeps.
fn kept(rows: &[AttemptRow]) -> Vec<AttemptRow> {
    let model = newest();
    let bucket = bucket(&model, &[rows.to_vec()]);
    compact(&model, &bucket, options(), NOW);
    let swept = compact(&model, &bucket, options(), NOW.plus(GRACE));
    assert_eq!(swept.files_removed, 1);
    distinct(&bucket).into_iter().collect()
}

fn at(minutes: i64, row: AttemptRow) -> AttemptRow {
    AttemptRow { changed_at: Some(NOW.epoch_ms() + minutes * 60_000), ..row }
}

#[test]
fn the_newest_row_stays_even_if_it_removes_the_item() {
    for last in ["MODIFY", "REMOVE", "EXPIRE"] {
        let newest = row(1, 1, 3, last);
        assert_eq!(kept(&[row(1, 1, 1, "INSERT"), row(1, 1, 2, "MODIFY"), newest.clone()]), [newest]);
    }
}

#[test]
fn a_late_duplicate_does_not_bring_a_removed_item_back() {
    let model = newest();
    let (insert, remove) = (row(1, 1, 1, "INSERT"), row(1, 1, 2, "REMOVE"));
    let bucket = bucket(&model, &[vec![insert.clone(), remove.clone()]]);
    compact(&model, &bucket, options(), NOW);
    put(&bucket, &exported(&model, DAY, 9), parquet(&model, &[insert]));
    for hours in 1..4 {
        compact(&model, &bucket, options(), NOW.plus(GRACE * hours));
        assert!(view(&distinct(&bucket)).values().eq([&remove]));
    }
    assert_eq!(distinct(&bucket).len(), 1);
}

#[test]
fn all_rows_stay_by_default() {
    let model = plain();
    let rows = [row(1, 1, 1, "INSERT"), row(1, 1, 2, "MODIFY"), row(1, 1, 3, "REMOVE")];
    let bucket = bucket(&model, &[rows.to_vec()]);
    assert_eq!(compact(&model, &bucket, options(), NOW).rows_out, 3);
}

#[test]
fn a_snapshot_outdates_only_changes_long_before_it() {
    let snapshot = at(60, row(1, 1, 9, "SNAPSHOT"));
    let (long_before, shortly_before) = (at(45, row(1, 1, 1, "INSERT")), at(46, row(1, 1, 1, "INSERT")));
    assert_eq!(kept(&[long_before, snapshot.clone()]), std::slice::from_ref(&snapshot));
    assert_eq!(kept(&[shortly_before.clone(), snapshot.clone()]), [shortly_before, snapshot.clone()]);
    let without_time = AttemptRow { changed_at: None, ..row(1, 1, 1, "INSERT") };
    assert_eq!(kept(&[without_time.clone(), snapshot.clone()]), [without_time, snapshot]);
}

#[test]
fn the_newest_snapshot_stays_whatever_comes_after_it() {
    let (first, second) = (at(1, row(1, 1, 1, "SNAPSHOT")), at(2, row(1, 1, 2, "SNAPSHOT")));
    let change = at(90, row(1, 1, 3, "MODIFY"));
    assert_eq!(kept(&[first, second.clone(), change.clone()]), [second, change]);
}

#[test]
fn an_earlier_row_that_counts_longer_stays() {
    // The times of changes need not agree with their order.
    let (earlier, later) = (at(60, row(1, 1, 1, "INSERT")), at(10, row(1, 1, 2, "MODIFY")));
    assert_eq!(kept(&[earlier.clone(), later.clone()]), [earlier, later]);
}

/// Rows of few items with few positions and times, for all combinations.
fn jumble(random: &mut SeededRandom) -> Vec<Vec<AttemptRow>> {
    let mut files = vec![Vec::new(); 1 + usize::try_from(random.below(4)).unwrap()];
    for _ in 0..random.below(40) {
        let operation =
            ["INSERT", "MODIFY", "REMOVE", "EXPIRE", "SNAPSHOT"][usize::try_from(random.below(5)).unwrap()];
        let position = random.below(8) * 5 + operation.len() as u64 % 5;
        let minutes = i64::try_from(random.below(8) * 5).unwrap();
        let mut row = at(minutes, row(1, random.below(3), position, operation));
        if random.below(6) == 0 && operation != "SNAPSHOT" {
            row.changed_at = None;
        }
        let file = usize::try_from(random.below(u64::try_from(files.len()).unwrap())).unwrap();
        files[file].push(row);
    }
    files
}

#[test]
fn the_view_is_the_same_before_during_and_after_compaction() {
    let model = newest();
    for seed in 0..400 {
        let mut random = SeededRandom::new(seed);
        let bucket = bucket(&model, &jumble(&mut random));
        let before = view(&distinct(&bucket));
        let options = CompactionOptions { memory_bytes: 1 + random.below(20_000), ..options() };
        let first = compact(&model, &bucket, options.clone(), NOW);
        assert_eq!(view(&distinct(&bucket)), before, "seed {seed}, during");
        assert_eq!(first.rows_out + first.duplicates + first.outdated, first.rows_in);
        compact(&model, &bucket, options, NOW.plus(GRACE));
        assert_eq!(view(&distinct(&bucket)), before, "seed {seed}, after");
    }
}
