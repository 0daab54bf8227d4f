//! Pure: an image of an item → what it contributes. No I/O, no clock; the same image always gives the same.
//!
//! `C(image)` of the design is [`contributions()`]: aggregate → rollups → measure → number. What a lookup gave is an input like
//! the image itself; which lookups an image needs is told by [`questions`] beforehand.

mod archive;
mod contributions;
mod invalidation;
mod rows;
mod scope;
mod target;

pub use archive::archive_line;
pub use contributions::{
    Contribution, ExtremeRule, ExtremeValue, ImageProjection, ItemContributions, MeasureAmounts, TargetIds,
    contributions,
};
pub use invalidation::{StaleCaches, StaleKey, StalePath};
pub use rows::{DatasetRow, RecordImages, RowOperation, old_image, rows};
pub use scope::{ImageScope, LookupOutputs, attribute};
pub use target::{RollupTarget, RollupTargets, ShardAssignment, TargetId, TargetKey};

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::entity::ItemIdentity;
use crate::record::Image;
use crate::table::{LookupUse, Model};
use crate::{Error, Result};

/// One question to one lookup.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LookupKey<'s> {
    /// The lookup: an index into [`Model::lookups`].
    pub lookup: usize,
    /// The value it is asked by; several are joined by `#`, with every `#` within them written `%23` and every `%` `%25`.
    pub key: Cow<'s, str>,
}

impl LookupKey<'_> {
    fn of_several(lookup: usize, values: &[Cow<'_, str>]) -> Self {
        let escaped = values.iter().map(|value| value.replace('%', "%25").replace('#', "%23"));
        Self { lookup, key: Cow::Owned(escaped.collect::<Vec<_>>().join("#")) }
    }

    /// The same question, owning its text.
    #[must_use]
    pub fn into_owned(self) -> LookupKey<'static> {
        LookupKey { lookup: self.lookup, key: Cow::Owned(self.key.into_owned()) }
    }

    /// The values it is asked by, of a lookup that is asked by `count`.
    #[must_use]
    pub fn values(&self, count: usize) -> Vec<Cow<'_, str>> {
        match count {
            1 => vec![Cow::Borrowed(&*self.key)],
            _ => {
                let values = self.key.split('#').map(|value| value.replace("%23", "#").replace("%25", "%"));
                values.map(Cow::Owned).collect()
            }
        }
    }
}

/// What has been looked up.
pub trait LookupAnswers {
    /// What the lookup gave, if it has been asked and gave anything.
    fn outputs(&self, question: &LookupKey<'_>) -> Option<&LookupOutputs>;

    /// Why the lookup gave nothing, if there is more to say than that it found no item.
    fn refusal(&self, question: &LookupKey<'_>) -> Option<Error> {
        let _ = question;
        None
    }
}

/// The questions that this image's contributions depend on.
///
/// # Errors
/// [`crate::ErrorKind::Record`] if the image lacks a value that a lookup is asked by.
pub fn questions<'s, 'a: 's>(
    model: &'s Model,
    identity: &'s ItemIdentity<'_, '_>,
    image: &'s Image<'a>,
) -> Result<SmallVec<[LookupKey<'s>; 2]>> {
    let scope = ImageScope::of(model, identity, image);
    let mut questions = SmallVec::new();
    for aggregate in identity.entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index)) {
        for key in &aggregate.lookups {
            questions.push(scope.question(key)?);
        }
    }
    Ok(questions)
}

/// What an image of a looked-up item answers by itself: each question that other items may ask, with its outputs.
/// Where the image lacks an input or a output there is no answer.
pub fn answers<'s, 'a: 's>(
    model: &'s Model,
    identity: &'s ItemIdentity<'_, '_>,
    image: &'s Image<'a>,
) -> Vec<(LookupKey<'s>, Vec<crate::record::AttributeValue<'static>>)> {
    let scope = ImageScope::of(model, identity, image);
    let answer = |key: &LookupUse| {
        let question = scope.question(key).ok()?;
        let outputs = key.outputs.iter().map(|term| scope.output(term)).collect::<Option<Vec<_>>>()?;
        Some((question, outputs))
    };
    identity.entity.answers.iter().filter_map(answer).collect()
}
