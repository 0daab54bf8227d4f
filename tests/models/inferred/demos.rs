//! `afterwrite model init` on the tables of the demo's workloads: the inferred entities have the keys of the built-in models.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_demo::script::ScriptStep;
use afterwrite_demo::workload::Workload;
use afterwrite_demo::workloads;
use afterwrite_inference::{InferredModel, KeyAttribute, TableSample, sample_items};
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, TableDefinition};
use afterwrite_model::table::{KeyType, Model};
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_tests::programs::embedded_afterwrite;

use super::generated::with_proposals;

/// Saturday, 7 February 2026, 12:34:56 UTC.
const NOW: i64 = 1_770_467_696;

/// Keys that are inferred in more detail than the built-in model has them: table, inferred, built in.
const FINER: [(&str, &str, &str); 3] = [
    ("quiz-questions", "{} / Cloud#{}#{}", "{} / {}"),
    ("EcommerceApp", "ORDER#{} / ITEM#PRODUCT#{}", "ORDER#{} / ITEM#{}"),
    ("EcommerceApp", "PRODUCT#{} / REVIEW#{}#USER#{}", "PRODUCT#{} / REVIEW#{}"),
];

/// Keys of kinds with fewer than three items, which are left out: table, key, items.
const FEW: [(&str, &str, usize); 1] = [("algoitny-main", "PLAN#{} / META", 2)];

/// A template without the names of its variables.
fn skeleton(template: &str) -> String {
    let mut skeleton = String::new();
    let mut is_inside = false;
    for character in template.chars() {
        is_inside &= character != '}';
        if !is_inside {
            skeleton.push(character);
        }
        is_inside |= character == '{';
    }
    skeleton
}

/// The keys of a model's entities of one table.
fn skeletons(model: &Model, table: &str) -> BTreeSet<String> {
    let descriptions = model.entities.iter().enumerate().map(|(index, entity)| entity.describe(model, index));
    descriptions.filter(|entity| entity.table == table).map(|entity| skeleton(&entity.key)).collect()
}

/// The tables of a workload, with all items that its script puts: also those that it deletes, or that expire.
async fn written(workload: &Workload) -> (EmbeddedDynamoDb, Vec<TableDefinition>) {
    let server = EmbeddedDynamoDb::start().await.expect("a server");
    let mut tables = workload.tables();
    for table in &mut tables {
        table.stream = false;
        server.create_table(table).await.expect("a table");
    }
    let (client, script) = (server.client(), workload.script(1, 120, NOW));
    for step in script.rounds.iter().flatten().flat_map(|lane| &lane.steps) {
        let ScriptStep::Put { table, items } = step else { continue };
        for item in items {
            let put = client.put_item().table_name(*table).set_item(Some(item.clone()));
            put.send().await.expect("an item is written");
        }
    }
    (server, tables)
}

async fn sample(server: &EmbeddedDynamoDb, table: &TableDefinition) -> TableSample {
    let name: Arc<str> = Arc::from(table.name.as_str());
    let items = sample_items(&DynamoDb::new(server.client()), &name, 100_000).await.expect("a scan");
    let key =
        table.key.attributes().map(|name| KeyAttribute { name: name.to_owned(), key_type: KeyType::Text });
    TableSample {
        table: table.name.clone(),
        key: key.collect(),
        has_guessed_key: false,
        indexes: Vec::new(),
        items,
    }
}

#[tokio::test]
async fn the_inferred_entities_of_the_demos_have_the_keys_of_the_built_in_models() {
    let mut differences = Vec::new();
    for workload in workloads::ALL {
        let built_in = Model::load(workload.model).expect("a built-in model");
        let (server, tables) = written(workload).await;
        for table in &tables {
            let sample = sample(&server, table).await;
            assert!(sample.items.len() > 2, "{}: {} items", table.name, sample.items.len());
            let inferred = InferredModel::of(&sample);
            let few: Vec<_> = FEW.iter().filter(|(name, ..)| *name == table.name).collect();
            let left_out: usize = few.iter().map(|(.., items)| items).sum();
            assert_eq!(inferred.undescribed, left_out, "{}\n{}", table.name, inferred.toml);
            assert!(inferred.proposals > 0, "{}\n{}", table.name, inferred.toml);
            for toml in [&inferred.toml, &with_proposals(&inferred.toml)] {
                let report = Model::check(toml, "model.toml");
                assert!(report.model.is_some(), "{}: {:?}\n{toml}", table.name, report.problems);
            }
            let model = Model::parse(&inferred.toml, "model.toml").expect("it loads");
            let mut found = skeletons(&model, &table.name);
            for (_, finer, known) in FINER.iter().filter(|(name, ..)| *name == table.name) {
                if !found.remove(*finer) {
                    differences.push(format!("{}: {finer} is not inferred", table.name));
                }
                found.insert((*known).to_owned());
            }
            found.extend(few.iter().map(|(_, key, _)| (*key).to_owned()));
            let known = skeletons(&built_in, &table.name);
            if found != known {
                differences.push(format!("{}: inferred {found:#?}, built in {known:#?}", table.name));
            }
        }
        server.stop().await.expect("the server stops");
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[tokio::test]
async fn a_sample_has_items_of_many_partitions_and_no_more_than_requested() {
    let (server, tables) = written(workloads::ALL[0]).await;
    let name: Arc<str> = Arc::from(tables[0].name.as_str());
    let some = sample_items(&DynamoDb::new(server.client()), &name, 50).await.expect("a scan");
    assert_eq!(some.len(), 50);
    let partitions: BTreeSet<&str> = some.iter().filter_map(|item| item["PK"].as_text()).collect();
    assert!(partitions.len() > 5, "{partitions:?}");
    server.stop().await.expect("the server stops");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn the_command_reads_a_table_and_its_indexes() {
    let (server, tables) = written(workloads::ALL[0]).await;
    let mut command = embedded_afterwrite(&server.endpoint(), "state");
    command.args(["model", "init", "--table", &tables[0].name]);
    let output = tokio::task::block_in_place(|| command.output()).expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let toml = String::from_utf8(output.stdout).expect("text");
    let model = Model::parse(&toml, "model.toml").unwrap_or_else(|errors| panic!("{errors}\n{toml}"));
    assert!(model.entities.len() > 3, "{toml}");
    assert!(toml.contains("# Index GSI1: GSI1PK, GSI1SK"), "{toml}");
    server.stop().await.expect("the server stops");
}
