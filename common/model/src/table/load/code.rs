//! The codes of problems: documentation, editors and scripts identify a problem by its code, which does not depend on its message.

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
        /// The kind of a problem of a model. A code keeps its meaning in every later version; `docs/PROBLEMS.md` explains each.
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

            /// The kind of problem, in a few words.
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
    Error "AW004" UnknownKey "a key or a section does not exist"
    Error "AW005" MissingKey "a required key is missing"
    Error "AW006" WrongType "a value has the wrong type"
    Error "AW007" NumberOutOfRange "a number is out of range"
    Error "AW008" EmptySetting "a setting is empty"
    Error "AW009" UnknownWord "a word is not one of the known ones"
    Error "AW010" InvalidName "a name has characters that names cannot have"
    Error "AW011" InvalidTime "a text is not a length of time"
    Error "AW012" UnknownTime "a time is in a form that does not exist"
    Error "AW013" UnknownTimeZone "a time zone does not exist"
    Error "AW014" UnfitTime "a value cannot be read as a time of this form"
    Error "AW015" FormatTooFine "a format cannot be computed from the time in a key"
    Error "AW016" UnfitZone "a value cannot be the zone of a format here"
    Error "AW020" UndeclaredPart "a part of the model is not declared"
    Error "AW021" UndefinedName "a name means nothing here"
    Error "AW022" DuplicateName "something is named twice"
    Error "AW023" ReservedName "a name is reserved"
    Error "AW024" InvalidPath "a text is not the path of an attribute"
    Error "AW025" InvalidSeparator "a separator is not a single character"
    Error "AW030" InvalidTemplate "a text is not a template"
    Error "AW031" UnknownFormat "a format does not exist"
    Error "AW032" UnusableFormat "a format is used where none is possible"
    Error "AW033" KeyMismatch "a key does not have the attributes that it must have"
    Error "AW034" UnfitKeyValue "a value cannot be part of a key"
    Error "AW035" ReservedKey "a key can begin with a reserved prefix"
    Error "AW036" OverlappingEntities "two entities can have the same key"
    Error "AW037" OverlappingRollups "two rollups can be the same item"
    Error "AW038" EntityOverlapsRollup "a rollup can look like an entity"
    Error "AW040" UnknownMeasureKind "a measure is not of one of the kinds"
    Error "AW041" UnfitMeasureValue "a value has a type that cannot be computed with"
    Error "AW042" MeasureNameTaken "a rollup already has a measure of this name"
    Error "AW043" UnfitAverage "an average does not divide two measures of its aggregate"
    Error "AW044" ShardedMeasure "a sharded rollup has a measure that cannot be sharded"
    Error "AW045" TransactionTooLarge "one change would need too many writes"
    Error "AW046" InvalidDerivation "a derived value is not defined correctly"
    Error "AW047" UnfitExpiry "a rollup expires by a value that is not in its key"
    Error "AW048" UpdateTooLong "one update of a rollup would be too long"
    Error "AW049" UnusedOptional "an optional value is in no rollup key"
    Error "AW050" InvalidCondition "a condition is not written as an event filter pattern"
    Error "AW051" ImpossibleCondition "a condition can never hold"
    Error "AW052" UnfitElements "elements cannot be counted in this way"
    Error "AW053" UnusableBins "the bins of percentiles cannot be made"
    Error "AW054" UnfitPercentile "a percentile names no measure with bins"
    Error "AW055" CircularLevels "rollups are counted in a circle"
    Error "AW056" ShardedSource "a sharded rollup is a source"
    Error "AW057" UnfilteredSource "keys of a source rollup begin with a variable"
    Error "AW060" UnreachableMirror "an item and the rollup that it shows cannot be found from each other"
    Error "AW061" UnfitMirrorRollup "a rollup cannot be mirrored"
    Error "AW062" UnfitMirrorPath "a mirror cannot write this attribute"
    Error "AW063" MirrorFeedback "a mirrored attribute is read"
    Error "AW064" UnfitBinding "a binding does not fit the key"
    Error "AW065" UnfitLookupKey "a lookup's key is not the key of its entity"
    Error "AW066" InseparableValues "two values of an escaped key cannot be distinguished"
    Error "AW070" InvalidCacheRule "a cache rule cannot be carried out"
    Error "AW071" InvalidEvent "an event rule cannot be carried out"
    Error "AW080" InvalidDataset "the rows of a dataset cannot be made this way"
    Error "AW081" InvalidQuery "a saved query is not one SELECT"
    Error "AW085" UnfitRank "a rank does not order by a number of its rollup"
    Error "AW086" UnfitRankGroup "the groups of a rank cannot be made from the rollup's key"
    Error "AW087" ShardedRank "a sharded rollup is ranked"
    Error "AW088" TooManyIndexes "the state table would have too many indexes"
    Error "AW090" ExposedSecret "a secret would leave its table"
    Warning "AW101" UnusedRollup "nothing counts into a rollup"
    Warning "AW102" UnusedLookup "nothing uses a lookup"
    Warning "AW103" ChangeableOutput "a lookup gives an attribute that may change"
    Warning "AW104" UndeclaredPartition "a dataset is partitioned by an attribute that nothing else names"
    Warning "AW105" UnusedDerivation "nothing uses a derived value"
    Warning "AW106" UnusedOutputs "a part names a lookup and uses none of its outputs"
    Warning "AW107" QueryWithoutDataset "a saved query reads none of the datasets"
    Warning "AW108" RetiredSetting "a setting has no meaning any more"
    Warning "AW109" UnusedSeparator "no key of a table contains its separator"
    Warning "AW111" EqualMeasures "two measures of a rollup are always equal"
    Warning "AW112" MergeableGroups "two groups of a rollup can have one key"
    Warning "AW113" ContradictoryConditions "no item can meet all conditions of a part"
    Warning "AW114" SlashesInPath "a value that is a path is written as one segment of a path"
    Warning "AW115" LongMembers "the values of a distinct count can be too long"
    Warning "AW116" MixedZones "a part of a rollup's key is in different time zones"
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
