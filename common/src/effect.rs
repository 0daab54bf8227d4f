//! Effects: what to write and on what condition, without saying to which service or how.
//!
//! Every write of Afterwrite to DynamoDB is a [`Write`]. Sinks turn it into their service's request, and all of them
//! give it the same meaning (one conformance suite holds them to it).

use std::sync::Arc;

use crate::record::{AttributePath, AttributeValue, Decimal, Item};

/// The primary key of one item of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemKey {
    /// The table, by the name it has where it lives (after `AFTERWRITE_TABLES`).
    pub table: Arc<str>,
    /// Name and value of the partition key.
    pub partition: KeyAttribute,
    /// Name and value of the sort key, for a table that has one.
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

/// One write to one item, carried out if its condition holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Which item.
    pub key: ItemKey,
    /// What must hold of the item as it is stored.
    pub condition: WriteCondition,
    /// What is done to it.
    pub action: WriteAction,
}

/// What a [`Write`] does.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteAction {
    /// Replaces the whole item; the key's own attributes are added to those given.
    Put(Item),
    /// Changes single attributes; an item that is not there is created.
    Update(Vec<AttributeChange>),
    /// Deletes the item.
    Delete,
}

/// A change of one attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeChange {
    /// Sets it. Setting inside a map that is not there is [`WriteRefusal::Invalid`].
    Set(AttributePath, AttributeValue<'static>),
    /// Adds to a number, starting at nought where there is none.
    Add(AttributePath, Decimal),
    /// Removes it, if it is there.
    Remove(AttributePath),
}

/// What must hold of the stored item. On an item that is not there every attribute is absent.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteCondition {
    /// Nothing.
    Always,
    /// All of these.
    All(Vec<WriteCondition>),
    /// At least one of these.
    Any(Vec<WriteCondition>),
    /// The item is there.
    ItemExists,
    /// The item is not there.
    ItemAbsent,
    /// The attribute is not there.
    Absent(AttributePath),
    /// The attribute is there and equals the value.
    Equals(AttributePath, AttributeValue<'static>),
    /// The attribute is there and is another value. (An absent attribute fails it: say [`WriteCondition::Absent`] too.)
    Differs(AttributePath, AttributeValue<'static>),
    /// The attribute is there, of the same type, and less than the value.
    Less(AttributePath, AttributeValue<'static>),
}

/// Why one write was not carried out, as in DynamoDB's `CancellationReasons`.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteRefusal {
    /// Its condition does not hold; the item as it is stored, if there is one.
    Condition(Option<Item>),
    /// Another request was writing the item (`TransactionConflict`).
    Conflict,
    /// `ThrottlingError` or `ProvisionedThroughputExceeded`.
    Throttled,
    /// It can never succeed as it is (`ValidationError`, `ItemCollectionSizeLimitExceeded`); the service's words, which name no
    /// item contents.
    Invalid(String),
}
