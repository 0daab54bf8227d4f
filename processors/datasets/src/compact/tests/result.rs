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
    assert_eq!((compacted.files_in, compacted.files_out), (9, 1));
    assert_eq!(
        (compacted.rows_in, compacted.rows_out, compacted.duplicates),
        (rows_in, rows, rows_in - rows)
    );
    assert!(compacted.bytes_out > 0 && compacted.bytes_out < compacted.bytes_in);
    assert_eq!(files(&bucket).len(), 10, "the inputs stay for the grace period");

    let only = only_compacted(&bucket);
    let sorted: Vec<AttemptRow> = before.iter().cloned().collect();
    assert_eq!(rows_of_file(bucket.objects()[&only].clone()), sorted);

    let again = compact(&model, &bucket, options(), NOW.plus(GRACE / 2));
    assert_eq!((again.files_in, again.files_removed), (0, 0), "there is nothing to do yet");
    let swept = compact(&model, &bucket, options(), NOW.plus(GRACE));
    assert_eq!((swept.files_in, swept.files_removed), (0, 9));
    assert_eq!(files(&bucket), [only]);
    assert_eq!(keys(&bucket, "compactions/"), [""; 0]);
}

fn count_of(written: &[Vec<AttemptRow>]) -> u64 {
    u64::try_from(written.iter().map(Vec::len).sum::<usize>()).unwrap()
}

fn only_compacted(bucket: &MemoryObjects) -> String {
    let compacted: Vec<String> = files(bucket).into_iter().filter(|key| is_compacted_file(key)).collect();
    assert_eq!(compacted.len(), 1, "{compacted:?}");
    compacted[0].clone()
}

fn compacted_file(bucket: &MemoryObjects) -> Vec<u8> {
    bucket.objects()[&only_compacted(bucket)].clone()
}

fn compacted_rows(bucket: &MemoryObjects) -> Vec<AttemptRow> {
    rows_of_file(compacted_file(bucket))
}

#[test]
fn a_single_file_is_rewritten_once() {
    let model = plain();
    let bucket = bucket(&model, &[vec![row(1, 2, 3, "INSERT"), row(1, 1, 4, "INSERT")]]);
    assert_eq!(compact(&model, &bucket, options(), NOW).files_out, 1);
    assert_eq!(compact(&model, &bucket, options(), NOW.plus(GRACE)).files_out, 0);
    let rows = compacted_rows(&bucket);
    assert_eq!(rows, [row(1, 1, 4, "INSERT"), row(1, 2, 3, "INSERT")]);
}

#[test]
fn late_rows_are_merged() {
    let model = plain();
    let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")], vec![row(2, 2, 1, "INSERT")]]);
    compact(&model, &bucket, options(), NOW);
    put(&bucket, &exported(&model, DAY, 77), parquet(&model, &[row(1, 1, 2, "MODIFY")]));
    let late = compact(&model, &bucket, options(), NOW.plus(GRACE));
    assert_eq!((late.files_in, late.rows_out), (2, 3));
    compact(&model, &bucket, options(), NOW.plus(GRACE * 2));
    assert_eq!(compacted_rows(&bucket).len(), 3);
}

#[test]
fn the_rows_do_not_depend_on_the_memory() {
    for model in [plain(), newest()] {
        let written = history(&mut SeededRandom::new(2), 2_000, 30);
        let compacted = |memory| {
            let bucket = bucket(&model, &written);
            let counts =
                compact(&model, &bucket, CompactionOptions { memory_bytes: memory, ..options() }, NOW);
            (compacted_rows(&bucket), counts)
        };
        let (rows, counts) = compacted(1 << 30);
        assert!(rows.is_sorted() && counts.duplicates > 0);
        for memory in [1, 50_000, 200_000] {
            let (spilled, spilled_counts) = compacted(memory);
            assert_eq!(spilled, rows, "{memory} bytes");
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
        let options = CompactionOptions {
            small_file_bytes: 30_000,
            target_file_bytes: 16_000,
            memory_bytes: memory,
            ..options()
        };
        let compacted = compact(&model, &bucket, options.clone(), NOW);
        assert!(compacted.files_out > 2, "{compacted:?}");
        compact(&model, &bucket, CompactionOptions { small_file_bytes: 0, ..options }, NOW.plus(GRACE));
        let mut files: Vec<Vec<AttemptRow>> = bucket.objects().into_values().map(rows_of_file).collect();
        files.sort();
        assert_eq!(files.concat(), before.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn groups_are_within_the_limit() {
    let model = plain();
    let bucket = bucket(&model, &history(&mut SeededRandom::new(4), 1_000, 10));
    let before = distinct(&bucket);
    let size = bucket.objects().values().map(Vec::len).max().unwrap();
    let group_bytes = u64::try_from(size * 3).unwrap();
    let compacted = compact(&model, &bucket, CompactionOptions { group_bytes, ..options() }, NOW);
    assert_eq!((compacted.files_in, compacted.files_out), (10, 4));
    compact(&model, &bucket, options(), NOW.plus(GRACE));
    let last = compact(&model, &bucket, options(), NOW.plus(GRACE * 2));
    assert_eq!((last.files_removed, files(&bucket).len()), (4, 1));
    assert_eq!(distinct(&bucket), before);
}

#[test]
fn files_of_older_and_newer_models_keep_their_columns() {
    let (narrow, wide) = (model("sort = [\"project_id\"]", "score = \"int64\""), plain());
    let (old, new) = (row(1, 1, 1, "INSERT"), row(1, 2, 2, "INSERT"));
    for model in [&narrow, &wide] {
        let bucket = bucket(&narrow, &[vec![old.clone()]]);
        put(&bucket, &exported(&wide, DAY, 2), parquet(&wide, std::slice::from_ref(&new)));
        compact(model, &bucket, options(), NOW);
        let rows = compacted_rows(&bucket);
        assert_eq!(
            rows,
            [AttemptRow { tags: None, ..old.clone() }, new.clone()],
            "both columns, with either model"
        );
    }
}

#[test]
fn files_that_do_not_fit_are_left_alone() {
    let (model, other) = (plain(), model("", "score = \"string\"\ntags = \"list<string>\""));
    let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")], vec![row(1, 2, 1, "INSERT")]]);
    let foreign = exported(&other, DAY, 3);
    put(&bucket, &foreign, parquet(&other, &[row(1, 3, 1, "INSERT")]));
    let torn = format!("datasets/attempts/dt={DAY}/torn.parquet");
    put(&bucket, &torn, b"PAR1 and then nothing".to_vec());
    put(&bucket, &format!("datasets/attempts/dt={DAY}/_SUCCESS"), Vec::new());

    let compacted = compact(&model, &bucket, options(), NOW);
    assert_eq!((compacted.files_in, compacted.files_left_alone), (2, 2));
    let again = compact(&model, &bucket, options(), NOW.plus(GRACE));
    assert_eq!((again.files_in, again.files_left_alone, again.files_removed), (0, 2, 2));
    assert!(bucket.objects().contains_key(&foreign) && bucket.objects().contains_key(&torn));
}

#[test]
fn the_copy_of_the_greatest_generation_stays() {
    let before = model_of(9, "", "score = { type = \"int64\", from = \"points\" }");
    let now = model_of(10, "", "score = \"int64\"");
    let wrong = AttemptRow { score: None, tags: None, ..row(1, 1, 1, "INSERT") };
    let right = AttemptRow { tags: None, ..row(1, 1, 1, "INSERT") };
    for (names, compactor) in [((1, 2), &now), ((2, 1), &now), ((1, 2), &before), ((2, 1), &before)] {
        let bucket = bucket(&before, &[]);
        put(&bucket, &exported(&before, DAY, names.0), parquet(&before, std::slice::from_ref(&wrong)));
        put(&bucket, &exported(&now, DAY, names.1), parquet(&now, std::slice::from_ref(&right)));
        compact(compactor, &bucket, options(), NOW);
        assert_eq!(compacted_rows(&bucket), std::slice::from_ref(&right));
    }
}

#[test]
fn a_request_names_a_partition_or_compacts_all() {
    let model = plain();
    let bucket = bucket(&model, &[]);
    for day in ["2026-02-06", "2026-02-07", afterwrite::table::NO_DAY] {
        put(&bucket, &exported(&model, day, 1), parquet(&model, &[row(1, 1, 1, "INSERT")]));
    }
    let compactor = compactor(&model, Arc::clone(&bucket), options(), NOW);
    let one = block_on(compactor.compact(Some("attempts"), Some("2026-02-07"))).unwrap();
    assert_eq!((one.partitions, one.files_out), (1, 1));
    let all = block_on(compactor.compact(Some("attempts"), None)).unwrap();
    assert_eq!((all.partitions, all.files_out), (3, 2));
    for (dataset, day, word) in [(Some("attempt"), None, "attempts"), (None, Some("today"), "yyyy-mm-dd")] {
        let error = block_on(compactor.compact(dataset, day)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn the_footer_declares_the_order() {
    let model = plain();
    let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")]]);
    compact(&model, &bucket, options(), NOW);
    let file = Bytes::from(compacted_file(&bucket));
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    assert_eq!(builder.schema(), &schema::arrow_schema(dataset(&model)));
    let sorting = builder.metadata().row_group(0).sorting_columns().unwrap();
    let names: Vec<String> = sorting
        .iter()
        .map(|column| {
            builder.parquet_schema().column(usize::try_from(column.column_idx).unwrap()).path().string()
        })
        .collect();
    assert_eq!(names, ["project_id", "attempt_id", "_position", "_operation", "_changed_at"]);
}

#[test]
fn values_without_a_dictionary_have_difference_encodings() {
    let model = plain();
    let rows: Vec<AttemptRow> = (0..10_000).map(|number| row(number % 7, number, number, "INSERT")).collect();
    let bucket = bucket(&model, &[rows]);
    compact(&model, &bucket, options(), NOW);
    let file = Bytes::from(compacted_file(&bucket));
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
