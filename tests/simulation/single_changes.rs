//! Checks of single writes of the product: faults that a later write would heal, so that the end of a run shows no
//! trace of them.

use afterwrite_memory::ItemChange;
use afterwrite_model::record::{AttributeValue, Decimal, Item};

use super::state_keys::{StateKey, entry_key, marker_key};
use super::store::{STATE, Store, key, text};
use super::stream::StreamRecord;

/// The faults of a write of the product to an item of the application.
pub(crate) fn mirror_faults(change: &ItemChange) -> Vec<String> {
    let Some(new) = &change.new else { return vec!["a mirror deleted its item".to_owned()] };
    let name = || format!("{} {}{}", text(new, "PK"), text(new, "SK"), text(new, "id"));
    let Some(old) = &change.old else { return vec![format!("{} was created by a mirror", name())] };
    let (before, after) = (revisions(old), revisions(new));
    let lost = before.iter().find(|(copy, ..)| !after.iter().any(|(name, ..)| name == copy));
    let lost = lost.map(|(copy, ..)| format!("{}: a mirror removed {copy}", name()));
    // The copies of one rollup are written together: a higher revision next to a lower one is that of a restored item.
    let lowest = |of: &String| {
        before.iter().filter(|(_, origin, _)| origin == of).map(|(.., revision)| revision).min()
    };
    let older = after.iter().filter(|(copy, origin, revision)| {
        let is_replaced = before.iter().any(|(name, of, _)| name == copy && of == origin);
        is_replaced && lowest(origin).is_some_and(|replaced| replaced > revision)
    });
    let older = older.map(|(copy, ..)| format!("{}: an older copy replaced {copy}", name()));
    lost.into_iter().chain(older).collect()
}

/// Name, rollup and revision of each copy, at the top and in maps.
fn revisions(item: &Item) -> Vec<(String, String, Decimal)> {
    let mut found = Vec::new();
    for (name, value) in item {
        if let AttributeValue::M(nested) = value {
            let nested =
                nested.iter().map(|(name, value)| (name.to_string().into(), value.clone().into_owned()));
            found.extend(revisions(&nested.collect()));
        }
        let copy = name.strip_suffix("_rev").zip(value.as_number());
        found.extend(copy.map(|(copy, revision)| {
            (copy.to_owned(), text(item, &format!("{copy}_of")).to_owned(), revision.clone())
        }));
    }
    found
}

/// Whether a write of an entry removed the mark of a parked record that nothing has counted.
pub(crate) fn lost_mark(change: &ItemChange) -> Option<String> {
    let (old, new) = (change.old.as_ref()?, change.new.as_ref()?);
    let parked = parked_position(old);
    let is_lost =
        parked > parked_position(new) && text(new, "position") < parked && !new.contains_key("as_of");
    let is_entry = new.contains_key("contributions");
    (is_entry && is_lost)
        .then(|| format!("{} {} lost the mark of {parked}", text(new, "PK"), text(new, "SK")))
}

fn parked_position(entry: &Item) -> &str {
    text(entry, "behind").split(' ').next().unwrap_or_default()
}

/// Whether the state table names a record that was parked, unless it has been counted since.
pub(crate) fn is_marked<S: Store>(store: &S, record: &StreamRecord) -> bool {
    let (position, sort) = (record.position(), record.sort.as_deref());
    let stored = |(partition, sort): StateKey| store.get(&key(STATE, &partition, Some(&sort)));
    let is_known = |entry: Item| {
        let reached = text(&entry, "position").max(parked_position(&entry));
        reached >= position.as_str() || entry.contains_key("as_of")
    };
    stored(entry_key(record.table, &record.partition, sort)).is_some_and(is_known)
        || stored(marker_key(record.table, &record.partition, sort, &position)).is_some()
}
