//! Text tests that are not intervals: suffix, infix, `like`, and the negation of each (and of a prefix).

use memchr::memmem;

/// The place where a text must occur in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// At its start.
    StartsWith,
    /// At its end.
    EndsWith,
    /// Anywhere.
    Contains,
    /// As a pattern for the whole text: % is any text, _ any character, a backslash makes either plain.
    Like,
}

/// A text operator, its text, and whether it is negated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// The operator.
    pub operator: Operator,
    /// The text to find.
    pub text: Box<str>,
    /// Whether texts must lack it.
    pub negated: bool,
}

impl Shape {
    /// Whether a text has this shape.
    #[must_use]
    pub fn fits(&self, text: &str) -> bool {
        let found = match self.operator {
            Operator::StartsWith => text.starts_with(&*self.text),
            Operator::EndsWith => text.ends_with(&*self.text),
            Operator::Contains => memmem::find(text.as_bytes(), self.text.as_bytes()).is_some(),
            Operator::Like => like(&self.text, text),
        };
        found != self.negated
    }

    /// Whether this shape certainly contradicts the other.
    pub(crate) fn negates(&self, other: &Self) -> bool {
        self.operator == other.operator && self.negated != other.negated && self.text == other.text
    }

    /// The text of a required suffix.
    pub(crate) fn suffix(&self) -> Option<&str> {
        (self.operator == Operator::EndsWith && !self.negated).then_some(&*self.text)
    }
}

/// Whether `text` as a whole matches `pattern`. Only the latest % is ever reconsidered: pattern times text steps at
/// worst.
fn like(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    let mut retry: Option<(&str, &str)> = None; // the pattern after the latest %, and the text where its match begins
    loop {
        let (piece, rest) = next_piece(pattern);
        let mut chars = text.chars();
        let matched = match (piece, chars.next()) {
            (Piece::AnyText, _) => {
                retry = Some((rest, text));
                pattern = rest;
                continue;
            }
            (Piece::End, None) => return true,
            (Piece::AnyChar, Some(_)) => true,
            (Piece::Char(expected), Some(found)) => expected == found,
            _ => false,
        };
        if matched {
            (pattern, text) = (rest, chars.as_str());
            continue;
        }
        let Some((after, from)) = retry else { return false };
        let mut later = from.chars();
        if later.next().is_none() {
            return false;
        }
        retry = Some((after, later.as_str()));
        (pattern, text) = (after, later.as_str());
    }
}

enum Piece {
    End,
    AnyText,
    AnyChar,
    Char(char),
}

fn next_piece(pattern: &str) -> (Piece, &str) {
    let mut chars = pattern.chars();
    let piece = match chars.next() {
        None => Piece::End,
        Some('%') => Piece::AnyText,
        Some('_') => Piece::AnyChar,
        Some('\\') => Piece::Char(chars.next().unwrap_or('\\')),
        Some(char) => Piece::Char(char),
    };
    (piece, chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn like_patterns() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("a%b_c%", "aXXbYc", true),
            ("a%b_c%", "aXXbc", false),
            ("_", "é", true),
            ("__", "é", false),
            (r"100\%", "100%", true),
            (r"100\%", "1000", false),
            ("%ab%ab", "abab", true),
            ("%ab%ab", "ab", false),
            ("%a_%a", "aba", true),
            ("\\", "\\", true),
        ] {
            assert_eq!(like(pattern, text), expected, "{text:?} like {pattern:?}");
        }
    }
}
