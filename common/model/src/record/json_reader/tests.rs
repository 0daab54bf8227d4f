use std::cell::Cell;

use proptest::prelude::*;

use super::*;

fn skipped(json: &str) -> Option<&str> {
    JsonReader::read_all(json, JsonReader::skip).ok()
}

fn text(json: &str) -> Option<Cow<'_, str>> {
    JsonReader::read_all(json, JsonReader::text).ok()
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[test]
fn valid_json_is_skipped() {
    let words = r#"null true false 0 -0 10 -1.50 1e5 1E+05 0.1e-999 "" "a\"\\\/\b\f\n\r\t\u00e9" "\ud800" [] {}
        [1,[2,[]],{}] {"a":1,"":{"b":[]},"c":[{}]} {"S":"a\"}"} {"S":"a","N":1} {"L":[{"S":"a"},{"S":"b"}]}"#;
    let spaced = ["[ ]", "{\n}", "[1 , 2\t]", r#"{"a" : "é試🙂" }"#, r#"{"S":"a" }"#];
    for json in words.split_whitespace().chain(spaced) {
        assert_eq!(skipped(json), Some(json));
        assert_eq!(skipped(&format!(" \r\n\t{json} ")), Some(json));
    }
}

#[test]
fn invalid_json_is_rejected() {
    let words = r#"nul True truefalse 01 - +1 .5 1. 1e 1e+ --1 0x1 NaN " "a "\x" "\u12g4" "\u12 'a' [ ] [1 [1,] [,1] { } [} {]
        {"a"} {"a":} {"a":1,} {1:2} {,} {"S":"a {"S":"a" {"S":"a"]"#;
    let spaced = ["", " ", "\"\n\"", "\"12345678\u{1f}\"", "[1 2]", r#"{"a" 1}"#, "1 2", "[] []"];
    for json in words.split_whitespace().chain(spaced) {
        assert_eq!(skipped(json), None, "{json}");
    }
}

#[test]
fn depth_is_limited_only_for_values_that_are_read() {
    fn nested(reader: &mut JsonReader<'_>) -> JsonResult<()> {
        reader.list(nested)
    }
    let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(skipped(&lists(100_000)), Some(&*lists(100_000)));
    let limit = usize::from(MAX_LEVELS);
    assert!(JsonReader::read_all(&lists(limit), nested).is_ok());
    assert!(JsonReader::read_all(&lists(limit + 1), nested).is_err());

    fn nested_text(reader: &mut JsonReader<'_>) -> JsonResult<()> {
        if reader.peek() == Some(b'[') {
            return reader.list(nested_text);
        }
        reader.tagged_text().map(drop).ok_or(InvalidJson)
    }
    let around = |depth: usize| lists(depth).replace("[]", r#"[{"S":"a"}]"#);
    assert!(JsonReader::read_all(&around(limit - 1), nested_text).is_ok());
    assert!(JsonReader::read_all(&around(limit), nested_text).is_err());
    assert_eq!(skipped(&around(limit)), Some(&*around(limit)));
}

/// The members of an object: the first letter of the name, and the JSON of the value.
type MembersByLetter<'a> = Option<Vec<(Option<char>, &'a str)>>;

fn members(json: &str) -> MembersByLetter<'_> {
    let mut members = Vec::new();
    let read = JsonReader::read_all(json, |reader| {
        reader.object(|reader, name| {
            members.push((name.chars().next(), reader.skip()?));
            Ok(())
        })
    });
    read.ok().map(|()| members)
}

fn members_with_shape<'a>(json: &'a str, shape: &mut ShapeCache<'a, Option<char>>) -> MembersByLetter<'a> {
    let mut members = Vec::new();
    let read = JsonReader::read_all(json, |reader| {
        reader.object_with_shape(
            shape,
            |name| name.chars().next(),
            |reader, letter, last| {
                let start = reader.start();
                reader.skip_expecting(last)?;
                members.push((letter, reader.text_since(start)?));
                Ok(())
            },
        )
    });
    read.ok().map(|()| members)
}

#[test]
fn wrong_expectations_do_not_change_the_result() {
    let mut shape = ShapeCache::default();
    for json in [
        r#"{"a":{"S":"x"},"b":1,"c":"é"}"#,
        r#"{"a":{"S":"x"},"b":1,"c":"é"}"#,
        r#"{"a":{"S":"x"},"b":12,"c":"é"}"#,
        r#"{"b":12,"c":"éa"}"#,
        r#"{"c":"é","b":1,"a":{"S":"x"}}"#,
        r#"{ "a" : {"S":"x"} , "b":null}"#,
        r#"{"a":{"S":"x"},"a":{"S":"x"},"a":[]}"#,
        "{}",
        r#"{"a":{"S":"x"}"#,
        r#"{"a":{"S":"x"}}}"#,
        r#"{"a":}"#,
        r#"{"a"}"#,
        "[]",
    ] {
        assert_eq!(members_with_shape(json, &mut shape), members(json), "{json}");
        assert_eq!(members_with_shape(json, &mut ShapeCache::disabled()), members(json), "{json}");
    }
}

#[test]
fn a_name_is_resolved_once_and_its_last_value_is_cached() {
    let object = |value: usize, names: usize| {
        let member = |name| format!(r#""a{name}":"{value} {name}""#);
        format!("{{{}}}", (0..names).map(member).collect::<Vec<_>>().join(","))
    };
    for names in [1, 2, 100] {
        let (first, second) = (object(1, names), object(2, names));
        let (mut shape, calls) = (ShapeCache::default(), Cell::new(0));
        let mut last_values = |json| {
            let mut values = Vec::new();
            let meaning = |_: &str| calls.set(calls.get() + 1);
            let read = JsonReader::read_all(json, |reader| {
                reader.object_with_shape(&mut shape, meaning, |reader, (), last| {
                    values.push(last);
                    reader.skip().map(drop)
                })
            });
            (read.is_ok(), values, calls.take())
        };
        assert_eq!(last_values(&first), (true, vec![""; names], names));
        assert_eq!(last_values(r#"{"a0":"again","a0":[}"#), (false, vec![r#""1 0""#, r#""again""#], 0));
        let (is_read, values, calls) = last_values(&second);
        assert_eq!((is_read, values[0], calls), (true, r#""again""#, 0));
        let expected = (1..names).map(|name| format!(r#""1 {name}""#));
        assert!(values[1..].iter().copied().eq(expected), "{values:?}");
    }
}

#[test]
fn objects_with_more_names_than_the_cache_holds_are_read_correctly() {
    let object = |letters: &[char], round: usize| {
        let member = |number| format!(r#""{}{number}":{round}"#, letters[number % letters.len()]);
        format!("{{{}}}", (0..900).map(member).collect::<Vec<_>>().join(","))
    };
    let objects: Vec<_> =
        (0..3).flat_map(|round| [object(&['a', 'b', 'c'], round), object(&['d', 'a'], round)]).collect();
    let mut shape = ShapeCache::default();
    for json in &objects {
        assert_eq!(members_with_shape(json, &mut shape), members(json));
    }
}

proptest! {
    #[test]
    fn an_object_reads_the_same_with_and_without_a_shape_cache(
        objects in prop::collection::vec(
            r#"\{("(a|ab|\\u0061|b)" ?:("x"|"x\\""|"xy"|1|12|\{"S":"x"\}|\{"S":"xy"\}|\{"S":"x","N":"1"\}|\[1\]|null),){0,4}("(a|b)":[1x],?)?\}"#,
            1..8,
        ),
    ) {
        let objects: Vec<_> = objects.iter().map(|json| json.replace(",}", "}")).collect();
        let mut shape = ShapeCache::default();
        for json in &objects {
            prop_assert_eq!(members_with_shape(json, &mut shape), members(json), "{}", json);
        }
    }

    #[test]
    fn strings_are_read_as_serde_reads_them(json in r#""([a-z "\\\\/éü試🙂]|\\\\u[0-9a-fD]{4}|\\\\[nt"\\\\]){0,30}"?"#) {
        let expected: Option<String> = serde_json::from_str(&json).ok();
        prop_assert_eq!(text(&json).map(Cow::into_owned), expected);
    }

    #[test]
    fn members_are_read_as_serde_reads_them(json in r#"\{ ?"([A-Za\\é]|\\[nu]|\\u004[0-9d]){0,2}" ?: ?"S",?"S":(1|"B"|\{"S":2\}|\{"[ST]":"(a|é|\\"|\\x|\\ud800){0,2}("(,"N":1)? ?\}?)?)\}"#) {
        let mut names = Vec::new();
        let read = JsonReader::read_all(&json, |reader| reader.object(|reader, name| {
            names.push(name.into_owned());
            reader.skip().map(drop)
        }));
        let expected: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(&json).ok();
        prop_assert_eq!(read.is_ok(), is_json(&json), "{}", json);
        prop_assert_eq!(skipped(&json).is_some(), is_json(&json), "{}", json);
        if let Some(expected) = expected {
            prop_assert!(names.iter().all(|name| expected.contains_key(name)), "{}", json);
            names.sort_unstable();
            names.dedup();
            prop_assert_eq!(names.len(), expected.len());
        }
    }

    #[test]
    fn a_text_is_valid_exactly_if_serde_json_accepts_it(json in r#"[\[\]{}:,"\\\\a0-2.eE+\- \n]{0,12}|\[[0-9.eE+-]{0,8}\]"#) {
        prop_assert_eq!(skipped(&json).is_some(), is_json(&json), "{}", json);
    }
}
