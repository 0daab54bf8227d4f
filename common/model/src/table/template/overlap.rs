//! Whether two templates can match one text.

use super::{Template, TemplatePiece};

impl Template {
    /// Whether there is a text that both templates match. A variable that occurs more than once counts as several: the
    /// result may then be `true` for templates that only equal values distinguish.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        // Most templates of a model begin with different text, and need no further comparison.
        let mut beginnings = self.leading_literal().bytes().zip(other.leading_literal().bytes());
        if beginnings.any(|(mine, theirs)| mine != theirs) {
            return false;
        }
        let (mine, theirs) = (self.symbols(), other.symbols());
        // Both are walked together: a state is the position in each.
        let width = theirs.len() + 1;
        let mut seen = vec![false; (mine.len() + 1) * width];
        let mut open = vec![(0, 0)];
        while let Some((i, j)) = open.pop() {
            if i == mine.len() && j == theirs.len() {
                return true;
            }
            match seen.get_mut(i * width + j) {
                Some(seen) if !*seen => *seen = true,
                _ => continue,
            }
            let (a, b) = (mine.get(i), theirs.get(j));
            if a.is_some_and(TemplateSymbol::is_rest) {
                open.push((i + 1, j));
            }
            if b.is_some_and(TemplateSymbol::is_rest) {
                open.push((i, j + 1));
            }
            if let (Some(a), Some(b)) = (a, b)
                && a.meets(b)
            {
                open.push((i + usize::from(!a.is_rest()), j + usize::from(!b.is_rest())));
            }
        }
        false
    }

    fn symbols(&self) -> Vec<TemplateSymbol> {
        let mut symbols = Vec::new();
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Literal(text) => symbols.extend(text.chars().map(TemplateSymbol::Exactly)),
                TemplatePiece::Variable(_, format) => match format.shape() {
                    None => {
                        let first = TemplateSymbol::Any { except: self.separator };
                        symbols.extend((!self.may_be_empty).then_some(first));
                        symbols.push(TemplateSymbol::Rest { except: self.separator });
                    }
                    Some(shape) => symbols.extend(shape.chars().map(|character| match character {
                        '0' => TemplateSymbol::Digit,
                        other => TemplateSymbol::Exactly(other),
                    })),
                },
            }
        }
        symbols
    }
}

/// The characters that a template accepts at a position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TemplateSymbol {
    Exactly(char),
    Digit,
    /// Any character but the separator.
    Any {
        except: Option<char>,
    },
    /// Any number of such characters, none included.
    Rest {
        except: Option<char>,
    },
}

impl TemplateSymbol {
    fn is_rest(&self) -> bool {
        match self {
            Self::Rest { .. } => true,
            Self::Exactly(_) | Self::Digit | Self::Any { .. } => false,
        }
    }

    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exactly(a), Self::Exactly(b)) => a == b,
            (Self::Exactly(character), Self::Digit) | (Self::Digit, Self::Exactly(character)) => {
                character.is_ascii_digit()
            }
            (Self::Exactly(character), Self::Any { except } | Self::Rest { except })
            | (Self::Any { except } | Self::Rest { except }, Self::Exactly(character)) => {
                *except != Some(*character)
            }
            // A separator never is a digit, so any digit will do; and two separators leave other characters.
            (Self::Digit | Self::Any { .. } | Self::Rest { .. }, Self::Digit)
            | (_, Self::Any { .. } | Self::Rest { .. }) => true,
        }
    }
}
