//! Indexes that the model declares.

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
    assert_eq!(verdict(Some(IndexFacts { copies: Some(Vec::new()), ..right })), HealthVerdict::Change);
}
