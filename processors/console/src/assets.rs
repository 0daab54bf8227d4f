//! The files of the pages: the style, two scripts and an icon. Nothing is loaded from elsewhere.

use std::sync::LazyLock;

use afterwrite_model::hex;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};

use crate::query::{PageQuery, address};

/// The files: name, media type and contents. `htmx.min.js` is htmx 2.0.11, unchanged; its licence is beside it.
const FILES: [(&str, &str, &str); 4] = [
    ("console.css", "text/css; charset=utf-8", include_str!("../assets/console.css")),
    ("console.js", "text/javascript; charset=utf-8", include_str!("../assets/console.js")),
    ("htmx.min.js", "text/javascript; charset=utf-8", include_str!("../assets/htmx.min.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];
/// The parameter with the digest of a file, so that its address has these contents for ever.
const DIGEST: &str = "v";
const FOR_EVER: &str = "max-age=31536000, immutable";

/// The digests of the files, in their order.
static DIGESTS: LazyLock<[String; 4]> = LazyLock::new(|| FILES.map(|(_, _, contents)| digest(contents)));

fn digest(contents: &str) -> String {
    hex(&Sha256::digest(contents), 8)
}

/// The file of this name, with its digest.
fn file(name: &str) -> Option<(&'static (&'static str, &'static str, &'static str), &'static str)> {
    let mut known = FILES.iter().zip(DIGESTS.iter().map(String::as_str));
    known.find(|((known, ..), _)| *known == name)
}

/// The address of a file.
pub(crate) fn asset_address(name: &str) -> String {
    address(&format!("/assets/{name}"), file(name).map(|(_, digest)| (DIGEST, digest)))
}

/// A file.
pub(crate) async fn asset(Path(name): Path<String>, query: PageQuery) -> Response {
    let Some(((_, media_type, contents), digest)) = file(&name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let kept = if query.get(DIGEST) == Some(digest) { FOR_EVER } else { "no-cache" };
    ([(header::CONTENT_TYPE, *media_type), (header::CACHE_CONTROL, kept)], *contents).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn htmx_is_the_published_file() {
        let digest = Sha256::digest(include_bytes!("../assets/htmx.min.js"));
        assert_eq!(hex(&digest, 32), "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717");
    }

    #[tokio::test]
    async fn an_address_with_the_digest_of_a_file_is_kept_for_ever() {
        assert!(asset_address("htmx.min.js").starts_with("/assets/htmx.min.js?v=d6fdc75f204e6bde"));
        for (query, kept) in [("v=d6fdc75f204e6bde", FOR_EVER), ("v=0", "no-cache"), ("", "no-cache")] {
            let answer = asset(Path("htmx.min.js".to_owned()), PageQuery::parse(query)).await;
            assert_eq!(answer.headers()[header::CACHE_CONTROL], kept);
        }
        let absent = asset(Path("../Cargo.toml".to_owned()), PageQuery::default()).await;
        assert_eq!(absent.status(), StatusCode::NOT_FOUND);
    }
}
