//! The memory of lookups: what a lookup gave first is written down and never changes.
//!
//! `C(image)` must not depend on when it is asked, yet an index lags, and the item it finds may be deleted or change hands.
//! So the first answer is put into the state table on condition that there is none, and whoever loses that race takes the
//! winner's. From then on everything reads that.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{StreamExt as _, iter};
use hashbrown::{Equivalent, HashMap};

use super::requests::CONCURRENCY;
use super::{InvocationContext, Ledger, keys};
use crate::clock::Clock;
use crate::effect::{KeyAttribute, Write, WriteAction, WriteCondition, WriteRefusal};
use crate::entity::SourceKey;
use crate::projection::{LookupAnswers, LookupKey, LookupOutputs, answers};
use crate::record::{AttributeValue, Image, Item};
use crate::sink::{IndexQuery, Tables, WriteError};
use crate::table::Model;
use crate::{Error, ErrorKind, Result};

const GIVES: &str = "gives";
/// How often an index is asked before the record fails, and how long between: GSIs mostly lag for less than a second.
const ASKED_AT_MOST: u32 = 3;
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(100);
/// Answers kept in the process; past this the cache starts anew.
const CACHED_AT_MOST: usize = 100_000;

type LookupReply = Arc<LookupOutputs>;

/// Answers by question.
type AnswerMap = HashMap<LookupKey<'static>, LookupReply>;

/// A question, as maps are asked for it without a copy of it.
#[derive(Hash)]
pub(super) struct LookupKeyRef<'q>(pub(super) &'q LookupKey<'q>);

impl Equivalent<LookupKey<'static>> for LookupKeyRef<'_> {
    fn equivalent(&self, known: &LookupKey<'static>) -> bool {
        self.0 == known
    }
}

/// The answers known to this process. They never change, so they never go stale.
#[derive(Debug, Default)]
pub(super) struct LookupCache(Mutex<AnswerMap>);

impl LookupCache {
    fn get(&self, question: &LookupKey<'_>) -> Option<LookupReply> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&LookupKeyRef(question)).cloned()
    }

    fn keep(&self, question: LookupKey<'static>, answer: LookupReply) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= CACHED_AT_MOST {
            *cache = AnswerMap::default();
        }
        cache.insert(question, answer);
    }
}

/// The answers that a batch needs.
#[derive(Debug, Default)]
pub(super) struct LookupResults {
    answers: AnswerMap,
    /// The questions that were asked in vain, and why. Within one invocation none is asked again.
    refused: HashMap<LookupKey<'static>, Option<Error>>,
}

impl LookupAnswers for LookupResults {
    fn outputs(&self, question: &LookupKey<'_>) -> Option<&LookupOutputs> {
        self.answers.get(&LookupKeyRef(question)).map(AsRef::as_ref)
    }

    fn refusal(&self, question: &LookupKey<'_>) -> Option<Error> {
        self.refused.get(&LookupKeyRef(question))?.as_ref().map(Error::restated)
    }
}

/// The questions that could not be asked for now, and why: the next round asks them again.
pub(super) type DelayedLookups = HashMap<LookupKey<'static>, Error>;

/// The questions of a batch that nobody here has an answer to yet, each with the answer that an own record of the looked-up
/// item offers, if one does.
pub(super) type PendingLookups = BTreeMap<LookupKey<'static>, Option<Vec<AttributeValue<'static>>>>;

impl<T: Tables, C: Clock> Ledger<T, C> {
    /// Notes a question, unless this process knows the answer.
    pub(super) fn ask(
        &self,
        question: LookupKey<'_>,
        offer: Option<Vec<AttributeValue<'static>>>,
        asked: &mut PendingLookups,
        answered: &mut LookupResults,
    ) {
        if answered.outputs(&question).is_some() || answered.refused.contains_key(&LookupKeyRef(&question)) {
            return;
        }
        let known = self.lookups.get(&question);
        let question = LookupKey { lookup: question.lookup, key: Cow::Owned(question.key.into_owned()) };
        if let Some(answer) = known {
            answered.answers.insert(question, answer);
            return;
        }
        let noted = asked.entry(question).or_default();
        if noted.is_none() {
            *noted = offer;
        }
    }

    /// Adds to `answered` what has been remembered, is offered, or can be asked of an index. What nobody can answer stays
    /// unanswered: then the records that need it fail, and come again. An index is not waited for here, lest it hold up
    /// everything that needs none: what may be over in a moment is told as a delay.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`], or why the memory could not be read. Whatever is wrong with one question is kept with it.
    pub(super) async fn answer(
        &self,
        asked: PendingLookups,
        answered: &mut LookupResults,
        invocation: &InvocationContext,
    ) -> Result<DelayedLookups> {
        let mut delayed = DelayedLookups::new();
        let mut open: Vec<_> = asked.into_iter().collect();
        if open.is_empty() {
            return Ok(delayed);
        }
        let memory: Vec<_> =
            open.iter().map(|(question, _)| self.keys.lookup(&self.model, question)).collect();
        let mut remembered = self.read(&memory, invocation).await?.items.into_iter();
        for attempt in 1..=ASKED_AT_MOST {
            // Only what is asked for the first time may be remembered: whoever was refused would have been told.
            let pending = open.into_iter().map(|(question, offer)| {
                let item = remembered.next().flatten();
                async move { (self.answer_to(&question, offer, item, invocation).await, question) }
            });
            let learnt: Vec<_> = iter(pending).buffered(CONCURRENCY).collect().await;
            open = Vec::new();
            for (answer, question) in learnt {
                match answer {
                    Ok(Some(answer)) => {
                        self.lookups.keep(question.clone(), Arc::clone(&answer));
                        answered.answers.insert(question, answer);
                    }
                    Ok(None) => open.push((question, None)),
                    Err(error) if error.kind() == ErrorKind::Configuration => return Err(error),
                    Err(error) if error.is_retryable() => {
                        delayed.insert(question, error);
                    }
                    Err(error) => {
                        answered.refused.insert(question, Some(error));
                    }
                }
            }
            let wait = BETWEEN_QUESTIONS * attempt;
            let is_last = attempt == ASKED_AT_MOST || self.clock.now().plus(wait) >= invocation.deadline;
            if open.is_empty() || is_last {
                break;
            }
            self.clock.sleep(wait).await;
        }
        answered.refused.extend(open.into_iter().map(|(question, _)| (question, None)));
        Ok(delayed)
    }

    /// What is remembered, else what is offered, else what the index finds; the latter two are remembered from now on.
    async fn answer_to(
        &self,
        question: &LookupKey<'static>,
        offer: Option<Vec<AttributeValue<'static>>>,
        known: Option<Item>,
        invocation: &InvocationContext,
    ) -> Result<Option<LookupReply>> {
        if let Some(item) = known {
            return remembered(&self.model, question, &item)
                .map(Some)
                .ok_or_else(|| self.unreadable(question));
        }
        let outputs = match offer {
            Some(outputs) => Some(outputs),
            None => self.ask_index(question).await?,
        };
        match outputs {
            Some(outputs) => self.remember(question, outputs, invocation).await.map(Some),
            None => Ok(None),
        }
    }

    async fn ask_index(&self, question: &LookupKey<'static>) -> Result<Option<Vec<AttributeValue<'static>>>> {
        let Some(query) = self.index_query(question) else { return Ok(None) };
        let found = self.tables.query_index(&query).await?;
        Ok(found.iter().find_map(|item| self.offer_of(question, item)))
    }

    fn index_query(&self, question: &LookupKey<'static>) -> Option<IndexQuery> {
        let lookup = self.model.lookups.get(question.lookup)?;
        let table = self.model.entities.get(lookup.of)?.table;
        let inputs = question.values(lookup.inputs.len());
        let attribute = |(name, template): &(Arc<str>, crate::table::Template)| KeyAttribute {
            name: Arc::clone(name),
            value: template.render(&inputs).into(),
        };
        Some(IndexQuery {
            table: Arc::clone(self.table_names.get(table)?),
            index: Arc::clone(&lookup.index),
            partition: attribute(&lookup.partition),
            sort: lookup.sort.as_ref().map(attribute),
        })
    }

    /// What an item that the index found gives, if it is of the looked-up entity and answers this very question.
    fn offer_of(&self, question: &LookupKey<'_>, item: &Item) -> Option<Vec<AttributeValue<'static>>> {
        let of = self.model.lookups.get(question.lookup)?.of;
        let source = SourceKey::of_item(&self.model, self.model.entities.get(of)?.table, item)?;
        let identity = source.identify(&self.model)?;
        let image = Image::from_item(item, &self.model.vocabulary);
        let offers = answers(&self.model, &identity, &image);
        offers.into_iter().find(|(answered, _)| answered == question).map(|(_, outputs)| outputs)
    }

    async fn remember(
        &self,
        question: &LookupKey<'static>,
        outputs: Vec<AttributeValue<'static>>,
        invocation: &InvocationContext,
    ) -> Result<LookupReply> {
        let mut item = keys::typed("LOOKUP");
        let names = self
            .model
            .lookups
            .get(question.lookup)
            .map(|lookup| lookup.outputs.as_slice())
            .unwrap_or_default();
        let given =
            names.iter().zip(&outputs).map(|(name, output)| (Cow::Owned(name.to_string()), output.clone()));
        item.insert(Cow::Borrowed(GIVES), AttributeValue::M(given.collect()));
        let write = Write {
            key: self.keys.lookup(&self.model, question),
            condition: WriteCondition::ItemAbsent,
            action: WriteAction::Put(item),
        };
        match self.write_retrying(&write, invocation).await {
            Ok(()) => Ok(outputs.into()),
            Err(WriteError::Refused(WriteRefusal::Condition(Some(winner)))) => {
                remembered(&self.model, question, &winner).ok_or_else(|| self.unreadable(question))
            }
            Err(WriteError::Refused(refusal)) => Err(self.refused(&write, refusal)),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    fn unreadable(&self, question: &LookupKey<'_>) -> Error {
        let name = self.model.lookups.get(question.lookup).map_or("?", |lookup| &lookup.name);
        Error::new(ErrorKind::State, "what a lookup once gave lacks a value that the model asks for")
            .with("lookup", name)
            .hint("A changed `gives` needs a lookup of another name")
    }
}

/// What a remembered lookup gave; `None` if it lacks a value that the model asks for.
pub(super) fn remembered(model: &Model, question: &LookupKey<'_>, item: &Item) -> Option<LookupReply> {
    let AttributeValue::M(given) = item.get(GIVES)? else { return None };
    let lookup = model.lookups.get(question.lookup)?;
    let outputs = lookup.outputs.iter().map(|name| given.get(name.as_ref()).cloned());
    outputs.collect::<Option<Vec<_>>>().map(Into::into)
}
