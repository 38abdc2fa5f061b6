//! What a configuration changes in the fields of messages.

use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate::config::gateway::{HeaderRules, SecretText, is_field_value};
use tidegate_http::is_same_variable;
use tidegate_server::NamedFiles;

use crate::services::GatewayError;

/// Rules, ready to be applied.
#[derive(Debug, Default)]
pub(crate) struct FieldRules {
    remove: Vec<HeaderName>,
    set: Vec<(HeaderName, HeaderValue)>,
    add: Vec<(HeaderName, HeaderValue)>,
}

impl FieldRules {
    /// Those of all requests, and then those of a route: what it removes or sets is also what was
    /// set or added before. Values that are elsewhere are read.
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

    /// Whether a field of this name is not passed on, also in its other spelling: some services take
    /// underscores for hyphens.
    pub(crate) fn drops(&self, name: &HeaderName) -> bool {
        let is_it = |other: &HeaderName| is_same_variable(other.as_str(), name.as_str());
        self.remove.iter().any(is_it) || self.set.iter().any(|(other, _)| is_it(other))
    }

    /// The fields that come in addition. Of several that set one name, the last.
    pub(crate) fn added(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        let is_last = |index: usize, name: &HeaderName| {
            let later = self.set.get(index + 1..).unwrap_or_default();
            later.iter().all(|(other, _)| other != name)
        };
        let set = self.set.iter().enumerate();
        let set = set.filter(move |(index, (name, _))| is_last(*index, name)).map(|(_, it)| it);
        set.chain(&self.add)
    }

    /// Changes a message that is there as a whole.
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

/// What a configuration allows is fit to be sent, so that nothing is lost here.
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

/// The value of a field, wherever it is. What is wrong with it is said without showing it.
fn read_secret(
    name: &str,
    value: &SecretText,
    files: &mut NamedFiles,
) -> Result<String, GatewayError> {
    let (found, place) = match value {
        SecretText::Text(text) => return Ok(text.clone()),
        SecretText::File(path) => {
            let place = path.display().to_string();
            let bytes = files.read(path);
            let bytes = bytes.map_err(|error| secret_error(name, &place, &error.to_string()))?;
            let text =
                std::str::from_utf8(&bytes).map_err(|_| secret_error(name, &place, "not text"))?;
            (text.trim_end_matches(['\r', '\n']).to_owned(), place)
        }
        SecretText::Env(variable) => {
            let place = format!("${variable}");
            // Not the error's own words: they show a value that is no text.
            let text =
                std::env::var_os(variable).ok_or_else(|| secret_error(name, &place, "not set"))?;
            (text.into_string().map_err(|_| secret_error(name, &place, "not text"))?, place)
        }
        _ => return Err(secret_error(name, "its value", "is of a kind that is not known")),
    };
    match found.as_str() {
        "" => Err(secret_error(name, &place, "empty: expected the value of the field")),
        text if !is_field_value(text) => Err(secret_error(name, &place, "no value of a field")),
        _ => Ok(found),
    }
}

fn secret_error(name: &str, place: &str, why: &str) -> GatewayError {
    GatewayError::new(format!("{place}: {why} (the value of {name})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_the_last_word() {
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
