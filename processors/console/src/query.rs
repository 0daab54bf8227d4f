//! The query of a page's address, in which all of its filters live.

use std::collections::BTreeMap;

use afterwrite_model::harmless::harmless;
use afterwrite_model::{Error, ErrorKind};
use axum::extract::{FromRequest, FromRequestParts, RawQuery, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;

/// The parameters of an address, of which each has one value: the last. Empty values count as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageQuery(BTreeMap<String, String>);

impl PageQuery {
    /// Reads the query of an address, or a form's body.
    pub(crate) fn parse(encoded: &str) -> Self {
        let pairs = encoded.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        Self(decoded.filter(|(_, value)| !value.is_empty()).collect())
    }

    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether the page is asked for by a machine.
    pub(crate) fn asks_for_data(&self) -> bool {
        matches!(self.get("format"), Some("json" | "csv"))
    }

    /// The value of a parameter for a field of a form. A value with characters that a reader cannot see is left out: the field would not show
    /// the text that it sends.
    pub(crate) fn visible(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| harmless(value) == *value)
    }

    /// These parameters and another one.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut all = self.0.clone();
        all.insert(name.to_owned(), value.to_owned());
        Self(all)
    }

    /// The address of `path` with these parameters and others; a parameter without a value is left out.
    pub(crate) fn address<'p>(
        &self,
        path: &str,
        others: impl IntoIterator<Item = (&'p str, Option<&'p str>)>,
    ) -> String {
        let mut all = self.0.clone();
        for (name, value) in others {
            match value {
                Some(value) => all.insert(name.to_owned(), value.to_owned()),
                None => all.remove(name),
            };
        }
        address(path, all.iter().map(|(name, value)| (name.as_str(), value.as_str())))
    }
}

/// The error of a parameter with a key after which no page begins.
pub(crate) fn no_such_key(parameter: &str, message: &str) -> Error {
    Error::new(ErrorKind::Configuration, message)
        .with("parameter", parameter)
        .hint("Begin with the first page: leave the parameter out")
}

/// An address of this server with parameters, or with more parameters.
pub(crate) fn address<'p>(path: &str, parameters: impl IntoIterator<Item = (&'p str, &'p str)>) -> String {
    let pairs = parameters.into_iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    let query = pairs.collect::<Vec<_>>().join("&");
    let separator = if path.contains('?') { '&' } else { '?' };
    if query.is_empty() { path.to_owned() } else { format!("{path}{separator}{query}") }
}

impl<S: Send + Sync> FromRequestParts<S> for PageQuery {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let RawQuery(query) = RawQuery::from_request_parts(parts, state).await?;
        Ok(Self::parse(query.as_deref().unwrap_or_default()))
    }
}

/// The fields of a form. The guard has read the form before, and checked its token.
#[derive(Clone, Debug)]
pub(crate) struct PageForm(pub(crate) PageQuery);

impl<S: Send + Sync> FromRequest<S> for PageForm {
    type Rejection = StatusCode;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        let body = String::from_request(request, state).await.map_err(|_| StatusCode::BAD_REQUEST)?;
        Ok(Self(PageQuery::parse(&body)))
    }
}

/// A text as a part of a path or of a query.
pub(crate) fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn decoded(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_values_survive_an_address() {
        let value = "A#1&b=<script>\"'ü%2f+ x";
        let path = address("/item", [("pk", value)]);
        let query = PageQuery::parse(path.split_once('?').unwrap().1);
        assert_eq!(query.get("pk"), Some(value));
        assert_eq!(query.get("sk"), None);
        assert_eq!(query.address("/item", [("pk", Some("x")), ("sk", None)]), "/item?pk=x");
        assert_eq!(query.visible("pk"), Some(value));
        assert_eq!(PageQuery::parse("pk=a%E2%80%AEb").visible("pk"), None);
        assert_eq!(address("/item?pk=x", [("part", "1")]), "/item?pk=x&part=1");
        assert_eq!(PageQuery::parse("a=&b=1+2").get("a"), None);
        assert_eq!(PageQuery::parse("a=&b=1+2").get("b"), Some("1 2"));
    }
}
