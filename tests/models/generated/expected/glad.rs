//! glad: skills are rows.

use afterwrite_demo::item::{SdkItem as Item, text_of};

use super::{ExpectedRow, key, present};

pub(super) fn cache_keys(_: &str, item: &Item) -> Vec<String> {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    let user = partition.strip_prefix("USER#").expect("a user's key");
    match sort.strip_prefix("SKILL#") {
        None => present([key(["user", user]), Some("users".to_owned())]),
        Some(skill) => present([key(["user", user, "skills"]), key(["skill", skill, "users"])]),
    }
}

pub(super) fn row<'i>(_: &str, item: &'i Item) -> Option<ExpectedRow<'i>> {
    let skill = text_of(item, "SK").strip_prefix("SKILL#")?;
    let columns = ExpectedRow::of("skills", item, "CreatedAt")
        .text("username", text_of(item, "PK").strip_prefix("USER#"))
        .text("skill_name", Some(skill))
        .scalar("proficiency_level", "ProficiencyLevel")
        .decimal("years_of_experience", "YearsOfExperience", 2)
        .scalar("endorsements", "Endorsements")
        .scalar("last_used_date", "LastUsedDate")
        .instant("created_at", "CreatedAt")
        .instant("updated_at", "UpdatedAt");
    Some(columns)
}
