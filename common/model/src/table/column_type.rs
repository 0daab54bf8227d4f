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
    /// The UTC day of a time; of a bucket in a key, the first day by the calendar of the bucket's zone.
    Date,
    /// A `B`.
    Binary,
    /// An `L` or a set.
    List(Box<ColumnType>),
    /// An `M` whose values are of one type.
    Map(Box<ColumnType>),
    /// An `M` of known members; unknown members are left out.
    Struct(Vec<(Arc<str>, ColumnType)>),
    /// Any value, as JSON text.
    Json,
}

named_values! {
    /// The name of a column type, without its arguments.
    enum ColumnTypeName {
        String = "string" | "text" | "varchar" | "char",
        Int64 = "int64" | "int" | "integer" | "bigint" | "long" | "smallint" | "tinyint",
        Decimal = "decimal" | "number" | "numeric",
        Double = "double" | "float" | "real",
        Boolean = "boolean" | "bool",
        Timestamp = "timestamp" | "datetime",
        Date = "date",
        Binary = "binary" | "bytes",
        Json = "json" | "any",
        List = "list" | "array",
        Map = "map",
        Struct = "struct" | "object" | "row",
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

impl ColumnTypeName {
    /// How a type of this kind is written.
    fn rule(self) -> &'static str {
        match self {
            Self::String
            | Self::Int64
            | Self::Double
            | Self::Boolean
            | Self::Timestamp
            | Self::Date
            | Self::Binary
            | Self::Json => "this type has no arguments",
            Self::Decimal => "write `decimal(p,s)`: p is from 1 to 38 digits, s of them after the point",
            Self::List => "write `list<type>`, such as `list<string>`",
            Self::Map => "write `map<type>` or `map<string,type>`: the keys of a map are texts",
            Self::Struct => {
                "write `struct<name:type,…>`, such as `struct<sku:string,price:int64>`; a name has letters, digits and `_`, begins with no digit, and is there once in any case"
            }
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

    /// The end of a message about a type that does not exist: the type that was probably meant, or the form that its kind has.
    pub(super) fn meant(text: &str) -> String {
        if let Some(meant) = Self::parse_within(text, DEEPEST, understood) {
            return format!("; did you mean `{meant}`?");
        }
        let name = text.split(['(', '<']).next().unwrap_or_default().trim();
        match ColumnTypeName::of_name(name) {
            Some(kind) => format!("; {}", kind.rule()),
            None => super::named::meant::<ColumnTypeName>(name),
        }
    }

    /// Parses the form that [`fmt::Display`] writes, and three forms of Athena: `map<string,…>`, `decimal(p)` and members in backticks. White
    /// space between the parts is allowed. Types are nested at most 32 deep, as attributes are.
    ///
    /// ```
    /// use afterwrite_model::table::ColumnType;
    /// let lines = "list<struct<sku:string,price:decimal(10,2)>>";
    /// assert_eq!(ColumnType::parse(lines).map(|parsed| parsed.to_string()).as_deref(), Some(lines));
    /// assert_eq!(ColumnType::parse("map<string,decimal(10)>"), ColumnType::parse("map<decimal(10,0)>"));
    /// assert_eq!(ColumnType::parse("decimal(39,2)"), None);
    /// assert_eq!(ColumnType::parse("struct<unitPrice:int64,unitprice:int64>"), None);
    /// assert_eq!(ColumnType::parse(&format!("{}string{}", "list<".repeat(40), ">".repeat(40))), None);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_within(text, DEEPEST, ColumnTypeName::of_name)
    }

    /// A decimal of these digits: `10,2`, or `10` for whole numbers.
    fn decimal(digits: &str) -> Option<Self> {
        let (precision, scale) = digits.split_once(',').unwrap_or((digits, "0"));
        let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
        let is_decimal =
            (1..=38).contains(&precision) && u8::try_from(scale).is_ok_and(|scale| scale <= precision);
        is_decimal.then_some(Self::Decimal { precision, scale })
    }

    /// `name_of` knows the names of types.
    fn parse_within(text: &str, depth: usize, name_of: fn(&str) -> Option<ColumnTypeName>) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let text = text.trim();
        let (name, arguments) = text.split_at(text.find(['(', '<']).unwrap_or(text.len()));
        let inside = |opening: char, closing: char| arguments.strip_prefix(opening)?.strip_suffix(closing);
        let nested = |text| Some(Box::new(Self::parse_within(text, depth, name_of)?));
        let plain = |column_type| arguments.is_empty().then_some(column_type);
        match name_of(name.trim())? {
            ColumnTypeName::String => plain(Self::String),
            ColumnTypeName::Int64 => plain(Self::Int64),
            ColumnTypeName::Double => plain(Self::Double),
            ColumnTypeName::Boolean => plain(Self::Boolean),
            ColumnTypeName::Timestamp => plain(Self::Timestamp),
            ColumnTypeName::Date => plain(Self::Date),
            ColumnTypeName::Binary => plain(Self::Binary),
            ColumnTypeName::Json => plain(Self::Json),
            ColumnTypeName::Decimal => Self::decimal(inside('(', ')')?),
            ColumnTypeName::List => Some(Self::List(nested(inside('<', '>')?)?)),
            ColumnTypeName::Map => {
                let inside = inside('<', '>')?;
                let value = match top_level_parts(inside)?.as_slice() {
                    [value] => *value,
                    // The keys of a map are always texts.
                    [key, value] if name_of(key.trim()) == Some(ColumnTypeName::String) => *value,
                    _ => return None,
                };
                Some(Self::Map(nested(value)?))
            }
            ColumnTypeName::Struct => {
                let members = members(inside('<', '>')?)?.into_iter();
                let members = members.map(|(name, member)| {
                    Some((Arc::from(name), Self::parse_within(member, depth, name_of)?))
                });
                Some(Self::Struct(members.collect::<Option<_>>()?))
            }
        }
    }
}

/// The type of a name, or of another word for it, in any case.
fn understood(name: &str) -> Option<ColumnTypeName> {
    let name = name.to_lowercase();
    let aliases = ColumnTypeName::ALIASES.iter().filter(|(alias, _)| *alias == name);
    ColumnTypeName::of_name(&name)
        .or_else(|| aliases.into_iter().find_map(|(_, name)| ColumnTypeName::of_name(name)))
}

/// Cuts a text at the commas where no bracket is open; `None` if brackets do not match.
fn top_level_parts(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut depth, mut begun) = (Vec::new(), 0_u32, 0);
    for (at, character) in text.char_indices() {
        match character {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(text.get(begun..at)?);
                begun = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(begun..)?);
    (depth == 0).then_some(parts)
}

/// Cuts `name:type,name:type`; `None` if a name is not a member's, or is there twice in any case.
fn members(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut members: Vec<(&str, &str)> = Vec::new();
    for part in top_level_parts(text)? {
        let (name, member) = part.split_once(':')?;
        let name = name.trim();
        // As Athena writes names that begin with `_`.
        let name = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')).unwrap_or(name);
        if !is_member_name(name) || members.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return None;
        }
        members.push((name, member));
    }
    Some(members)
}

/// A member has the name of the map's member. Athena's names have no case, so files have it in lower case.
fn is_member_name(name: &str) -> bool {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(is_word)
        && name.chars().any(|character| character != '_')
}

/// Athena takes lower-case names of letters, digits and `_`. Names that begin with `_` are Afterwrite's own columns.
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
