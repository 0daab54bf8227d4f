//! Effects: what to write and on which condition, independent of any service.
//!
//! Every write of Afterwrite to DynamoDB is a [`Write`]. An implementation of the trait `Tables` (`afterwrite-ledger`) translates it into
//! requests; a conformance suite tests that all implementations give it the same meaning.
//!
//! [`Write::applied`] carries out a write on an item in memory; [`condition`] and [`update`] have the rules.

pub mod condition;
pub mod update;

use std::sync::Arc;

use self::update::InvalidUpdate;
use crate::record::{AttributePath, AttributeValue, Decimal, Item};

/// DynamoDB's limit on a partition key, in bytes.
pub const MAX_PARTITION_KEY: usize = 2048;
/// DynamoDB's limit on a sort key, in bytes.
pub const MAX_SORT_KEY: usize = 1024;

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

impl ItemKey {
    /// The attributes of the key.
    pub fn attributes(&self) -> impl Iterator<Item = &KeyAttribute> {
        std::iter::once(&self.partition).chain(&self.sort)
    }

    /// An item with the attributes of the key added.
    #[must_use]
    pub fn keyed(&self, mut item: Item) -> Item {
        item.extend(self.attributes().map(|key| (key.name.to_string().into(), key.value.clone())));
        item
    }
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

impl Write {
    /// Rejects a write that is invalid for every item.
    ///
    /// # Errors
    /// A comparison by order with a value of a type without an order; else as [`update::check_paths`] and [`update::normalized`].
    pub fn check(&self) -> Result<(), InvalidUpdate> {
        if condition::has_unordered_operand(&self.condition) {
            return Err("a comparison by order with a value of a type without an order");
        }
        match &self.action {
            WriteAction::Update(changes) => {
                update::check_paths(changes)?;
                update::normalized(&mut update::values(changes))
            }
            WriteAction::Put(_) | WriteAction::Delete => Ok(()),
        }
    }

    /// The item after the write on the stored item, by DynamoDB's rules but for the limits on sizes; `None` if it is deleted.
    ///
    /// # Errors
    /// Why DynamoDB would refuse the write.
    pub fn applied(&self, stored: Option<&Item>) -> Result<Option<Item>, WriteRefusal> {
        if !condition::holds(&self.condition, stored) {
            return Err(WriteRefusal::Condition(stored.cloned()));
        }
        self.after(stored).map_err(|reason| WriteRefusal::Invalid(reason.to_owned()))
    }

    /// The item after the action, whether the condition holds or not; `None` if it is deleted.
    ///
    /// # Errors
    /// As [`update::updated`] and [`update::normalized`].
    pub fn after(&self, stored: Option<&Item>) -> Result<Option<Item>, InvalidUpdate> {
        let mut item = match &self.action {
            WriteAction::Put(item) => self.key.keyed(item.clone()),
            WriteAction::Update(changes) => {
                let before = stored.cloned().unwrap_or_else(|| self.key.keyed(Item::new()));
                update::updated(before, changes)?
            }
            WriteAction::Delete => return Ok(None),
        };
        update::normalized(&mut item)?;
        Ok(Some(item))
    }
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
