//! Which of two values a `max`, `min` or `latest` keeps.

use crate::record::AttributeValue;
use crate::table::{Latest, MixedTypes};

/// Which of two values is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtremeRule {
    /// `max`.
    Largest(MixedTypes),
    /// `min`.
    Smallest(MixedTypes),
    /// `latest`: the larger one of two texts that [`Latest::text`] made.
    Latest,
}

impl ExtremeRule {
    /// Whether `value` replaces `known`. A text that `latest` did not write was written by another model or program, and is replaced; so is a
    /// value of another type, unless the model leaves the type open.
    #[must_use]
    pub fn prefers(self, value: &AttributeValue<'_>, known: &AttributeValue<'_>) -> bool {
        let order = match (value, known) {
            (AttributeValue::N(new), AttributeValue::N(known)) => new.cmp(known),
            (AttributeValue::S(new), AttributeValue::S(known)) => new.as_bytes().cmp(known.as_bytes()),
            (AttributeValue::S(_), AttributeValue::N(_)) => return !self.puts_numbers_first(),
            _ => return true,
        };
        match self {
            Self::Largest(_) => order.is_gt(),
            Self::Smallest(_) => order.is_lt(),
            Self::Latest => order.is_gt() || known.as_text().and_then(Latest::value).is_none(),
        }
    }

    fn puts_numbers_first(self) -> bool {
        match self {
            Self::Largest(mixed) | Self::Smallest(mixed) => mixed == MixedTypes::NumbersFirst,
            Self::Latest => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::Decimal;

    /// The value that is kept of these values, in this order.
    fn kept(rule: ExtremeRule, values: &[AttributeValue<'static>]) -> AttributeValue<'static> {
        let (first, others) = values.split_first().unwrap();
        others.iter().fold(
            first.clone(),
            |known, value| {
                if rule.prefers(value, &known) { value.clone() } else { known }
            },
        )
    }

    proptest! {
        #[test]
        fn of_values_of_an_open_type_the_same_is_kept_in_every_order(
            values in proptest::collection::vec((any::<bool>(), 0..20_i64), 1..8),
            shuffled in Just(()).prop_perturb(|(), random| random),
        ) {
            let mut values: Vec<AttributeValue<'static>> = values
                .into_iter()
                .map(|(is_number, value)| {
                    if is_number { Decimal::from(value).into() } else { AttributeValue::text(value.to_string()) }
                })
                .collect();
            let mut random = shuffled;
            for rule in [ExtremeRule::Largest, ExtremeRule::Smallest] {
                let rule = rule(MixedTypes::NumbersFirst);
                let first = kept(rule, &values);
                let has_number = values.iter().any(|value| value.as_number().is_some());
                prop_assert_eq!(first.as_number().is_some(), has_number);
                for place in (1..values.len()).rev() {
                    values.swap(place, random.random_range(0..=place));
                }
                prop_assert_eq!(kept(rule, &values), first);
            }
        }
    }

    #[test]
    fn a_value_of_a_type_that_the_model_does_not_declare_is_replaced() {
        let [number, text] = [Decimal::from(3).into(), AttributeValue::text("n/a")];
        for rule in [ExtremeRule::Largest, ExtremeRule::Smallest] {
            let rule = rule(MixedTypes::Replaced);
            assert!(rule.prefers(&number, &text) && rule.prefers(&text, &number));
        }
    }
}
