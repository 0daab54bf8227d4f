//! The bins of the simulation's percentiles, computed apart from the product.

use afterwrite_demo::exact::ExactNumber;

use super::numbers::exact;

/// The bins of scores: the largest value of each but the last, and the estimate of its values. The numbers are those of relative error 0.2
/// from 0.5 to 8, computed apart from the product.
const SCORE_BINS: [(&str, &str, &str); 9] = [
    ("scores_000", "0.5", "0.5"),
    ("scores_001", "0.749984", "0.599995"),
    ("scores_002", "1.12495", "0.899972"),
    ("scores_003", "1.68738", "1.34993"),
    ("scores_004", "2.53101", "2.02484"),
    ("scores_005", "3.79643", "3.03718"),
    ("scores_006", "5.69452", "4.55568"),
    ("scores_007", "8.0", "6.6532"),
    ("scores_008", "", "8.0"),
];

/// The bin of a score.
pub(crate) fn score_bin(score: &ExactNumber) -> &'static str {
    let (last, ..) = SCORE_BINS[SCORE_BINS.len() - 1];
    let bins = SCORE_BINS.iter().take(SCORE_BINS.len() - 1);
    let is_last = *score >= exact("8");
    let mut fitting = bins.filter(|(_, up_to, _)| *score <= exact(up_to)).map(|(name, ..)| *name);
    if is_last { last } else { fitting.next().unwrap_or(last) }
}

/// The median of scores, from the number in each bin.
pub(crate) fn median(count_of: impl Fn(&str) -> ExactNumber) -> Option<ExactNumber> {
    let counts: Vec<ExactNumber> = SCORE_BINS.iter().map(|(name, ..)| count_of(name)).collect();
    let total = counts.iter().fold(ExactNumber::ZERO, |sum, count| sum.plus(count));
    let mut below = ExactNumber::ZERO;
    for (count, (.., estimate)) in counts.iter().zip(SCORE_BINS) {
        below = below.plus(count);
        if below > ExactNumber::ZERO && below.plus(&below) >= total {
            return Some(exact(estimate));
        }
    }
    None
}
