//! Lists the attributes that the requests of a log have, for messages.

use serde_json::{Map, Value};

use super::field_names::GROUPS;
use super::input::LogInput;

/// The attributes of a log's first request, by the names that policies use for them.
pub(crate) fn attribute_names(input: &mut LogInput) -> Vec<String> {
    let start = String::from_utf8_lossy(&input.preview()).into_owned();
    let line = start.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: &str| match canonical(name) {
        "time" => {}
        name if names.iter().any(|other| other == name) => {}
        name => names.push(name.to_owned()),
    };
    if let Ok(object) = serde_json::from_str::<Map<String, Value>>(line) {
        for (name, value) in &object {
            match (name.as_str(), value) {
                ("request", Value::String(_)) => ["method", "path"].into_iter().for_each(&mut add),
                ("request" | "attributes", Value::Object(inner)) => {
                    inner.keys().for_each(|name| add(name));
                }
                _ => add(name),
            }
        }
    } else if line.contains(" [") && line.contains("] \"") {
        COMMON.into_iter().for_each(add);
    } else {
        line.split([',', ';', '\t']).map(|name| name.trim().trim_matches('"')).for_each(add);
    }
    names.truncate(MOST_NAMES);
    names
}

fn canonical(name: &str) -> &str {
    let group = GROUPS.iter().find(|(own, others)| *own == name || others.contains(&name));
    group.map_or(name, |(own, _)| own)
}

/// What lines in the common or combined format have.
const COMMON: [&str; 7] = ["ip", "user", "method", "path", "status", "referer", "user_agent"];
const MOST_NAMES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_policies_use() {
        for (log, expected) in [
            (
                "1.2.3.4 - - [x] \"GET / HTTP/1.1\" 200 5\n",
                "ip user method path status referer user_agent",
            ),
            ("{\"ts\": 1, \"client_ip\": \"a\", \"tenant\": \"b\"}\n", "ip tenant"),
            ("{\"time\": 1, \"request\": \"GET / HTTP/1.1\"}\n", "method path"),
            ("time,user_id,\"plan\"\n1,2,3\n", "user plan"),
            ("", ""),
        ] {
            let mut input = LogInput::bytes("log", log);
            let names = attribute_names(&mut input);
            assert_eq!(names.join(" ").trim(), expected, "{log}");
        }
    }
}
