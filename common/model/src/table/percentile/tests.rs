use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn number(digits: &str) -> Decimal {
    digits.parse().expect("a number")
}

fn bins(relative_error: &str, from: &str, to: &str) -> Result<PercentileBins, UnusableBins> {
    PercentileBins::new("latency", number(relative_error), [number(from), number(to)])
}

/// The estimate of a percentile of these values.
fn estimate(bins: &PercentileBins, percent: &Decimal, values: &[Decimal]) -> Option<Decimal> {
    let mut counts: BTreeMap<Arc<str>, i64> = BTreeMap::new();
    for value in values {
        *counts.entry(Arc::clone(bins.label(value).expect("a bin"))).or_default() += 1;
    }
    bins.percentile(percent, |label| Some(Decimal::from(counts.get(label).copied().unwrap_or(0))))
}

#[test]
fn bounds_and_estimates_are_the_same_on_every_machine() {
    let bins = bins("0.05", "1", "60000").unwrap();
    assert_eq!(bins.labels.len(), 112);
    let described = bins.describe();
    let shown = |index: usize| {
        let bin = &described[index];
        let bound = |bound: &Option<String>| bound.clone().unwrap_or_default();
        [bin.attribute.clone(), bound(&bin.above), bound(&bin.up_to), bin.estimate.clone()]
    };
    assert_eq!(shown(0), ["latency_000", "", "1", "1"]);
    assert_eq!(shown(1), ["latency_001", "1", "1.10524", "1.04999"]);
    assert_eq!(shown(2), ["latency_002", "1.10524", "1.22155", "1.16049"]);
    assert_eq!(shown(111), ["latency_111", "60000", "", "60000"]);
}

#[test]
fn a_value_is_in_the_bin_of_its_bounds() {
    let bins = bins("0.1", "1", "100").unwrap();
    let label = |value: &str| bins.label(&number(value)).unwrap().to_string();
    let last = format!("latency_{:03}", bins.labels.len() - 1);
    for lowest in ["-5", "0", "0.001", "1"] {
        assert_eq!(label(lowest), "latency_000");
    }
    assert_eq!(label("1.0001"), "latency_001");
    for highest in ["100", "100.1", "9e125"] {
        assert_eq!(label(highest), last);
    }
    assert_ne!(label("99.99"), last);
}

#[test]
fn percentiles_of_few_values_are_nearest_ranks() {
    let bins = bins("0.01", "1", "10").unwrap();
    assert_eq!(estimate(&bins, &number("50"), &[]), None);
    for percent in ["0.1", "50", "100"] {
        assert_eq!(estimate(&bins, &number(percent), &[number("1")]), Some(number("1")));
    }
    let three = ["1", "10", "12"].map(number);
    // The rank of percentile 33.3 of three values is 0.999, and that of 33.4 is 1.002.
    assert_eq!(estimate(&bins, &number("33.3"), &three), Some(number("1")));
    assert_eq!(estimate(&bins, &number("33.4"), &three), Some(number("10")));
}

#[test]
fn bins_that_cannot_be_made_are_refused() {
    for (relative_error, from, to, problem) in [
        ("0", "1", "10", UnusableBins::RelativeError),
        ("0.0009", "1", "10", UnusableBins::RelativeError),
        ("0.6", "1", "10", UnusableBins::RelativeError),
        ("0.1", "0", "10", UnusableBins::Range),
        ("0.1", "-1", "10", UnusableBins::Range),
        ("0.1", "10", "10", UnusableBins::Range),
        ("0.1", "1.2345678901234567890123456789012345678", "10", UnusableBins::Digits),
    ] {
        assert_eq!(bins(relative_error, from, to), Err(problem), "{relative_error} {from} {to}");
    }
    let Err(UnusableBins::TooMany(count)) = bins("0.001", "1", "1000000") else { panic!("too many") };
    assert!((6970..7100).contains(&count), "{count}");
    assert!(bins("0.5", "1e-50", "1e-20").is_ok());
    assert!(bins("0.5", "1e30", "1e60").is_ok());
}

proptest! {
    /// The estimate of any percentile is within the declared relative error of the value with the nearest rank.
    #[test]
    fn an_estimate_is_within_the_relative_error(
        thousandths in 20..=500_i64,
        from in 100..5_000_i64,
        width in 1..50_000_i64,
        scale in -4..5_i32,
        values in proptest::collection::vec((0..=1000_i64, 0..1000_i64), 1..60),
        percent in 1..=1000_i64,
    ) {
        let relative_error = number(&format!("{thousandths}E-3"));
        let [low, high] = [from, from + width].map(|bound| number(&format!("{bound}E{scale}")));
        let bins = PercentileBins::new("x", relative_error.clone(), [low, high.clone()]);
        prop_assume!(bins.is_ok());
        let bins = bins.expect("bins");
        let value = |(part, fraction): (i64, i64)| {
            let whole = from + width * part / 1000;
            number(&format!("{whole}.{fraction:03}E{scale}")).min(high.clone())
        };
        let mut values: Vec<Decimal> = values.into_iter().map(value).collect();
        values.sort();
        let percent = number(&format!("{percent}E-1"));
        let count = Decimal::from(i64::try_from(values.len()).unwrap());
        let is_rank = |rank: &usize| {
            let rank = Decimal::from(i64::try_from(*rank).unwrap());
            rank.times(&Decimal::from(100)).unwrap() >= count.times(&percent).unwrap()
        };
        let rank = (1..=values.len()).find(is_rank).expect("a rank");
        let exact = &values[rank - 1];
        let found = estimate(&bins, &percent, &values).expect("an estimate");
        let difference = found.minus(exact).unwrap();
        let difference = if difference.sign().is_lt() { difference.negated() } else { difference };
        prop_assert!(difference <= exact.times(&relative_error).unwrap(), "{found} for {exact}");
    }

    /// Bins of two rollups add up: the percentile of all values is that of the sums.
    #[test]
    fn bins_are_mergeable_and_retract(kept in proptest::collection::vec(1..900_i64, 1..30), gone in proptest::collection::vec(1..900_i64, 0..30)) {
        let bins = bins("0.05", "1", "1000").unwrap();
        let mut counts: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        for (values, change) in [(&kept, 1), (&gone, 1), (&gone, -1)] {
            for value in values {
                *counts.entry(Arc::clone(bins.label(&Decimal::from(*value)).unwrap())).or_default() += change;
            }
        }
        let found = bins.percentile(&number("95"), |label| Some(Decimal::from(counts.get(label).copied().unwrap_or(0))));
        let kept: Vec<Decimal> = kept.into_iter().map(Decimal::from).collect();
        prop_assert_eq!(found, estimate(&bins, &number("95"), &kept));
    }
}
