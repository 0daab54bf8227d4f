//! The files of the pages: the style, two scripts and an icon. Nothing is loaded from elsewhere.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// The files: name, media type and contents. `htmx.min.js` is htmx 2.0.11, unchanged; its licence is beside it.
const FILES: [(&str, &str, &str); 4] = [
    ("console.css", "text/css; charset=utf-8", include_str!("../assets/console.css")),
    ("console.js", "text/javascript; charset=utf-8", include_str!("../assets/console.js")),
    ("htmx.min.js", "text/javascript; charset=utf-8", include_str!("../assets/htmx.min.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

/// A file.
pub(crate) async fn asset(Path(name): Path<String>) -> Response {
    let file = FILES.iter().find(|(known, _, _)| *known == name);
    file.map_or_else(
        || StatusCode::NOT_FOUND.into_response(),
        |(_, media_type, contents)| {
            ([(header::CONTENT_TYPE, *media_type), (header::CACHE_CONTROL, "max-age=3600")], *contents)
                .into_response()
        },
    )
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    #[test]
    fn htmx_is_the_published_file() {
        let digest = Sha256::digest(include_bytes!("../assets/htmx.min.js"));
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717");
    }
}
