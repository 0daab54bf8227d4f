//! Indexes that the model declares, indexes of ranks, and the time to live that the model names.

use super::*;

#[test]
fn an_index_that_the_model_declares_must_have_its_key_and_all_attributes() {
    let declared = "[tables.Corner]\nkey = [\"PK\", \"SK\"]\nindexes.ByPrice = { key = [\"SK\", \"price\"], types = { price = \"N\" } }\n";
    let text = format!(
        "name = \"corner\"\ngeneration = 1\n{declared}[entities.o]\nkey = {{ PK = \"C#{{c}}\", SK = \"O#{{o}}\" }}\n"
    );
    let model = Model::parse(&text, "model.toml").unwrap();
    let verdict = |index: Option<IndexFacts>| {
        let mut facts = healthy();
        source(&mut facts).indexes = index.into_iter().collect();
        let findings = judge(&model, &facts);
        let found = findings.into_iter().find(|finding| finding.check == "index").unwrap();
        assert_eq!(found.subject, "exams/ByPrice");
        found.verdict
    };
    let texts = |texts: [&str; 2]| texts.map(str::to_owned).to_vec();
    let right = IndexFacts {
        name: "ByPrice".to_owned(),
        keys: texts(["SK", "price"]),
        in_partition: 1,
        types: texts(["S", "N"]),
        copies: None,
    };
    assert_eq!(verdict(Some(right.clone())), HealthVerdict::Healthy);
    assert_eq!(verdict(None), HealthVerdict::Change);
    assert_eq!(
        verdict(Some(IndexFacts { types: texts(["S", "S"]), ..right.clone() })),
        HealthVerdict::Change
    );
    assert_eq!(
        verdict(Some(IndexFacts { keys: texts(["PK", "price"]), ..right.clone() })),
        HealthVerdict::Change
    );
    assert_eq!(verdict(Some(IndexFacts { in_partition: 2, ..right.clone() })), HealthVerdict::Change);
    assert_eq!(verdict(Some(IndexFacts { copies: Some(Vec::new()), ..right })), HealthVerdict::Change);
}

#[test]
fn a_rank_needs_its_index_of_the_state_table_with_its_key_and_all_attributes() {
    let text = "name = \"corner\"\ngeneration = 1\ntables.Corner.key = [\"PK\", \"SK\"]\n[entities.o]\nkey = { PK = \"C#{c}\", SK = \"O#{o}\" }\n\
                [rollups.r]\nkey = { PK = \"C#{c}\", SK = \"R\" }\nrank.orders = { within = \"ALL\" }\n\
                [[aggregates]]\nname = \"a\"\nof = \"o\"\ninto = \"r\"\nmeasures.orders = \"count\"\n";
    let model = Model::parse(text, "model.toml").unwrap();
    let verdict = |index: Option<IndexFacts>| {
        let mut facts = healthy();
        state(&mut facts).indexes.extend(index);
        let findings = judge(&model, &facts);
        let found = findings.into_iter().find(|finding| finding.check == "rank index").unwrap();
        assert_eq!(found.subject, "exams-state/rank_orders");
        found.verdict
    };
    let texts = |texts: [&str; 2]| texts.map(str::to_owned).to_vec();
    let right = IndexFacts {
        name: "rank_orders".to_owned(),
        keys: texts(["rank_orders", "orders"]),
        in_partition: 1,
        types: texts(["S", "N"]),
        copies: None,
    };
    assert_eq!(verdict(Some(right.clone())), HealthVerdict::Healthy);
    assert_eq!(verdict(None), HealthVerdict::Change);
    let wrong = [
        IndexFacts { types: texts(["S", "S"]), ..right.clone() },
        IndexFacts { keys: texts(["rank_orders", "PK"]), ..right.clone() },
        IndexFacts { copies: Some(Vec::new()), ..right },
    ];
    assert!(wrong.into_iter().all(|index| verdict(Some(index)) == HealthVerdict::Change));
}

#[test]
fn the_time_to_live_that_the_model_names_is_that_of_the_source_table() {
    let text = "name = \"corner\"\ngeneration = 1\ntables.Corner.key = [\"PK\", \"SK\"]\n\
                [entities.o]\nkey = { PK = \"C#{c}\", SK = \"O#{o}\" }\nattributes.gone_at = \"N\"\nttl = \"gone_at\"\n";
    let model = Model::parse(text, "model.toml").unwrap();
    let verdict = |attribute: Option<&str>| {
        let mut facts = healthy();
        source(&mut facts).ttl = attribute.map(|attribute| Looked::Found(attribute.to_owned()));
        let findings = judge(&model, &facts).into_iter();
        let mut own =
            findings.filter(|finding| finding.check == "time to live" && finding.subject == "exams");
        own.next().unwrap().verdict
    };
    assert_eq!(verdict(Some("gone_at")), HealthVerdict::Healthy);
    assert_eq!([verdict(Some("other")), verdict(None)], [HealthVerdict::Change; 2]);
}
