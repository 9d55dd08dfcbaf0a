//! Regular expressions as the API server reads them: its letters and digits are ASCII, and its classes know no set operations.

use regex::Regex;

/// A regular expression and the text that it was made of, which messages quote.
pub(super) struct Pattern {
    pub(super) text: String,
    regex: Regex,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let regex = Regex::new(&translated(text)).map_err(|e| format!("the pattern {text:?} cannot be read: {e}"))?;
        Ok(Self { text: text.to_owned(), regex })
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The first match, or nothing as an empty text.
    pub(super) fn find<'a>(&self, text: &'a str) -> &'a str {
        self.regex.find(text).map_or("", |found| found.as_str())
    }
}

fn translated(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut is_in_class = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let Some(escaped) = letters.next() else {
                    result.push('\\');
                    break;
                };
                push_escaped(&mut result, escaped, is_in_class);
            }
            '[' if !is_in_class => {
                is_in_class = true;
                result.push('[');
                // A bracket that closes right after the opening one is a member of the class.
                for first in ['^', ']'] {
                    if letters.next_if_eq(&first).is_some() {
                        result.push_str(if first == ']' { "\\]" } else { "^" });
                    }
                }
            }
            '[' if letters.peek() == Some(&':') => {
                // A named class such as `[:alnum:]`, to its closing bracket.
                result.push('[');
                for letter in letters.by_ref() {
                    result.push(letter);
                    if letter == ']' {
                        break;
                    }
                }
            }
            '[' | '&' | '~' if is_in_class => {
                result.push('\\');
                result.push(letter);
            }
            ']' => {
                is_in_class = false;
                result.push(']');
            }
            other => result.push(other),
        }
    }
    result
}

fn push_escaped(result: &mut String, escaped: char, is_in_class: bool) {
    let class = match escaped {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => "[\\t\\n\\x0c\\r ]",
        'S' => "[^\\t\\n\\x0c\\r ]",
        'b' if !is_in_class => "(?-u:\\b)",
        'B' if !is_in_class => "(?-u:\\B)",
        other => {
            result.push('\\');
            result.push(other);
            return;
        }
    };
    result.push_str(class);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_letters_are_ascii() {
        let digits = Pattern::new(r"^\d+$").unwrap();
        assert!(digits.is_match("42") && !digits.is_match("٤٢"));
        let letters = Pattern::new(r"^[\w.]+$").unwrap();
        assert!(letters.is_match("a_1.b") && !letters.is_match("ä"));
        assert!(Pattern::new(r"^[^/]$").unwrap().is_match("ä"));
    }

    #[test]
    fn classes_know_no_set_operations() {
        assert!(Pattern::new("^[a&&b]+$").unwrap().is_match("a&b"));
        assert!(Pattern::new("^[[x]+$").unwrap().is_match("[x"));
        assert!(Pattern::new("^[]x]+$").unwrap().is_match("]x"));
        assert!(Pattern::new("^[[:alnum:]-]+$").unwrap().is_match("a-1"));
    }

    #[test]
    fn the_first_match_is_found_or_nothing() {
        let prefix = Pattern::new("^([^/]+)").unwrap();
        assert_eq!((prefix.find("karpenter.sh/x"), prefix.find("/x")), ("karpenter.sh", ""));
        assert!(Pattern::new("(").is_err());
    }
}
