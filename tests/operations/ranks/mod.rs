//! Ranked rollups on the embedded DynamoDB, against an oracle that sorts: through the deployed aggregator, `backfill`, `verify`, `repair` and
//! `replay --into`, with ties, moves between groups and deletions.

mod world;

use std::collections::BTreeMap;

use afterwrite_demo::item::SdkItem;
use afterwrite_tests::random::SeededRandom;
use serde_json::Value;

use self::world::{GameWorld, GroupNames, RANKS, STATE, model, ranked};

const GAMES: [&str; 3] = ["chess", "go", "poker"];

/// Scores are written, changed, moved to other games and deleted. Points are few, so that many totals are equal; counts are powers of 2, so
/// that averages have few decimals.
async fn play(world: &mut GameWorld, random: &mut SeededRandom, changes: u32) {
    for _ in 0..changes {
        let place = (number(random, 12), number(random, 2));
        let game = *random.pick(&GAMES).unwrap();
        let score = (!random.chance(250)).then(|| (game, 1 + number(random, 6)));
        world.write(place, score).await;
    }
}

fn number(random: &mut SeededRandom, below: u64) -> u32 {
    u32::try_from(random.below(below)).unwrap()
}

/// The number of rollups that a backfill has ranked, and of items that it has reconciled.
fn backfill(world: &GameWorld) -> [u64; 2] {
    let report: Value = serde_json::from_str(&world.run(0, &BACKFILL)).unwrap();
    let total = |name: &str| report.pointer(&format!("/totals/{name}")).and_then(Value::as_u64).unwrap_or(0);
    ["ranked", "reconciled"].map(total)
}

const BACKFILL: [&str; 4] = ["backfill", "--yes", "--json", "--without-recovery"];

async fn a_new_rank_touches_the_attribute_alone(world: &GameWorld) {
    let before = revisions(&world.rollups(STATE).await);
    world.deploy(&model(2, RANKS)).await;
    let missing = world.run(1, &["verify", "--tolerance", "0"]);
    assert!(missing.contains("rank_points"), "{missing}");
    assert_eq!(backfill(world), [u64::try_from(before.len()).unwrap(), 0]);
    assert_eq!(revisions(&world.rollups(STATE).await), before);
    world.check(STATE, GroupNames::ByGame).await;
    assert_eq!(backfill(world), [0, 0]);
}

async fn a_wrong_group_is_found_and_repaired(world: &GameWorld) {
    let rollups = world.rollups(STATE).await;
    let [first, second, ..] = &*rollups else { panic!("two rollups") };
    world.overwrite(first, "rank_points", None).await;
    world.overwrite(second, "rank_points", Some("elsewhere")).await;
    let found = world.run(1, &["verify", "--tolerance", "0", "--report", "drift.jsonl"]);
    assert!(found.contains("rank_points"), "{found}");
    world.run(0, &["repair", "drift.jsonl", "--yes", "--without-recovery", "--tolerance", "0"]);
    world.run(0, &["verify", "--tolerance", "0"]);
    world.check(STATE, GroupNames::ByGame).await;
}

/// The next change of an item moves it, or the backfill.
async fn items_move_to_other_groups(world: &mut GameWorld, random: &mut SeededRandom) {
    let other = RANKS.map(|ranks| ranks.replace("GAME#{game}", "ALL"));
    world.deploy(&model(3, [&*other[0], &*other[1]])).await;
    play(world, random, 20).await;
    world.deliver().await;
    let [ranked, _] = backfill(world);
    assert!(ranked > 0);
    world.check(STATE, GroupNames::All).await;
}

/// The revisions of rollups by their keys.
fn revisions(rollups: &[SdkItem]) -> BTreeMap<String, String> {
    let revision = |item: &SdkItem| {
        let (rev, partition, sort) = ranked(item, "rev");
        (partition + &sort, rev)
    };
    rollups.iter().map(revision).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn ranks_are_those_of_an_oracle_after_counting_backfill_repair_and_replay() {
    let mut world = GameWorld::start().await;
    let mut random = SeededRandom::new(7);
    world.deploy(&model(1, ["", ""])).await;
    play(&mut world, &mut random, 60).await;
    world.deliver().await;

    a_new_rank_touches_the_attribute_alone(&world).await;
    for _ in 0..3 {
        play(&mut world, &mut random, 60).await;
        world.deliver().await;
        world.check(STATE, GroupNames::ByGame).await;
    }
    world.run(0, &["verify", "--tolerance", "0"]);

    a_wrong_group_is_found_and_repaired(&world).await;
    world.record("records.jsonl").await;
    world.create_state_table("fresh").await;
    world.run(0, &["replay", "records.jsonl", "--into", "fresh", "--yes", "--without-recovery"]);
    world.check("fresh", GroupNames::ByGame).await;
    world.run(0, &["state", "diff", STATE, "fresh"]);

    items_move_to_other_groups(&mut world, &mut random).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_table_that_nothing_has_counted_is_ranked_by_its_backfill() {
    let mut world = GameWorld::start().await;
    world.deploy(&model(1, RANKS)).await;
    play(&mut world, &mut SeededRandom::new(11), 150).await;
    world.run(0, &BACKFILL);
    world.check(STATE, GroupNames::ByGame).await;
    world.run(0, &["verify", "--tolerance", "0"]);
    world.stop().await;
}
