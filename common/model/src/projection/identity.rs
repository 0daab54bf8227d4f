//! The identity of an item in one of its states: which of the entities that its key allows.

use std::time::Duration;

use crate::entity::{ItemCandidates, ItemIdentity, SourceKey};
use crate::record::{AttributeValue, ChangeRecord, Decimal, Image, Operation, StreamView, Timestamp};
use crate::table::Model;
use crate::{Error, ErrorKind};

use super::{ImageScope, attribute};

impl<'m, 'k> ItemCandidates<'m, 'k> {
    /// The identity of the item in the state of an image; `None` if the image meets the condition of no candidate.
    #[must_use]
    pub fn in_state(&self, image: &Image<'_>) -> Option<&ItemIdentity<'m, 'k>> {
        self.iter().find(|identity| match &identity.entity.when {
            None => true,
            Some(when) => ImageScope::of(self.model(), identity, image).satisfies(when),
        })
    }

    /// The identity of the item before a change, by the attributes of the old image that were decoded eagerly. `None` if the item did not
    /// exist, or was of no entity.
    #[must_use]
    pub fn before(&self, record: &ChangeRecord<'_>) -> Option<&ItemIdentity<'m, 'k>> {
        match self.by_key() {
            Some(identity) => record.old.is_present().then_some(identity),
            None => self.in_state(record.old.eager_fields()?),
        }
    }

    /// The identity of the item after a change; `None` if the item does not exist, or is of no entity.
    #[must_use]
    pub fn after(&self, record: &ChangeRecord<'_>) -> Option<&ItemIdentity<'m, 'k>> {
        self.in_state(record.new.as_ref()?)
    }

    /// Whether a change is an expiry, a deletion by time to live (TTL): DynamoDB marks it as one, or the item had expired by the attribute that its
    /// entity names. In a global table, DynamoDB does not mark the deletions that TTL made in another region.
    #[must_use]
    pub fn is_expiry(&self, record: &ChangeRecord<'_>) -> bool {
        let had_expired = || {
            let ttl = self.before(record)?.entity.ttl.as_ref()?;
            had_expired(attribute(record.old.eager_fields()?, ttl)?, record.created_at?)
        };
        record.expired || (record.operation == Operation::Remove && had_expired().unwrap_or(false))
    }

    /// The error of a record without an image that `reader` needs. If the stream does not carry the image, the kind is [`ErrorKind::Stream`]; if it
    /// does, or the record does not name its view type, the record is malformed ([`ErrorKind::Record`]).
    #[must_use]
    pub fn missing_image(&self, record: &ChangeRecord<'_>, reader: &str) -> Error {
        let kind = match record.view {
            Some(StreamView::NewAndOldImages) | None => ErrorKind::Record,
            Some(StreamView::NewImage | StreamView::OldImage | StreamView::KeysOnly) => ErrorKind::Stream,
        };
        Error::new(kind, format!("the stream's records lack an image that {reader} needs"))
            .with("view type", record.view.map_or("unknown", StreamView::name))
            .with("entity", self.iter().next().map_or("", |identity| &*identity.entity.name))
            .hint("Set the table's stream to NEW_AND_OLD_IMAGES")
    }

    /// Whether the item is of an entity before or after a change, or may be: its key alone decides.
    #[must_use]
    pub fn match_change(&self, record: &ChangeRecord<'_>) -> bool {
        self.by_key().is_some() || self.before(record).is_some() || self.after(record).is_some()
    }
}

/// DynamoDB's TTL does not delete an item whose time is longer ago than five years.
const OLDEST_EXPIRY: Duration = Duration::from_secs(5 * 365 * 24 * 60 * 60);

/// Whether an item with this value of its TTL attribute had expired when it was deleted; `None` if TTL ignores the value.
fn had_expired(ttl: &AttributeValue<'_>, deleted_at: Timestamp) -> Option<bool> {
    let seconds = |time: Timestamp| Decimal::from(time.epoch_seconds());
    let expires_at = ttl.as_number()?;
    Some(*expires_at <= seconds(deleted_at) && *expires_at >= seconds(deleted_at.minus(OLDEST_EXPIRY)))
}

impl SourceKey<'_> {
    /// The identity of an item with this key and image; `None` if it matches no entity.
    pub fn identify<'m, 'k>(&'k self, model: &'m Model, image: &Image<'_>) -> Option<ItemIdentity<'m, 'k>> {
        self.candidates(model).in_state(image).cloned()
    }
}
