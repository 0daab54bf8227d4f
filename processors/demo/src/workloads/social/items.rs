//! The items of the network: users, photos, comments, likes, and who follows whom.

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::json;

use crate::item::{SdkItem, with};
use crate::workloads::tools::{instant, key, ksuid, one_of};

/// The table's name, as the model knows it.
pub(super) const TABLE: &str = "SocialTable";

const WORDS: [&str; 6] = ["Lovely!", "Où est-ce?", "綺麗", "So \"green\"", "Is that a heron?", "👏"];

/// A photo that a user posts in some round.
#[derive(Clone, Debug, Default)]
pub(super) struct NetworkPhoto {
    pub(super) id: String,
    pub(super) owner: String,
    pub(super) posted_at: Timestamp,
    pub(super) round: usize,
}

impl NetworkPhoto {
    pub(super) fn new(random: &mut Rng, owner: &str, posted_at: Timestamp, round: usize) -> Self {
        Self { id: ksuid(random, posted_at), owner: owner.to_owned(), posted_at, round }
    }

    pub(super) fn key(&self) -> SdkItem {
        key(&format!("UP#{}", self.owner), &format!("PHOTO#{}", self.id))
    }

    pub(super) fn item(&self) -> SdkItem {
        let attributes = json!({
            "username": self.owner, "photoId": self.id, "created_at": instant(self.posted_at),
            "url": format!("https://photos.example.com/{}.jpg", self.id),
        });
        with(self.key(), attributes)
    }
}

pub(super) fn user_key(name: &str) -> SdkItem {
    let both = format!("USER#{name}");
    key(&both, &both)
}

pub(super) fn user(name: &str) -> SdkItem {
    with(user_key(name), json!({ "username": name, "name": "Ana \"Ñ\" Kovač" }))
}

pub(super) fn like_key(photo: &NetworkPhoto, user: &str) -> SdkItem {
    key(&format!("PL#{}", photo.id), &format!("LIKE#{user}"))
}

pub(super) fn like(random: &mut Rng, photo: &NetworkPhoto, user: &str, at: Timestamp) -> SdkItem {
    let id = ksuid(random, at);
    let attributes = json!({
        "likingUsername": user, "photoId": photo.id, "likeId": id,
        "GSI1PK": format!("PL#{}", photo.id), "GSI1SK": format!("LIKE#{id}"),
    });
    with(like_key(photo, user), attributes)
}

pub(super) fn comment(random: &mut Rng, photo: &NetworkPhoto, user: &str, at: Timestamp) -> SdkItem {
    let id = ksuid(random, at);
    let attributes = json!({
        "commenting_username": user, "photoId": photo.id, "commentId": id,
        "content": one_of(random, &WORDS), "created_at": instant(at),
    });
    with(key(&format!("PC#{}", photo.id), &format!("COMMENT#{id}")), attributes)
}

pub(super) fn follow_key(followed: &str, follower: &str) -> SdkItem {
    key(&format!("FOLLOW#{followed}"), &format!("FOLLOW#{follower}"))
}

pub(super) fn follow(followed: &str, follower: &str, at: Timestamp) -> SdkItem {
    let attributes = json!({
        "followedUsername": followed, "followingUsername": follower, "created_at": instant(at),
        "GSI1PK": format!("FOLLOW#{follower}"), "GSI1SK": format!("FOLLOW#{followed}"),
    });
    with(follow_key(followed, follower), attributes)
}
