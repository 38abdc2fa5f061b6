//! Parses logs with a JSON object on each line, as nginx, Envoy, Caddy and our gateway write them.

use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tidegate::Timestamp;

use super::block::{LogRowBuilder, LogValueOrigin};
use super::field_names::{LogField, LogFieldNames};

pub(super) fn parse(line: &[u8], fill: &mut LogRowBuilder<'_>) -> Result<(), &'static str> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let object = LogJsonObject { fill, in_attributes: false };
    object.deserialize(&mut deserializer).map_err(|_| "it is not a JSON object")?;
    deserializer.end().map_err(|_| "something follows its JSON object")
}

/// An object whose members are recorded as they are read.
struct LogJsonObject<'f, 'b> {
    fill: &'f mut LogRowBuilder<'b>,
    in_attributes: bool,
}

impl<'de> DeserializeSeed<'de> for LogJsonObject<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for LogJsonObject<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let names = self.fill.names;
        while let Some(meaning) =
            map.next_key_seed(LogJsonName { names, in_attributes: self.in_attributes })?
        {
            match meaning {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(meaning) => map.next_value_seed(LogJsonMember { fill: self.fill, meaning })?,
            }
        }
        Ok(())
    }
}

/// A member's name.
struct LogJsonName<'n> {
    names: &'n LogFieldNames,
    in_attributes: bool,
}

impl<'de, 'n> DeserializeSeed<'de> for LogJsonName<'n> {
    type Value = Option<&'n LogField>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'n> Visitor<'_> for LogJsonName<'n> {
    type Value = Option<&'n LogField>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(if self.in_attributes {
            self.names.attribute_field(name)
        } else {
            self.names.field(name)
        })
    }
}

/// A member whose name stands for a field.
struct LogJsonMember<'f, 'b> {
    fill: &'f mut LogRowBuilder<'b>,
    meaning: &'b LogField,
}

impl LogJsonMember<'_, '_> {
    fn text(self, value: &[u8], found: LogValueOrigin) {
        let fill = self.fill;
        match self.meaning {
            LogField::Time(rank) => fill.put_time(*rank, value),
            LogField::Request => fill.put_request(value, found),
            LogField::Target(rank) => fill.put_target(*rank, value, found),
            LogField::Value(columns, rank) => fill.put(columns, *rank, value, found),
            LogField::Attributes => {}
        }
    }

    fn number(self, number: impl fmt::Display) {
        let mut text = LogNumberText::default();
        let _ = write!(text, "{number}");
        self.text(text.bytes.get(..text.length).unwrap_or_default(), LogValueOrigin::Derived);
    }
}

impl<'de> DeserializeSeed<'de> for LogJsonMember<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for LogJsonMember<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<(), E> {
        self.text(value.as_bytes(), LogValueOrigin::InLine);
        Ok(())
    }

    /// Text that had to be unescaped.
    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.text(value.as_bytes(), LogValueOrigin::Derived);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.number(value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.number(value);
        Ok(())
    }

    /// A fraction is a time in seconds, or a value that policies do not compare.
    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        match self.meaning {
            LogField::Time(rank) if (0.0..1e11).contains(&value) => {
                self.fill.set_time(*rank, Timestamp::from_micros((value * 1e6).round() as u64));
            }
            _ => self.number(value),
        }
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.number(value);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let in_attributes = match self.meaning {
            LogField::Request => false,
            LogField::Attributes => true,
            _ => {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                return Ok(());
            }
        };
        LogJsonObject { fill: self.fill, in_attributes }.visit_map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

/// A number as text, on the stack.
#[derive(Default)]
struct LogNumberText {
    bytes: [u8; 32],
    length: usize,
}

impl fmt::Write for LogNumberText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let free = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        free.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}
