//! Where a change stands in its table's stream.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use crate::{Error, ErrorKind, Result};

/// DynamoDB's sequence numbers have 21 to 40 digits; all are padded to the longest, so that they compare as text.
const DIGITS: usize = 40;

/// The place of a change in the order of *its own item's* changes: `<stream label>#<sequence number, 40 digits>`.
///
/// The label is the time of the stream's creation, from its ARN: sequence numbers start anew with a re-created stream.
/// DynamoDB promises order for each item only, so positions of different items must never be compared.
///
/// ```
/// use afterwrite::record::Position;
/// let earlier = Position::new("2026-02-06T10:00:00.000", "99")?;
/// let later = Position::new("2026-02-06T10:00:00.000", "100")?;
/// assert!(earlier < later);
/// assert_eq!(later.to_string(), "2026-02-06T10:00:00.000#0000000000000000000000000000000000000100");
/// assert_eq!(Position::parse(&later.to_string())?, later);
/// # Ok::<(), afterwrite::Error>(())
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

    /// Reads what [`fmt::Display`] wrote.
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

    /// The sequence number, as it was given.
    #[must_use]
    pub fn sequence_number(&self) -> &str {
        &self.sequence_number
    }

    /// The same position, owning its text.
    #[must_use]
    pub fn into_owned(self) -> Position<'static> {
        Position {
            label: Cow::Owned(self.label.into_owned()),
            sequence_number: Cow::Owned(self.sequence_number.into_owned()),
        }
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

impl fmt::Display for Position<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{:0>width$}", self.label, self.sequence_number, width = DIGITS)
    }
}
