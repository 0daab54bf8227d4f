//! Pure: an image of an item → what it contributes. No I/O, no clock; the same image always gives the same.
//!
//! `C(image)` of the design is [`contributions()`]: aggregate → rollups → measure → number. What a lookup gave is an input like
//! the image itself; which lookups an image needs is told by [`questions`] beforehand.

mod contributions;
mod invalidation;
mod scope;
mod target;

pub use contributions::{Contributions, Extreme, Keep, Projected, Share, contributions};
pub use invalidation::{Stale, StaleKey, StalePath};
pub use scope::{Gifts, Scope, attribute};
pub use target::{Sharding, Target, TargetId, Targets};

use std::borrow::Cow;

use crate::Result;
use crate::entity::Identity;
use crate::record::Image;
use crate::table::{LookupKey, Model};

/// One question to one lookup.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Question<'s> {
    /// The lookup: an index into [`Model::lookups`].
    pub lookup: usize,
    /// The values it is asked by, joined by `#`.
    pub key: Cow<'s, str>,
}

/// What has been looked up.
pub trait Answers {
    /// What the lookup gave, if it has been asked and gave anything.
    fn gifts(&self, question: &Question<'_>) -> Option<&Gifts>;
}

/// The questions that this image's contributions depend on.
///
/// # Errors
/// [`crate::ErrorKind::Record`] if the image lacks a value that a lookup is asked by.
pub fn questions<'s, 'a: 's>(
    model: &'s Model,
    identity: &'s Identity<'s, 's>,
    image: &'s Image<'a>,
) -> Result<Vec<Question<'s>>> {
    let scope = Scope { model, entity: identity.entity, variables: &identity.variables, image, gifts: &[] };
    let mut questions = Vec::new();
    for aggregate in identity.entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index)) {
        for key in &aggregate.lookups {
            questions.push(scope.question(key)?);
        }
    }
    Ok(questions)
}

/// What an image of a looked-up item answers by itself: each question that other items may ask, with its gifts.
/// Where the image lacks an input or a gift there is no answer.
pub fn answers<'s, 'a: 's>(
    model: &'s Model,
    identity: &'s Identity<'s, 's>,
    image: &'s Image<'a>,
) -> Vec<(Question<'s>, Vec<crate::record::AttributeValue<'static>>)> {
    let scope = Scope { model, entity: identity.entity, variables: &identity.variables, image, gifts: &[] };
    let answer = |key: &LookupKey| {
        let question = scope.question(key).ok()?;
        let gifts = key.gifts.iter().map(|term| scope.gift(term)).collect::<Option<Vec<_>>>()?;
        Some((question, gifts))
    };
    identity.entity.answers.iter().filter_map(answer).collect()
}
