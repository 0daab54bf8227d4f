//! Skills by name and level, a hot count of users, and a secret that must not leave the item.

use serde_json::{Value, json};

use crate::models::delivery::DeliveryOrder;
use crate::models::workload::TableWorkload;

const TABLE: &str = "glad-entities";
const HASH: &str = "$2a$10$N9qo8uLOickgx2ZMRZoMye";

fn user(name: &str) -> Value {
    json!({ "PK": format!("USER#{name}"), "SK": "PROFILE", "EntityType": "User", "Username": name, "Name": name,
            "PasswordHash": HASH, "CreatedAt": "2026-02-06T10:00:00Z", "UpdatedAt": "2026-02-06T10:00:00Z" })
}

fn skill(user: &str, name: &str, level: &str, years: f64, endorsements: u32) -> Value {
    json!({ "PK": format!("USER#{user}"), "SK": format!("SKILL#{name}"), "EntityType": "UserSkill", "Username": user,
            "SkillName": name, "ProficiencyLevel": level, "YearsOfExperience": years, "Endorsements": endorsements,
            "LastUsedDate": "2026-01-31", "CreatedAt": "2026-02-06T10:00:00Z", "UpdatedAt": "2026-02-06T10:00:00Z" })
}

fn everything() -> TableWorkload {
    let mut workload = TableWorkload::of("glad");
    workload
        .put(TABLE, user("ann"))
        .put(TABLE, user("ann"))
        .put(TABLE, user("bob"))
        .put(TABLE, user("cy"))
        .remove(TABLE, json!({ "PK": "USER#cy", "SK": "PROFILE" }))
        .put(TABLE, skill("ann", "go", "Beginner", 0.5, 0))
        .put(TABLE, skill("ann", "go", "Expert", 5.5, 12))
        .put(TABLE, skill("ann", "rust", "Expert", 3.0, 7))
        .put(TABLE, skill("bob", "go", "Advanced", 2.0, 3))
        .put(TABLE, skill("bob", "cobol", "Expert", 30.0, 1))
        .remove(TABLE, json!({ "PK": "USER#bob", "SK": "SKILL#cobol" }))
        // Without a level.
        .put(TABLE, json!({ "PK": "USER#bob", "SK": "SKILL#sql", "Endorsements": 1, "CreatedAt": "2026-02-06T10:00:00Z" }));
    workload
}

#[tokio::test]
async fn skills_are_counted_by_name_level_and_person() {
    let rollups = [
        ("SKILL#go", "ROLLUP#TOTAL", json!({ "users": 2, "endorsements_sum": 15, "years_sum": 7.5 })),
        ("SKILL#rust", "ROLLUP#TOTAL", json!({ "users": 1, "endorsements_sum": 7, "years_sum": 3 })),
        ("SKILL#sql", "ROLLUP#TOTAL", json!({ "users": 1, "endorsements_sum": 1 })),
        ("SKILL#go", "ROLLUP#LEVEL#Expert", json!({ "users": 1 })),
        ("SKILL#go", "ROLLUP#LEVEL#Advanced", json!({ "users": 1 })),
        ("SKILL#rust", "ROLLUP#LEVEL#Expert", json!({ "users": 1 })),
        ("USER#ann", "ROLLUP#SKILLS", json!({ "skills": 2, "endorsements_sum": 19 })),
        ("USER#bob", "ROLLUP#SKILLS", json!({ "skills": 2, "endorsements_sum": 4 })),
        ("USERS", "ROLLUP#TOTAL", json!({ "users": 2 })),
    ];
    everything().assert_derived(&rollups, &[]).await;
}

#[tokio::test]
async fn users_are_spread_over_ten_items() {
    let mut workload = TableWorkload::of("glad");
    for number in 0..200 {
        workload.put(TABLE, user(&number.to_string()));
    }
    assert_eq!(workload.deliver(DeliveryOrder::OneBatch).await.shards("USERS"), 10);
}

#[tokio::test]
async fn the_password_hash_reaches_neither_the_archive_nor_the_state_table_nor_a_row() {
    let workload = everything();
    let archive = workload.archive();
    assert!(archive.contains("USER#ann") && archive.lines().count() == 12);
    assert!(!archive.contains(HASH) && !archive.contains("PasswordHash"));
    let delivered = workload.deliver(DeliveryOrder::OneByOne).await;
    let state = format!("{:?}", delivered.tables().scan("state"));
    assert!(state.contains("USER#ann") && !state.contains(HASH) && !state.contains("PasswordHash"));
    let exported = workload.exported().await;
    assert_eq!(exported["skills"].len(), 7);
    assert!(!format!("{exported:?}").contains(HASH));
    for vocabulary in [&workload.model.attributes, &workload.model.row_attributes] {
        assert_eq!(vocabulary.id("PasswordHash"), None, "a secret is not decoded");
    }
}

#[tokio::test]
async fn an_error_names_no_value() {
    let mut workload = TableWorkload::of("glad");
    let mut skill = skill("ann", "go", "Expert", 1.0, 1);
    skill["Endorsements"] = json!(HASH);
    skill["PasswordHash"] = json!(HASH);
    let failures = workload.put(TABLE, skill).failures().await;
    assert!(failures.contains("Endorsements") && !failures.contains(HASH), "{failures}");
}

#[test]
fn each_change_makes_its_keys_stale() {
    let mut workload = TableWorkload::of("glad");
    assert_eq!(workload.put(TABLE, user("ann")).stale(), ["user:ann", "users"]);
    let of_skill = ["skill:go:users", "user:ann:skills"];
    assert_eq!(workload.put(TABLE, skill("ann", "go", "Expert", 1.0, 1)).stale(), of_skill);
    assert_eq!(workload.remove(TABLE, json!({ "PK": "USER#ann", "SK": "SKILL#go" })).stale(), of_skill);
    assert_eq!(
        workload.remove(TABLE, json!({ "PK": "USER#ann", "SK": "PROFILE" })).stale(),
        ["user:ann", "users"]
    );
}

#[test]
fn skills_are_rows_of_the_day_they_were_added() {
    let mut workload = TableWorkload::of("glad");
    workload.put(TABLE, skill("ann", "go", "Expert", 5.5, 12)).assert_row("skills 2026-02-06 INSERT");
    let (_, columns) = workload.rows().remove(0);
    for (column, value) in [
        ("username", "ann"),
        ("skill_name", "go"),
        ("proficiency_level", "Expert"),
        ("years_of_experience", "5.5"),
        ("endorsements", "12"),
        ("last_used_date", "2026-01-31"),
    ] {
        assert_eq!(columns[column], value, "{column}");
    }
    workload.put(TABLE, user("ann"));
    assert!(workload.rows().is_empty());
}
