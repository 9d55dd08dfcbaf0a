//! The words of an expression.

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    Int(i64),
    Double(f64),
    Text(String),
    Mark(&'static str),
}

/// Longer marks stand before those that they begin with.
const MARKS: [&str; 18] =
    ["&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")", "[", "]", ",", ".", "?", ":", "-"];

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, after) = if matches!(first, '"' | '\'') {
            quoted(rest, first, false)?
        } else if rest.starts_with("r'") || rest.starts_with("r\"") {
            let quote = if rest.starts_with("r'") { '\'' } else { '"' };
            quoted(&rest[1..], quote, true)?
        } else if first.is_ascii_digit() {
            number(rest)?
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(rest.len());
            (Token::Name(rest[..end].to_owned()), &rest[end..])
        } else {
            let mark = MARKS.into_iter().find(|mark| rest.starts_with(mark));
            let mark = mark.ok_or_else(|| format!("`{first}` is not supported"))?;
            (Token::Mark(mark), &rest[mark.len()..])
        };
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

fn number(text: &str) -> Result<(Token, &str), String> {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.').unwrap_or(text.len());
    let (digits, after) = text.split_at(end);
    let token = match (digits.parse(), digits.parse()) {
        (Ok(int), _) => Token::Int(int),
        (_, Ok(double)) => Token::Double(double),
        _ => return Err(format!("`{digits}` is not a supported number")),
    };
    Ok((token, after))
}

fn quoted(text: &str, quote: char, is_raw: bool) -> Result<(Token, &str), String> {
    let mut content = String::new();
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            _ if letter == quote => return Ok((Token::Text(content), &text[at + quote.len_utf8()..])),
            '\\' if !is_raw => {
                let escaped = letters.next().map(|(_, escaped)| escaped);
                content.push(match escaped {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('r') => '\r',
                    Some(same @ ('\\' | '\'' | '"' | '`' | '?')) => same,
                    other => return Err(format!("the escape of {other:?} is not supported")),
                });
            }
            _ => content.push(letter),
        }
    }
    Err(format!("the text {text} has no end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_texts_and_marks_are_told_apart() {
        let name = |name: &str| Token::Name(name.into());
        let text = |text: &str| Token::Text(text.into());
        assert_eq!(
            tokens("self.a1 <= 10||x != 'it\\'s' && y[0]==r\"\\d\" ? 1.5 : true").unwrap(),
            [
                name("self"),
                Token::Mark("."),
                name("a1"),
                Token::Mark("<="),
                Token::Int(10),
                Token::Mark("||"),
                name("x"),
                Token::Mark("!="),
                text("it's"),
                Token::Mark("&&"),
                name("y"),
                Token::Mark("["),
                Token::Int(0),
                Token::Mark("]"),
                Token::Mark("=="),
                text("\\d"),
                Token::Mark("?"),
                Token::Double(1.5),
                Token::Mark(":"),
                name("true"),
            ]
        );
    }

    #[test]
    fn what_is_not_supported_is_named() {
        assert_eq!(tokens("1 + 2").unwrap_err(), "`+` is not supported");
        assert_eq!(tokens("0x1F").unwrap_err(), "`0x1F` is not a supported number");
        assert!(tokens("'open").unwrap_err().contains("has no end"));
    }
}
