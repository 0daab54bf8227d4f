//! A company's skills: people register, say what they can, get better at it, are endorsed, forget, and leave.

use fastrand::Rng;
use jiff::Timestamp;

use super::tools::{Actor, day, in_a_hundred, instant, moment, one_of, play, share, short_id, table, time};
use super::{LANES, Question, Workload};
use crate::chart::Chart;
use crate::exact::Exact;
use crate::item::{Item, item, number, number_of, text, text_of, whole};
use crate::recount::{Countable, Counted, Key, Outcome};
use crate::rollups::{Rollups, number as measure};
use crate::script::{Lane, PAST, Script};
use afterwrite_local::dynamodb::{KeyDefinition, TableDefinition};

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

/// The company.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glad;

impl Workload for Glad {
    fn model(&self) -> &'static str {
        "glad"
    }

    fn about(&self) -> &'static str {
        "A month of a company's skills"
    }

    fn unit(&self) -> &'static str {
        "skills that people add"
    }

    fn tables(&self) -> Vec<TableDefinition> {
        let key = |prefix: &str| KeyDefinition::new(&format!("{prefix}PK"), &format!("{prefix}SK"));
        vec![table(TABLE, key(""), &[("GSI1", key("GSI1"))], true)]
    }

    fn script(&self, seed: u64, size: u64, now: i64) -> Script {
        let (mut random, now) = (Rng::with_seed(seed), time(now));
        let offices = (0..LANES).map(|number| {
            let people = share(size.div_ceil(5).max(8), LANES, number);
            let people = (0..people).map(|_| format!("user-{}", short_id(&mut random))).collect();
            Office { random: random.fork(), people, now }
        });
        let offices: Vec<Office> = offices.collect();
        play(size, offices, None)
    }

    fn recount(&self, outcome: &Outcome) -> Counted {
        let mut counted = Counted::default();
        outcome.countable().for_each(|countable| count(countable, &mut counted));
        counted
    }

    fn charts(&self, _: &Outcome, rollups: &Rollups) -> Vec<Chart> {
        let users = rollups.number("USERS", "ROLLUP#TOTAL", "users");
        let columns =
            ["skill", "Beginner", "Intermediate", "Advanced", "Expert", "endorsements", "years", "people"];
        let title = format!("Who can do what ({users} people, counted in ten shards)");
        let mut chart = Chart::new(title, &columns);
        for (skill, total) in rollups.each("SKILL#", "ROLLUP#TOTAL") {
            let partition = format!("SKILL#{skill}");
            let at =
                |level| rollups.number(&partition, &format!("ROLLUP#LEVEL#{level}"), "users").to_string();
            let mut cells = vec![skill.to_owned()];
            cells.extend(LEVELS.map(at));
            cells.extend(
                ["endorsements_sum", "years_sum", "users"].map(|name| measure(total, name).to_string()),
            );
            chart.bar(cells, measure(total, "users"));
        }
        vec![chart.top(SKILLS.len())]
    }

    fn questions(&self) -> &'static [Question] {
        &[Question::Sql(
            "The most experienced experts' skills",
            "SELECT skill_name, count(*) AS experts, max(years_of_experience) AS years FROM skills \
             WHERE proficiency_level = 'Expert' GROUP BY skill_name ORDER BY experts DESC, skill_name LIMIT 5",
        )]
    }
}

/// Some of the people, written one after the other.
#[derive(Debug)]
struct Office {
    random: Rng,
    people: Vec<String>,
    now: Timestamp,
}

/// What someone can do.
#[derive(Clone, Debug)]
struct Skill {
    person: String,
    name: &'static str,
    level: &'static str,
    /// In half years.
    halves: i64,
    endorsements: i64,
    added_at: Timestamp,
}

impl Skill {
    fn key(&self) -> Item {
        key(&self.person, &format!("SKILL#{}", self.name))
    }

    fn indexed(&self) -> String {
        format!("LEVEL#{}#USER#{}", self.level, self.person)
    }

    fn item(&self) -> Item {
        let at = instant(self.added_at);
        let mut skill = self.key();
        skill.extend(item([
            ("EntityType", text("UserSkill")),
            ("Username", text(&self.person)),
            ("SkillName", text(self.name)),
            ("ProficiencyLevel", text(self.level)),
            ("YearsOfExperience", number(Exact::hundredths(50 * self.halves))),
            ("Endorsements", whole(self.endorsements)),
            ("LastUsedDate", text(day(self.added_at))),
            ("CreatedAt", text(&at)),
            ("UpdatedAt", text(at)),
            ("GSI1PK", text(format!("SKILL#{}", self.name))),
            ("GSI1SK", text(self.indexed())),
        ]));
        skill
    }
}

fn key(person: &str, sort: &str) -> Item {
    item([("PK", text(format!("USER#{person}"))), ("SK", text(sort))])
}

/// What bcrypt would make of a password: 60 letters that must go nowhere.
fn password_hash(random: &mut Rng) -> String {
    let letters = std::iter::repeat_with(|| random.alphanumeric()).take(53);
    format!("$2a$10${}", letters.collect::<String>())
}

impl Office {
    fn profile(&mut self, person: &str) -> Item {
        let at = instant(moment(&mut self.random, self.now, 0));
        let mut profile = key(person, "PROFILE");
        profile.extend(item([
            ("EntityType", text("User")),
            ("Username", text(person)),
            ("Name", text("Émile \"Œ\" 試験")),
            ("PasswordHash", text(password_hash(&mut self.random))),
            ("CreatedAt", text(&at)),
            ("UpdatedAt", text(at)),
        ]));
        profile
    }

    fn change_later(&mut self, mut skill: Skill, lane: &mut Lane) {
        let key = skill.key();
        match self.random.u8(..100) {
            // On to another level.
            0..20 => {
                skill.level = one_of(&mut self.random, &LEVELS);
                let level = ("ProficiencyLevel", text(skill.level));
                lane.set(TABLE, key, [level, ("GSI1SK", text(skill.indexed()))]);
            }
            20..40 => {
                let endorsements = skill.endorsements + self.random.i64(1..=5);
                lane.set(TABLE, key, [("Endorsements", whole(endorsements))]);
            }
            40..46 => {
                let years = number(Exact::hundredths(50 * (skill.halves + 1)));
                lane.set(TABLE, key, [("YearsOfExperience", years)]);
            }
            46..56 => lane.delete(TABLE, key),
            // A skill that was only tried out: time to live takes it, and it stays counted.
            56..64 => lane.set(TABLE, key, [("ttl", whole(PAST))]),
            // Written down for the wrong person.
            64..72 => {
                let Some(other) = self.random.choice(&self.people).cloned() else { return };
                skill.person = other;
                lane.delete(TABLE, key);
                lane.put(TABLE, skill.item());
            }
            // On no level.
            72..76 => {
                let mut bare = skill.item();
                bare.remove("ProficiencyLevel");
                lane.put(TABLE, bare);
            }
            _ => {}
        }
    }

    /// A new password; someone leaves, and perhaps comes back.
    fn change_person(&mut self, person: &str, lane: &mut Lane) {
        if in_a_hundred(&mut self.random, 10) {
            let hash = text(password_hash(&mut self.random));
            lane.set(TABLE, key(person, "PROFILE"), [("PasswordHash", hash)]);
        }
        if in_a_hundred(&mut self.random, 5) {
            lane.delete(TABLE, key(person, "PROFILE"));
            if self.random.bool() {
                let profile = self.profile(person);
                lane.put(TABLE, profile);
            }
        }
    }
}

impl Actor for Office {
    fn open(&mut self, lane: &mut Lane) {
        for person in self.people.clone() {
            lane.put(TABLE, self.profile(&person));
        }
    }

    /// Adds so many skills in this round of the month.
    fn act(&mut self, skills: u64, round: usize, lane: &mut Lane) {
        for _ in 0..skills {
            let Some(person) = self.random.choice(&self.people).cloned() else { return };
            let skill = Skill {
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

/// What must be derived of one item.
fn count(Countable { item, expired, .. }: Countable<'_>, counted: &mut Counted) {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    if sort == "PROFILE" {
        counted.add(&Key::new("USERS", "ROLLUP#TOTAL"), &[("users", Exact::ONE)], expired);
    }
    let Some(skill) = sort.strip_prefix("SKILL#") else { return };
    let endorsements = ("endorsements_sum", number_of(item, "Endorsements").unwrap_or_default());
    let years = ("years_sum", number_of(item, "YearsOfExperience").unwrap_or_default());
    let of_skill = |sort: &str| Key::new(format!("SKILL#{skill}"), sort);
    counted.add(&of_skill("ROLLUP#TOTAL"), &[("users", Exact::ONE), endorsements, years], expired);
    counted.add(&Key::new(partition, "ROLLUP#SKILLS"), &[("skills", Exact::ONE), endorsements], expired);
    let level = text_of(item, "ProficiencyLevel");
    if !level.is_empty() {
        counted.add(&of_skill(&format!("ROLLUP#LEVEL#{level}")), &[("users", Exact::ONE)], expired);
    }
}
