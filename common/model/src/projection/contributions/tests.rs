//! Given these images and lookup results, expect these contributions and these lookups.

use std::collections::BTreeMap;

use super::*;
use crate::entity::SourceKey;
use crate::projection::{ItemContributions, LookupKey, LookupOutputs, lookup_keys};
use crate::record::{AttributeValue, Item};

/// A model whose one aggregate counts attempts into the rollups of their project's owner.
fn model(aggregate: &str) -> Arc<Model> {
    let source = format!(
        r##"
        name = "exams"
        generation = 1
        [tables.t]
        key = ["PK", "SK"]
        [entities.project]
        key = {{ PK = "ADMIN#{{admin_id}}", SK = "PROJECT#{{project_id}}" }}
        attributes = {{ budget = "N" }}
        [entities.attempt]
        key = {{ PK = "CANDIDATE#{{candidate_id}}", SK = "ATTEMPT#{{attempt_id}}" }}
        attributes = {{ project_id = "S", status = "S", score = "N" }}
        [lookups.owner]
        of = "project"
        index = "GSI1"
        key = {{ GSI1PK = "PROJECT#{{project_id}}" }}
        gives = ["admin_id", "budget"]
        [rollups.admin]
        key = {{ PK = "ADMIN#{{admin_id}}", SK = "ROLLUP" }}
        [[aggregates]]
        name = "attempts"
        of = "attempt"
        lookup = "owner"
        into = "admin"
        {aggregate}
        "##
    );
    Arc::new(Model::parse(&source, "exams.toml").unwrap_or_else(|errors| panic!("{errors}")))
}

/// The remembered owners, by project.
struct KnownOwners(BTreeMap<&'static str, Vec<AttributeValue<'static>>>);

impl KnownLookups for KnownOwners {
    fn outputs(&self, key: &LookupKey<'_>) -> Option<&LookupOutputs> {
        self.0.get(&*key.key).map(Vec::as_slice)
    }
}

/// The keys of the lookups that an attempt needs, and the number of rollups that it contributes to with these known keys. Project `p1` is known.
fn projected(
    aggregate: &str,
    attributes: &[(&str, AttributeValue<'static>)],
    known: &[LookupKey<'static>],
) -> (Result<Vec<LookupKey<'static>>>, Result<usize>) {
    let model = model(aggregate);
    let key = SourceKey { table: 0, partition: "CANDIDATE#c1".into(), sort: Some("ATTEMPT#t1".into()) };
    let identity = key.candidates(&model);
    let item: Item =
        attributes.iter().map(|(name, value)| ((*name).to_owned().into(), value.clone())).collect();
    let image = Image::from_item(&item, &model.attributes);
    let owners = KnownOwners(BTreeMap::from([("p1", vec!["a1".into(), "many".into()])]));
    let sharding = ShardAssignment { source: &key, current: &ItemContributions::NOTHING };
    let mut targets = RollupTargets::of(&model);
    let keys = lookup_keys(&model, &identity, &image);
    let keys = keys.map(|keys| keys.into_iter().map(LookupKey::into_owned).collect());
    let projected = contributions(&model, &identity, (&image, known), &owners, sharding, &mut targets);
    let count = |projected: ImageProjection| {
        projected.contributions.by_aggregate.iter().map(|share| share.targets.len()).sum()
    };
    (keys, projected.map(count))
}

/// The number of lookups that an attempt needs, and the number of rollups that it contributes to, whether its keys are known or not.
fn counted(aggregate: &str, attributes: &[(&str, AttributeValue<'static>)]) -> Result<(usize, usize)> {
    let (keys, counted) = projected(aggregate, attributes, &[]);
    let known = keys.as_deref().unwrap_or_default();
    let (_, with_known) = projected(aggregate, attributes, known);
    assert_eq!(format!("{with_known:?}"), format!("{counted:?}"));
    let counted = counted?;
    Ok((keys?.len(), counted))
}

fn kind(aggregate: &str, attributes: &[(&str, AttributeValue<'static>)]) -> ErrorKind {
    counted(aggregate, attributes).expect_err("an error").kind()
}

const DONE: &str = "when.status = ['DONE']\nmeasures.attempts = 'count'";

#[test]
fn an_item_that_counts_needs_its_lookup() {
    let done = ("status", "DONE".into());
    assert_eq!(counted(DONE, &[done.clone(), ("project_id", "p1".into())]).unwrap(), (1, 1));
    for null in [None, Some(("project_id", AttributeValue::Null))] {
        let item: Vec<_> = std::iter::once(done.clone()).chain(null).collect();
        assert_eq!(kind(DONE, &item), ErrorKind::Record);
    }
    assert_eq!(kind(DONE, &[done, ("project_id", "unknown".into())]), ErrorKind::Unavailable);
}

#[test]
fn a_known_key_of_a_lookup_is_not_made_again() {
    let item = [("status", "DONE".into()), ("project_id", "unknown".into())];
    assert_eq!(projected(DONE, &item, &[]).1.unwrap_err().kind(), ErrorKind::Unavailable);
    let known = LookupKey { lookup: 0, key: "p1".into() };
    assert_eq!(projected(DONE, &item, &[known]).1.unwrap(), 1);
}

#[test]
fn an_item_that_does_not_count_needs_no_lookup() {
    let draft = ("status", "DRAFT".into());
    for project in [None, Some(AttributeValue::Null), Some("p1".into()), Some("unknown".into())] {
        let project = project.map(|value| ("project_id", value));
        let item: Vec<_> = std::iter::once(draft.clone()).chain(project).collect();
        assert_eq!(counted(DONE, &item).unwrap(), (0, 0), "{item:?}");
    }
}

#[test]
fn a_null_input_of_a_lookup_can_be_excluded_by_exists() {
    let with_project = "when.project_id = [{ exists = true }]\nmeasures.attempts = 'count'";
    for absent in [&[][..], &[("project_id", AttributeValue::Null)]] {
        assert_eq!(counted(with_project, absent).unwrap(), (0, 0), "{absent:?}");
    }
    assert_eq!(counted(with_project, &[("project_id", "p1".into())]).unwrap(), (1, 1));
}

#[test]
fn an_item_that_no_measure_counts_needs_no_lookup() {
    let measures = "[aggregates.measures]
        done = { count = true, when.status = ['DONE'] }
        score = { sum = 'score', when.status = ['DONE'] }
        average = { avg = 'score', over = 'done' }";
    assert_eq!(counted(measures, &[("status", "DRAFT".into())]).unwrap(), (0, 0));
    assert_eq!(kind(measures, &[("status", "DONE".into())]), ErrorKind::Record);
    let done = [("status", "DONE".into()), ("project_id", "p1".into())];
    assert_eq!(counted(measures, &done).unwrap(), (1, 1));
}

#[test]
fn a_condition_on_an_output_is_unknown_until_the_lookup_is_there() {
    for (owner, counts) in [("a1", 1), ("a2", 0)] {
        let of_owner =
            format!("when = {{ admin_id = ['{owner}'], status = ['DONE'] }}\nmeasures.attempts = 'count'");
        let item = |status: &'static str| [("status", status.into()), ("project_id", "p1".into())];
        assert_eq!(counted(&of_owner, &item("DONE")).unwrap(), (1, counts), "{owner}");
        assert_eq!(counted(&of_owner, &item("DRAFT")).unwrap(), (0, 0), "{owner}");
        assert_eq!(counted(&of_owner, &[("status", "DRAFT".into())]).unwrap(), (0, 0), "{owner}");
        assert_eq!(kind(&of_owner, &[("status", "DONE".into())]), ErrorKind::Record);
    }
}

#[test]
fn a_measure_on_an_output_needs_the_lookup() {
    let of_owner = "measures.attempts = { count = true, when.admin_id = ['a2'] }";
    assert_eq!(counted(of_owner, &[("project_id", "p1".into())]).unwrap(), (1, 0));
    assert_eq!(kind(of_owner, &[]), ErrorKind::Record);
}

#[test]
fn either_of_two_conditions_may_be_an_output() {
    let either = "when.'$or' = [{ admin_id = ['a1'] }, { status = ['DONE'] }]\nmeasures.attempts = 'count'";
    let project = ("project_id", "p1".into());
    assert_eq!(counted(either, &[project.clone(), ("status", "DRAFT".into())]).unwrap(), (1, 1));
    assert_eq!(counted(either, &[project, ("status", "DONE".into())]).unwrap(), (1, 1));
}

#[test]
fn a_value_of_a_wrong_type_is_an_error_only_if_it_is_needed() {
    let (project, wrong) = (("project_id", AttributeValue::text("p1")), ("score", AttributeValue::text("x")));
    let item = [project, wrong];
    for (owner, expected) in [("a1", Err(ErrorKind::Record)), ("a2", Ok((1, 0)))] {
        let when = format!("when = {{ admin_id = ['{owner}'], score = [5] }}\nmeasures.attempts = 'count'");
        assert_eq!(counted(&when, &item).map_err(|error| error.kind()), expected, "{owner}");
    }
}

#[test]
fn an_error_of_an_output_names_the_output_and_its_lookup() {
    let sum = "measures.attempts = 'count'\nmeasures.budget = { sum = 'budget' }";
    let error = counted(sum, &[("project_id", "p1".into())]).expect_err("a misfit").to_string();
    assert!(error.starts_with("output `budget` of lookup `owner` must be a number (N)"), "{error}");
}

/// Follows, counted on the followed user and by that user's country. No user is found.
fn follow(on_misfit: &str, optional: &str) -> Result<ImageProjection> {
    let source = format!(
        r##"
        name = "social"
        generation = 1
        [tables.t]
        key = ["PK", "SK"]
        [entities.user]
        key = {{ PK = "USER#{{user}}", SK = "PROFILE" }}
        attributes = {{ country = "S" }}
        [entities.follow]
        key = {{ PK = "USER#{{follower}}", SK = "FOLLOWS#{{followed}}" }}
        [lookups.followed_user]
        of = "user"
        key = {{ PK = "USER#{{followed}}", SK = "PROFILE" }}
        gives = ["country"]
        [rollups.user]
        key = {{ PK = "USER#{{followed}}", SK = "ROLLUP" }}
        [rollups.country]
        key = {{ PK = "COUNTRY#{{country}}", SK = "ROLLUP" }}
        [[aggregates]]
        name = "followers"
        of = "follow"
        lookup = "followed_user"
        into = ["user", "country"]
        on_misfit = "{on_misfit}"
        {optional}
        measures.followers = "count"
        "##
    );
    let model = Arc::new(Model::parse(&source, "social.toml").unwrap_or_else(|errors| panic!("{errors}")));
    let key = SourceKey { table: 0, partition: "USER#a".into(), sort: Some("FOLLOWS#b".into()) };
    let candidates = key.candidates(&model);
    let image = Image::from_item(&Item::new(), &model.attributes);
    let sharding = ShardAssignment { source: &key, current: &ItemContributions::NOTHING };
    contributions(&model, &candidates, (&image, &[]), &NoItems, sharding, &mut RollupTargets::of(&model))
}

/// Lookups that find nothing.
struct NoItems;

impl KnownLookups for NoItems {
    fn outputs(&self, _: &LookupKey<'_>) -> Option<&LookupOutputs> {
        None
    }

    fn is_absent(&self, _: &LookupKey<'_>) -> bool {
        true
    }
}

#[test]
fn an_item_whose_lookup_by_primary_key_finds_nothing_is_a_misfit() {
    assert_eq!(follow("park", "").expect_err("a misfit").kind(), ErrorKind::Record);
    assert_eq!(follow("fail", "").expect_err("a misfit").kind(), ErrorKind::Misfit);
    let skipped = follow("skip", "").unwrap();
    assert_eq!((skipped.contributions.by_aggregate.len(), skipped.skipped), (0, 1));
}

#[test]
fn an_optional_output_that_is_not_found_leaves_its_rollup_out() {
    let counted = follow("park", "optional = ['country']").unwrap();
    let targets: Vec<usize> =
        counted.contributions.by_aggregate.iter().map(|share| share.targets.len()).collect();
    assert_eq!((targets.as_slice(), counted.skipped), ([1].as_slice(), 0));
}

/// Orders, of which the first aggregate skips misfits.
const ORDERS: &str = r##"
        name = "shop"
        generation = 1
        [tables.t]
        key = ["PK", "SK"]
        [entities.order]
        key = { PK = "ORDER#{order}", SK = "-" }
        attributes = { customer = "S", agent = "S", total = "N" }
        [rollups.all]
        key = { PK = "ALL", SK = "ROLLUP" }
        [rollups.agents]
        key = { PK = "AGENTS", SK = "ROLLUP" }
        [[aggregates]]
        name = "first"
        of = "order"
        into = "all"
        on_misfit = "skip"
        measures.revenue = { sum = "total" }
        measures.largest = { max = "total" }
        measures.buyers = { distinct = "customer" }
        measures.agents = { distinct = "agent" }
        [[aggregates]]
        name = "second"
        of = "order"
        into = "agents"
        measures.orders = "count"
        "##;

/// The number of contributions and of extremes of an order with this total, whose customer has this many letters, and how many
/// aggregates skip it.
fn order_of(total: AttributeValue<'static>, letters: usize) -> (usize, usize, u64) {
    let model = Arc::new(Model::parse(ORDERS, "shop.toml").unwrap_or_else(|errors| panic!("{errors}")));
    let key = SourceKey { table: 0, partition: "ORDER#1".into(), sort: Some("-".into()) };
    let candidates = key.candidates(&model);
    let customer = AttributeValue::text("c".repeat(letters));
    let item: Item = [("customer", customer), ("agent", AttributeValue::text("a")), ("total", total)]
        .map(|(name, value)| (name.into(), value))
        .into_iter()
        .collect();
    let image = Image::from_item(&item, &model.attributes);
    let sharding = ShardAssignment { source: &key, current: &ItemContributions::NOTHING };
    let counted =
        contributions(&model, &candidates, (&image, &[]), &NoItems, sharding, &mut RollupTargets::of(&model))
            .unwrap();
    (counted.contributions.by_aggregate.len(), counted.extremes.len(), counted.skipped)
}

#[test]
fn a_skipped_item_is_left_out_of_the_distinct_counts_of_its_aggregate_too() {
    let number = || AttributeValue::N("5".parse().unwrap());
    assert_eq!(order_of(number(), 1), (4, 1, 0));
    assert_eq!(order_of(AttributeValue::text("5"), 1), (1, 0, 1), "the first measures do not fit");
    assert_eq!(order_of(number(), 1_100), (1, 0, 1), "a distinct count in the middle does not fit");
}

/// Whether a hit of this page by this visitor, which is counted into a rollup with these settings, fits the model.
fn fits(settings: &str, measure: &str, [page, visitor]: [&str; 2]) -> bool {
    let source = format!(
        r##"
        name = "site"
        generation = 1
        [tables.t]
        key = ["PK", "SK"]
        [entities.hit]
        key = {{ PK = "HIT#{{hit}}", SK = "-" }}
        attributes = {{ page = "S", visitor = "S" }}
        [rollups.page]
        {settings}
        [[aggregates]]
        name = "hits"
        of = "hit"
        into = "page"
        measures.hits = {measure}
        "##
    );
    let model = Arc::new(Model::parse(&source, "site.toml").unwrap_or_else(|errors| panic!("{errors}")));
    let key = SourceKey { table: 0, partition: "HIT#1".into(), sort: Some("-".into()) };
    let item: Item = [("page", page), ("visitor", visitor)]
        .map(|(name, value)| (name.into(), AttributeValue::text(value.to_owned())))
        .into_iter()
        .collect();
    let image = Image::from_item(&item, &model.attributes);
    let sharding = ShardAssignment { source: &key, current: &ItemContributions::NOTHING };
    let mut targets = RollupTargets::of(&model);
    match contributions(&model, &key.candidates(&model), (&image, &[]), &NoItems, sharding, &mut targets) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!((error.kind(), targets.count()), (ErrorKind::Record, 0));
            false
        }
    }
}

#[test]
fn an_item_is_a_misfit_if_other_values_are_read_from_a_key_that_is_read() {
    let sort_key = r##"key = { PK = "SITE", SK = "PAGE#{page}" }"##;
    let own_partition = r##"key = { PK = "PAGE#{page}", SK = "ALL" }"##;
    let both = r##"key = { PK = "PAGE#{page}#{visitor}", SK = "ALL" }"##;
    let ranked = &format!("{both}\nrank.hits = {{ within = \"PAGE#{{page}}\" }}");
    let distinct = "{ distinct = \"visitor\" }";
    for (settings, measure, fit, misfit) in [
        // `a#b` and `c` make the same key as `a` and `b#c`: the second reading is the one.
        (sort_key, distinct, Some(["a", "b#c"]), Some(["a#b", "c"])),
        (own_partition, distinct, Some(["a#b", "c"]), None),
        (ranked.as_str(), "\"count\"", Some(["a", "b#c"]), Some(["a#b", "c"])),
        (ranked.as_str(), "\"count\"", Some(["", "b"]), Some(["", "b#c"])),
        // Nobody reads the key.
        (both, "\"count\"", Some(["a#b", "c"]), None),
    ] {
        assert!(fit.is_none_or(|values| fits(settings, measure, values)), "{settings} {fit:?}");
        assert!(misfit.is_none_or(|values| !fits(settings, measure, values)), "{settings} {misfit:?}");
    }
}
