//! B3, B4. A ledger of a newer model; a remembered lookup that lacks an output.

use afterwrite_model::ErrorKind;
use afterwrite_operations::backfill::BackfillArguments;
use afterwrite_operations::verifier::{RotationReport, VerifiedShare, VerifierReport};
use afterwrite_operations::verify::{
    FindingVerdict, UndecidedReason, VerifyArguments, VerifyFinding, recheck_findings,
};

use super::world::{ProofWorld, TOLERANCE, model};

#[tokio::test]
async fn b3_a_ledger_of_a_newer_model_is_refused_with_its_generation() {
    let newer = ProofWorld::new(20).with(model(7, &["country"]));
    newer.backfill(BackfillArguments::default()).await.unwrap();
    let older = newer.with(model(3, &["country"]));
    let tiny = VerifyArguments { sample: 1e-9, seed: 1, ..VerifyArguments::default() };
    for arguments in [VerifyArguments::default(), tiny] {
        let error = older.verify(arguments).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        let text = error.to_string();
        assert!(text.contains("generation: 7") && text.contains("generation: 3"), "{text}");
        assert!(!text.contains("backfill"), "{text}");
    }
    // One entry of the newer model is enough: a new model counts item by item.
    let mixed = ProofWorld::new(20);
    mixed.backfill(BackfillArguments::default()).await.unwrap();
    mixed.put_order(20, "1", 8);
    mixed.with(model(9, &["country"])).backfill(BackfillArguments::default()).await.unwrap();
    let error = mixed.verify(VerifyArguments::default()).await.unwrap_err();
    assert!(error.to_string().contains("generation: 9"), "{error}");
    // So is a backfill with the older model, at once and as a whole.
    let error = older.backfill(BackfillArguments::default()).await.unwrap_err();
    assert!(error.to_string().contains("generation: 7"), "{error}");
}

#[tokio::test]
async fn b3_findings_are_not_judged_again_by_an_older_model() {
    let newer = ProofWorld::new(20).with(model(7, &["country"]));
    newer.backfill(BackfillArguments::default()).await.unwrap();
    newer.put_order(3, "1", 9);
    let findings = newer.verify(VerifyArguments::default()).await.unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let older = newer.with(model(3, &["country"]));
    let context = older.context();
    let left = recheck_findings(&context, TOLERANCE, &findings);
    let error = left.await.unwrap_err();
    assert!(error.to_string().contains("generation: 7"), "{error}");
}

#[tokio::test]
async fn b3_findings_about_a_measure_of_a_newer_model_are_not_right_by_an_older_one() {
    let older = ProofWorld::new(20);
    older.backfill(BackfillArguments::default()).await.unwrap();
    // The newer model counts orders by region, too; nothing has counted them so yet.
    let newer = older.with(model(2, &["country", "region"]));
    let findings = newer.verify(VerifyArguments::default()).await.unwrap().findings;
    assert!(!findings.is_empty() && findings.iter().all(|finding| finding.generation == Some(2)));
    let context = older.context();
    let left = recheck_findings(&context, TOLERANCE, &findings);
    let error = left.await.unwrap_err().to_string();
    assert!(error.contains("generation: 2") && error.contains("generation: 1"), "{error}");
}

fn of_lookup(finding: &VerifyFinding) -> bool {
    finding.verdict == FindingVerdict::Undecided(Some(UndecidedReason::LookupLacksOutput))
}

#[tokio::test]
async fn b4_a_remembered_lookup_that_lacks_an_output_is_named_with_the_command_that_mends_it() {
    let world = ProofWorld::new(20);
    world.backfill(BackfillArguments::default()).await.unwrap();
    let newer = world.with(model(2, &["country", "region"]));
    let report = newer.verify(VerifyArguments::default()).await.unwrap();
    assert_eq!(report.findings.iter().filter(|finding| of_lookup(finding)).count(), 20, "{report:#?}");
    let cause = report.findings[0].cause.clone().unwrap();
    for text in ["`afterwrite backfill --reattribute`", "buyer", "region"] {
        assert!(cause.contains(text), "{cause}");
    }

    // The command without the option says so, too.
    let plain = newer.backfill(BackfillArguments::default()).await.unwrap();
    assert!(plain.totals.contains_key("lookups_lacking_output"), "{:?}", plain.totals);
    assert_eq!(plain.totals.get("failed"), Some(&20), "{:?}", plain.totals);

    let mending = BackfillArguments { reattribute: true, ..BackfillArguments::default() };
    let mended = newer.backfill(mending).await.unwrap();
    assert_eq!(mended.totals.get("failed").copied().unwrap_or(0), 0, "{:?}", mended.totals);
    let report = newer.verify(VerifyArguments::default()).await.unwrap();
    assert_eq!((report.findings, report.summary.unjudged), (vec![], vec![]));
}

#[tokio::test]
async fn b4_one_customer_without_the_attribute_does_not_stop_the_others() {
    let world = ProofWorld::new(20);
    world.put_customer(3, &[("country", "NO")]);
    world.backfill(BackfillArguments::default()).await.unwrap();
    let newer = world.with(model(2, &["country", "region"]));
    let mending = BackfillArguments { reattribute: true, ..BackfillArguments::default() };
    let mended = newer.backfill(mending).await.unwrap();
    assert_eq!(mended.totals.get("failed"), Some(&2), "{:?}", mended.totals);
    let report = newer.verify(VerifyArguments::default()).await.unwrap();
    assert_eq!(report.findings.iter().filter(|finding| of_lookup(finding)).count(), 2, "{report:#?}");
    assert_eq!(report.findings.len(), 2, "{report:#?}");
    // Most orders are decided, and these two stay undecided until the customer has the attribute: neither a run nor `verifier` may pass.
    let summary = &report.summary;
    assert_eq!((summary.drift, summary.undecided_until_mended, &*summary.unjudged), (0, 2, &[][..]));
    assert!(!summary.is_right().unwrap());
    let rotation = RotationReport { round: None, last_round: None };
    let verifier = VerifierReport::new(&report, VerifiedShare::default(), rotation);
    assert_eq!((verifier.drifted_targets, verifier.undecided_targets), (2, 2));
}

#[test]
fn b4_a_cause_that_a_later_run_may_not_have_is_no_problem_and_every_other_cause_is() {
    let reasons = |names: &[&str]| {
        let json = names.iter().map(|name| serde_json::from_str(&format!("\"{name}\"")).unwrap());
        json.collect::<Vec<UndecidedReason>>()
    };
    let passing = reasons(&["changed", "out_of_time", "incomplete_log", "no_heartbeat"]);
    assert!(passing.into_iter().all(UndecidedReason::ends_by_itself));
    let lasting = reasons(&[
        "lookup_not_remembered",
        "lookup_lacks_output",
        "uncountable",
        "unreadable_ledger",
        "unseen_value",
        "foreign",
        "not_comparable",
    ]);
    assert!(!lasting.into_iter().any(UndecidedReason::ends_by_itself));
}
