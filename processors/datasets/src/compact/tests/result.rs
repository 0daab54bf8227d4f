//! The files and rows after a compaction.

use super::*;

#[test]
fn many_files_become_one_sorted_file_with_each_row_once() {
    let model = plain();
    let written = history(&mut SeededRandom::new(1), 300, 9);
    let bucket = bucket(&model, &written);
    let before = distinct(&bucket);

    let compacted = compact(&model, &bucket, options(), NOW);
    let rows_in = count_of(&written);
    let rows = u64::try_from(before.len()).unwrap();
    assert_eq!((compacted.partitions, compacted.files_in, compacted.files_out), (1, 9, 1));
    assert_eq!(
        (compacted.rows_in, compacted.rows_out, compacted.duplicates),
        (rows_in, rows, rows_in - rows)
    );
    assert!(compacted.bytes_out > 0 && compacted.bytes_out < compacted.bytes_in);
    let sorted: Vec<AttemptRow> = before.iter().cloned().collect();
    assert_eq!(rows_of_table(&log(&bucket)), [sorted]);
    assert_eq!(
        keys(&bucket, "datasets/attempts_log/dt").len(),
        10,
        "the packed files stay for the retention"
    );

    let expected = expected_current(&before);
    assert_eq!(compacted.current_rows, u64::try_from(expected.len()).unwrap());
    assert_eq!(current_rows(&bucket), expected);

    let objects = bucket.objects();
    let again = compact(&model, &bucket, options(), NOW.plus(HOUR));
    assert_eq!(again, CompactionTotals::default(), "there is nothing to do");
    assert_eq!(bucket.objects(), objects);
    // The first run of each day removes what was superseded before the retention.
    let swept = compact(&model, &bucket, options(), NOW.plus(HOUR * 24));
    assert_eq!((swept.files_in, swept.files_removed), (0, 9));
    assert_eq!(keys(&bucket, "datasets/attempts_log/dt").len(), 1);
}

fn keys(bucket: &MemoryObjects, prefix: &str) -> Vec<String> {
    bucket.objects().into_keys().filter(|key| key.starts_with(prefix)).collect()
}

fn count_of(written: &[Vec<AttemptRow>]) -> u64 {
    u64::try_from(written.iter().map(Vec::len).sum::<usize>()).unwrap()
}

/// The only file of the current table.
fn current_file(bucket: &Arc<MemoryObjects>) -> Vec<u8> {
    let mut files = files(&current(bucket));
    assert_eq!(files.len(), 1);
    files.remove(0).1
}

#[test]
fn the_current_file_is_sorted_for_readers() {
    let source = model("sort = [\"score\"]", "score = \"int64\"\ntags = \"list<string>\"");
    for memory_bytes in [1 << 30, 10_000] {
        let bucket = bucket(&source, &history(&mut SeededRandom::new(8), 300, 5));
        compact(&source, &bucket, CompactionOptions { memory_bytes, ..options() }, NOW);
        let rows = rows_of_file(current_file(&bucket));
        assert!(
            rows.len() > 100
                && rows.is_sorted_by_key(|row| (row.score, row.project.clone(), row.attempt.clone()))
        );
        assert_eq!(current_rows(&bucket), expected_current(&distinct(&bucket)));
    }
}

#[test]
fn late_rows_are_packed_and_derived_again() {
    let model = plain();
    let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")], vec![row(2, 2, 1, "INSERT")]]);
    compact(&model, &bucket, options(), NOW);
    export(&bucket, &model, DAY, 77, &[row(1, 1, 2, "MODIFY")]);
    let late = compact(&model, &bucket, options(), NOW.plus(HOUR));
    assert_eq!((late.files_in, late.rows_out, late.derived), (2, 3, 1));
    assert_eq!(current_rows(&bucket), [row(1, 1, 2, "MODIFY"), row(2, 2, 1, "INSERT")]);
}

#[test]
fn only_days_whose_log_changed_are_read() {
    let model = plain();
    let bucket = bucket(&model, &[]);
    for day in 1..=20 {
        export(&bucket, &model, &format!("2026-02-{day:02}"), day, &[row(1, day, 1, "INSERT")]);
    }
    assert_eq!(compact(&model, &bucket, options(), NOW).derived, 20);
    export(&bucket, &model, "2026-02-07", 99, &[row(1, 99, 1, "INSERT")]);
    let check: Arc<watched::BucketCheck> = Arc::new(|_, _| ());
    let count_requests = || {
        let watched = Arc::new(watched::WatchedBucket::new(&bucket, None, None, &check));
        let totals =
            block_on(compactor(&model, Arc::clone(&watched), options(), NOW).compact(None, None)).unwrap();
        (totals.derived, watched.operations())
    };
    let (derived, requests) = count_requests();
    // Both logs (a pointer, a list, and commits in growing windows), two files, and two uploads with their commits.
    assert_eq!(derived, 1);
    assert!(requests < 100, "{requests} requests");
    let (derived, idle) = count_requests();
    assert_eq!(derived, 0);
    assert!(idle < requests, "{idle} requests");
}

#[test]
fn the_newest_day_is_first_and_days_overlap() {
    let model = plain();
    let bucket = bucket(&model, &[]);
    for day in 1..=8 {
        export(&bucket, &model, &format!("2026-02-{day:02}"), day, &[row(1, day, 1, "INSERT")]);
    }
    let one = CompactionOptions { parallel_partitions: 1, ..options() };
    compact(&model, &bucket, one, NOW);
    let days: Vec<String> = (0..40)
        .filter_map(|version| {
            let commit =
                bucket.objects().remove(&format!("datasets/attempts/_delta_log/{version:020}.json"))?;
            let text = String::from_utf8(commit).unwrap();
            let (_, day) = text.split_once("log/dt=")?;
            Some(day[..10].to_owned())
        })
        .collect();
    assert_eq!(days, (1..=8).rev().map(|day| format!("2026-02-{day:02}")).collect::<Vec<_>>());
}

#[test]
fn the_rows_do_not_depend_on_the_memory() {
    for model in [plain(), newest()] {
        let written = history(&mut SeededRandom::new(2), 2_000, 30);
        let compacted = |memory| {
            let bucket = bucket(&model, &written);
            let counts =
                compact(&model, &bucket, CompactionOptions { memory_bytes: memory, ..options() }, NOW);
            (rows_of_table(&log(&bucket)).concat(), rows_of_table(&current(&bucket)).concat(), counts)
        };
        let (rows, current, counts) = compacted(1 << 30);
        assert!(rows.is_sorted() && counts.duplicates > 0);
        for memory in [1, 50_000, 200_000] {
            let (spilled, spilled_current, spilled_counts) = compacted(memory);
            assert_eq!((&spilled, &spilled_current), (&rows, &current), "{memory} bytes");
            // Whether a copy of an outdated row counts as a duplicate or as outdated depends on which rows were in memory together.
            let left = |counts: CompactionTotals| {
                (counts.rows_in, counts.rows_out, counts.duplicates + counts.outdated)
            };
            assert_eq!(left(spilled_counts), left(counts), "{memory} bytes");
        }
    }
}

#[test]
fn large_partitions_become_several_files_in_order() {
    let model = plain();
    for memory in [1 << 30, 100_000] {
        let bucket = bucket(&model, &history(&mut SeededRandom::new(3), 5_000, 12));
        let before = distinct(&bucket);
        let options = CompactionOptions { target_file_bytes: 16_000, memory_bytes: memory, ..options() };
        let compacted = compact(&model, &bucket, options.clone(), NOW);
        assert!(compacted.files_out > 2 && compacted.current_files > 2, "{compacted:?}");
        let mut files = rows_of_table(&log(&bucket));
        files.sort();
        assert_eq!(files.concat(), before.iter().cloned().collect::<Vec<_>>());
        assert_eq!(current_rows(&bucket), expected_current(&before));
        let again = compact(&model, &bucket, options, NOW.plus(HOUR));
        assert_eq!(again.files_in, 0, "the files of one run are one");
    }
}

#[test]
fn a_hot_partition_is_packed_in_levels() {
    let model = newest();
    let bucket = bucket(&model, &[]);
    let mut bytes = 0;
    for round in 0..60 {
        let rows: Vec<AttemptRow> = (0..200).map(|attempt| row(1, attempt, 1000 + round, "MODIFY")).collect();
        export(&bucket, &model, DAY, round, &rows);
        bytes += compact(&model, &bucket, options(), NOW).rows_in;
        let rows: usize = rows_of_table(&log(&bucket)).iter().map(Vec::len).sum();
        assert!(rows <= 2 * 200, "{rows} rows of 200 items after round {round}");
    }
    assert!(bytes < 60 * 200 * 8, "{bytes} rows were read to pack");
}

#[test]
fn files_of_older_and_newer_models_keep_their_columns() {
    let (narrow, wide) = (model("sort = [\"project_id\"]", "score = \"int64\""), plain());
    let (old, new) = (row(1, 1, 1, "INSERT"), row(1, 2, 2, "INSERT"));
    for model in [&narrow, &wide] {
        let bucket = bucket(&narrow, &[vec![old.clone()]]);
        export(&bucket, &wide, DAY, 2, std::slice::from_ref(&new));
        compact(model, &bucket, options(), NOW);
        let expected = [AttemptRow { tags: None, ..old.clone() }, new.clone()];
        assert_eq!(rows_of_table(&log(&bucket)).concat(), expected, "both columns, with either model");
        assert_eq!(current_rows(&bucket), expected);
    }
}

#[test]
fn a_key_column_is_the_same_whatever_columns_a_model_shows() {
    let hidden = Arc::new(Model::parse(
        "name = \"exams\"\ngeneration = 1\n[tables.exams]\nkey = [\"pk\", \"sk\"]\n[entities.attempt]\n\
         key = { pk = \"PROJECT#{project_id}\", sk = \"ATTEMPT#{attempt_id}\" }\nattributes = { started_at = \"S\" }\n\
         [datasets.attempts]\nof = \"attempt\"\npartition = \"started_at:day\"\n\
         [datasets.attempts.columns]\nscore = \"int64\"\ntags = \"list<string>\"\n",
        "exams.toml",
    ).unwrap());
    let shown = model_of(2, "", "score = \"int64\"\ntags = \"list<string>\"");
    let old: Vec<AttemptRow> = (0..100).map(|attempt| row(1, attempt, 1, "INSERT")).collect();
    let bucket = bucket(&hidden, &[old]);
    compact(&hidden, &bucket, options(), NOW);
    export(&bucket, &shown, DAY, 7, &[row(1, 5, 2, "MODIFY")]);
    compact(&shown, &bucket, options(), NOW.plus(HOUR));
    let rows = rows_of_file_by_key(current_file(&bucket));
    assert_eq!(rows.len(), 100, "every item is there once");
    assert_eq!(rows.iter().filter(|(_, position)| position.ends_with('2')).count(), 1);
}

/// The item and the position of each row.
fn rows_of_file_by_key(file: Vec<u8>) -> BTreeSet<(String, String)> {
    let mut rows = BTreeSet::new();
    for batch in batches(file) {
        for at in 0..batch.num_rows() {
            let text = |name: &str| batch[name].as_string::<i32>().value(at).to_owned();
            rows.insert((text("_key_attempt_id"), text(schema::POSITION)));
        }
    }
    rows
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_other_days_are_compacted() {
    let model = plain();
    let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")], vec![row(1, 2, 1, "INSERT")]]);
    export(&bucket, &model, "2026-02-05", 5, &[row(1, 3, 1, "INSERT")]);
    // The second file's footer is valid, its first page is not.
    let (torn, mut file) = files(&log(&bucket)).pop().unwrap();
    file[4..20].fill(0xff);
    put(&bucket, &format!("datasets/attempts_log/{torn}"), file);
    let compactor = compactor(&model, Arc::clone(&bucket), options(), NOW);
    let error = block_on(compactor.compact(None, None)).unwrap_err();
    assert!(error.to_string().contains(&torn) && error.to_string().contains(DAY), "{error}");
    assert_eq!(current_rows(&bucket), [row(1, 3, 1, "INSERT")]);
    assert!(keys(&bucket, &format!("datasets/attempts_log/dt={DAY}/packed")).is_empty());
}

#[test]
fn the_copy_of_the_greatest_generation_stays() {
    let before = model_of(9, "", "score = { type = \"int64\", from = \"points\" }");
    let now = model_of(10, "", "score = \"int64\"");
    let wrong = AttemptRow { score: None, tags: None, ..row(1, 1, 1, "INSERT") };
    let right = AttemptRow { tags: None, ..row(1, 1, 1, "INSERT") };
    for (names, compactor) in [((1, 2), &now), ((2, 1), &now), ((1, 2), &before), ((2, 1), &before)] {
        let bucket = bucket(&before, &[]);
        export(&bucket, &before, DAY, names.0, std::slice::from_ref(&wrong));
        export(&bucket, &now, DAY, names.1, std::slice::from_ref(&right));
        compact(compactor, &bucket, options(), NOW);
        assert_eq!(rows_of_table(&log(&bucket)).concat(), std::slice::from_ref(&right));
        assert_eq!(current_rows(&bucket), std::slice::from_ref(&right));
    }
}

#[test]
fn a_request_names_a_partition_or_compacts_all() {
    let model = plain();
    let bucket = bucket(&model, &[]);
    for day in ["2026-02-06", "2026-02-07", afterwrite_model::table::NO_DAY] {
        export(&bucket, &model, day, 1, &[row(1, 1, 1, "INSERT")]);
    }
    let compactor = compactor(&model, Arc::clone(&bucket), options(), NOW);
    let one = block_on(compactor.compact(Some("attempts"), Some("2026-02-07"))).unwrap();
    assert_eq!((one.partitions, one.current_files), (1, 1));
    let all = block_on(compactor.compact(Some("attempts"), None)).unwrap();
    assert_eq!((all.partitions, all.current_files), (2, 2));
    for (dataset, day, word) in [(Some("attempt"), None, "attempts"), (None, Some("today"), "yyyy-mm-dd")] {
        let error = block_on(compactor.compact(dataset, day)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn tables_exist_before_their_first_row() {
    let model = plain();
    let bucket = bucket(&model, &[]);
    compact(&model, &bucket, options(), NOW);
    for table in [log(&bucket), current(&bucket)] {
        let snapshot = block_on(table.snapshot()).unwrap();
        assert!(snapshot.version().is_some() && snapshot.files().next().is_none());
    }
}

#[test]
fn the_footer_declares_the_order() {
    let model = plain();
    let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")]]);
    compact(&model, &bucket, options(), NOW);
    let file = Bytes::from(current_file(&bucket));
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    assert_eq!(builder.schema(), &schema::arrow_schema(dataset(&model)));
    let sorting = builder.metadata().row_group(0).sorting_columns().unwrap();
    let names: Vec<String> = sorting
        .iter()
        .map(|column| {
            builder.parquet_schema().column(usize::try_from(column.column_idx).unwrap()).path().string()
        })
        .collect();
    assert_eq!(
        names,
        ["project_id", "_key_project_id", "_key_attempt_id", "_position", "_operation", "_changed_at"]
    );
}

#[test]
fn values_without_a_dictionary_have_difference_encodings() {
    let model = plain();
    let rows: Vec<AttemptRow> = (0..10_000).map(|number| row(number % 7, number, number, "INSERT")).collect();
    let bucket = bucket(&model, &[rows]);
    compact(&model, &bucket, options(), NOW);
    let file = Bytes::from(current_file(&bucket));
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let group = builder.metadata().row_group(0);
    let encodings = |name: &str| {
        let column = group.columns().iter().find(|column| column.column_path().string() == name).unwrap();
        column.encodings().collect::<Vec<_>>()
    };
    for (name, encoding) in [
        ("attempt_id", Encoding::DELTA_LENGTH_BYTE_ARRAY),
        ("_changed_at", Encoding::DELTA_BINARY_PACKED),
        ("_position", Encoding::DELTA_BYTE_ARRAY),
        ("project_id", Encoding::RLE_DICTIONARY),
        ("score", Encoding::RLE_DICTIONARY),
        ("tags.list.element", Encoding::RLE_DICTIONARY),
    ] {
        assert!(encodings(name).contains(&encoding), "{name}: {:?}", encodings(name));
    }
    assert!(!encodings("_position").contains(&Encoding::RLE_DICTIONARY));
}
