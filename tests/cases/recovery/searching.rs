//! A replay of a range of time reads every object that may have lines of it.

use serde_json::Value;

use super::shop::OrderChange::Put;
use super::world::RecoveryWorld;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c5_lines_that_a_redrive_archived_late_are_replayed() {
    const DAY: i64 = 24;
    for (late_hours, number) in [(1, 1), (5 * DAY, 2), (13 * DAY, 3)] {
        let mut world = RecoveryWorld::start().await;
        let changed = world.hours_ago(14 * DAY);
        world.change(changed, &format!("o{number}"), Put(number)).await;
        world.archive(changed + late_hours * 3_600).await;
        let times = [-3_600, 3_600].map(|seconds| {
            afterwrite_model::record::Timestamp::from_epoch_seconds(changed + seconds).to_string()
        });
        let range = format!("--from {} --to {}", times[0], times[1]);
        let (_, dry) = world.try_run(&format!("afterwrite replay s3://lake/archive/ {range} --dry-run"));
        assert!(dry.contains("searched: 1 objects") && dry.contains("90 days"), "{dry}");
        let report = world.run(0, &format!("afterwrite replay s3://lake/archive/ {range} --yes --json"));
        let report: Value = serde_json::from_str(&report).unwrap();
        let searched = report["plan"]["searched"].as_str().unwrap_or_default();
        assert!(searched.contains(&times[0]) && searched.contains("90 days"), "{report}");
        assert_eq!(world.totals().await, world.truth(), "{late_hours} hours late");
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c5_the_report_for_people_states_what_was_searched() {
    let mut world = RecoveryWorld::start().await;
    let changed = world.hours_ago(30);
    world.change(changed, "o1", Put(1)).await;
    world.archive(changed).await;
    let all = world.run(0, "afterwrite replay s3://lake/archive/ --yes");
    assert!(!all.contains("searched"), "{all}");
    let nothing = world.run(1, "afterwrite replay s3://lake/archives/ --yes");
    assert!(nothing.contains("no file or object") && nothing.contains("s3://lake/archives/"), "{nothing}");
    let some = world.run(0, "afterwrite replay s3://lake/archive/ --from 2026-02-06 --yes");
    assert!(some.contains("searched") && some.contains("2026-02-06T00:00:00Z or later"), "{some}");
    world.stop().await;
}
