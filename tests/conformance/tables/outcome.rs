//! The outcome of a write in a comparable form, and the helpers that cases are written with.

use std::borrow::Cow;

use afterwrite_ledger::tables::{ConsumedUnits, TransactError, WriteError};
use afterwrite_model::ErrorKind;
use afterwrite_model::effect::{AttributeChange, ItemKey, Write, WriteAction, WriteCondition, WriteRefusal};
use afterwrite_model::record::{AttributePath, AttributeValue, Decimal, Item};

use super::store::{TableStore, pair};

/// The outcome of a write or a transaction.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum WriteOutcome {
    /// Carried out; the write units that it consumed.
    Done(u64),
    /// Refused; the reason for each action.
    Refused(Vec<Option<RefusalReason>>),
    /// Failed as a whole.
    Failed(ErrorKind),
}

/// Why an action was refused, without the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RefusalReason {
    Condition(Option<Item>),
    Conflict,
    Throttled,
    Invalid,
}

impl From<WriteRefusal> for RefusalReason {
    fn from(refusal: WriteRefusal) -> Self {
        match refusal {
            WriteRefusal::Condition(item) => Self::Condition(item),
            WriteRefusal::Conflict => Self::Conflict,
            WriteRefusal::Throttled => Self::Throttled,
            WriteRefusal::Invalid(_) => Self::Invalid,
        }
    }
}

impl From<Result<ConsumedUnits, WriteError>> for WriteOutcome {
    fn from(result: Result<ConsumedUnits, WriteError>) -> Self {
        match result {
            Ok(consumed) => Self::Done(consumed.write_units),
            Err(WriteError::Refused(refusal)) => Self::Refused(vec![Some(refusal.into())]),
            Err(WriteError::Failed(error)) => Self::Failed(error.kind()),
        }
    }
}

impl From<Result<ConsumedUnits, TransactError>> for WriteOutcome {
    fn from(result: Result<ConsumedUnits, TransactError>) -> Self {
        match result {
            Ok(consumed) => Self::Done(consumed.write_units),
            Err(TransactError::Cancelled(reasons)) => {
                Self::Refused(reasons.into_iter().map(|reason| reason.map(RefusalReason::from)).collect())
            }
            Err(TransactError::Failed(error)) => Self::Failed(error.kind()),
        }
    }
}

/// The expected outcome of a single write.
#[derive(Clone, Debug)]
pub(super) enum ExpectedOutcome {
    /// The item then has these attributes, in addition to its key; `None`: it does not exist.
    Stored(Option<Item>),
    /// Its condition does not hold: nothing changes, and the refusal contains the item.
    ConditionFails,
    /// It can never succeed on this item.
    Invalid,
    /// It can never succeed on any item: a transaction with it fails as a whole.
    InvalidRequest,
}

/// A write to one item, and its expected outcome.
pub(super) struct WriteCase {
    pub(super) name: &'static str,
    /// The attributes of the item before, without its key; `None`: it does not exist.
    pub(super) stored: Option<Item>,
    pub(super) condition: WriteCondition,
    pub(super) action: WriteAction,
    pub(super) expected: ExpectedOutcome,
}

impl WriteCase {
    /// Runs the case as a single write and as the only action of a transaction.
    pub(super) async fn run(&self, store: &impl TableStore) {
        for kind in ["alone", "transacted"] {
            let key = pair(self.name, kind);
            let start = self.stored.clone().map_or(WriteAction::Delete, WriteAction::Put);
            store.write(&always(key.clone(), start)).await.unwrap();
            let write =
                Write { key: key.clone(), condition: self.condition.clone(), action: self.action.clone() };
            let outcome = if kind == "alone" {
                WriteOutcome::from(store.write(&write).await)
            } else {
                WriteOutcome::from(store.transact(&[write]).await)
            };
            let before = self.stored.clone().map(|item| keyed(item, &key));
            let after = store.read(std::slice::from_ref(&key)).await.unwrap().items.remove(0);
            let context = format!("{}, {kind}", self.name);
            let refused = |reason| WriteOutcome::Refused(vec![Some(reason)]);
            match &self.expected {
                ExpectedOutcome::Stored(item) => {
                    assert!(matches!(outcome, WriteOutcome::Done(_)), "{context}: {outcome:?}");
                    assert_eq!(after, item.clone().map(|item| keyed(item, &key)), "{context}");
                    continue;
                }
                ExpectedOutcome::ConditionFails => {
                    assert_eq!(outcome, refused(RefusalReason::Condition(before.clone())), "{context}")
                }
                ExpectedOutcome::InvalidRequest if kind == "transacted" => {
                    assert_eq!(outcome, WriteOutcome::Failed(ErrorKind::Rejected), "{context}");
                }
                ExpectedOutcome::Invalid | ExpectedOutcome::InvalidRequest => {
                    assert_eq!(outcome, refused(RefusalReason::Invalid), "{context}");
                }
            }
            assert_eq!(after, before, "{context}: a refused write changed the item");
        }
    }
}

/// The item with its key's attributes.
pub(super) fn keyed(mut item: Item, key: &ItemKey) -> Item {
    for attribute in [Some(&key.partition), key.sort.as_ref()].into_iter().flatten() {
        item.insert(attribute.name.to_string().into(), attribute.value.clone());
    }
    item
}

pub(super) fn item<const N: usize>(attributes: [(&'static str, AttributeValue<'static>); N]) -> Item {
    attributes.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect()
}

pub(super) fn map<const N: usize>(
    attributes: [(&'static str, AttributeValue<'static>); N],
) -> AttributeValue<'static> {
    AttributeValue::M(item(attributes))
}

pub(super) fn number(text: &str) -> AttributeValue<'static> {
    AttributeValue::N(decimal(text))
}

pub(super) fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

pub(super) fn text(text: &str) -> AttributeValue<'static> {
    AttributeValue::text(text)
}

pub(super) fn bytes(bytes: &[u8]) -> AttributeValue<'static> {
    AttributeValue::B(Cow::Owned(bytes.to_vec()))
}

/// A path from its names, separated by slashes.
pub(super) fn path(names: &str) -> AttributePath {
    let mut names = names.split('/').map(Into::into);
    AttributePath::nested(names.next().expect("a name"), names)
}

pub(super) fn set(names: &str, value: impl Into<AttributeValue<'static>>) -> AttributeChange {
    AttributeChange::Set(path(names), value.into())
}

pub(super) fn add(names: &str, addend: &str) -> AttributeChange {
    AttributeChange::Add(path(names), decimal(addend))
}

pub(super) fn remove(names: &str) -> AttributeChange {
    AttributeChange::Remove(path(names))
}

/// An unconditional write.
pub(super) fn always(key: ItemKey, action: WriteAction) -> Write {
    Write { key, condition: WriteCondition::Always, action }
}
