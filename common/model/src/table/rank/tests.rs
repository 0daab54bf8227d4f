//! Groups, indexes and problems of ranks.

use crate::table::{Model, ProblemCode, RankGroup};

const GAMES: &str = r#"
name = "games"
generation = 1
tables.t.key = ["pk", "sk"]

[entities.score]
key = { pk = "PLAYER#{player}", sk = "SCORE#{score_id}" }
attributes = { game = "S", points = "N", best = "any", at = "S" }

[rollups.total]
key = { PK = "PLAYER#{player}", SK = "GAME#{game}#DAY#{at:day}" }
rank.points = { within = "GAME#{game}#DAY#{at:day}", shards = 4 }
rank.mean = { within = "ALL" }

[rollups.board]
key = { PK = "GAME#{game}", SK = "PLAYER#{player}" }
rank.points = {}

[[aggregates]]
name = "scores"
of = "score"
into = ["total", "board"]
[aggregates.measures]
points = { sum = "points" }
scores = "count"
mean = { avg = "points", over = "scores" }
last = { max = "at:day" }
best = { max = "best" }
"#;

fn model(text: &str) -> Model {
    Model::parse(text, "games.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn names(groups: Vec<RankGroup>) -> Vec<(String, String)> {
    groups.into_iter().map(|group| (group.attribute.to_string(), group.name)).collect()
}

/// The problems of the model with some text replaced, each with its code.
fn problems(from: &str, to: &str) -> Vec<(ProblemCode, String)> {
    assert!(GAMES.contains(from), "{from}");
    let report = Model::check(&GAMES.replacen(from, to, 1), "games.toml");
    report.problems.into_iter().map(|problem| (problem.code, problem.message)).collect()
}

#[test]
fn a_group_is_made_of_the_rollup_and_values_of_its_key() {
    let model = model(GAMES);
    let pair = |attribute: &str, name: &str| (attribute.to_owned(), name.to_owned());
    let board = model.rank_groups("GAME#chess", "PLAYER#ann");
    assert_eq!(names(board), [pair("rank_points", "board#GAME#chess")]);
    let total = names(model.rank_groups("PLAYER#ann", "GAME#chess#DAY#2026-02-06"));
    assert_eq!(total[1], pair("rank_mean", "total#ALL"));
    let (group, shard) = total[0].1.rsplit_once('#').unwrap();
    assert_eq!((&*total[0].0, group), ("rank_points", "total#GAME#chess#DAY#2026-02-06"));
    assert!(shard.parse::<u32>().unwrap() < 4);
    assert!(model.rank_groups("PLAYER#ann", "OTHER").is_empty());
}

/// Readers and stored items depend on it.
#[test]
fn the_shard_is_the_same_in_every_release_and_all_are_used() {
    let model = model(GAMES);
    let shard = |player: u32| {
        let groups = model.rank_groups(&format!("PLAYER#p{player}"), "GAME#chess#DAY#2026-02-06");
        groups[0].name.rsplit('#').next().unwrap().parse::<usize>().unwrap()
    };
    assert_eq!((1..=8).map(shard).collect::<Vec<_>>(), [3, 2, 1, 0, 3, 2, 1, 0]);
    let mut counts = [0; 4];
    (0..1000).for_each(|player| counts[shard(player)] += 1);
    assert!(counts.iter().all(|count| *count > 150), "{counts:?}");
}

#[test]
fn rollups_with_measures_of_one_name_share_an_index() {
    let indexes = model(GAMES).rank_indexes();
    let indexes: Vec<_> = indexes.iter().map(|index| (&*index.attribute, &*index.measure)).collect();
    assert_eq!(indexes, [("rank_points", "points"), ("rank_mean", "mean")]);
}

#[test]
fn an_escaped_group_has_the_values_as_they_are_written_into_keys() {
    let text = GAMES.replacen("generation = 1", "generation = 1\nrollup_keys = \"escaped\"", 1);
    let groups = model(&text).rank_groups("GAME#a%23b", "PLAYER#ann");
    assert_eq!(names(groups), [("rank_points".to_owned(), "board#GAME#a%23b".to_owned())]);
}

#[test]
fn a_rank_is_described_with_its_group() {
    let described = model(GAMES).describe();
    let total = described.rollups.get("total").unwrap();
    let points = total.rank.get("points").unwrap();
    assert_eq!((&*points.within, points.shards), ("GAME#{game}#DAY#{at:day}", 4));
    let board = described.rollups.get("board").unwrap().rank.get("points").unwrap();
    assert_eq!((&*board.within, board.shards), ("GAME#{game}", 1));
}

#[test]
fn the_latest_number_can_be_ranked() {
    let with = |latest: &str, rank: &str| {
        let ranked = GAMES.replace("rank.mean = { within = \"ALL\" }", rank);
        let report = Model::check(&ranked.replace("last = { max = \"at:day\" }", latest), "games.toml");
        report.model.is_none().then(|| report.problems[0].code)
    };
    let points = "newest = { latest = \"points\", by = \"at\" }";
    assert_eq!(with(points, "rank.newest = {}"), None);
    assert_eq!(with(points, "rank.newest_seen = {}"), Some(ProblemCode::UnfitRank));
    let day = "newest = { latest = \"at:day\", by = \"at\" }";
    assert_eq!(with(day, "rank.newest = {}"), Some(ProblemCode::UnfitRank));
}

/// A rank does not change what items contribute: entries of the model without it stay current.
#[test]
fn the_fingerprint_does_not_depend_on_ranks() {
    let without: String = GAMES
        .lines()
        .filter(|line| !line.starts_with("rank."))
        .fold(String::new(), |text, line| text + line + "\n");
    assert_eq!(model(GAMES).fingerprint(), model(&without).fingerprint());
}

#[test]
fn what_cannot_be_ranked_is_reported() {
    use ProblemCode::{InvalidName, ReservedName, ShardedRank, UnfitRank, UnfitRankGroup};
    let long = format!("rank.points = {{ within = \"{}{{game}}\" }}", "x".repeat(2048));
    let measure = "m".repeat(251);
    for (from, to, code, words) in [
        ("rank.points = {}", "rank.pionts = {}", UnfitRank, "did you mean `points`"),
        ("rank.points = {}", "rank.last = {}", UnfitRank, "is or can be text"),
        ("rank.points = {}", "rank.best = {}", UnfitRank, "is or can be text"),
        ("within = \"ALL\"", "within = \"DAY#{at}\"", UnfitRankGroup, "`{at}` is not a variable"),
        ("within = \"ALL\"", "within = \"{points}\"", UnfitRankGroup, "`{points}` is not a variable"),
        ("rank.points = {}", &long, UnfitRankGroup, "2048"),
        ("scores = \"count\"", "scores = \"count\"\nrank_points = \"count\"", ReservedName, "`rank_points`"),
        ("best = { max = \"best\" }", &format!("{measure} = \"count\"\n"), InvalidName, "256 bytes"),
    ] {
        let to = if code == InvalidName {
            format!(
                "{to}\n[rollups.other]\nkey = {{ PK = \"X#{{game}}\", SK = \"R\" }}\nrank.{measure} = {{}}\n[[aggregates]]\nname = \"other\"\nof = \"score\"\ninto = \"other\"\nmeasures.{measure} = \"count\"\n"
            )
        } else {
            to.to_owned()
        };
        let problems = problems(from, &to);
        assert!(
            problems.iter().any(|(found, message)| *found == code && message.contains(words)),
            "{to}: {problems:?}"
        );
    }
    let sharded = "[rollups.hot]\nkey = { PK = \"HOT#{game}\", SK = \"R\" }\nshards = 2\nrank.hits = {}\n[[aggregates]]\nname = \"hits\"\nof = \"score\"\ninto = \"hot\"\nmeasures.hits = \"count\"\n[rollups.board]";
    assert_eq!(problems("[rollups.board]", sharded).first().map(|(code, _)| *code), Some(ShardedRank));
}

#[test]
fn an_attribute_of_another_item_of_the_state_table_is_not_ranked() {
    let other = |measure: &str| {
        let text = format!(
            "[rollups.other]\nkey = {{ PK = \"X#{{game}}\", SK = \"R\" }}\nrank.{measure} = {{}}\n[[aggregates]]\nname = \"other\"\nof = \"score\"\ninto = \"other\"\nmeasures.{measure} = \"count\"\n[rollups.board]"
        );
        problems("[rollups.board]", &text)
    };
    for measure in ["position", "status", "value", "gives"] {
        let problems = other(measure);
        assert!(problems.iter().any(|(code, _)| *code == ProblemCode::ReservedName), "{problems:?}");
    }
    // `last` is a text of other rollups.
    let problems = other("last");
    assert!(problems.iter().any(|(code, _)| *code == ProblemCode::UnfitRank), "{problems:?}");
    assert!(other("wins").is_empty());
}
