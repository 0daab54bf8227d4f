//! A company's skills: people register, add skills, improve, are endorsed, drop skills, and leave.

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::tools::{
    LANES, LaneWriter, chance, day, instant, key, moment, one_of, play, share, short_id, single_table,
};
use crate::chart::Chart;
use crate::exact::ExactNumber;
use crate::item::{SdkItem, TableItem, exact, number_of, text_of, with};
use crate::recount::{Recount, RollupSums};
use crate::rollups::{RollupKey, RollupSet, number as measure};
use crate::script::{PAST, Script, ScriptLane};
use crate::workload::{Workload, WorkloadQuestion};

const TABLE: &str = "glad-entities";
const SKILLS: [&str; 12] = [
    "Rust",
    "Go",
    "SQL",
    "Français",
    "COBOL",
    "Terraform",
    "料理",
    "Welding",
    "Statistics",
    "Typing",
    "Chess",
    "First aid",
];
const LEVELS: [&str; 4] = ["Beginner", "Intermediate", "Advanced", "Expert"];

pub(super) const WORKLOAD: Workload = Workload {
    model: "glad",
    about: "A month of a company's skills",
    unit: "skills that people add",
    usual_size: 2000,
    questions: &[WorkloadQuestion::Sql(
        "The most experienced experts' skills",
        "SELECT skill_name, count(*) AS experts, max(years_of_experience) AS years FROM skills \
         WHERE proficiency_level = 'Expert' GROUP BY skill_name ORDER BY experts DESC, skill_name LIMIT 5",
    )],
    tables: || single_table(TABLE, &["GSI1"]),
    script,
    recount: |outcome| Recount::of(outcome, count),
    archived_rollup: |_, _| false,
    charts: |_, rollups| vec![skills(rollups)],
};

fn script(mut random: Rng, size: u64, now: Timestamp) -> Script {
    let writers = (0..LANES).map(|lane| {
        let people = share(size.div_ceil(5).max(8), LANES, lane);
        let people = (0..people).map(|_| format!("user-{}", short_id(&mut random))).collect();
        SkillWriter { random: random.fork(), people, now }
    });
    play(size, writers.collect(), None)
}

fn skills(rollups: &RollupSet) -> Chart {
    let users = rollups.number("USERS", "ROLLUP#TOTAL", "users");
    let columns =
        ["skill", "Beginner", "Intermediate", "Advanced", "Expert", "endorsements", "years", "people"];
    let title = format!("Who can do what ({users} people, counted in ten shards)");
    let mut chart = Chart::new(title, &columns);
    for (skill, total) in rollups.each("SKILL#", "ROLLUP#TOTAL") {
        let partition = format!("SKILL#{skill}");
        let of_level = |level| rollups.number(&partition, &format!("ROLLUP#LEVEL#{level}"), "users");
        let totals = ["endorsements_sum", "years_sum", "users"].map(|name| measure(total, name));
        let numbers = LEVELS.map(of_level).into_iter().chain(totals).map(|number| number.to_string());
        chart.add_bar(std::iter::once(skill.to_owned()).chain(numbers).collect(), measure(total, "users"));
    }
    chart.top(SKILLS.len())
}

/// Writes some of the people, one after the other.
#[derive(Debug)]
struct SkillWriter {
    random: Rng,
    people: Vec<String>,
    now: Timestamp,
}

/// A skill of a person.
#[derive(Clone, Debug)]
struct PersonSkill {
    person: String,
    name: &'static str,
    level: &'static str,
    /// The experience in half years.
    halves: i64,
    endorsements: i64,
    added_at: Timestamp,
}

impl PersonSkill {
    fn key(&self) -> SdkItem {
        person_key(&self.person, &format!("SKILL#{}", self.name))
    }

    fn indexed(&self) -> String {
        format!("LEVEL#{}#USER#{}", self.level, self.person)
    }

    fn item(&self) -> SdkItem {
        let at = instant(self.added_at);
        let attributes = json!({
            "EntityType": "UserSkill", "Username": self.person, "SkillName": self.name,
            "ProficiencyLevel": self.level, "YearsOfExperience": years(self.halves),
            "Endorsements": self.endorsements, "LastUsedDate": day(self.added_at),
            "CreatedAt": at, "UpdatedAt": at,
            "GSI1PK": format!("SKILL#{}", self.name), "GSI1SK": self.indexed(),
        });
        with(self.key(), attributes)
    }
}

fn years(halves: i64) -> Value {
    exact(&ExactNumber::hundredths(50 * halves))
}

fn person_key(person: &str, sort: &str) -> SdkItem {
    key(&format!("USER#{person}"), sort)
}

/// Text in the form of a bcrypt hash: 60 letters that must not be passed on to anywhere.
fn password_hash(random: &mut Rng) -> String {
    let letters = std::iter::repeat_with(|| random.alphanumeric()).take(53);
    format!("$2a$10${}", letters.collect::<String>())
}

impl SkillWriter {
    fn profile(&mut self, person: &str) -> SdkItem {
        let at = instant(moment(&mut self.random, self.now, 0));
        let attributes = json!({
            "EntityType": "User", "Username": person, "Name": "Émile \"Œ\" 試験",
            "PasswordHash": password_hash(&mut self.random), "CreatedAt": at, "UpdatedAt": at,
        });
        with(person_key(person, "PROFILE"), attributes)
    }

    fn change_later(&mut self, mut skill: PersonSkill, lane: &mut ScriptLane) {
        let key = skill.key();
        match self.random.u8(..100) {
            // Another level.
            0..20 => {
                skill.level = one_of(&mut self.random, &LEVELS);
                let level = json!({ "ProficiencyLevel": skill.level, "GSI1SK": skill.indexed() });
                lane.set(TABLE, key, level);
            }
            20..40 => {
                let endorsements = skill.endorsements + self.random.i64(1..=5);
                lane.set(TABLE, key, json!({ "Endorsements": endorsements }));
            }
            40..46 => {
                lane.set(TABLE, key, json!({ "YearsOfExperience": years(skill.halves + 1) }));
            }
            46..56 => lane.delete(TABLE, key),
            // Deleted by time to live: it stays counted.
            56..64 => lane.set(TABLE, key, json!({ "ttl": PAST })),
            // Moved to another person.
            64..72 => {
                let Some(other) = self.random.choice(&self.people).cloned() else { return };
                skill.person = other;
                lane.delete(TABLE, key);
                lane.put(TABLE, skill.item());
            }
            // Without a level.
            72..76 => {
                let mut bare = skill.item();
                bare.remove("ProficiencyLevel");
                lane.put(TABLE, bare);
            }
            _ => {}
        }
    }

    /// A new password; a person leaves, and perhaps returns.
    fn change_person(&mut self, person: &str, lane: &mut ScriptLane) {
        if chance(&mut self.random, 10) {
            let hash = password_hash(&mut self.random);
            lane.set(TABLE, person_key(person, "PROFILE"), json!({ "PasswordHash": hash }));
        }
        if chance(&mut self.random, 5) {
            lane.delete(TABLE, person_key(person, "PROFILE"));
            if self.random.bool() {
                lane.put(TABLE, self.profile(person));
            }
        }
    }
}

impl LaneWriter for SkillWriter {
    fn open(&mut self, lane: &mut ScriptLane) {
        for person in self.people.clone() {
            lane.put(TABLE, self.profile(&person));
        }
    }

    fn write_round(&mut self, skills: u64, round: usize, lane: &mut ScriptLane) {
        for _ in 0..skills {
            let Some(person) = self.random.choice(&self.people).cloned() else { return };
            let skill = PersonSkill {
                person: person.clone(),
                name: one_of(&mut self.random, &SKILLS),
                level: one_of(&mut self.random, &LEVELS),
                halves: self.random.i64(0..=40),
                endorsements: self.random.i64(0..=9),
                added_at: moment(&mut self.random, self.now, round),
            };
            lane.put(TABLE, skill.item());
            self.change_later(skill, lane);
            self.change_person(&person, lane);
        }
    }
}

/// Adds the values to derive from an item, computed without the model.
fn count(sums: &mut RollupSums<'_>, TableItem { item, .. }: &TableItem) {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    let one = ExactNumber::one;
    if sort == "PROFILE" {
        sums.add(RollupKey::new("USERS", "ROLLUP#TOTAL"), &[("users", one())]);
    }
    let Some(skill) = sort.strip_prefix("SKILL#") else { return };
    let endorsements = ("endorsements_sum", number_of(item, "Endorsements").unwrap_or_default());
    let years = ("years_sum", number_of(item, "YearsOfExperience").unwrap_or_default());
    let of_skill = |sort: &str| RollupKey::new(format!("SKILL#{skill}"), sort);
    sums.add(of_skill("ROLLUP#TOTAL"), &[("users", one()), endorsements.clone(), years]);
    sums.add(RollupKey::new(partition, "ROLLUP#SKILLS"), &[("skills", one()), endorsements]);
    let level = text_of(item, "ProficiencyLevel");
    if !level.is_empty() {
        sums.add(of_skill(&format!("ROLLUP#LEVEL#{level}")), &[("users", one())]);
    }
}
