//! The traces of an incident, and the parts that a new deployment does not have yet.

use super::*;

#[test]
fn what_an_incident_left_behind_is_found_with_the_command_that_mends_it() {
    let mut facts = healthy();
    if let Some(Looked::Found(mappings)) = facts.mappings.first_mut() {
        mappings[1].id = "2".to_owned();
    }
    let objects = BTreeMap::from([("2".to_owned(), 3), ("replaced".to_owned(), 1)]);
    let failures = FailureFacts { objects, has_more: false, oldest: Duration::from_secs(7_200) };
    facts.failures.insert(FAILURES.to_owned(), Looked::Found(failures));
    let parked = |items, has_more| Looked::Found(ParkedFacts { items, has_more });
    for (found, text) in [(parked(2, false), "2 items"), (parked(40_000, true), "40000 or more items")] {
        facts.parked = found;
        assert_eq!(faults(&facts), ["failed records of exams-failures", "parked items of exams-state"]);
        let findings = judge(&model(), &facts);
        assert_eq!(findings.iter().find(|finding| finding.check == "parked items").unwrap().found, text);
    }
    let findings = judge(&model(), &facts);
    let failed = findings.iter().find(|finding| finding.check == "failed records").unwrap();
    assert_eq!(failed.found, "4 objects, the oldest 2 h old");
    let advice = failed.advice.as_deref().unwrap();
    for command in [
        "afterwrite redrive s3://exams-failures/aws/lambda/2/ --only invalidate,archive --dry-run",
        "afterwrite redrive s3://exams-failures/aws/lambda/replaced/ --only aggregate,invalidate,archive --dry-run",
    ] {
        assert!(advice.contains(command), "{advice}");
    }
    facts.parked = Looked::Missing;
    facts.failures.insert(FAILURES.to_owned(), Looked::NotRead("no answer".to_owned()));
    assert_eq!(faults(&facts), Vec::<String>::new());
}

#[test]
fn a_new_deployment_lacks_nothing_yet_and_an_old_one_does() {
    let mut facts = healthy();
    facts.freshness.heartbeats = vec![("exams".to_owned(), LookedAge::Never)];
    facts.freshness.datasets = vec![("attempts".to_owned(), LookedAge::Never)];
    part(Some(&mut facts.bucket)).archive = Some(ArchiveFacts::default());
    facts.drift = DriftFacts::Bucket(Looked::Missing);
    let not_yet = |facts: &DeploymentFacts| {
        let findings = judge(&model(), facts).into_iter();
        let findings = findings.filter(|finding| finding.verdict == HealthVerdict::NotYet);
        findings.map(|finding| (finding.check, finding.advice.unwrap())).collect::<Vec<_>>()
    };
    facts.unchanged_for = Some(Duration::from_secs(10 * 60));
    assert_eq!(faults(&facts), Vec::<String>::new());
    let found = not_yet(&facts);
    let checks: Vec<&str> = found.iter().map(|(check, _)| *check).collect();
    assert_eq!(checks, ["archive", "heartbeat", "dataset freshness", "drift"]);
    assert!(found[0].1.contains("expected within 35 min"), "{}", found[0].1);
    // After an hour, the heartbeat and the archive are missing.
    facts.unchanged_for = Some(Duration::from_secs(60 * 60));
    assert_eq!(faults(&facts), ["archive of exams-bucket", "heartbeat of exams"]);
    facts.unchanged_for = None;
    assert_eq!(faults(&facts).len(), 3);
    assert!(not_yet(&facts).is_empty());
    // A heartbeat that stopped is missing, also in a new deployment.
    facts.unchanged_for = Some(Duration::from_secs(60));
    facts.freshness.heartbeats = vec![("exams".to_owned(), LookedAge::Known(Duration::from_secs(4_000)))];
    assert_eq!(faults(&facts), ["heartbeat of exams"]);
}
