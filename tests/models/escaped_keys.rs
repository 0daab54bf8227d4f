//! Escaped keys of rollups: groups that plain keys merge stay apart, and mirrors find their items by the original values.

use std::collections::BTreeMap;

use afterwrite_model::table::Model;
use afterwrite_tests::random::SeededRandom;
use serde_json::{Value, json};

use super::workload::{ShownAttribute, TableWorkload};

const TABLE: &str = "Certificates";

/// Questions of a certificate count for their provider and certificate, and the certificate shows them.
const CERTIFICATES: &str = r##"
name = "certificates"
generation = 1
tables.Certificates.key = ["PK", "SK"]

[entities.certificate]
key = { PK = "VENDOR#{provider}", SK = "CERTIFICATE#{certificate}" }

[entities.question]
key = { PK = "QUESTION#{question}", SK = "QUESTION" }
attributes = { provider = "S", certificate = "S" }

[rollups.provider]
key = { PK = "PROVIDER#{provider}", SK = "ROLLUP" }

[rollups.certificate]
key = { PK = "PROVIDER#{provider}#{certificate}", SK = "ROLLUP" }

[[aggregates]]
name = "by_provider"
of = "question"
into = "provider"
measures.QUESTIONS = "count"

[[aggregates]]
name = "by_certificate"
of = "question"
into = "certificate"
measures.questions = "count"

[[mirrors]]
onto = "certificate"
from = "certificate"
attributes = { questions = "questions" }
"##;

const PROVIDERS: [&str; 4] = ["aws", "aws#sysops", "50%", "50%25"];
const NAMES: [&str; 4] = ["x", "sysops#x", "#", "%23"];

/// The model. Escaped, the two rollups may count the same measure: their keys never overlap.
fn workload(is_escaped: bool) -> TableWorkload {
    let source = if is_escaped {
        let source = CERTIFICATES.replace("QUESTIONS", "questions");
        source.replace("generation = 1", "generation = 1\nrollup_keys = \"escaped\"")
    } else {
        CERTIFICATES.replace("QUESTIONS", "of_provider")
    };
    let model = Model::parse(&source, "certificates.toml");
    TableWorkload::of_model(model.unwrap_or_else(|errors| panic!("{errors}")))
}

fn question(number: usize, provider: &str, certificate: &str) -> Value {
    json!({ "PK": format!("QUESTION#{number}"), "SK": "QUESTION", "provider": provider, "certificate": certificate })
}

fn certificate(provider: &str, name: &str) -> Value {
    json!({ "PK": format!("VENDOR#{provider}"), "SK": format!("CERTIFICATE#{name}") })
}

fn escaped(value: &str) -> String {
    value.chars().fold(String::new(), |text, character| match character {
        '%' => text + "%25",
        '#' => text + "%23",
        other => format!("{text}{other}"),
    })
}

#[tokio::test]
async fn groups_of_any_values_stay_apart() {
    for seed in 0..10 {
        let mut random = SeededRandom::new(seed);
        let mut workload = workload(true);
        for provider in PROVIDERS {
            for name in NAMES {
                workload.put(TABLE, certificate(provider, name));
            }
        }
        let mut questions = BTreeMap::new();
        for _ in 0..40 {
            let number = usize::try_from(random.below(25)).expect("a small number");
            let of = (*random.pick(&PROVIDERS).expect("one"), *random.pick(&NAMES).expect("one"));
            questions.insert(number, of);
            workload.put(TABLE, question(number, of.0, of.1));
        }
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        let mut by_certificate: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for (provider, name) in questions.values() {
            *counts.entry(format!("PROVIDER#{}", escaped(provider))).or_default() += 1;
            *counts.entry(format!("PROVIDER#{}#{}", escaped(provider), escaped(name))).or_default() += 1;
            *by_certificate.entry((provider, name)).or_default() += 1;
        }
        let rollups: Vec<_> = counts
            .iter()
            .map(|(partition, count)| (&**partition, "ROLLUP", json!({ "questions": count })))
            .collect();
        let mut shown: Vec<ShownAttribute<'_>> = Vec::new();
        for provider in PROVIDERS {
            for name in NAMES {
                let count = by_certificate.get(&(provider, name)).copied().unwrap_or(0);
                shown.push((TABLE, certificate(provider, name), "questions", Some(json!(count))));
            }
        }
        workload.assert_derived(&rollups, &shown).await;
    }
}

/// Escaping prevents this.
#[tokio::test]
async fn plain_keys_merge_groups() {
    let mut workload = workload(false);
    workload.put(TABLE, question(1, "aws", "sysops#x"));
    workload.put(TABLE, question(2, "aws#sysops", "x"));
    let rollups = [
        ("PROVIDER#aws", "ROLLUP", json!({ "of_provider": 1 })),
        ("PROVIDER#aws#sysops", "ROLLUP", json!({ "of_provider": 1 })),
        ("PROVIDER#aws#sysops#x", "ROLLUP", json!({ "questions": 2 })),
    ];
    workload.assert_derived(&rollups, &[]).await;
}

/// A new generation moves the contributions to the escaped keys.
#[test]
fn the_fingerprint_names_escaped_keys() {
    let source = CERTIFICATES.replace("QUESTIONS", "of_provider");
    let escaped = source.replace("generation = 1", "generation = 2\nrollup_keys = \"escaped\"");
    let fingerprints = [source, escaped].map(|source| {
        let model = Model::parse(&source, "certificates.toml").unwrap_or_else(|errors| panic!("{errors}"));
        model.fingerprint().to_string()
    });
    assert_ne!(fingerprints[0], fingerprints[1]);
}
