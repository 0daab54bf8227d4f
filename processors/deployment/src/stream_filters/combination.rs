//! Fewer areas with all the keys: of all pairs, the two are combined whose union adds the fewest pairs of conditions.
//!
//! A model may have hundreds of entities. The weight of each pair is kept, so that a combination judges the pairs of the new area alone.

use super::key_area::KeyArea;

/// At most `count` areas with all the keys.
pub(super) fn combined(areas: Vec<KeyArea>, count: usize) -> Vec<KeyArea> {
    let mut combination = Combination::new(areas);
    while combination.left > count.max(1) && combination.combine() {}
    combination.areas.into_iter().flatten().collect()
}

/// Areas that are combined, in their order.
struct Combination {
    /// `None` for an area that became a part of an earlier area.
    areas: Vec<Option<KeyArea>>,
    /// How many areas are left.
    left: usize,
    /// The number that the union of each area with each later one adds.
    added: Vec<Vec<usize>>,
    /// Of each area: the smallest such number, and the first later area that has it.
    smallest: Vec<Option<(usize, usize)>>,
}

impl Combination {
    fn new(areas: Vec<KeyArea>) -> Self {
        let areas: Vec<_> = areas.into_iter().map(Some).collect();
        let mut combination = Self { left: areas.len(), added: Vec::new(), smallest: Vec::new(), areas };
        for index in 0..combination.areas.len() {
            let row = combination.row(index);
            combination.added.push(row);
            let smallest = combination.smallest_of(index);
            combination.smallest.push(smallest);
        }
        combination
    }

    fn area(&self, index: usize) -> Option<&KeyArea> {
        self.areas.get(index)?.as_ref()
    }

    /// The number that the union of an area with each later one adds; nothing of use for an area that is a part of another.
    fn row(&self, index: usize) -> Vec<usize> {
        let later = self.areas.iter().skip(index + 1);
        later.map(|later| added(self.area(index), later.as_ref())).collect()
    }

    fn smallest_of(&self, index: usize) -> Option<(usize, usize)> {
        let later = index + 1..;
        let row = self.added.get(index)?.iter().zip(later);
        row.filter(|(_, later)| self.area(*later).is_some()).map(|(added, later)| (*added, later)).min()
    }

    /// Combines the two areas whose union adds the least, the first of several such pairs. Returns whether there are two.
    fn combine(&mut self) -> bool {
        let known = self.smallest.iter().enumerate();
        let smallest =
            known.filter_map(|(first, smallest)| smallest.map(|(added, second)| (added, first, second)));
        let Some((_, first, second)) = smallest.min() else { return false };
        let Some(other) = self.areas.get_mut(second).and_then(Option::take) else { return false };
        if let Some(Some(one)) = self.areas.get_mut(first) {
            *one = one.union(&other);
        }
        self.left -= 1;
        self.judge_again(first, second);
        true
    }

    /// Judges the pairs of an area that took another. Of the other areas, only those whose best partner was one of the two look for another.
    fn judge_again(&mut self, first: usize, second: usize) {
        let row = self.row(first);
        if let Some(known) = self.added.get_mut(first) {
            *known = row;
        }
        for index in 0..second {
            let best = self.smallest.get(index).copied().flatten();
            let Some((_, partner)) = best else { continue };
            let mut better = best;
            if index < first {
                let changed = added(self.area(index), self.area(first));
                if let Some(known) = self.added.get_mut(index).and_then(|row| row.get_mut(first - index - 1))
                {
                    *known = changed;
                }
                better = best.min(Some((changed, first)));
            }
            if index == first || partner == first || partner == second {
                better = self.smallest_of(index);
            }
            if let Some(known) = self.smallest.get_mut(index) {
                *known = better;
            }
        }
        if let Some(known) = self.smallest.get_mut(second) {
            *known = None;
        }
    }
}

fn added(one: Option<&KeyArea>, other: Option<&KeyArea>) -> usize {
    one.zip(other).map_or(usize::MAX, |(one, other)| one.added_weight(other))
}
