//! The position of a change in its table's stream.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::{Error, ErrorKind, Result};

/// DynamoDB's sequence numbers have 21 to 40 digits; they are padded to 40, so that they compare as text.
const DIGITS: usize = 40;

/// The position of a change in the order of *its item's* changes: `<stream label>#<sequence number, 40 digits>`.
///
/// The label is the stream's creation time in its ARN, because the sequence numbers of a re-created stream start again.
/// DynamoDB guarantees order per item only, so positions of different items must not be compared.
///
/// ```
/// use afterwrite_model::record::Position;
/// let earlier = Position::new("2026-02-06T10:00:00.000", "99")?;
/// let later = Position::new("2026-02-06T10:00:00.000", "100")?;
/// assert!(earlier < later);
/// assert_eq!(later.to_string(), "2026-02-06T10:00:00.000#0000000000000000000000000000000000000100");
/// assert_eq!(Position::parse(&later.to_string())?, later);
/// # Ok::<(), afterwrite_model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Position<'a> {
    label: Cow<'a, str>,
    sequence_number: Cow<'a, str>,
}

impl<'a> Position<'a> {
    /// The position of the record `sequence_number` in the stream with this label.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if the sequence number is not 1 to 40 decimal digits.
    pub fn new(label: impl Into<Cow<'a, str>>, sequence_number: impl Into<Cow<'a, str>>) -> Result<Self> {
        let sequence_number = sequence_number.into();
        let is_number = (1..=DIGITS).contains(&sequence_number.len())
            && sequence_number.bytes().fold(true, |all, byte| all & byte.is_ascii_digit());
        if !is_number {
            return Err(Error::new(ErrorKind::Record, "a sequence number must be 1 to 40 digits"));
        }
        Ok(Self { label: label.into(), sequence_number })
    }

    /// The position before every record of the stream with this label.
    pub fn start_of(label: impl Into<Cow<'a, str>>) -> Self {
        Self { label: label.into(), sequence_number: Cow::Borrowed("0") }
    }

    /// Parses the text of [`Position::to_text`].
    ///
    /// # Errors
    /// [`ErrorKind::State`] if the text is not a position.
    pub fn parse(text: &str) -> Result<Position<'static>> {
        text.rsplit_once('#')
            .and_then(|(label, number)| Position::new(label.to_owned(), number.to_owned()).ok())
            .ok_or_else(|| {
                Error::new(ErrorKind::State, "a stored position must be <stream label>#<40 digits>")
            })
    }

    /// The stream's label.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The sequence number as delivered, without padding.
    #[must_use]
    pub fn sequence_number(&self) -> &str {
        &self.sequence_number
    }

    /// Whether this is [`Position::start_of`] its stream.
    #[must_use]
    pub fn is_start(&self) -> bool {
        self.significant_digits().is_empty()
    }

    /// The same position, owning its text.
    #[must_use]
    pub fn into_owned(self) -> Position<'static> {
        Position {
            label: Cow::Owned(self.label.into_owned()),
            sequence_number: Cow::Owned(self.sequence_number.into_owned()),
        }
    }

    /// The text to store, with a sequence number of 40 digits. Built in one allocation, because every entry stores it.
    #[must_use]
    pub fn to_text(&self) -> String {
        [&*self.label, "#", self.padding(), &*self.sequence_number].concat()
    }

    fn padding(&self) -> &'static str {
        const ZEROS: &str = "0000000000000000000000000000000000000000";
        ZEROS.get(self.sequence_number.len()..).unwrap_or_default()
    }

    fn significant_digits(&self) -> &str {
        self.sequence_number.trim_start_matches('0')
    }
}

impl Ord for Position<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mine, theirs) = (self.significant_digits(), other.significant_digits());
        self.label.cmp(&other.label).then(mine.len().cmp(&theirs.len())).then_with(|| mine.cmp(theirs))
    }
}

impl PartialOrd for Position<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Position<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Position<'_> {}

/// Hashes what equality compares: the label and the significant digits.
impl Hash for Position<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&*self.label, self.significant_digits()).hash(state);
    }
}

impl fmt::Display for Position<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LABEL: &str = "2026-02-06T10:00:00.000";

    #[test]
    fn the_text_has_40_digits_and_parses_back() {
        let position = Position::new(LABEL, "4421584500000000059450445319").unwrap();
        let text = position.to_string();
        assert_eq!(text, format!("{LABEL}#0000000000004421584500000000059450445319"));
        assert_eq!(position.to_text(), text);
        let stored = Position::parse(&text).unwrap();
        assert_eq!(stored, position);
        assert_eq!(stored.to_string(), text);
        assert_eq!((stored.label(), position.sequence_number()), (LABEL, "4421584500000000059450445319"));
        assert_eq!(position.into_owned(), stored);
    }

    #[test]
    fn the_start_of_a_stream_is_before_every_record() {
        let start = Position::start_of(LABEL);
        assert_eq!(start.to_string(), format!("{LABEL}#{}", "0".repeat(40)));
        assert!(start < Position::new(LABEL, "1").unwrap());
        assert!(
            Position::new(LABEL, "9".repeat(40)).unwrap() < Position::start_of("2026-02-06T10:00:00.001")
        );
    }

    #[test]
    fn leading_zeros_are_ignored() {
        assert_eq!(Position::new(LABEL, "007").unwrap(), Position::new(LABEL, "7").unwrap());
        assert_eq!(Position::new(LABEL, "007").unwrap().sequence_number(), "007");
    }

    #[test]
    fn an_invalid_sequence_number_is_rejected() {
        for number in ["", " 1", "-1", "+1", "1.0", "1e3", "0x1", "١", &"1".repeat(41)] {
            let error = Position::new(LABEL, number).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Record, "{number:?}");
        }
    }

    #[test]
    fn an_invalid_stored_position_is_rejected() {
        for text in ["", "#", LABEL, "2026-02-06T10:00:00.000#", "2026-02-06T10:00:00.000#x", "1#2#"] {
            assert_eq!(Position::parse(text).unwrap_err().kind(), ErrorKind::State, "{text:?}");
        }
    }

    proptest! {
        /// Conditions compare stored positions as text, so the order of the texts must be the order of the positions.
        #[test]
        fn positions_and_their_texts_have_the_same_order(
            labels in prop::array::uniform2("20(25|26)-0[1-3]-0[1-3]T1[0-2]:00:0[0-2]\\.00[0-2]"),
            numbers in prop::array::uniform2("[0-9]{1,40}|0{0,3}[1-3]{1,2}"),
        ) {
            let [a, b] = [(&labels[0], &numbers[0]), (&labels[1], &numbers[1])]
                .map(|(label, number)| Position::new(label.as_str(), number.as_str()).unwrap());
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
            prop_assert_eq!(Position::parse(&a.to_string()).unwrap(), a.clone());
            let same_stream = Position::new(labels[0].as_str(), numbers[1].as_str()).unwrap();
            prop_assert_eq!(a.cmp(&same_stream), a.to_string().cmp(&same_stream.to_string()));
        }
    }
}
