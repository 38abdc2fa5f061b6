//! What a server is asked.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// Something that may or may not happen: a caller of one policy, or a request with attributes.
///
/// ```
/// use tidegate::client::remote::RemoteCheck;
///
/// let login = RemoteCheck::policy("login", "alice");
/// let export = RemoteCheck::attributes([("user", "42"), ("path", "/export")]).cost(50);
/// assert_ne!(login, export);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct RemoteCheck {
    subject: CheckSubject,
    cost: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum CheckSubject {
    Policy { policy: String, key: String },
    Attributes(Vec<(String, String)>),
}

impl RemoteCheck {
    /// Asks one policy, by its name. `key` is the value of its only key attribute.
    pub fn policy(policy: impl Into<String>, key: impl Into<String>) -> Self {
        let subject = CheckSubject::Policy { policy: policy.into(), key: key.into() };
        Self { subject, cost: 1 }
    }

    /// Asks all policies that match these attributes.
    pub fn attributes<N: Into<String>, V: Into<String>>(
        attributes: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let attributes = attributes.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { subject: CheckSubject::Attributes(attributes.collect()), cost: 1 }
    }

    /// How many units it takes. Defaults to one; zero only looks.
    pub const fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// The same, to give back what it took.
    pub(super) const fn as_refund(&self) -> RefundBody<'_> {
        RefundBody(self)
    }

    fn write<S: Serializer>(&self, units: &str, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_map(None)?;
        match &self.subject {
            CheckSubject::Policy { policy, key } => {
                body.serialize_entry("policy", policy)?;
                body.serialize_entry("key", key)?;
            }
            CheckSubject::Attributes(attributes) => {
                body.serialize_entry("attributes", &AttributeMap(attributes))?;
            }
        }
        body.serialize_entry(units, &self.cost)?;
        body.end()
    }
}

impl Serialize for RemoteCheck {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.write("cost", serializer)
    }
}

/// The body of a refund.
pub(super) struct RefundBody<'a>(&'a RemoteCheck);

impl Serialize for RefundBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write("amount", serializer)
    }
}

/// The body of a batch.
#[derive(Serialize)]
pub(super) struct Batch<'a> {
    pub(super) checks: &'a [RemoteCheck],
}

/// Attributes as an object. A name that occurs twice is sent twice, and the server refuses it.
struct AttributeMap<'a>(&'a [(String, String)]);

impl Serialize for AttributeMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_written_as_the_server_reads_it() {
        let login = RemoteCheck::policy("login", "alice");
        let json = serde_json::to_string(&login).unwrap();
        assert_eq!(json, r#"{"policy":"login","key":"alice","cost":1}"#);
        let json = serde_json::to_string(&login.cost(3).as_refund()).unwrap();
        assert_eq!(json, r#"{"policy":"login","key":"alice","amount":3}"#);
        let search = RemoteCheck::attributes([("user", "42"), ("path", "/")]);
        let json = serde_json::to_string(&Batch { checks: &[search] }).unwrap();
        assert_eq!(json, r#"{"checks":[{"attributes":{"user":"42","path":"/"},"cost":1}]}"#);
    }
}
