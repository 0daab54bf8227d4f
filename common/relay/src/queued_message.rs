//! A message of the queue between the relay and the invalidator, as the invalidator reads it.

use afterwrite_model::{Error, ErrorKind, Result};
use serde::Deserialize;

use super::event_messages::{self, EventMessageText};
use super::messages::{self, PathMessageText};
use super::notify::QueuedEvents;

/// The contents of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueuedMessage {
    /// Stale paths of the distribution.
    Paths(Vec<String>),
    /// Events that their targets did not take in time.
    Events(QueuedEvents),
}

/// Only the version, which decides how the rest is read.
#[derive(Deserialize)]
struct MessageVersion {
    version: u32,
}

impl QueuedMessage {
    /// Reads the message with this index in its batch.
    ///
    /// # Errors
    /// [`ErrorKind::Event`] if the text is not a message of a known version.
    pub fn parse(text: &str, index: usize) -> Result<Self> {
        let foreign = |message: &str| {
            Error::new(ErrorKind::Event, message).hint(
                "Only the function `relay` may send to this queue; deploy the same version of both functions",
            )
        };
        let unreadable = |_| foreign("the message does not hold stale paths or events");
        let MessageVersion { version } = serde_json::from_str(text).map_err(unreadable)?;
        match version {
            messages::VERSION => {
                let message: PathMessageText<'_> = serde_json::from_str(text).map_err(unreadable)?;
                let paths = message.into_paths();
                if paths.iter().any(|path| !path.starts_with('/')) {
                    return Err(foreign("the message holds a path that does not begin with `/`"));
                }
                Ok(Self::Paths(paths))
            }
            event_messages::VERSION => {
                let message: EventMessageText<'_> = serde_json::from_str(text).map_err(unreadable)?;
                Ok(Self::Events(QueuedEvents { events: message.into_events(index) }))
            }
            _ => Err(foreign("the message has another version").with("version", version.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_tells_paths_from_events() {
        let paths = QueuedMessage::parse(r#"{"version":1,"paths":["/a","/b/*"]}"#, 0).unwrap();
        assert_eq!(paths, QueuedMessage::Paths(vec!["/a".to_owned(), "/b/*".to_owned()]));
        let events = r#"{"version":2,"events":[{"id":"0c","name":"paid","group":"9f","body":{"a":1}}]}"#;
        let QueuedMessage::Events(events) = QueuedMessage::parse(events, 7).unwrap() else {
            panic!("events")
        };
        let [event] = events.events.try_into().unwrap();
        assert_eq!((event.index, event.to, event.body.as_str()), (7, None, r#"{"a":1}"#));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"version":3,"paths":["/a"]}"#,
            r#"{"version":1}"#,
            r#"{"version":1,"paths":"/a"}"#,
            r#"{"version":1,"paths":["a"]}"#,
            r#"{"version":1,"paths":["/a"],"more":1}"#,
            r#"{"version":2,"paths":["/a"]}"#,
            r#"{"version":2,"events":[{"id":"0c","name":"paid","body":{}}]}"#,
        ] {
            assert_eq!(QueuedMessage::parse(text, 0).unwrap_err().kind(), ErrorKind::Event, "{text}");
        }
        assert!(QueuedMessage::parse(r#"{"version":7}"#, 0).unwrap_err().to_string().contains("version"));
    }
}
