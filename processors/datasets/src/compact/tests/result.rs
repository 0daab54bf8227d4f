//! What a compaction leaves.

use super::*;

#[test]
fn many_files_become_one_that_is_sorted_and_holds_each_row_once() {
    let model = plain();
    let written = history(&mut Random::new(1), 300, 9);
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
    assert_eq!(files(&bucket).len(), 10, "the inputs stay for now");

    let only = only_compacted(&bucket);
    let sorted: Vec<Row> = before.iter().cloned().collect();
    assert_eq!(rows_of_file(bucket.objects()[&only].clone()), sorted);

    let again = compact(&model, &bucket, options(), NOW.plus(GRACE / 2));
    assert_eq!((again.files_in, again.files_removed), (0, 0), "nothing is left to do yet");
    let swept = compact(&model, &bucket, options(), NOW.plus(GRACE));
    assert_eq!((swept.files_in, swept.files_removed), (0, 9));
    assert_eq!(files(&bucket), [only]);
    assert_eq!(keys(&bucket, "compactions/"), [""; 0]);
}

fn count_of(written: &[Vec<Row>]) -> u64 {
    u64::try_from(written.iter().map(Vec::len).sum::<usize>()).unwrap()
}

fn only_compacted(bucket: &MemoryObjects) -> String {
    let compacted: Vec<String> =
        files(bucket).into_iter().filter(|key| Partition::is_compacted(key)).collect();
    assert_eq!(compacted.len(), 1, "{compacted:?}");
    compacted[0].clone()
}

#[test]
fn a_single_file_is_rewritten_once() {
    let model = plain();
    let bucket = bucket(&model, &[vec![row(1, 2, 3, "INSERT"), row(1, 1, 4, "INSERT")]]);
    assert_eq!(compact(&model, &bucket, options(), NOW).files_out, 1);
    assert_eq!(compact(&model, &bucket, options(), NOW.plus(GRACE)).files_out, 0);
    let rows = rows_of_file(bucket.objects()[&only_compacted(&bucket)].clone());
    assert_eq!(rows, [row(1, 1, 4, "INSERT"), row(1, 2, 3, "INSERT")]);
}

#[test]
fn late_rows_are_taken_in() {
    let model = plain();
    let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")], vec![row(2, 2, 1, "INSERT")]]);
    compact(&model, &bucket, options(), NOW);
    put(&bucket, &exported(&model, DAY, 77), parquet(&model, &[row(1, 1, 2, "MODIFY")]));
    let late = compact(&model, &bucket, options(), NOW.plus(GRACE));
    assert_eq!((late.files_in, late.rows_out), (2, 3));
    compact(&model, &bucket, options(), NOW.plus(GRACE * 2));
    assert_eq!(rows_of_file(bucket.objects()[&only_compacted(&bucket)].clone()).len(), 3);
}

#[test]
fn however_little_memory_there_is_the_rows_are_the_same() {
    for model in [plain(), newest()] {
        let written = history(&mut Random::new(2), 2_000, 30);
        let compacted = |memory| {
            let bucket = bucket(&model, &written);
            let counts = compact(&model, &bucket, Options { memory, ..options() }, NOW);
            (rows_of_file(bucket.objects()[&only_compacted(&bucket)].clone()), counts)
        };
        let (rows, counts) = compacted(1 << 30);
        assert!(rows.is_sorted() && counts.duplicates > 0);
        for memory in [1, 50_000, 200_000] {
            let (spilled, spilled_counts) = compacted(memory);
            assert_eq!(spilled, rows, "{memory} bytes");
            // Whether a copy of a row is told to be outdated or a copy depends on what lay in memory together.
            let left =
                |counts: Compacted| (counts.rows_in, counts.rows_out, counts.duplicates + counts.outdated);
            assert_eq!(left(spilled_counts), left(counts), "{memory} bytes");
        }
    }
}

#[test]
fn large_partitions_become_several_files_each_after_the_other() {
    let model = plain();
    for memory in [1 << 30, 100_000] {
        let bucket = bucket(&model, &history(&mut Random::new(3), 5_000, 12));
        let before = distinct(&bucket);
        let options = Options { small: 30_000, target: 16_000, memory, ..options() };
        let compacted = compact(&model, &bucket, options.clone(), NOW);
        assert!(compacted.files_out > 2, "{compacted:?}");
        compact(&model, &bucket, Options { small: 0, ..options }, NOW.plus(GRACE));
        let mut files: Vec<Vec<Row>> = bucket.objects().into_values().map(rows_of_file).collect();
        files.sort();
        assert_eq!(files.concat(), before.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn no_more_is_compacted_together_than_is_allowed() {
    let model = plain();
    let bucket = bucket(&model, &history(&mut Random::new(4), 1_000, 10));
    let before = distinct(&bucket);
    let size = bucket.objects().values().map(Vec::len).max().unwrap();
    let at_once = u64::try_from(size * 3).unwrap();
    let compacted = compact(&model, &bucket, Options { at_once, ..options() }, NOW);
    assert_eq!((compacted.files_in, compacted.files_out), (10, 4));
    compact(&model, &bucket, options(), NOW.plus(GRACE));
    let last = compact(&model, &bucket, options(), NOW.plus(GRACE * 2));
    assert_eq!((last.files_removed, files(&bucket).len()), (4, 1));
    assert_eq!(distinct(&bucket), before);
}

#[test]
fn columns_come_and_go_and_no_value_is_lost() {
    let (narrow, wide) = (model("sort = [\"project_id\"]", "score = \"int64\""), plain());
    let (old, new) = (row(1, 1, 1, "INSERT"), row(1, 2, 2, "INSERT"));
    for model in [&narrow, &wide] {
        let bucket = bucket(&narrow, &[vec![old.clone()]]);
        put(&bucket, &exported(&wide, DAY, 2), parquet(&wide, std::slice::from_ref(&new)));
        compact(model, &bucket, options(), NOW);
        let rows = rows_of_file(bucket.objects()[&only_compacted(&bucket)].clone());
        assert_eq!(rows, [Row { tags: None, ..old.clone() }, new.clone()], "both columns, whoever compacts");
    }
}

#[test]
fn what_does_not_fit_is_left_as_it_is() {
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
fn of_rows_exported_twice_the_one_of_the_latest_generation_stays() {
    let before = model_of(9, "", "score = { type = \"int64\", from = \"points\" }");
    let now = model_of(10, "", "score = \"int64\"");
    let wrong = Row { score: None, tags: None, ..row(1, 1, 1, "INSERT") };
    let right = Row { tags: None, ..row(1, 1, 1, "INSERT") };
    for (names, compactor) in [((1, 2), &now), ((2, 1), &now), ((1, 2), &before), ((2, 1), &before)] {
        let bucket = bucket(&before, &[]);
        put(&bucket, &exported(&before, DAY, names.0), parquet(&before, std::slice::from_ref(&wrong)));
        put(&bucket, &exported(&now, DAY, names.1), parquet(&now, std::slice::from_ref(&right)));
        compact(compactor, &bucket, options(), NOW);
        assert_eq!(
            rows_of_file(bucket.objects()[&only_compacted(&bucket)].clone()),
            std::slice::from_ref(&right)
        );
    }
}

#[test]
fn partitions_are_found_or_named() {
    let model = plain();
    let bucket = bucket(&model, &[]);
    for day in ["2026-02-06", "2026-02-07", afterwrite::table::NO_DAY] {
        put(&bucket, &exported(&model, day, 1), parquet(&model, &[row(1, 1, 1, "INSERT")]));
    }
    let compactor = Compactor::new(Arc::clone(&model), Arc::clone(&bucket), options());
    let one = block_on(compactor.compact(Some("attempts"), Some("2026-02-07"), NOW)).unwrap();
    assert_eq!((one.partitions, one.files_out), (1, 1));
    let all = block_on(compactor.compact(Some("attempts"), None, NOW)).unwrap();
    assert_eq!((all.partitions, all.files_out), (3, 2));
    for (dataset, day, told) in [(Some("attempt"), None, "attempts"), (None, Some("today"), "yyyy-mm-dd")] {
        let error = block_on(compactor.compact(dataset, day, NOW)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn the_footer_tells_the_order() {
    let model = plain();
    let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")]]);
    compact(&model, &bucket, options(), NOW);
    let file = Bytes::from(bucket.objects()[&only_compacted(&bucket)].clone());
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    assert_eq!(builder.schema(), &schema::schema(dataset(&model)));
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
fn values_that_make_no_dictionary_are_written_to_be_small() {
    let model = plain();
    let rows: Vec<Row> = (0..10_000).map(|number| row(number % 7, number, number, "INSERT")).collect();
    let bucket = bucket(&model, &[rows]);
    compact(&model, &bucket, options(), NOW);
    let file = Bytes::from(bucket.objects()[&only_compacted(&bucket)].clone());
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
