//! The types of a dataset's columns, as models write them: `decimal(10,2)`, `list<struct<sku:string>>`.

use std::fmt;
use std::sync::Arc;

use super::named::{NamedValue as _, named_values};

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
        /// All digits, 1 to 38.
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
    /// Any value, as JSON text.
    Json,
}

named_values! {
    /// The name of a column type, without its arguments.
    enum ColumnTypeName {
        String = "string" | "text" | "varchar",
        Int64 = "int64" | "int" | "integer" | "bigint" | "long",
        Decimal = "decimal" | "number" | "numeric",
        Double = "double" | "float",
        Boolean = "boolean" | "bool",
        Timestamp = "timestamp" | "datetime",
        Date = "date",
        Binary = "binary" | "bytes",
        Json = "json" | "any",
        List = "list" | "array",
        Map = "map",
        Struct = "struct" | "object",
    }
}

impl ColumnTypeName {
    /// How its arguments are written.
    fn arguments(self) -> &'static str {
        match self {
            Self::String | Self::Int64 | Self::Double | Self::Boolean | Self::Timestamp => "",
            Self::Date | Self::Binary | Self::Json => "",
            Self::Decimal => "(p,s)",
            Self::List | Self::Map => "<…>",
            Self::Struct => "<name:…>",
        }
    }
}

impl ColumnType {
    fn type_name(&self) -> ColumnTypeName {
        match self {
            Self::String => ColumnTypeName::String,
            Self::Int64 => ColumnTypeName::Int64,
            Self::Double => ColumnTypeName::Double,
            Self::Decimal { .. } => ColumnTypeName::Decimal,
            Self::Boolean => ColumnTypeName::Boolean,
            Self::Timestamp => ColumnTypeName::Timestamp,
            Self::Date => ColumnTypeName::Date,
            Self::Binary => ColumnTypeName::Binary,
            Self::List(_) => ColumnTypeName::List,
            Self::Map(_) => ColumnTypeName::Map,
            Self::Struct(_) => ColumnTypeName::Struct,
            Self::Json => ColumnTypeName::Json,
        }
    }

    /// Whether files can be sorted by it: it is one value.
    pub(super) fn is_sortable(&self) -> bool {
        match self {
            Self::List(_) | Self::Map(_) | Self::Struct(_) => false,
            Self::String | Self::Int64 | Self::Double | Self::Decimal { .. } | Self::Boolean => true,
            Self::Timestamp | Self::Date | Self::Binary | Self::Json => true,
        }
    }

    /// All types in the form that a model writes: "`string`, …, `decimal(p,s)`".
    pub(super) fn forms() -> String {
        let names = ColumnTypeName::NAMES.iter().filter_map(|name| ColumnTypeName::of_name(name));
        let forms: Vec<String> = names.map(|name| format!("`{}{}`", name.name(), name.arguments())).collect();
        forms.join(", ")
    }

    /// The end of a message about a type that does not exist: the name that was probably meant.
    pub(super) fn meant(text: &str) -> String {
        super::named::meant::<ColumnTypeName>(text.split(['(', '<']).next().unwrap_or_default().trim())
    }

    /// Parses the form that [`fmt::Display`] writes; white space between the parts is allowed. Types are nested at most 32 deep,
    /// as attributes are.
    ///
    /// ```
    /// use afterwrite::table::ColumnType;
    /// let lines = "list<struct<sku:string,price:decimal(10,2)>>";
    /// assert_eq!(ColumnType::parse(lines).map(|parsed| parsed.to_string()).as_deref(), Some(lines));
    /// assert_eq!(ColumnType::parse("decimal(39,2)"), None);
    /// assert_eq!(ColumnType::parse("struct<unitPrice:int64,unitprice:int64>"), None);
    /// assert_eq!(ColumnType::parse(&format!("{}string{}", "list<".repeat(40), ">".repeat(40))), None);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_within(text, DEEPEST)
    }

    fn parse_within(text: &str, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let text = text.trim();
        let (name, arguments) = text.split_at(text.find(['(', '<']).unwrap_or(text.len()));
        let inside = |opening: char, closing: char| arguments.strip_prefix(opening)?.strip_suffix(closing);
        let nested = |text| Some(Box::new(Self::parse_within(text, depth)?));
        let plain = |column_type| arguments.is_empty().then_some(column_type);
        match ColumnTypeName::of_name(name)? {
            ColumnTypeName::String => plain(Self::String),
            ColumnTypeName::Int64 => plain(Self::Int64),
            ColumnTypeName::Double => plain(Self::Double),
            ColumnTypeName::Boolean => plain(Self::Boolean),
            ColumnTypeName::Timestamp => plain(Self::Timestamp),
            ColumnTypeName::Date => plain(Self::Date),
            ColumnTypeName::Binary => plain(Self::Binary),
            ColumnTypeName::Json => plain(Self::Json),
            ColumnTypeName::Decimal => {
                let (precision, scale) = inside('(', ')')?.split_once(',')?;
                let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
                let is_decimal =
                    (1..=38).contains(&precision) && u8::try_from(scale).is_ok_and(|s| s <= precision);
                is_decimal.then_some(Self::Decimal { precision, scale })
            }
            ColumnTypeName::List => Some(Self::List(nested(inside('<', '>')?)?)),
            ColumnTypeName::Map => Some(Self::Map(nested(inside('<', '>')?)?)),
            ColumnTypeName::Struct => {
                let members = members(inside('<', '>')?)?.into_iter();
                let members =
                    members.map(|(name, member)| Some((Arc::from(name), Self::parse_within(member, depth)?)));
                Some(Self::Struct(members.collect::<Option<_>>()?))
            }
        }
    }
}

/// Cuts `name:type,name:type` where no bracket is open; `None` if a name is not a member's, or is there twice in any case.
fn members(text: &str) -> Option<Vec<(&str, &str)>> {
    let (mut members, mut depth, mut begun): (Vec<(&str, &str)>, i32, usize) = (Vec::new(), 0, 0);
    let ends = text.char_indices().filter(|(_, character)| {
        depth += match character {
            '<' | '(' => 1,
            '>' | ')' => -1,
            _ => 0,
        };
        *character == ',' && depth == 0
    });
    let ends: Vec<usize> = ends.map(|(at, _)| at).chain([text.len()]).collect();
    for end in ends {
        let (name, member) = text.get(begun..end)?.split_once(':')?;
        let name = name.trim();
        if !is_member_name(name) || members.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return None;
        }
        members.push((name, member));
        begun = end + 1;
    }
    Some(members)
}

/// A member has the name of the map's member. Athena's names have no case, so files have it in lower case.
fn is_member_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic()) && is_column_name(&name.to_ascii_lowercase())
}

/// Athena takes lower-case names of letters, digits and `_`; those that begin with `_` are our own.
pub(super) fn is_column_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|character| matches!(character, 'a'..='z' | '0'..='9' | '_'))
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name().name())?;
        match self {
            Self::Decimal { precision, scale } => write!(f, "({precision},{scale})"),
            Self::List(element) | Self::Map(element) => write!(f, "<{element}>"),
            Self::Struct(members) => {
                let members = members.iter().map(|(name, member)| format!("{name}:{member}"));
                write!(f, "<{}>", members.collect::<Vec<_>>().join(","))
            }
            Self::String | Self::Int64 | Self::Double | Self::Boolean | Self::Timestamp => Ok(()),
            Self::Date | Self::Binary | Self::Json => Ok(()),
        }
    }
}
