//! The connected parts of a batch: plans that share a rollup, directly or through other plans, are of one part. Pure.
//!
//! Transactions of different parts never conflict, so a part that stays in one transaction waits for no other.

use afterwrite_model::projection::{RollupTargets, TargetId};

/// The place of a plan among the connected parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectedPlan {
    /// The number of its part: the index of the part's first plan.
    pub(super) part: usize,
    /// How many of its rollups no earlier plan writes.
    pub(super) new_rollups: usize,
}

/// The place of each plan, by the rollups that it writes; `targets` has all rollups of the batch.
pub(super) fn connected_parts<'t>(
    plans: impl Iterator<Item = &'t [TargetId]>,
    targets: &RollupTargets,
) -> Vec<ConnectedPlan> {
    let mut parts = Parts(Vec::with_capacity(plans.size_hint().0));
    let mut new_rollups = Vec::with_capacity(plans.size_hint().0);
    // For each rollup, the first plan that writes it.
    let mut writers: Vec<Option<usize>> = vec![None; targets.count()];
    for (plan, written) in plans.enumerate() {
        parts.0.push(plan);
        let mut new = 0;
        for target in written {
            let Some(writer) = writers.get_mut(target.index()) else { continue };
            new += usize::from(writer.is_none());
            parts.join(*writer.get_or_insert(plan), plan);
        }
        new_rollups.push(new);
    }
    let plans = new_rollups.into_iter().enumerate();
    plans.map(|(plan, new_rollups)| ConnectedPlan { part: parts.first(plan), new_rollups }).collect()
}

/// For each plan, an earlier plan of its part, or itself if it is the first.
struct Parts(Vec<usize>);

impl Parts {
    /// The first plan of a plan's part. Shortens the way to it.
    fn first(&mut self, plan: usize) -> usize {
        let mut plan = plan;
        loop {
            let earlier = self.earlier(plan);
            if earlier == plan {
                return plan;
            }
            let first = self.earlier(earlier);
            if let Some(known) = self.0.get_mut(plan) {
                *known = first;
            }
            plan = first;
        }
    }

    fn earlier(&self, plan: usize) -> usize {
        self.0.get(plan).copied().unwrap_or(plan)
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.first(one), self.first(other));
        if let Some(earlier) = self.0.get_mut(one.max(other)) {
            *earlier = one.min(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use afterwrite_model::projection::TargetKey;
    use afterwrite_model::table::Model;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn plans_are_of_one_part_exactly_if_rollups_connect_them(outlines in vec(vec(0..40_u16, 0..4), 0..40)) {
            let mut targets = RollupTargets::of(&Arc::new(Model::load(Model::DEFAULT_NAME).unwrap()));
            let mut intern = |number: &u16| {
                let partition = format!("P{number}");
                targets.intern_stored("r", TargetKey { partition: &partition, sort: "S", shard: None }, None)
            };
            let plans: Vec<Vec<_>> = outlines.iter().map(|numbers| numbers.iter().map(&mut intern).collect()).collect();

            let connected = connected_parts(plans.iter().map(Vec::as_slice), &targets);
            let found: Vec<usize> = connected.iter().map(|plan| plan.part).collect();
            let distinct: BTreeSet<_> = plans.iter().flatten().collect();
            prop_assert_eq!(connected.iter().map(|plan| plan.new_rollups).sum::<usize>(), distinct.len());

            // Spread from each plan along shared rollups, until nothing new is reached.
            for (first, plan) in plans.iter().enumerate() {
                let (mut reached, mut rollups) = (BTreeSet::from([first]), BTreeSet::from_iter(plan));
                while let Some((next, plan)) = plans.iter().enumerate().find(|(index, plan)| {
                    !reached.contains(index) && plan.iter().any(|target| rollups.contains(target))
                }) {
                    reached.insert(next);
                    rollups.extend(plan);
                }
                let of_part: BTreeSet<usize> = (0..plans.len()).filter(|index| found[*index] == found[first]).collect();
                prop_assert_eq!(reached.first(), Some(&found[first]), "a part has the number of its first plan");
                prop_assert_eq!(reached, of_part);
            }
        }
    }
}
