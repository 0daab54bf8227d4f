//! The memory of lookups: what a lookup gave first is written down and never changes.
//!
//! `C(image)` must not depend on when it is asked, yet an index lags, and the item it finds may be deleted or change hands.
//! So the first answer is put into the state table on condition that there is none, and whoever loses that race takes the
//! winner's. From then on everything reads that.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{StreamExt as _, iter};

use super::clock::Clock;
use super::requests::CONCURRENCY;
use super::{Invocation, Ledger, keys};
use crate::effect::{Action, Condition, KeyAttribute, Refusal, Write};
use crate::entity::SourceKey;
use crate::projection::{Answers, Gifts, Question, answers};
use crate::record::{AttributeValue, Image, Item};
use crate::sink::{IndexQuery, Tables, WriteError};
use crate::{Error, ErrorKind, Result};

const GIVES: &str = "gives";
/// How often an index is asked before the record fails, and how long between: GSIs mostly lag for less than a second.
const ASKED_AT_MOST: u32 = 3;
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(100);
/// Answers kept in the process; past this the cache starts anew.
const CACHED_AT_MOST: usize = 100_000;

type Answer = Arc<Gifts>;

/// Answers by lookup and key.
#[derive(Debug, Default)]
struct AnswerMap {
    by_lookup: BTreeMap<usize, HashMap<String, Answer>>,
    count: usize,
}

impl AnswerMap {
    fn get(&self, question: &Question<'_>) -> Option<&Answer> {
        self.by_lookup.get(&question.lookup)?.get(question.key.as_ref())
    }

    fn insert(&mut self, question: &Question<'_>, answer: Answer) {
        self.count += 1;
        self.by_lookup.entry(question.lookup).or_default().insert(question.key.to_string(), answer);
    }
}

/// The answers known to this process. They never change, so they never go stale.
#[derive(Debug, Default)]
pub(super) struct LookupCache(Mutex<AnswerMap>);

impl LookupCache {
    fn get(&self, question: &Question<'_>) -> Option<Answer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(question).cloned()
    }

    fn keep(&self, question: &Question<'_>, answer: Answer) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.count >= CACHED_AT_MOST {
            *cache = AnswerMap::default();
        }
        cache.insert(question, answer);
    }
}

/// The answers that a batch needs.
#[derive(Debug, Default)]
pub(super) struct Answered(AnswerMap);

impl Answers for Answered {
    fn gifts(&self, question: &Question<'_>) -> Option<&Gifts> {
        self.0.get(question).map(AsRef::as_ref)
    }
}

/// The questions of a batch that nobody here has an answer to yet, each with the answer that an own record of the looked-up
/// item offers, if one does.
pub(super) type Asked = BTreeMap<Question<'static>, Option<Vec<AttributeValue<'static>>>>;

impl<T: Tables, C: Clock> Ledger<T, C> {
    /// Notes a question, unless this process knows the answer.
    pub(super) fn ask(
        &self,
        question: Question<'_>,
        offer: Option<Vec<AttributeValue<'static>>>,
        asked: &mut Asked,
        answered: &mut Answered,
    ) {
        if answered.gifts(&question).is_some() {
            return;
        }
        if let Some(answer) = self.lookups.get(&question) {
            answered.0.insert(&question, answer);
            return;
        }
        let question = Question { lookup: question.lookup, key: Cow::Owned(question.key.into_owned()) };
        let noted = asked.entry(question).or_default();
        if noted.is_none() {
            *noted = offer;
        }
    }

    /// Adds to `answered` what has been remembered, is offered, or can be asked of an index. What nobody can answer stays
    /// unanswered: then the records that need it fail, and come again.
    pub(super) async fn answer(
        &self,
        asked: Asked,
        answered: &mut Answered,
        invocation: &Invocation,
    ) -> Result<()> {
        let unknown: Vec<_> = asked.into_iter().collect();
        let memory: Vec<_> =
            unknown.iter().map(|(question, _)| self.keys.lookup(&self.model, question)).collect();
        let remembered = self.read(&memory, invocation).await?.items;
        let pending = unknown.into_iter().zip(remembered).map(|((question, offer), item)| async move {
            let known = item.as_ref().and_then(|item| self.remembered(&question, item));
            let answer = match known {
                Some(answer) => Ok(Some(answer)),
                None => self.learn(&question, offer, invocation).await,
            };
            (question, answer)
        });
        let learnt: Vec<_> = iter(pending).buffered(CONCURRENCY).collect().await;
        for (question, answer) in learnt {
            if let Some(answer) = answer? {
                self.lookups.keep(&question, Arc::clone(&answer));
                answered.0.insert(&question, answer);
            }
        }
        Ok(())
    }

    fn remembered(&self, question: &Question<'_>, item: &Item) -> Option<Answer> {
        let AttributeValue::M(given) = item.get(GIVES)? else { return None };
        let lookup = self.model.lookups.get(question.lookup)?;
        lookup
            .gives
            .iter()
            .map(|name| given.get(name.as_ref()).cloned())
            .collect::<Option<Vec<_>>>()
            .map(Into::into)
    }

    /// Finds an answer for the first time, and writes it down.
    async fn learn(
        &self,
        question: &Question<'static>,
        offer: Option<Vec<AttributeValue<'static>>>,
        invocation: &Invocation,
    ) -> Result<Option<Answer>> {
        let gifts = match offer {
            Some(gifts) => Some(gifts),
            None => self.ask_index(question, invocation).await?,
        };
        match gifts {
            Some(gifts) => self.remember(question, gifts, invocation).await.map(Some),
            None => Ok(None),
        }
    }

    async fn ask_index(
        &self,
        question: &Question<'static>,
        invocation: &Invocation,
    ) -> Result<Option<Vec<AttributeValue<'static>>>> {
        let Some(query) = self.index_query(question) else { return Ok(None) };
        for attempt in 1..=ASKED_AT_MOST {
            let found = self.retrying(invocation, || self.tables.query_index(&query)).await?;
            if let Some(gifts) = found.iter().find_map(|item| self.offer_of(question, item)) {
                return Ok(Some(gifts));
            }
            let wait = BETWEEN_QUESTIONS * attempt;
            if attempt == ASKED_AT_MOST || self.clock.now().plus(wait) >= invocation.deadline {
                break;
            }
            self.clock.sleep(wait).await;
        }
        Ok(None)
    }

    fn index_query(&self, question: &Question<'static>) -> Option<IndexQuery> {
        let lookup = self.model.lookups.get(question.lookup)?;
        let table = self.model.entities.get(lookup.of)?.table;
        let inputs: Vec<&str> = match lookup.inputs.len() {
            1 => vec![question.key.as_ref()],
            count => question.key.splitn(count, '#').collect(),
        };
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
    fn offer_of(&self, question: &Question<'_>, item: &Item) -> Option<Vec<AttributeValue<'static>>> {
        let of = self.model.lookups.get(question.lookup)?.of;
        let source = SourceKey::of_item(&self.model, self.model.entities.get(of)?.table, item)?;
        let identity = source.identify(&self.model)?;
        let image = Image::from_item(item, &self.model.vocabulary);
        let offers = answers(&self.model, &identity, &image);
        offers.into_iter().find(|(answered, _)| answered == question).map(|(_, gifts)| gifts)
    }

    async fn remember(
        &self,
        question: &Question<'static>,
        gifts: Vec<AttributeValue<'static>>,
        invocation: &Invocation,
    ) -> Result<Answer> {
        let mut item = keys::typed("LOOKUP");
        let names =
            self.model.lookups.get(question.lookup).map(|lookup| lookup.gives.as_slice()).unwrap_or_default();
        let given = names.iter().zip(&gifts).map(|(name, gift)| (Cow::Owned(name.to_string()), gift.clone()));
        item.insert(Cow::Borrowed(GIVES), AttributeValue::M(given.collect()));
        let write = Write {
            key: self.keys.lookup(&self.model, question),
            condition: Condition::ItemAbsent,
            action: Action::Put(item),
        };
        match self.write_retrying(&write, invocation).await {
            Ok(()) => Ok(gifts.into()),
            Err(WriteError::Refused(Refusal::Condition(Some(winner)))) => {
                self.remembered(question, &winner).ok_or_else(|| self.unreadable(question))
            }
            Err(WriteError::Refused(refusal)) => Err(self.refused(&write, refusal)),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    fn unreadable(&self, question: &Question<'_>) -> Error {
        let name = self.model.lookups.get(question.lookup).map_or("?", |lookup| &lookup.name);
        Error::new(ErrorKind::State, "what a lookup once gave lacks a value that the model asks for")
            .with("lookup", name)
            .remedy("A changed `gives` needs a lookup of another name")
    }
}
