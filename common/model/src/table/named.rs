//! Enums whose values have names in model files: one list of variant and name, from which parsing, display, the known names and "did you mean" come.

use super::load::problem::{ProblemCode, ProblemCollector};
use super::load::reader::{Located, SettingsTable};
use super::load::suggestion::{did_you_mean, joined};

/// An enum that [`named_values`] defines.
pub(super) trait NamedValue: Sized + 'static {
    /// The names of all values.
    const NAMES: &'static [&'static str];
    /// Other words by which people call a value, each with its name. They are only understood, not accepted.
    const ALIASES: &'static [(&'static str, &'static str)];

    /// The value of a name.
    fn of_name(name: &str) -> Option<Self>;
}

/// Defines an enum and the name of each of its values.
macro_rules! named_values {
    ($(#[$meta:meta])* $visibility:vis enum $type:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $name:literal $(| $alias:literal)*,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility enum $type {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $type {
            /// The name that model files use.
            #[must_use]
            $visibility fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl $crate::table::named::NamedValue for $type {
            const NAMES: &'static [&'static str] = &[$($name,)+];
            const ALIASES: &'static [(&'static str, &'static str)] = &[$($(($alias, $name),)*)+];

            fn of_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
}
pub(super) use named_values;

/// Reads a setting that holds the name of a value; another text is reported.
pub(super) fn read_named<T: NamedValue>(
    settings: &SettingsTable<'_>,
    name: &str,
    problems: &mut ProblemCollector<'_>,
) -> Option<T> {
    let written = settings.text(name, problems)?;
    parse_named(&settings.called(name), written, problems)
}

/// The value of a name; another text is reported.
pub(super) fn parse_named<T: NamedValue>(
    called: &str,
    written: Located<&str>,
    problems: &mut ProblemCollector<'_>,
) -> Option<T> {
    let value = T::of_name(written.value);
    if value.is_none() {
        let message = format!("{called} must be {}{}", alternatives::<T>(), meant::<T>(written.value));
        problems.report(ProblemCode::UnknownWord, written.at, message);
    }
    value
}

/// The name that was probably meant, as the end of a message.
pub(super) fn meant<T: NamedValue>(word: &str) -> String {
    let lower = word.to_lowercase();
    let alias = T::ALIASES.iter().find(|(alias, _)| *alias == lower).map(|(_, name)| *name);
    alias.map_or_else(
        || did_you_mean(word, T::NAMES.iter().copied()),
        |name| format!("; did you mean `{name}`?"),
    )
}

/// All names: "`a`, `b` or `c`".
pub(super) fn alternatives<T: NamedValue>() -> String {
    joined(T::NAMES, "or")
}
