//! Bare items of RFC 9651, and the names of parameters.

/// A bare item. Kinds without a use here are only skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BareItem {
    /// A string or a token.
    Text(String),
    /// An integer that is not negative.
    Number(u64),
    /// A byte sequence, still in base64.
    Bytes(String),
    Other,
}

/// The unread rest of a field.
pub(crate) struct FieldParser<'a>(pub(crate) &'a str);

impl<'a> FieldParser<'a> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn skip_space(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    pub(crate) fn eat(&mut self, wanted: char) -> Option<()> {
        self.0 = self.0.strip_prefix(wanted)?;
        Some(())
    }

    /// The name of a parameter, which is not empty.
    pub(crate) fn key(&mut self) -> Option<&'a str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.*".contains(c);
        self.take(is_part)
    }

    pub(crate) fn value(&mut self) -> Option<BareItem> {
        match self.0.chars().next()? {
            '"' => self.text().map(BareItem::Text),
            ':' => self.bytes(),
            '%' => self.display_text(),
            '?' => self.boolean(),
            '@' => self.date(),
            first if first == '-' || first.is_ascii_digit() => self.number(),
            _ => self.token(),
        }
    }

    /// The longest prefix of such characters, which is not empty.
    fn take(&mut self, is_part: impl Fn(char) -> bool) -> Option<&'a str> {
        let end = self.0.find(|c| !is_part(c)).unwrap_or(self.0.len());
        let (part, rest) = self.0.split_at_checked(end).filter(|(part, _)| !part.is_empty())?;
        self.0 = rest;
        Some(part)
    }

    fn token(&mut self) -> Option<BareItem> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~:/".contains(c);
        let is_start = |c: char| c.is_ascii_alphabetic() || c == '*';
        let token = self.take(is_part).filter(|token| token.starts_with(is_start))?;
        Some(BareItem::Text(token.to_owned()))
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

    /// `%"caf%c3%a9"`: a quote or a percent sign within is written as two hexadecimal digits.
    fn display_text(&mut self) -> Option<BareItem> {
        let (text, rest) = self.0.strip_prefix("%\"")?.split_once('"')?;
        let is_escape = |part: &str| {
            let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            part.len() >= 2 && part.bytes().take(2).all(|byte| is_digit(&byte))
        };
        let is_plain = |c: char| matches!(c, ' '..='~');
        let is_well_formed = text.split('%').skip(1).all(is_escape) && text.chars().all(is_plain);
        self.0 = rest;
        is_well_formed.then_some(BareItem::Other)
    }

    fn bytes(&mut self) -> Option<BareItem> {
        let (bytes, rest) = self.0.strip_prefix(':')?.split_once(':')?;
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
        self.0 = rest;
        // Padding makes no difference.
        let bytes = bytes.chars().all(is_part).then(|| bytes.trim_end_matches('='))?;
        Some(BareItem::Bytes(bytes.to_owned()))
    }

    fn boolean(&mut self) -> Option<BareItem> {
        self.0 = self.0.strip_prefix("?0").or_else(|| self.0.strip_prefix("?1"))?;
        Some(BareItem::Other)
    }

    fn date(&mut self) -> Option<BareItem> {
        self.eat('@')?;
        let is_whole = |part: &str| !part.contains('.');
        is_whole(self.digits()?).then_some(BareItem::Other)
    }

    /// Only integers that are not negative are used; others are skipped.
    fn number(&mut self) -> Option<BareItem> {
        let digits = self.digits()?;
        Some(digits.parse().map_or(BareItem::Other, BareItem::Number))
    }

    /// An integer of at most fifteen digits, or a decimal of twelve and three.
    fn digits(&mut self) -> Option<&'a str> {
        let start = self.0;
        let _ = self.eat('-');
        let is_part = |c: char| c.is_ascii_digit() || c == '.';
        let digits = self.take(is_part)?;
        let is_well_formed = match digits.split_once('.') {
            None => digits.len() <= 15,
            Some((whole, part)) => {
                (1..=12).contains(&whole.len())
                    && (1..=3).contains(&part.len())
                    && !part.contains('.')
            }
        };
        start.get(..start.len() - self.0.len()).filter(|_| is_well_formed)
    }
}
