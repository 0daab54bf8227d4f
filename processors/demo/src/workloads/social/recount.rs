//! The values to derive from the network, computed without the model.

use crate::exact::ExactNumber;
use crate::item::{SdkItem, TableItem, text_of};
use crate::recount::{Recount, RollupSums, WorkloadOutcome, after};
use crate::rollups::RollupKey;
use crate::workloads::tools::{ksuid_day, week};

pub(super) fn recount(outcome: &WorkloadOutcome) -> Recount {
    let mut recount = Recount::of(outcome, |sums, TableItem { item, .. }| count(sums, item));
    outcome.items.iter().for_each(|stored| mirror(&stored.item, &mut recount));
    recount
}

fn count(sums: &mut RollupSums<'_>, item: &SdkItem) {
    let Some((kind, id)) = text_of(item, "PK").split_once('#') else { return };
    let one = |name| [(name, ExactNumber::one())];
    match kind {
        "UP" => {
            let day = ksuid_day(after(text_of(item, "SK"), "PHOTO#").unwrap_or_default());
            sums.add(of_user(id, "PHOTOS"), &one("photos"));
            sums.add(of_user(id, &format!("PHOTOS#{}", week(&day))), &one("photos"));
            sums.add(RollupKey::new(format!("PHOTOS#{day}"), "ROLLUP"), &one("photos"));
        }
        "PL" => sums.add(of_photo(id), &one("likes")),
        "PC" => sums.add(of_photo(id), &one("comments")),
        "FOLLOW" => {
            let follower = after(text_of(item, "SK"), "FOLLOW#").unwrap_or_default();
            sums.add(of_user(id, "FOLLOWS"), &one("followers"));
            sums.add(of_user(follower, "FOLLOWS"), &one("following"));
        }
        _ => {}
    }
}

fn mirror(item: &SdkItem, recount: &mut Recount) {
    let Some(user) = after(text_of(item, "PK"), "USER#") else { return };
    let place = format!("USER#{user}");
    let counts = [
        ("follower_count", "FOLLOWS", "followers"),
        ("following_count", "FOLLOWS", "following"),
        ("photo_count", "PHOTOS", "photos"),
    ];
    for (path, rollup, name) in counts {
        recount.mirror(&place, item, path, recount.sum(&of_user(user, rollup), name));
    }
}

fn of_user(user: &str, what: &str) -> RollupKey {
    RollupKey::new(format!("USER#{user}"), format!("ROLLUP#{what}"))
}

fn of_photo(photo: &str) -> RollupKey {
    RollupKey::new(format!("PHOTO#{photo}"), "ROLLUP")
}
