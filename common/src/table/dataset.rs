//! Datasets: the rows that analysts ask, one for each change of an item.

use std::fmt;
use std::sync::Arc;

use super::{LookupUse, Term, ValueFormat};

/// The partition of a row whose item has no day, or one out of the dataset's range.
pub const NO_DAY: &str = "0001-01-01";

/// The rows of one entity's changes, and the table that analysts know them as.
#[derive(Debug)]
pub struct Dataset {
    /// Its name: lower case, as SQL knows it.
    pub name: Arc<str>,
    /// The entity: an index into [`super::Model::entities`].
    pub of: usize,
    /// What tells the day of a row's partition.
    pub partition: (Term, ValueFormat),
    /// The same, as the model writes it.
    pub partition_source: Arc<str>,
    /// The first and the last day that have partitions of their own, `yyyy-mm-dd`. All others are [`NO_DAY`]'s.
    pub days: (Arc<str>, Arc<str>),
    /// Lookups whose outputs are columns; only what is remembered of them is read. [`Term::LookupOutput`] indexes them.
    pub lookups: Vec<LookupUse>,
    /// What a row holds beside `_position`, `_operation`, `_changed_at`, `_rescued` and `_generation`.
    pub columns: Vec<Column>,
    /// Which columns are the item's key: indexes into [`Dataset::columns`], aligned with [`super::Entity::variables`].
    pub key: Vec<usize>,
    /// By which columns a compacted file is sorted, before the key: indexes into [`Dataset::columns`].
    pub sort: Vec<usize>,
    /// Which rows of an item compaction keeps.
    pub history: RowHistory,
}

impl Dataset {
    /// Whether a day has a partition of its own.
    #[must_use]
    pub fn has_day(&self, day: &str) -> bool {
        // Days of four-figure years compare as text.
        day.len() == NO_DAY.len() && (&*self.days.0..=&*self.days.1).contains(&day)
    }
}

/// Which rows of an item compaction keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowHistory {
    /// Every one.
    #[default]
    All,
    /// Of each item the newest, and others where it costs nothing to tell.
    Newest,
}

/// A column of a dataset.
#[derive(Debug)]
pub struct Column {
    /// Its name: lower case.
    pub name: Arc<str>,
    /// What it holds.
    pub column_type: ColumnType,
    /// Where its values come from.
    pub from: Term,
    /// The same, as the model writes it.
    pub source: Arc<str>,
    /// An item without it is told of in `_rescued`, as one with a value that does not fit.
    pub required: bool,
}

/// How deep types lie within one another at most: as deep as an attribute's own.
const DEEPEST: usize = 32;

/// The type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// An `S`.
    String,
    /// A whole `N` of 64 bits.
    Int64,
    /// An `N`, rounded to a float.
    Double,
    /// An `N` that has at most this precision and scale: it is never rounded.
    Decimal {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits after the point, at most the precision.
        scale: i8,
    },
    /// A `BOOL`.
    Boolean,
    /// A time, to the millisecond: text in RFC 3339, a date, an hour, or epoch seconds.
    Timestamp,
    /// The UTC day of a time.
    Date,
    /// A `B`.
    Binary,
    /// An `L` or a set.
    List(Box<ColumnType>),
    /// An `M` whose values are of one type.
    Map(Box<ColumnType>),
    /// An `M` of known members; others are left out.
    Struct(Vec<(Arc<str>, ColumnType)>),
    /// Whatever there is, as JSON text.
    Json,
}

impl ColumnType {
    const PLAIN: [(&'static str, Self); 8] = [
        ("string", Self::String),
        ("int64", Self::Int64),
        ("double", Self::Double),
        ("boolean", Self::Boolean),
        ("timestamp", Self::Timestamp),
        ("date", Self::Date),
        ("binary", Self::Binary),
        ("json", Self::Json),
    ];

    /// Reads what [`fmt::Display`] writes; white space between the parts is allowed. Types lie within one another as attributes do:
    /// at most 32 deep.
    ///
    /// ```
    /// use afterwrite::table::ColumnType;
    /// let lines = "list<struct<sku:string,price:decimal(10,2)>>";
    /// assert_eq!(ColumnType::parse(lines).map(|parsed| parsed.to_string()).as_deref(), Some(lines));
    /// assert_eq!(ColumnType::parse("decimal(39,2)"), None);
    /// assert_eq!(ColumnType::parse(&format!("{}string{}", "list<".repeat(40), ">".repeat(40))), None);
    /// ```
    #[must_use]
    pub fn parse(written: &str) -> Option<Self> {
        Self::parse_within(written, DEEPEST)
    }

    fn parse_within(written: &str, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let written = written.trim();
        if let Some((_, plain)) = Self::PLAIN.iter().find(|(name, _)| *name == written) {
            return Some(plain.clone());
        }
        let inside = |opening: &str, closing: &str| written.strip_prefix(opening)?.strip_suffix(closing);
        if let Some(digits) = inside("decimal(", ")") {
            let (precision, scale) = digits.split_once(',')?;
            let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
            let is_decimal =
                (1..=38).contains(&precision) && u8::try_from(scale).is_ok_and(|s| s <= precision);
            return is_decimal.then_some(Self::Decimal { precision, scale });
        }
        if let Some(element) = inside("list<", ">") {
            return Some(Self::List(Box::new(Self::parse_within(element, depth)?)));
        }
        if let Some(value) = inside("map<", ">") {
            return Some(Self::Map(Box::new(Self::parse_within(value, depth)?)));
        }
        let members = members(inside("struct<", ">")?)?.into_iter();
        let members =
            members.map(|(name, member)| Some((Arc::from(name), Self::parse_within(member, depth)?)));
        Some(Self::Struct(members.collect::<Option<_>>()?))
    }
}

/// Cuts `name:type,name:type` where no bracket is open; `None` if a name is none, or given twice.
fn members(written: &str) -> Option<Vec<(&str, &str)>> {
    let (mut members, mut depth, mut begun): (Vec<(&str, &str)>, i32, usize) = (Vec::new(), 0, 0);
    let ends = written.char_indices().filter(|(_, character)| {
        depth += match character {
            '<' | '(' => 1,
            '>' | ')' => -1,
            _ => 0,
        };
        *character == ',' && depth == 0
    });
    let ends: Vec<usize> = ends.map(|(at, _)| at).chain([written.len()]).collect();
    for end in ends {
        let (name, member) = written.get(begun..end)?.split_once(':')?;
        let name = name.trim();
        if !is_column_name(name) || members.iter().any(|(other, _)| *other == name) {
            return None;
        }
        members.push((name, member));
        begun = end + 1;
    }
    Some(members)
}

/// Athena knows lower-case names of letters, digits and `_`; those that begin with `_` are our own.
pub(super) fn is_column_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|character| matches!(character, 'a'..='z' | '0'..='9' | '_'))
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = Self::PLAIN.iter().find(|(_, plain)| plain == self) {
            return f.write_str(name);
        }
        match self {
            Self::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            Self::List(element) => write!(f, "list<{element}>"),
            Self::Map(value) => write!(f, "map<{value}>"),
            Self::Struct(members) => {
                f.write_str("struct<")?;
                for (place, (name, member)) in members.iter().enumerate() {
                    write!(f, "{}{name}:{member}", if place == 0 { "" } else { "," })?;
                }
                f.write_str(">")
            }
            Self::String
            | Self::Int64
            | Self::Double
            | Self::Boolean
            | Self::Timestamp
            | Self::Date
            | Self::Binary
            | Self::Json => Ok(()),
        }
    }
}

/// A question that is asked often, kept with the model.
#[derive(Debug)]
pub struct SavedQuery {
    /// Its name.
    pub name: Arc<str>,
    /// What it answers, in a sentence.
    pub about: Arc<str>,
    /// One `SELECT` in Athena's SQL, over the datasets' views.
    pub sql: Arc<str>,
}
