//! Effects: what to write and on which condition, independent of any service.
//!
//! Every write of Afterwrite to DynamoDB is a [`Write`]. An implementation of the trait `Tables` (`afterwrite-ledger`) translates it into
//! requests; a conformance suite tests that all implementations give it the same meaning.
//!
//! [`condition`] and [`update`] evaluate a write on an item in memory, for a dry run.

pub mod condition;
pub mod update;

use std::sync::Arc;

use crate::record::{AttributePath, AttributeValue, Decimal, Item};

/// The primary key of one item of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemKey {
    /// The table's name in the account (see `AFTERWRITE_TABLES`).
    pub table: Arc<str>,
    /// Name and value of the partition key.
    pub partition: KeyAttribute,
    /// Name and value of the sort key, if the table has one.
    pub sort: Option<KeyAttribute>,
}

/// One attribute of a primary key: `S`, `N` or `B`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAttribute {
    /// The attribute's name.
    pub name: Arc<str>,
    /// Its value.
    pub value: AttributeValue<'static>,
}

/// A write to one item, carried out if its condition holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The item's key.
    pub key: ItemKey,
    /// The condition on the stored item.
    pub condition: WriteCondition,
    /// The change to the item.
    pub action: WriteAction,
}

/// The action of a [`Write`].
#[derive(Clone, Debug, PartialEq)]
pub enum WriteAction {
    /// Replaces the whole item; the key attributes are added.
    Put(Item),
    /// Changes single attributes; a missing item is created.
    Update(Vec<AttributeChange>),
    /// Deletes the item.
    Delete,
}

/// A change of one attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeChange {
    /// Sets the attribute. If a map on the path is missing, the write is refused as [`WriteRefusal::Invalid`].
    Set(AttributePath, AttributeValue<'static>),
    /// Adds to a number; a missing attribute counts as zero.
    Add(AttributePath, Decimal),
    /// Removes the attribute, if it exists.
    Remove(AttributePath),
}

/// The condition of a [`Write`] on the stored item. A missing item has no attributes.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteCondition {
    /// Always true.
    Always,
    /// All of these hold.
    All(Vec<WriteCondition>),
    /// At least one of these holds.
    Any(Vec<WriteCondition>),
    /// The item exists.
    ItemExists,
    /// The item does not exist.
    ItemAbsent,
    /// The attribute does not exist.
    Absent(AttributePath),
    /// The attribute exists and equals the value.
    Equals(AttributePath, AttributeValue<'static>),
    /// The attribute exists and differs from the value. An absent attribute fails the condition; to accept it, add
    /// [`WriteCondition::Absent`].
    Differs(AttributePath, AttributeValue<'static>),
    /// The attribute exists, has the value's type, and is less than the value.
    Less(AttributePath, AttributeValue<'static>),
}

impl WriteCondition {
    /// Holds while the attribute is as it is in `item`.
    #[must_use]
    pub fn unchanged(path: &AttributePath, item: &Item) -> Self {
        match path.read(item) {
            Some(value) => Self::Equals(path.clone(), value.clone()),
            None => Self::Absent(path.clone()),
        }
    }
}

/// Why a write was not carried out, as in DynamoDB's `CancellationReasons`.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteRefusal {
    /// Its condition does not hold. Contains the stored item, if it exists.
    Condition(Option<Item>),
    /// Another request was writing the item (`TransactionConflict`).
    Conflict,
    /// `ThrottlingError` or `ProvisionedThroughputExceeded`.
    Throttled,
    /// It can never succeed on this item (`ValidationError`, `ItemCollectionSizeLimitExceeded`). Contains the reason, without item
    /// contents. A reason that is not known to concern the item is an error of the request instead.
    Invalid(String),
}
