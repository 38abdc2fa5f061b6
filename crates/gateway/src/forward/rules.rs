//! The configured changes to the header fields of requests and responses.

use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate::config::SecretText;

use tidegate_http::is_same_variable;
use tidegate_server::NamedFiles;

use crate::config::{HeaderRules, is_field_value};
use crate::services::GatewayError;

/// The fields to remove, set and add, with their values already read.
#[derive(Debug, Default)]
pub(crate) struct FieldRules {
    remove: Vec<HeaderName>,
    set: Vec<(HeaderName, HeaderValue)>,
    add: Vec<(HeaderName, HeaderValue)>,
}

impl FieldRules {
    /// Combines the rules of the gateway with those of a route. Removing or setting a field also undoes
    /// earlier rules for it. Reads the values that are in files or environment variables.
    pub(crate) fn new(all: &[&HeaderRules], files: &mut NamedFiles) -> Result<Self, GatewayError> {
        let mut rules = Self::default();
        for file in all {
            let name = |name: &String| HeaderName::try_from(name).ok();
            let remove: Vec<_> = file.remove.iter().filter_map(name).collect();
            let set = fields(&file.set, files)?;
            let is_undone = |name: &HeaderName| {
                remove.contains(name) || set.iter().any(|(other, _)| other == name)
            };
            rules.set.retain(|(name, _)| !is_undone(name));
            rules.add.retain(|(name, _)| !is_undone(name));
            rules.remove.extend(remove);
            rules.set.extend(set);
            rules.add.extend(fields(&file.add, files)?);
        }
        Ok(rules)
    }

    /// Whether a field of this name is dropped. A name with underscores counts as the one with hyphens,
    /// because some services do not distinguish them.
    pub(crate) fn drops(&self, name: &HeaderName) -> bool {
        let is_same = |other: &HeaderName| is_same_variable(other.as_str(), name.as_str());
        self.remove.iter().any(is_same) || self.set.iter().any(|(other, _)| is_same(other))
    }

    /// The fields to set and add. If several rules set the same name, the last one counts.
    pub(crate) fn added(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        let is_last = |index: usize, name: &HeaderName| {
            let later = self.set.get(index + 1..).unwrap_or_default();
            later.iter().all(|(other, _)| other != name)
        };
        let set = self.set.iter().enumerate();
        let set = set.filter(move |(index, (name, _))| is_last(*index, name)).map(|(_, it)| it);
        set.chain(&self.add)
    }

    /// Applies the rules to complete header fields.
    pub(crate) fn apply(&self, headers: &mut HeaderMap) {
        for name in &self.remove {
            headers.remove(name);
        }
        for (name, value) in &self.set {
            headers.insert(name, value.clone());
        }
        for (name, value) in &self.add {
            headers.append(name, value.clone());
        }
    }
}

/// Converts names and values. The configuration was already checked, so no field is lost here.
fn fields(
    list: &[(String, SecretText)],
    files: &mut NamedFiles,
) -> Result<Vec<(HeaderName, HeaderValue)>, GatewayError> {
    let mut fields = Vec::with_capacity(list.len());
    for (name, value) in list {
        let text = read_secret(name, value, files)?;
        if let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name), HeaderValue::try_from(text))
        {
            value.set_sensitive(true);
            fields.push((name, value));
        }
    }
    Ok(fields)
}

/// The value of a field, from the plan, a file or the environment. Errors never show the value.
fn read_secret(
    name: &str,
    value: &SecretText,
    files: &mut NamedFiles,
) -> Result<String, GatewayError> {
    let (found, source) = match value {
        SecretText::Text(text) => return Ok(text.clone()),
        SecretText::File(path) => {
            let source = path.display().to_string();
            let bytes = files.read(path);
            let bytes = bytes.map_err(|error| secret_error(name, &source, &error.to_string()))?;
            let text = std::str::from_utf8(&bytes)
                .map_err(|_| secret_error(name, &source, "not valid UTF-8"))?;
            (text.trim_end_matches(['\r', '\n']).to_owned(), source)
        }
        SecretText::Env(variable) => {
            let source = format!("${variable}");
            // Not `env::var`: its error shows a value that is not valid UTF-8.
            let text =
                std::env::var_os(variable).ok_or_else(|| secret_error(name, &source, "not set"))?;
            (
                text.into_string().map_err(|_| secret_error(name, &source, "not valid UTF-8"))?,
                source,
            )
        }
        _ => return Err(secret_error(name, "its value", "unknown kind of source")),
    };
    match found.as_str() {
        "" => Err(secret_error(name, &source, "empty: expected the value of the field")),
        text if !is_field_value(text) => {
            Err(secret_error(name, &source, "not a valid field value"))
        }
        _ => Ok(found),
    }
}

fn secret_error(name: &str, source: &str, why: &str) -> GatewayError {
    GatewayError::new(format!("{source}: {why} (the value of {name})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_a_route_override_the_gateways() {
        let pair = |name: &str, value: &str| (name.to_owned(), SecretText::Text(value.to_owned()));
        let all = HeaderRules {
            remove: vec!["cookie".to_owned()],
            set: vec![pair("x-team", "all")],
            add: vec![pair("x-hop", "1")],
        };
        let route = HeaderRules { set: vec![pair("x-team", "route")], ..HeaderRules::default() };
        let rules = FieldRules::new(&[&all, &route], &mut NamedFiles::default()).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in [("cookie", "a"), ("x-team", "client"), ("x-hop", "0")] {
            headers.insert(name, value.parse().unwrap());
        }
        rules.apply(&mut headers);
        assert_eq!(headers.get("cookie"), None);
        assert_eq!(headers["x-team"], "route");
        assert_eq!(headers.get_all("x-hop").iter().collect::<Vec<_>>(), ["0", "1"]);
        let added: Vec<_> = rules.added().map(|(_, value)| value).collect();
        assert_eq!(added, ["route", "1"]);
        assert!(rules.drops(&"x-team".parse().unwrap()) && !rules.drops(&"x-hop".parse().unwrap()));
    }

    #[test]
    fn a_route_removes_and_replaces_what_the_gateway_adds() {
        let pair = |name: &str, value: &str| (name.to_owned(), SecretText::Text(value.to_owned()));
        let all = HeaderRules {
            remove: Vec::new(),
            set: vec![pair("x-key", "secret"), pair("x-both", "all")],
            add: vec![pair("x-hop", "1"), pair("x-set", "all")],
        };
        let route = HeaderRules {
            remove: vec!["x-key".to_owned(), "x-hop".to_owned(), "x-both".to_owned()],
            set: vec![pair("x-set", "route")],
            add: vec![pair("x-both", "route")],
        };
        let rules = FieldRules::new(&[&all, &route], &mut NamedFiles::default()).unwrap();
        let added: Vec<_> = rules.added().map(|(name, _)| name.as_str()).collect();
        assert_eq!(added, ["x-set", "x-both"]);
        let mut headers = HeaderMap::new();
        for name in ["x-key", "x-hop", "x-both", "x-set"] {
            headers.insert(name, "client".parse().unwrap());
            assert!(rules.drops(&name.parse().unwrap()));
        }
        rules.apply(&mut headers);
        assert_eq!((headers.get("x-key"), headers.get("x-hop")), (None, None));
        for name in ["x-both", "x-set"] {
            assert_eq!(headers.get_all(name).iter().collect::<Vec<_>>(), ["route"]);
        }
    }
}
