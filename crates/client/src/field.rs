//! Just enough of RFC 9651 to read the `RateLimit` fields: lists of named items with numbers.

/// An item of a list: `"per-user";q=100;w=60`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) name: String,
    numbers: Vec<(String, u64)>,
    /// The unit, where it is said.
    pub(crate) unit: Option<String>,
}

impl Item {
    /// The number of a parameter.
    pub(crate) fn number(&self, parameter: &str) -> Option<u64> {
        self.numbers.iter().find(|(name, _)| name == parameter).map(|(_, number)| *number)
    }
}

/// The items of a field. `None` when it is malformed anywhere: half a field may mean the opposite.
pub(crate) fn parse(field: &str) -> Option<Vec<Item>> {
    let mut rest = Rest(field.trim());
    let mut items = Vec::new();
    while !rest.0.is_empty() && items.len() < MAX_ITEMS {
        items.push(item(&mut rest)?);
        rest.skip_space();
        if !rest.0.is_empty() {
            rest.eat(',')?;
            rest.skip_space();
            // Nothing after the comma is a mistake.
            if rest.0.is_empty() {
                return None;
            }
        }
    }
    rest.0.is_empty().then_some(items)
}

fn item(rest: &mut Rest<'_>) -> Option<Item> {
    let name = match rest.value()? {
        Value::Text(name) => name,
        Value::Number(_) | Value::Other => return None,
    };
    let mut item = Item { name, numbers: Vec::new(), unit: None };
    loop {
        rest.skip_space();
        if rest.eat(';').is_none() {
            return Some(item);
        }
        rest.skip_space();
        let parameter = rest.word()?;
        // Without a value it is a boolean, of which we know none.
        let value = if rest.eat('=').is_some() { rest.value()? } else { Value::Other };
        match value {
            Value::Number(number) => item.numbers.push((parameter, number)),
            Value::Text(text) if parameter == "qu" => item.unit = Some(text),
            Value::Text(_) | Value::Other => {}
        }
    }
}

/// A bare item. Of some kinds we only need to know where they end.
enum Value {
    Text(String),
    Number(u64),
    Other,
}

/// What is still to be read.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    fn skip_space(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    fn eat(&mut self, wanted: char) -> Option<()> {
        self.0 = self.0.strip_prefix(wanted)?;
        Some(())
    }

    /// A name of a parameter, or a token. Not empty.
    fn word(&mut self) -> Option<String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.*!#$%&'+^`|~:/".contains(c);
        let end = self.0.find(|c| !is_part(c)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at_checked(end).filter(|(word, _)| !word.is_empty())?;
        self.0 = rest;
        Some(word.to_owned())
    }

    fn value(&mut self) -> Option<Value> {
        match self.0.chars().next()? {
            '"' => self.text().map(Value::Text),
            ':' => self.bytes(),
            '?' | '@' => self.other(),
            '-' => self.other(),
            first if first.is_ascii_digit() => self.number(),
            _ => self.word().map(Value::Text),
        }
    }

    fn text(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut characters = self.0.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.0 = self.0.get(at + 1..)?;
                    return Some(text);
                }
                '\\' => text.push(characters.next()?.1),
                ' '..='~' => text.push(character),
                _ => return None,
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<Value> {
        let (_, rest) = self.0.get(1..)?.split_once(':')?;
        self.0 = rest;
        Some(Value::Other)
    }

    /// Digits; a decimal is none that we use.
    fn number(&mut self) -> Option<Value> {
        let end = self.0.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        if digits.contains('.') {
            return Some(Value::Other);
        }
        // Fifteen digits are the most that an integer may have.
        digits.parse().ok().filter(|_| digits.len() <= 15).map(Value::Number)
    }

    /// Booleans, dates and negative numbers: of none do we know what to do with it.
    fn other(&mut self) -> Option<Value> {
        self.0 = self.0.get(1..)?;
        self.word().map(|_| Value::Other)
    }
}

/// More policies than any answer has.
const MAX_ITEMS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_of_the_draft_are_read() {
        let items = parse(r#""burst";q=100;w=60, "daily";q=1000;w=86400"#).unwrap();
        assert_eq!(items[0].name, "burst");
        assert_eq!((items[1].number("q"), items[1].number("w")), (Some(1000), Some(86_400)));
        let items = parse(r#""p";q=65535;qu="content-bytes";w=10;pk=:sdfjLJUOUH==:"#).unwrap();
        assert_eq!(items[0].unit.as_deref(), Some("content-bytes"));
        assert_eq!(items[0].number("w"), Some(10));
        let items = parse(r#"token;r=5 ; t=1;flag;x=?0;y=-2;z=1.5;n=abc, "a\"b\\";r=0"#).unwrap();
        assert_eq!((items[0].name.as_str(), items[0].number("t")), ("token", Some(1)));
        assert_eq!(items[1].name, r#"a"b\"#);
        assert_eq!(parse(""), Some(Vec::new()));
    }

    #[test]
    fn what_is_malformed_is_ignored() {
        for field in [
            r#""open"#,
            "5;r=1",
            r#""a";=1"#,
            r#""a";r="#,
            r#""a","#,
            r#""a" "b""#,
            r#""a";r=1;"#,
            "\"a\u{e9}\"",
            r#""a";r=1234567890123456"#,
            r#""a";pk=:abc"#,
            ",",
            ";",
        ] {
            assert_eq!(parse(field), None, "{field}");
        }
    }

    proptest! {
        #[test]
        fn anything_can_be_asked(field in "[ -~]{0,40}") {
            let _ = parse(&field);
        }
    }
}
