//! Just enough of RFC 9651 to read the `RateLimit` fields: lists of named items with parameters.

use crate::bare_item::{BareItem, FieldParser};

/// An item of a list: `"per-user";q=100;w=60`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldItem {
    pub(crate) name: String,
    parameters: Vec<(String, BareItem)>,
}

impl FieldItem {
    /// A parameter that is a number.
    pub(crate) fn number(&self, parameter: &str) -> Option<u64> {
        match self.value(parameter)? {
            BareItem::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// A parameter that is a string or a token.
    pub(crate) fn text(&self, parameter: &str) -> Option<&str> {
        match self.value(parameter)? {
            BareItem::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A parameter that is a byte sequence, in base64.
    pub(crate) fn bytes(&self, parameter: &str) -> Option<&str> {
        match self.value(parameter)? {
            BareItem::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The value of a parameter. If it occurs twice, the last one counts, as RFC 9651 requires.
    fn value(&self, parameter: &str) -> Option<&BareItem> {
        self.parameters.iter().rfind(|(name, _)| name == parameter).map(|(_, value)| value)
    }
}

/// The items of a field. `None` if any part is malformed: the rest alone could mean the opposite.
pub(crate) fn parse(field: &str) -> Option<Vec<FieldItem>> {
    let mut rest = FieldParser(field.trim());
    let mut items = Vec::new();
    while !rest.is_empty() && items.len() < MAX_ITEMS {
        items.push(item(&mut rest)?);
        rest.skip_space();
        if !rest.is_empty() {
            rest.eat(',')?;
            rest.skip_space();
            // A trailing comma is malformed.
            if rest.is_empty() {
                return None;
            }
        }
    }
    rest.is_empty().then_some(items)
}

fn item(rest: &mut FieldParser<'_>) -> Option<FieldItem> {
    let BareItem::Text(name) = rest.value()? else { return None };
    let mut item = FieldItem { name, parameters: Vec::new() };
    loop {
        rest.skip_space();
        if rest.eat(';').is_none() {
            return Some(item);
        }
        rest.skip_space();
        let name = rest.key()?.to_owned();
        // A parameter without a value is a boolean, which no `RateLimit` parameter is.
        let value = if rest.eat('=').is_some() { rest.value()? } else { BareItem::Other };
        item.parameters.push((name, value));
    }
}

/// The most items: more policies than any response has.
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
        assert_eq!(items[0].text("qu"), Some("content-bytes"));
        assert_eq!((items[0].number("w"), items[0].bytes("pk")), (Some(10), Some("sdfjLJUOUH")));
        let items = parse(r#"token;r=5 ; t=1;flag;x=?0;y=-2;z=1.5;n=abc, "a\"b\\";r=0"#).unwrap();
        assert_eq!((items[0].name.as_str(), items[0].number("t")), ("token", Some(1)));
        assert_eq!(items[1].name, r#"a"b\"#);
        assert_eq!(parse(""), Some(Vec::new()));
    }

    #[test]
    fn parameters_of_any_kind_are_passed_over() {
        for value in [
            r#"%"caf%c3%a9""#,
            r#"%"""#,
            "@1659578233",
            "@-1",
            "1.5",
            "-1.125",
            "-7",
            "token/x:y",
            "*",
            ":aGk=:",
            "::",
            "?1",
            r#""a;b,c""#,
        ] {
            let items = parse(&format!(r#""a";r=1;x={value};t=2, "b";r=3"#)).expect(value);
            assert_eq!((items[0].number("r"), items[0].number("t")), (Some(1), Some(2)), "{value}");
            assert_eq!((items[0].number("x"), items[1].number("r")), (None, Some(3)), "{value}");
        }
    }

    #[test]
    fn of_a_parameter_that_is_there_twice_the_last_counts() {
        let items = parse(r#""a";r=1;t=2;r=3;t=soon"#).unwrap();
        assert_eq!((items[0].number("r"), items[0].number("t")), (Some(3), None));
    }

    #[test]
    fn malformed_fields_are_ignored() {
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
            r#""a";r=1234567890123.1"#,
            r#""a";r=1.1234"#,
            r#""a";r=1."#,
            r#""a";r=1.2.3"#,
            r#""a";r=--1"#,
            r#""a";r=-"#,
            r#""a";x=?2"#,
            r#""a";x=@1.5"#,
            r#""a";x=@"#,
            r#""a";x=%caf"#,
            r#""a";x=%"caf%c"#,
            r#""a";x=%"caf%C3""#,
            r#""a";x=%"caf%c""#,
            r#""a";x=(1 2)"#,
            r#""a";pk=:abc"#,
            r#""a";pk=:a b:"#,
            ",",
            ";",
        ] {
            assert_eq!(parse(field), None, "{field}");
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(field in "[ -~]{0,40}") {
            let _ = parse(&field);
        }
    }
}
