//! Logical ids, the names of resources and parameters within a template.

/// A logical id: letters and digits only.
pub(super) fn logical(name: &str) -> String {
    let words = name.split(|character: char| !character.is_ascii_alphanumeric());
    let capital = |word: &str| {
        let mut characters = word.chars();
        let first = characters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(characters).collect::<String>()
    };
    words.map(capital).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn signs_begin_words() {
        assert_eq!(super::logical("quiz-wrong_answers"), "QuizWrongAnswers");
    }
}
