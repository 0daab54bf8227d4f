//! The bins of latencies, computed as docs/MODEL.md defines them, in whole numbers of six digits and a power of ten.

use crate::exact::ExactNumber;

/// The part of the model's relative error that is left for the bounds, and its complement to one, in hundred-thousandths.
const UP: i64 = 109_999;
const DOWN: i64 = 90_001;

/// The upper bounds of the bins from 1 to 10,000 ms, and the estimate of each bin. The last bin has no bound.
pub(super) struct LatencyBins {
    bounds: Vec<ExactNumber>,
    pub(super) estimates: Vec<ExactNumber>,
}

impl LatencyBins {
    pub(super) fn new() -> Self {
        let last = ExactNumber::from(10_000);
        let (mut bounds, mut digits, mut power) = (vec![ExactNumber::one()], 100_000_i64, 0_u8);
        while bounds.last().is_some_and(|bound| *bound < last) {
            // Rounded down to six digits.
            let longer = digits * UP / DOWN;
            if longer < 1_000_000 {
                digits = longer;
            } else {
                digits = digits * UP / (DOWN * 10);
                power += 1;
            }
            bounds.push(number(digits, power).min(last.clone()));
        }
        let mut estimates = vec![ExactNumber::one()];
        estimates.extend(bounds.windows(2).filter_map(|pair| estimate(pair.first()?, pair.last()?)));
        estimates.push(last);
        Self { bounds, estimates }
    }

    /// The name of the measure that counts a latency.
    pub(super) fn name(&self, latency: &ExactNumber) -> String {
        let last = self.bounds.last().is_some_and(|bound| latency >= bound);
        let place =
            if last { self.bounds.len() } else { self.bounds.partition_point(|bound| bound < latency) };
        format!("latency_{place:03}")
    }
}

/// Six digits, of which five are decimals, times a power of ten.
fn number(digits: i64, power: u8) -> ExactNumber {
    let text = format!("{digits}E{}", i16::from(power) - 5);
    ExactNumber::parse(&text).unwrap_or_default()
}

/// 2·l·u / (l + u), rounded to six digits.
fn estimate(lower: &ExactNumber, upper: &ExactNumber) -> Option<ExactNumber> {
    let product = lower.times(upper).times(&ExactNumber::from(2));
    let digits_before_the_point = u8::try_from(upper.truncated(0).to_string().len()).ok()?;
    let lies_below = lower.truncated(0).to_string().len() < usize::from(digits_before_the_point);
    let quotient = |places| product.divided_by(&lower.plus(upper), places);
    // Between two bounds with different numbers of digits, the estimate has one of the two.
    let short = quotient(6 - digits_before_the_point)?;
    if lies_below && short.truncated(0).to_string().len() < usize::from(digits_before_the_point) {
        return quotient(7 - digits_before_the_point);
    }
    Some(short)
}
