//! Templates as models write them, and properties of all small ones.

use proptest::prelude::*;

use super::*;
use crate::table::time_format::NotAFormat;

fn template(text: &str) -> Template {
    Template::compile(text, &mut Vec::new()).unwrap_or_else(|problem| panic!("{text}: {problem}"))
}

/// The values of the variables, in the order of their first occurrence.
fn parse(text: &str, key: &str) -> Option<Vec<String>> {
    let mut variables = Vec::new();
    let template = Template::compile(text, &mut variables).unwrap();
    let mut bindings = vec![None; variables.len()];
    template
        .parse(key, &mut bindings)
        .then(|| bindings.into_iter().map(|value| value.unwrap().to_owned()).collect())
}

#[test]
fn a_variable_is_listed_once_with_its_format() {
    let mut variables = vec![Arc::from("known")];
    let template = Template::compile("A#{day}#{bought_at:day}#{known}#{day}", &mut variables).unwrap();
    assert_eq!(variables.iter().map(|name| &**name).collect::<Vec<_>>(), ["known", "day", "bought_at:day"]);
    assert_eq!(template.render(&["k", "d", "2026-02-06"]), "A#d#2026-02-06#k#d");
}

#[test]
fn a_quoted_name_may_have_any_character() {
    let mut variables = Vec::new();
    let text = "A#{'a:b':day}#{'x{y}z'}#{map.'in.ner'}#{'plain'}#{'it''s'}";
    let template = Template::compile(text, &mut variables).unwrap();
    let names: Vec<&str> = variables.iter().map(|name| &**name).collect();
    assert_eq!(names, ["'a:b':day", "'x{y}z'", "map.'in.ner'", "plain", "it's"]);
    assert_eq!(template.pieces.len(), 10);
    let problem = |text: &str| Template::compile(text, &mut Vec::new()).unwrap_err();
    assert_eq!(problem("{'a}"), NotATemplate::InvalidPath("'a".into(), InvalidPath::OpenQuote));
    assert_eq!(problem("{'a'b}"), NotATemplate::InvalidPath("'a'b".into(), InvalidPath::TextAfterQuote));
}

#[test]
fn invalid_templates() {
    let problem = |text: &str| Template::compile(text, &mut Vec::new()).unwrap_err();
    assert_eq!(problem(""), NotATemplate::Empty);
    for text in ["{", "}", "A#{b", "A#b}", "{a{b}}", "{{a}}", "A}{b}"] {
        assert_eq!(problem(text), NotATemplate::Braces, "{text}");
    }
    assert_eq!(problem("A#{}"), NotATemplate::Nameless);
    assert_eq!(problem("A#{:day}"), NotATemplate::Nameless);
    for name in ["task id", "a\tb", "a/b", " a"] {
        assert_eq!(problem(&format!("A#{{{name}}}")), NotATemplate::InvalidName(name.into()));
    }
    assert_eq!(problem("{a}{b:day}"), NotATemplate::Neighbours("a".into(), "b:day".into()));
    let unknown = |format| NotATemplate::UnknownFormat(format);
    assert_eq!(problem("{a:dya}"), unknown(NotAFormat::UnknownBucket("dya".into())));
    assert_eq!(problem("{a:dya@Europe/Berlin}"), unknown(NotAFormat::UnknownBucket("dya".into())));
    for zone in ["Europe/Berlyn", "europe/berlin", ""] {
        let problem = problem(&format!("{{a:day@{zone}}}"));
        assert_eq!(problem, unknown(NotAFormat::UnknownZone(zone.into())), "{zone}");
    }
    assert_eq!(problem("{:day@Europe/Berlin}"), NotATemplate::Nameless);
}

#[test]
fn keys_are_parsed() {
    let cases: &[(&str, &str, Option<&[&str]>)] = &[
        ("PROJECT#{id}", "PROJECT#p1", Some(&["p1"])),
        ("PROJECT#{id}", "PROJECT#", None),
        ("PROJECT#{id}", "PROJECTS#p1", None),
        ("ROLLUP#TOTAL", "ROLLUP#TOTAL", Some(&[])),
        ("ROLLUP#TOTAL", "ROLLUP#TOTAL#", None),
        ("{id}", "anything#at all", Some(&["anything#at all"])),
        ("{id}", "", None),
        // Variables before the last take the shortest text, the last takes what is left.
        ("U#{date}#{action}#{time}", "U#d#a#t#t", Some(&["d", "a", "t#t"])),
        ("{a}#{b}", "##x", Some(&["#", "x"])),
        ("{a}#{b}", "x##", Some(&["x", "#"])),
        ("{a}#END", "x#END#END", Some(&["x#END"])),
        ("{a}#END", "#END", None),
        // Characters of several bytes, and literals that begin within the first one.
        ("{a}é{b}", "éééx", Some(&["é", "éx"])),
        ("{a}ü", "öü", Some(&["ö"])),
        // A day is ten characters, and no others.
        ("D#{at:day}", "D#2026-02-06", Some(&["2026-02-06"])),
        ("D#{at:day}", "D#2026-02-0", None),
        ("D#{at:day}", "D#2026-02-06T", None),
        ("D#{at:day}", "D#2026-O2-06", None),
        ("D#{at:day}", "D#éééé-02-06", None),
        ("{at:day}#{rest}", "2026-02-06#x", Some(&["2026-02-06", "x"])),
        // The other formats have fixed lengths, too, with a zone or without.
        ("D#{at:day@Europe/Berlin}", "D#2026-02-06", Some(&["2026-02-06"])),
        ("{at:minute}#{rest}", "2026-02-06T14:30#x", Some(&["2026-02-06T14:30", "x"])),
        ("{at:minute}", "2026-02-06T14", None),
        ("{a}#{at:hour}", "x#2026-02-06T14", Some(&["x", "2026-02-06T14"])),
        ("{a}#{at:week}#{b}", "x#2026-06#2026-W06#z", Some(&["x#2026-06", "2026-W06", "z"])),
        ("{at:month}", "2026-02", Some(&["2026-02"])),
        ("{at:quarter}", "2026-Q1", Some(&["2026-Q1"])),
        ("{at:quarter}", "2026-01", None),
        ("{at:year}#{at:month}", "2026#2026-02", Some(&["2026", "2026-02"])),
        // The first `#` is followed by no day, so the variable goes on.
        ("{a}#{at:day}#{b}", "x#y#2026-02-06#z", Some(&["x#y", "2026-02-06", "z"])),
        ("{a}#{at:day}", "x#2026-02-06#2026-02-07", Some(&["x#2026-02-06", "2026-02-07"])),
        // One variable, one value.
        ("{a}#{a}", "x#x", Some(&["x"])),
        ("{a}#{a}", "x#y", None),
    ];
    for (text, key, values) in cases {
        let expected = values.map(|values| values.iter().map(|value| (*value).to_owned()).collect());
        assert_eq!(parse(text, key), expected, "{text} against {key}");
    }
}

#[test]
fn a_variable_of_both_keys_has_one_value() {
    let mut variables = Vec::new();
    let partition = Template::compile("USER#{email}", &mut variables).unwrap();
    let sort = Template::compile("USER#{email}", &mut variables).unwrap();
    for (sort_key, fits) in [("USER#a@x", true), ("USER#b@x", false)] {
        let mut bindings = [None];
        assert!(partition.parse("USER#a@x", &mut bindings));
        assert_eq!(sort.parse(sort_key, &mut bindings), fits);
    }
}

#[test]
fn a_separator_limits_what_variables_match() {
    let separated = |text: &str| Template { separator: Some('#'), ..template(text) };
    for (text, key, matches) in [
        ("ORDER#{a}", "ORDER#1", true),
        ("ORDER#{a}", "ORDER#1#ITEM#2", false),
        ("{a}-{b}#{c}", "x-y-z#1", true),
        ("{a}-{b}#{c}", "x#-y#1", false),
    ] {
        assert_eq!(separated(text).parse(key, &mut [None; 3]), matches, "{text} against {key}");
    }
    let (order, line) = (separated("ORDER#{a}"), separated("ORDER#{a}#ITEM#{b}"));
    assert!(!order.overlaps(&line) && !line.overlaps(&order));
    // Keys of rollups are not restricted: one of these can be the key of an order.
    assert!(order.overlaps(&template("ORDER#{a}")) && template("{any}").overlaps(&order));
    assert!(!order.overlaps(&template("ORDER#{a}#ROLLUP")));
}

#[test]
fn overlaps_of_everyday_keys() {
    for (a, b, overlap) in [
        ("QUESTION#{id}", "QUESTION#{id}", true),
        ("QUESTION#{id}", "ROLLUP#{id}", false),
        ("ROLLUP#PROJECT#{id}#TOTAL", "ROLLUP#PROJECT#{id}#DAY#{at:day}", false),
        ("ROLLUP#PROJECT#{id}#{at:day}", "ROLLUP#PROJECT#{id}#DAY#{at:day}", true),
        ("ROLLUP#{any}", "ROLLUP#TOTAL", true),
        ("ROLLUP#DAY#{at:day}", "ROLLUP#DAY#TOTAL", false),
        ("ROLLUP#DAY#{at:day}", "ROLLUP#DAY#2026-02-06", true),
        ("ROLLUP#{at:day}", "ROLLUP#{at:hour}", false),
        ("ROLLUP#{at:month}", "ROLLUP#{at:quarter}", false),
        ("ROLLUP#{at:week}", "ROLLUP#{at:week@Europe/Berlin}", true),
        ("{id}", "x", true),
        ("{id}x", "x", false),
        ("A#{id}", "A#", false),
        ("{a}é", "{b}è", false),
    ] {
        assert_eq!(template(a).overlaps(&template(b)), overlap, "{a} and {b}");
        assert_eq!(template(b).overlaps(&template(a)), overlap, "{b} and {a}");
    }
}

/// Templates over two letters, each variable once; a `:day` would be too long for brute force.
fn small_template() -> impl Strategy<Value = String> {
    prop_oneof![small_template_of("[ab]", 2), small_template_of("[ab]{1,2}", 1)]
}

fn small_template_of(literal: &'static str, most: usize) -> impl Strategy<Value = String> {
    (prop::option::of(literal), prop::collection::vec(literal, 0..=most), any::<bool>()).prop_map(
        |(first, between, ends_in_variable)| {
            let mut text = first.unwrap_or_default();
            for (index, literal) in between.iter().enumerate() {
                text.push_str(&format!("{{v{index}}}{literal}"));
            }
            if ends_in_variable || text.is_empty() {
                text.push_str("{last}");
            }
            text
        },
    )
}

/// All texts over two letters of up to this length.
fn small_texts(length: usize) -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut from = 0;
    for _ in 0..length {
        for index in from..texts.len() {
            for letter in ["a", "b"] {
                texts.push(format!("{}{letter}", texts[index]));
            }
        }
        from = texts.len() / 2;
    }
    texts.sort();
    texts.dedup();
    texts
}

/// Whether some values of the variables, each at least this long, make this key: tries them all.
fn matches_somehow(pieces: &[TemplatePiece], key: &str, least: usize) -> bool {
    match pieces.split_first() {
        None => key.is_empty(),
        Some((TemplatePiece::Literal(text), rest)) => {
            key.strip_prefix(&**text).is_some_and(|key| matches_somehow(rest, key, least))
        }
        Some((TemplatePiece::Variable(..), rest)) => {
            (least..=key.len()).any(|length| matches_somehow(rest, &key[length..], least))
        }
    }
}

/// A template of some shape and values of its variables that do not contain the literal that follows them.
fn template_and_values() -> impl Strategy<Value = (String, Vec<String>)> {
    let literal = "[#A-ZÄé]{1,4}";
    let value = "[a-zß0-9.@ üλ🙂]{1,6}";
    let last = "[a-zß#A-ZÄé.🙂]{1,8}";
    (prop::option::of(literal), prop::collection::vec((value, literal), 0..4), prop::option::of(last))
        .prop_map(|(first, parts, last)| {
            let mut text = first.unwrap_or_default();
            let mut values = Vec::new();
            for (index, (value, literal)) in parts.into_iter().enumerate() {
                text.push_str(&format!("{{v{index}}}{literal}"));
                values.push(value);
            }
            if let Some(last) = last {
                text.push_str("{last}");
                values.push(last);
            }
            if text.is_empty() {
                text.push('#');
            }
            (text, values)
        })
}

proptest! {
    #[test]
    fn a_rendered_key_parses_to_the_same_values((text, values) in template_and_values()) {
        let key = template(&text).render(&values);
        prop_assert_eq!(parse(&text, &key), Some(values));
    }

    #[test]
    fn a_parsed_key_renders_the_same(text in small_template(), key in "[ab]{0,7}") {
        if let Some(values) = parse(&text, &key) {
            prop_assert_eq!(template(&text).render(&values), key);
        }
    }

    #[test]
    fn a_key_is_parsed_if_any_values_make_it(text in small_template(), key in "[ab]{0,7}") {
        prop_assert_eq!(parse(&text, &key).is_some(), matches_somehow(&template(&text).pieces, &key, 1));
    }

    /// Keys of rollups: a value may be empty, but is only where no other reading is left.
    #[test]
    fn a_key_with_empty_values_is_parsed(text in small_template(), key in "[ab]{0,7}") {
        let mut bindings = [None; 8];
        let rollup = Template { may_be_empty: true, ..template(&text) };
        let is_parsed = rollup.parse(&key, &mut bindings);
        prop_assert_eq!(is_parsed, matches_somehow(&rollup.pieces, &key, 0));
        let values: Vec<String> = bindings.iter().flatten().map(ToString::to_string).collect();
        prop_assert!(!is_parsed || rollup.render(&values) == key);
        if let Some(known) = parse(&text, &key) {
            prop_assert_eq!(values, known);
        }
    }

    #[test]
    fn overlap_agrees_with_trying_every_text(a in small_template(), b in small_template(), may_be_empty in any::<bool>()) {
        let (first, second) = (Template { may_be_empty, ..template(&a) }, template(&b));
        let least = usize::from(!may_be_empty);
        // If they overlap, then in a text of both beginnings and endings, all literals between, and a letter for each
        // variable: here at most 10 letters.
        let meets = small_texts(10)
            .iter()
            .any(|text| matches_somehow(&first.pieces, text, least) && matches_somehow(&second.pieces, text, 1));
        prop_assert_eq!(first.overlaps(&second), meets, "{} and {}", a, b);
    }
}
