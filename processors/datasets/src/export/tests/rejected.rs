//! Lines and objects that are rejected, and that the others are exported.

use super::*;

#[test]
fn rejected_lines_are_written_with_their_numbers_and_reasons() {
    let bucket = Arc::new(MemoryObjects::default());
    let good = line(100, "INSERT", r#""NewImage":{"bought_at":{"S":"2026-02-06"},"pages":{"N":"1"}}"#);
    let foreign = good.replace("table/library", "table/elsewhere").replace("\"100\"", "\"102\"");
    let wrong = line(101, "INSERT", r#""NewImage":{"pages":{"N":"many"}}"#);
    let unmatched = good.replace("BOOK#1", "CHAIR#1").replace("\"100\"", "\"103\"");
    let shelf = good.replace("SHELF#1", "OWNER#1").replace("BOOK#1", "SHELF#1").replace("\"100\"", "\"104\"");
    let keyless = good.replace("\"sk\"", "\"other\"").replace("\"100\"", "\"105\"");
    let text = format!("{good}\nnot json\n{foreign}{wrong}{keyless}{unmatched}{shelf}");
    let totals = exported(&bucket, "archive/dt=2026-02-06/hh=14/a.gz", &text).unwrap();
    assert_eq!((totals.lines, totals.rows, totals.rejected, totals.unmatched), (7, 1, 4, 1));
    let rejected = bucket.objects().remove("rejected/dt=2026-02-06/hh=14/a.gz.jsonl").unwrap();
    let rejected: Vec<serde_json::Value> =
        rejected.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let reasons: Vec<_> = rejected
        .iter()
        .map(|line| (line["line"].as_u64().unwrap(), line["reason"].as_str().unwrap()))
        .collect();
    assert!(
        matches!(&reasons[..], [(3, _), (4, table), (5, number), (6, key)]
        if key.contains("its table's key") && table.contains("AFTERWRITE_TABLES") && number.contains("38 digits")),
        "{reasons:?}"
    );
    assert_eq!(rejected[0]["text"], "not json");
}

#[test]
fn an_object_with_changes_of_unknown_tables_only_fails() {
    let bucket = Arc::new(MemoryObjects::default());
    let good = line(100, "INSERT", r#""NewImage":{"bought_at":{"S":"2026-02-06"}}"#);
    let renamed = good.replace("table/library", "table/prod-library");
    let error = exported(&bucket, "archive/a.gz", &format!("{renamed}not json\n")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    for word in ["prod-library", "AFTERWRITE_TABLES", "archive/a.gz"] {
        assert!(error.to_string().contains(word), "`{word}` is missing in: {error}");
    }
    assert_eq!(bucket.objects().len(), 1, "nothing was written");
    let many: String = (0..=10_000).map(|_| renamed.as_str()).collect();
    let error = exported(&bucket, "archive/a.gz", &many).unwrap_err();
    assert!(error.to_string().contains("AFTERWRITE_TABLES"), "{error}");
    let malformed = good.replace(r#"{"S":"2026-02-06"}"#, "5");
    let totals = exported(&bucket, "archive/mixed.gz", &format!("{renamed}{malformed}")).unwrap();
    assert_eq!(totals.rejected, 2, "one is of a table of the model");
    let totals = exported(&bucket, "archive/b.gz", "not json\n").unwrap();
    assert_eq!((totals.rejected, totals.files), (1, 0), "of no table at all");
}

#[test]
fn one_invalid_line_among_a_million_does_not_affect_the_others() {
    const BAD: u64 = 700_000;
    let bucket = Arc::new(MemoryObjects::default());
    let good = |number| line(number, "INSERT", r#""NewImage":{"bought_at":{"S":"2026-02-06"}}"#);
    let lines = (1..=1_000_000).map(|number| if number == BAD { "cut o\n".to_owned() } else { good(number) });
    let totals = exported(&bucket, "archive/a.gz", &lines.collect::<String>()).unwrap();
    assert_eq!((totals.lines, totals.rows, totals.rejected), (1_000_000, 999_999, 1));
    let rejected: serde_json::Value =
        serde_json::from_slice(&bucket.objects()["rejected/a.gz.jsonl"]).unwrap();
    assert_eq!((&rejected["line"], &rejected["text"]), (&BAD.into(), &"cut o".into()));
}

#[test]
fn other_objects_are_ignored_or_refused() {
    let bucket = Arc::new(MemoryObjects::default());
    let good = line(100, "INSERT", r#""NewImage":{"bought_at":{"S":"2026-02-06"},"pages":{"N":"1"}}"#);
    let object = gzip(&good);
    block_on(async {
        bucket.put("other/a.gz", object.clone()).await.unwrap();
        bucket.put("archive/cut.gz", object[..object.len() - 5].to_vec()).await.unwrap();
        bucket.put("archive/empty", Vec::new()).await.unwrap();
        bucket.put("archive/noise.gz", gzip(&"noise\n".repeat(10_001))).await.unwrap();
        bucket.put("archive/loud.gz", gzip(&("noise".repeat(200_000) + "\n").repeat(70))).await.unwrap();
    });
    let before = bucket.objects();
    let export = |key: &str| block_on(export_one(&exporter(&bucket), key));
    assert_eq!(export("other/a.gz").unwrap(), ExportTotals { foreign: 1, ..ExportTotals::default() });
    assert_eq!(export("archive/empty").unwrap(), ExportTotals::default());
    for key in ["archive/cut.gz", "archive/noise.gz", "archive/loud.gz", "archive/gone.gz"] {
        let error = export(key).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{key}");
        assert!(error.to_string().contains(key), "{error}");
    }
    let mut after = bucket.objects();
    after.retain(|key, _| !key.starts_with("exported/"));
    assert_eq!(after, before, "an object that cannot be read writes nothing");
}

#[test]
fn a_malformed_copy_does_not_count_as_the_first_copy() {
    let bucket = Arc::new(MemoryObjects::default());
    let removed = |pages: &str| {
        line(100, "REMOVE", &format!(r#""OldImage":{{"bought_at":{{"S":"2026-02-06"}},"pages":{pages}}}"#))
    };
    let text = [removed(r#"{"N":"no number"}"#), removed(r#"{"N":"7"}"#), removed(r#"{"N":"7"}"#)].concat();
    let totals = exported(&bucket, "archive/a.gz", &text).unwrap();
    assert_eq!((totals.rejected, totals.rows, totals.duplicates), (1, 1, 1));
}
