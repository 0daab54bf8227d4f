//! How much drift a sample can have missed.

use crate::jobs::approximate;

/// The upper bound of the share of drifted items, at 95 % confidence, after `drifted` of `checked` were: the rule of three if none
/// was, else Wilson's bound.
#[must_use]
pub fn drift_upper_bound(drifted: u64, checked: u64) -> f64 {
    const Z: f64 = 1.644_853_626_951_472_2;
    if checked == 0 {
        return 1.0;
    }
    let n = approximate(checked);
    if drifted == 0 {
        return (3.0 / n).min(1.0);
    }
    let share = approximate(drifted) / n;
    let centre = share + Z * Z / (2.0 * n);
    let spread = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((centre + spread) / (1.0 + Z * Z / n)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_those_of_the_tables() {
        for (drifted, checked, bound) in
            [(0, 0, 1.0), (0, 1, 1.0), (0, 300, 0.01), (1, 100, 0.0431), (50, 100, 0.5812), (100, 100, 1.0)]
        {
            let found = drift_upper_bound(drifted, checked);
            assert!((found - bound).abs() < 0.0005, "{drifted} of {checked}: {found}");
        }
    }
}
