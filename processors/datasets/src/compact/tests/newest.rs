//! The rows that are dropped if the model keeps only the newest.

use super::*;

/// The rows of an item that compaction keeps in the log.
fn kept(rows: &[AttemptRow]) -> Vec<AttemptRow> {
    let model = newest();
    let bucket = bucket(&model, &[rows[..1].to_vec(), rows[1..].to_vec()]);
    let compacted = compact(&model, &bucket, options(), NOW);
    assert_eq!((compacted.files_in, compacted.files_out), (2, 1));
    assert_eq!(current_rows(&bucket), expected_current(&rows.iter().cloned().collect()));
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
    let bucket = bucket(&model, &[vec![insert.clone()], vec![remove.clone()]]);
    compact(&model, &bucket, options(), NOW);
    export(&bucket, &model, DAY, 9, &[insert]);
    for hours in 1..4 {
        let compacted = compact(&model, &bucket, options(), NOW.plus(HOUR * hours));
        assert_eq!(compacted.derived, u64::from(hours == 1));
        assert!(view(&distinct(&bucket)).values().eq([&remove]));
        assert_eq!(current_rows(&bucket), []);
    }
    assert_eq!(distinct(&bucket).len(), 1);
}

#[test]
fn an_expired_life_stays_whatever_happens_to_the_key_later() {
    let expired = |position| row(1, 1, position, "EXPIRE");
    let lives = [
        row(1, 1, 1, "INSERT"),
        expired(2),
        row(1, 1, 3, "INSERT"),
        expired(4),
        row(1, 1, 5, "INSERT"),
        row(1, 1, 6, "REMOVE"),
    ];
    assert_eq!(kept(&lives), [expired(2), expired(4), row(1, 1, 6, "REMOVE")]);
    for model in [plain(), newest()] {
        let bucket = bucket(&model, &[lives.to_vec(), lives[..3].to_vec()]);
        compact(&model, &bucket, options(), NOW);
        assert_eq!(current_rows(&bucket), [expired(2), expired(4)], "one row for each life that counts");
    }
}

/// A dataset of a rollup whose items expire: the attempts of each project on each day.
fn of_rollup(history: &str) -> Arc<Model> {
    let source = format!(
        "name = \"exams\"\ngeneration = 1\n[tables.exams]\nkey = [\"pk\", \"sk\"]\n[entities.answer]\n\
         key = {{ pk = \"PROJECT#{{project_id}}\", sk = \"ANSWER#{{attempt_id}}#{{answer_id}}\" }}\n\
         [rollups.attempt]\nkey = {{ PK = \"PROJECT#{{project_id}}\", SK = \"ATTEMPT#{{attempt_id}}\" }}\n\
         expires = {{ after = \"1 hours\", of = \"attempt_id\" }}\n\
         [[aggregates]]\nname = \"answers\"\nof = \"answer\"\ninto = \"attempt\"\nmeasures.score = \"count\"\n\
         [datasets.attempts]\nof = \"attempt\"\npartition = \"attempt_id:day\"\n{history}\n[datasets.attempts.columns]\n\
         attempt_id = \"string\"\nproject_id = \"string\"\nscore = \"int64\"\n"
    );
    Arc::new(Model::parse(&source, "exams.toml").unwrap_or_else(|errors| panic!("{errors}")))
}

/// A change in a state table: the positions of a table that was created later are greater.
fn in_table(table: u64, change: u64, operation: &str) -> AttemptRow {
    AttemptRow { tags: None, ..row(1, 1, 100 * table + change, operation) }
}

#[test]
fn a_rollup_that_expired_in_several_state_tables_has_one_row() {
    let expired = [1, 2, 3].map(|table| in_table(table, 9, "EXPIRE"));
    let insert = |table| in_table(table, 1, "INSERT");
    for model in ["", "history = \"newest\""].map(of_rollup) {
        let first = vec![insert(1), expired[0].clone(), expired[0].clone()];
        let bucket = bucket(&model, &[first, vec![insert(2)]]);
        compact(&model, &bucket, options(), NOW);
        assert_eq!(current_rows(&bucket), [insert(2)], "it lives in the second table");
        for (hours, table) in [(1, 2), (2, 3)] {
            export(&bucket, &model, DAY, 10 + u64::from(hours), &[expired[table - 1].clone()]);
            compact(&model, &bucket, options(), NOW.plus(HOUR * hours));
            assert_eq!(current_rows(&bucket), [expired[table - 1].clone()]);
        }
        export(&bucket, &model, DAY, 20, &[in_table(4, 1, "REMOVE")]);
        compact(&model, &bucket, options(), NOW.plus(HOUR * 3));
        assert_eq!(current_rows(&bucket), []);
    }
}

/// An earlier state table is deployed again: its rows lose against those of the later one, until a reading of it is newer by 15 minutes.
#[test]
fn a_reading_brings_the_rows_of_an_earlier_state_table_back() {
    let later = at(0, in_table(2, 5, "MODIFY"));
    let back = at(5, in_table(1, 6, "MODIFY"));
    let read = |minutes| at(minutes, in_table(1, 0, "SNAPSHOT"));
    let next = at(30, in_table(1, 7, "MODIFY"));
    for (rows, current) in [
        (vec![later.clone(), back.clone()], &later),
        (vec![later.clone(), back.clone(), read(14)], &later),
        (vec![later.clone(), back.clone(), read(20)], &read(20)),
        (vec![later.clone(), back.clone(), read(20), next.clone()], &next),
    ] {
        for model in ["", "history = \"newest\""].map(of_rollup) {
            let bucket = bucket(&model, std::slice::from_ref(&rows));
            compact(&model, &bucket, options(), NOW);
            assert_eq!(current_rows(&bucket), std::slice::from_ref(current));
        }
    }
}

#[test]
fn what_expires_is_gone_if_the_entity_subtracts_it() {
    let source = "name = \"exams\"\ngeneration = 1\n[tables.exams]\nkey = [\"pk\", \"sk\"]\n[entities.attempt]\n\
         key = { pk = \"PROJECT#{project_id}\", sk = \"ATTEMPT#{attempt_id}\" }\nattributes = { started_at = \"S\" }\n\
         on_expiry = \"subtract\"\n[datasets.attempts]\nof = \"attempt\"\npartition = \"started_at:day\"\n\
         [datasets.attempts.columns]\nattempt_id = \"string\"\nproject_id = \"string\"\nscore = \"int64\"\ntags = \"list<string>\"\n";
    let model = Arc::new(Model::parse(source, "exams.toml").unwrap());
    let bucket =
        bucket(&model, &[vec![row(1, 1, 1, "INSERT"), row(1, 1, 2, "EXPIRE"), row(1, 2, 1, "INSERT")]]);
    compact(&model, &bucket, options(), NOW);
    assert_eq!(current_rows(&bucket), [row(1, 2, 1, "INSERT")]);
}

#[test]
fn all_rows_stay_by_default() {
    let model = plain();
    let rows = [row(1, 1, 1, "INSERT"), row(1, 1, 2, "MODIFY"), row(1, 1, 3, "REMOVE")];
    let bucket = bucket(&model, &[rows[..1].to_vec(), rows[1..].to_vec()]);
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

/// Rows of few items with few positions and times, for all combinations. A position of an item has one row, maybe several copies.
fn jumble(random: &mut SeededRandom) -> Vec<Vec<AttemptRow>> {
    let mut files = vec![Vec::new(); 1 + usize::try_from(random.below(4)).unwrap()];
    let mut known: BTreeMap<(String, String), AttemptRow> = BTreeMap::new();
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
        let place = (row.attempt.clone(), row.position.clone());
        files[file].push(known.entry(place).or_insert(row).clone());
    }
    files
}

#[test]
fn the_view_is_the_same_before_during_and_after_compaction() {
    for seed in 0..400 {
        let model = if seed % 2 == 0 { newest() } else { plain() };
        let mut random = SeededRandom::new(seed);
        let written = jumble(&mut random);
        let all: BTreeSet<AttemptRow> = written.iter().flatten().cloned().collect();
        let bucket = bucket(&model, &written);
        let options = CompactionOptions { memory_bytes: 1 + random.below(20_000), ..options() };
        let first = compact(&model, &bucket, options.clone(), NOW);
        assert_eq!(view(&distinct(&bucket)), view(&all), "seed {seed}");
        assert_eq!(current_rows(&bucket), expected_current(&all), "seed {seed}");
        assert_eq!(first.rows_out + first.duplicates + first.outdated, first.rows_in);
    }
}
