//! The bins of percentiles: `{ percentiles = "latency_ms", relative_error = 0.05, from = 1, to = 60000 }`.
//!
//! A bin of the values above `l`, up to `u`, is estimated by `2·l·u / (l + u)`. The estimate differs from each of these values by at
//! most `(u − l) / (u + l)` of the value, which is at most the relative error `e` if `u / l` is at most `(1 + e) / (1 − e)`. So each
//! bound is the one before it times this ratio, rounded down to six digits. Estimates are rounded to six digits as well; the bounds are
//! made for an error that is smaller by more than this rounding adds. All of it is decimal arithmetic: the bounds are the same on every
//! machine.

use std::sync::Arc;

use serde::Serialize;

use crate::record::Decimal;

/// The most bins of a measure, a histogram or percentiles: an item with more is hard to read.
pub(super) const MAX_BINS: u8 = 200;

/// Bins that are counted for a message, at most.
const MAX_COUNTED_BINS: usize = 20_000;

/// The significant digits of bounds and estimates: the whole numbers below this one.
const SIX_DIGITS: i64 = 1_000_000;

/// The part of the relative error that rounding to six digits can take.
const ROUNDING: &str = "0.00001";

/// The smallest and the largest relative error that bins can have.
const RELATIVE_ERRORS: [&str; 2] = ["0.001", "0.5"];

/// The bins of percentiles, in ascending order of their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PercentileBins {
    /// The relative error of an estimate.
    pub relative_error: Decimal,
    /// The rollup's attributes, one for each bin.
    pub labels: Vec<Arc<str>>,
    /// The largest value of each bin but the last. The last of these is where the last bin begins.
    bounds: Vec<Decimal>,
    /// The estimate of the values of each bin.
    estimates: Vec<Decimal>,
}

/// A bin of percentiles in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PercentileBinDescription {
    /// The rollup's attribute that counts its values.
    pub attribute: String,
    /// Values of the bin are above this bound; values of the last bin may equal it. The first bin has no lower bound.
    pub above: Option<String>,
    /// The largest value of the bin; the last bin has no upper bound.
    pub up_to: Option<String>,
    /// The estimate of each of its values.
    pub estimate: String,
}

/// Why bins cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UnusableBins {
    /// The relative error is too small or too large.
    RelativeError,
    /// The first bound is not above 0, or the last one is not above the first.
    Range,
    /// A bound has too many digits to compute with.
    Digits,
    /// There would be this many, or more.
    TooMany(usize),
}

impl std::fmt::Display for UnusableBins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RelativeError => {
                let [least, most] = RELATIVE_ERRORS;
                write!(f, "`relative_error` must be from {least} to {most}")
            }
            Self::Range => f.write_str("`from` must be above 0, and `to` above `from`"),
            Self::Digits => f.write_str("`from` and `to` have too many digits; round them"),
            Self::TooMany(bins) => write!(
                f,
                "the range from `from` to `to` with this `relative_error` needs at least {bins} bins, more than the maximum of {MAX_BINS}; allow a larger `relative_error`, or a narrower range"
            ),
        }
    }
}

impl PercentileBins {
    /// The bins of a measure with this name.
    pub(super) fn new(
        name: &str,
        relative_error: Decimal,
        [from, to]: [Decimal; 2],
    ) -> Result<Self, UnusableBins> {
        let [least, most] = RELATIVE_ERRORS.map(constant);
        if relative_error < least || relative_error > most {
            return Err(UnusableBins::RelativeError);
        }
        if from.sign().is_le() || to <= from {
            return Err(UnusableBins::Range);
        }
        let bounds = bounds(&relative_error, from, to)?;
        let bins = bounds.len() + 1;
        if bins > usize::from(MAX_BINS) {
            return Err(UnusableBins::TooMany(bins));
        }
        let estimates = estimates(&bounds).ok_or(UnusableBins::Digits)?;
        let labels = (0..bins).map(|bin| Arc::from(format!("{name}_{bin:03}"))).collect();
        Ok(Self { relative_error, labels, bounds, estimates })
    }

    /// The attribute of the bin of a value.
    #[must_use]
    pub fn label(&self, value: &Decimal) -> Option<&Arc<str>> {
        match self.bounds.last() {
            Some(last) if value >= last => self.labels.last(),
            Some(_) | None => self.labels.get(self.bounds.partition_point(|bound| bound < value)),
        }
    }

    /// The estimate of a percentile, `percent` of 0 to 100, from the number of values in each bin; `None` if there are none. It is that of
    /// the smallest value that at least `percent` of the values do not exceed.
    #[must_use]
    pub fn percentile(
        &self,
        percent: &Decimal,
        count_of: impl Fn(&Arc<str>) -> Option<Decimal>,
    ) -> Option<Decimal> {
        let counts = self.labels.iter().map(count_of).collect::<Option<Vec<_>>>()?;
        let total = counts.iter().try_fold(Decimal::ZERO, |sum, count| sum.plus(count)).ok()?;
        if total.sign().is_le() {
            return None;
        }
        let hundredfold_rank = total.times(percent).ok()?;
        let mut so_far = Decimal::ZERO;
        for (count, estimate) in counts.iter().zip(&self.estimates) {
            so_far = so_far.plus(count).ok()?;
            if so_far.sign().is_gt() && so_far.times(&Decimal::from(100)).ok()? >= hundredfold_rank {
                return Some(estimate.clone());
            }
        }
        self.estimates.last().cloned()
    }

    /// The bins in words.
    #[must_use]
    pub fn describe(&self) -> Vec<PercentileBinDescription> {
        let bounds = self.bounds.iter().map(|bound| Some(bound.to_string()));
        let above = std::iter::once(None).chain(bounds.clone());
        let bins = self.labels.iter().zip(&self.estimates).zip(above.zip(bounds.chain([None])));
        bins.map(|((label, estimate), (above, up_to))| PercentileBinDescription {
            attribute: label.to_string(),
            above,
            up_to,
            estimate: estimate.to_string(),
        })
        .collect()
    }

    /// The smallest and the largest value whose estimate has the relative error.
    pub(super) fn range(&self) -> Option<[&Decimal; 2]> {
        Some([self.bounds.first()?, self.bounds.last()?])
    }
}

/// A number of this file.
fn constant(digits: &str) -> Decimal {
    digits.parse().unwrap_or(Decimal::ZERO)
}

/// The bounds from the first to the last one.
fn bounds(relative_error: &Decimal, from: Decimal, to: Decimal) -> Result<Vec<Decimal>, UnusableBins> {
    let exact = relative_error.minus(&constant(ROUNDING)).map_err(|_| UnusableBins::Digits)?;
    let ratio = Decimal::ONE.plus(&exact).and_then(|up| Ok((up, Decimal::ONE.minus(&exact)?)));
    let (up, down) = ratio.map_err(|_| UnusableBins::Digits)?;
    let (mut bounds, mut power, mut last) = (vec![from.clone()], 0, from);
    while last < to {
        let next =
            last.times(&up).ok().and_then(|product| rounded(&product, &down, Rounding::Down, &mut power));
        last = next.ok_or(UnusableBins::Digits)?.min(to.clone());
        bounds.push(last.clone());
        if bounds.len() > MAX_COUNTED_BINS {
            return Err(UnusableBins::TooMany(MAX_COUNTED_BINS));
        }
    }
    Ok(bounds)
}

/// The estimates of the bins that these bounds separate.
fn estimates(bounds: &[Decimal]) -> Option<Vec<Decimal>> {
    let mut estimates = vec![bounds.first()?.clone()];
    let mut power = 0;
    for pair in bounds.windows(2) {
        let [lower, upper] = pair else { continue };
        let product = lower.times(upper).ok()?.times(&Decimal::from(2)).ok()?;
        let sum = lower.plus(upper).ok()?;
        estimates.push(rounded(&product, &sum, Rounding::Nearest, &mut power)?);
    }
    estimates.push(bounds.last()?.clone());
    Some(estimates)
}

/// How a quotient is rounded.
#[derive(Clone, Copy)]
enum Rounding {
    Down,
    Nearest,
}

/// A quotient of positive numbers, rounded to six significant digits; `None` if DynamoDB's limits do not allow computing it. `power` is the
/// power of ten that made six digits of the last one.
fn rounded(dividend: &Decimal, divisor: &Decimal, rounding: Rounding, power: &mut i32) -> Option<Decimal> {
    loop {
        let scaled = dividend.times(&power_of_ten(*power)?).ok()?;
        match scaled.floor_divided_by(divisor) {
            None | Some(SIX_DIGITS..) => *power -= 1,
            Some(whole) if whole < SIX_DIGITS / 10 => *power += 1,
            Some(whole) => {
                let digits = match rounding {
                    Rounding::Down => Decimal::from(whole),
                    Rounding::Nearest => scaled.divided_by(divisor, 0)?,
                };
                return digits.times(&power_of_ten(-*power)?).ok();
            }
        }
    }
}

fn power_of_ten(power: i32) -> Option<Decimal> {
    format!("1E{power}").parse().ok()
}

#[cfg(test)]
mod tests;
