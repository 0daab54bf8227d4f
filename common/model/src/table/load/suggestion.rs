//! "did you mean": which known name was probably meant by an unknown one.

use strsim::osa_distance;

/// The end of a message about an unknown name: the nearest known name, or all of them if there are few.
pub(crate) fn suggestion<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let mut known: Vec<&str> = known.into_iter().filter(|name| !name.is_empty()).collect();
    known.sort_unstable();
    known.dedup();
    match did_you_mean(name, known.iter().copied()) {
        meant if !meant.is_empty() => meant,
        _ if known.is_empty() => "; none is declared".to_owned(),
        _ if known.len() <= 12 => format!("; known are {}", listed(&known)),
        none => none,
    }
}

/// The end of a message about a word outside a fixed set. The message itself lists the whole set.
pub(crate) fn did_you_mean<'n>(word: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let nearest = nearest(word, known).filter(|nearest| *nearest != word);
    nearest.map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default()
}

/// The known name that was probably meant. Case differences cost nothing.
#[must_use]
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let length = name.chars().count();
    let lower = name.to_lowercase();
    let distances = known.into_iter().map(|known| {
        let distance = osa_distance(name, known).min(osa_distance(&lower, &known.to_lowercase()));
        (distance, known)
    });
    let (distance, nearest) = distances.min()?;
    (distance <= (length / 3).max(2) && distance < length).then_some(nearest)
}

/// "`a`, `b` and `c`".
pub(crate) fn listed(names: &[&str]) -> String {
    joined(names, "and")
}

/// The same with another word before the last name.
pub(crate) fn joined(names: &[&str], word: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} {word} {last}", first.join(", ")),
        _ => quoted.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_suggested_and_few_names_are_listed() {
        assert_eq!(suggestion("zzzzz", ["b", "a"]), "; known are `a` and `b`");
        assert_eq!(suggestion("admin_dya", ["admin", "admin_day"]), "; did you mean `admin_day`?");
        for none in [&[][..], &[""]] {
            assert_eq!(suggestion("zzzzz", none.iter().copied()), "; none is declared");
        }
        assert_eq!(did_you_mean("strng", ["string", "int64"]), "; did you mean `string`?");
        assert_eq!(did_you_mean("zzzzz", ["string", "int64"]), "");
    }

    #[test]
    fn a_name_in_other_case_is_near() {
        assert_eq!(nearest("DELETE", ["delete", "generation"]), Some("delete"));
        assert_eq!(nearest("bool", ["BOOL", "B"]), Some("BOOL"));
    }
}
