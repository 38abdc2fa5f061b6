//! Replies of Redis.

use redis::Value;
use tidegate_store::StoreErrorKind;

use super::failure::RedisFailure;

/// A reply, in a form that covers both versions of the protocol.
#[derive(Clone, Debug)]
pub(crate) enum RedisReply {
    Nil,
    Integer(i64),
    Bytes(Vec<u8>),
    /// Maps are arrays too: key, value, key, value.
    Array(Vec<Self>),
    Status(String),
}

impl RedisReply {
    pub(super) fn of(value: Value) -> Result<Self, RedisFailure> {
        Ok(match value {
            Value::Nil => Self::Nil,
            Value::Int(number) => Self::Integer(number),
            Value::Boolean(truth) => Self::Integer(i64::from(truth)),
            Value::BulkString(bytes) => Self::Bytes(bytes),
            Value::VerbatimString { text, .. } => Self::Bytes(text.into_bytes()),
            Value::Double(number) => Self::Bytes(number.to_string().into_bytes()),
            Value::Okay => Self::Status("OK".to_owned()),
            Value::SimpleString(status) => Self::Status(status),
            Value::Array(values) | Value::Set(values) => Self::array(values)?,
            Value::Map(pairs) => Self::array(pairs.into_iter().flat_map(<[Value; 2]>::from))?,
            Value::Attribute { data, .. } => Self::of(*data)?,
            Value::ServerError(error) => return Err(RedisFailure::of_server(&error)),
            other => {
                let message = format!("unexpected type of reply: {other:?}");
                return Err(RedisFailure::unknown(StoreErrorKind::Protocol, message));
            }
        })
    }

    fn array(values: impl IntoIterator<Item = Value>) -> Result<Self, RedisFailure> {
        values.into_iter().map(Self::of).collect::<Result<_, _>>().map(Self::Array)
    }

    /// The text of bytes or of a status.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    pub(super) fn items(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }

    /// The value of `name` in a map.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let pairs = self.items().chunks_exact(2);
        pairs.filter(|pair| pair[0].text() == Some(name)).find_map(|pair| pair[1].text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(wire: &str) -> Result<RedisReply, RedisFailure> {
        RedisReply::of(redis::parse_redis_value(wire.as_bytes()).unwrap())
    }

    #[test]
    fn both_protocols_read_the_same() {
        for (wire, expected) in [
            ("_\r\n", "Nil"),
            ("$-1\r\n", "Nil"),
            (":-7\r\n", "Integer(-7)"),
            ("#t\r\n", "Integer(1)"),
            ("$2\r\nab\r\n", "Bytes([97, 98])"),
            ("=6\r\ntxt:ab\r\n", "Bytes([97, 98])"),
            (",1.5\r\n", "Bytes([49, 46, 53])"),
            ("+OK\r\n", "Status(\"OK\")"),
            ("+PONG\r\n", "Status(\"PONG\")"),
            ("*2\r\n:1\r\n*0\r\n", "Array([Integer(1), Array([])])"),
            ("%1\r\n+a\r\n:1\r\n", "Array([Status(\"a\"), Integer(1)])"),
            ("~1\r\n:1\r\n", "Array([Integer(1)])"),
        ] {
            assert_eq!(format!("{:?}", reply(wire).unwrap()), expected, "{wire:?}");
        }
    }

    #[test]
    fn an_error_among_results_is_an_error() {
        let failure = reply("*2\r\n:1\r\n-WRONGTYPE x\r\n").unwrap_err();
        assert_eq!(failure.kind, StoreErrorKind::WrongType);
    }

    #[test]
    fn fields_are_found_in_maps_and_flat_arrays() {
        for wire in ["%1\r\n+ip\r\n+::1\r\n", "*2\r\n$2\r\nip\r\n$3\r\n::1\r\n"] {
            assert_eq!(reply(wire).unwrap().field("ip"), Some("::1"), "{wire:?}");
            assert_eq!(reply(wire).unwrap().field("port"), None);
        }
    }
}
