//! The codes of problems: what documentation, editors and scripts know a problem by, whatever its message says.

/// How serious a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemSeverity {
    /// The model does not load.
    Error,
    /// The model loads, but probably does not do what was meant.
    Warning,
}

impl ProblemSeverity {
    /// `error` or `warning`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Declares each code once: its severity, number, name and title.
macro_rules! problem_codes {
    ($($severity:ident $code:literal $name:ident $title:literal)*) => {
        /// What kind of problem a model has. A code keeps its meaning in every later version; `docs/PROBLEMS.md` explains each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ProblemCode {
            $(#[doc = $title] $name,)*
        }

        impl ProblemCode {
            /// Every code, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code: `AW012`.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// What kind of problem it is, in a few words.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// Whether a model with this problem loads.
            #[must_use]
            pub fn severity(self) -> ProblemSeverity {
                match self { $(Self::$name => ProblemSeverity::$severity,)* }
            }
        }
    };
}

problem_codes! {
    Error "AW001" SyntaxError "the file is not valid TOML"
    Error "AW002" UnclosedDelimiter "a bracket, a brace or a string is not closed"
    Error "AW003" DuplicateKey "a key or a section is defined twice"
    Error "AW099" Unclassified "another error"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_is_used_once_and_in_ascending_order() {
        let codes: Vec<&str> = ProblemCode::ALL.iter().map(|code| code.code()).collect();
        assert!(codes.is_sorted());
        assert_eq!(codes.iter().collect::<BTreeSet<_>>().len(), codes.len());
        for code in codes {
            let digits = code.strip_prefix("AW").unwrap();
            assert!(digits.len() == 3 && digits.bytes().all(|digit| digit.is_ascii_digit()), "{code}");
        }
    }

    #[test]
    fn warnings_have_numbers_of_their_own() {
        for code in ProblemCode::ALL {
            assert_eq!(code.severity() == ProblemSeverity::Warning, code.code() >= "AW100", "{code:?}");
        }
    }
}
