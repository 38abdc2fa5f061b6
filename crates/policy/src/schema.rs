//! The JSON Schema of a configuration, for editors that complete and check as you type.

use schemars::generate::SchemaSettings;

use crate::file::File;

/// The schema, as it is checked in at `schema/policies.schema.json`.
pub fn json_schema() -> String {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<File>();
    let mut text = format!("{:#}", schema.to_value());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::UpstreamFields;
    use crate::file::{self, KeyPartFields, LimitFields, PolicyFile, Tier};
    use crate::file::{AccessLogFile, ApiKeyFile, CostFields, DeniedFile, GatewayFile};
    use crate::file::{HeaderRulesFile, HealthFile, JwtFile, RouteFile, TimeoutsFile};

    /// The schema offers exactly what is read, and nothing else.
    #[test]
    fn the_schema_knows_the_fields_that_are_read() {
        let schema: serde_json::Value = serde_json::from_str(&json_schema()).unwrap();
        let fields = |object: &serde_json::Value| {
            assert_eq!(object["additionalProperties"], false, "{object}");
            let mut names: Vec<String> =
                object["properties"].as_object().unwrap().keys().cloned().collect();
            names.sort();
            names
        };
        let sorted = |names: &[&str]| {
            let mut names: Vec<String> = names.iter().map(ToString::to_string).collect();
            names.sort();
            names
        };
        assert_eq!(fields(&schema), sorted(File::FIELDS));
        let definitions = &schema["definitions"];
        for (name, read) in [
            ("Http", file::Http::FIELDS),
            ("Defaults", file::Defaults::FIELDS),
            ("Policy", PolicyFile::FIELDS),
            ("Tier", Tier::FIELDS),
            ("LimitFields", LimitFields::FIELDS),
            ("KeyPartFields", KeyPartFields::FIELDS),
            ("CostFields", CostFields::FIELDS),
            ("Denied", DeniedFile::FIELDS),
            ("Gateway", GatewayFile::FIELDS),
            ("Route", RouteFile::FIELDS),
            ("UpstreamFields", UpstreamFields::FIELDS),
            ("Timeouts", TimeoutsFile::FIELDS),
            ("Health", HealthFile::FIELDS),
            ("HeaderRules", HeaderRulesFile::FIELDS),
            ("ApiKey", ApiKeyFile::FIELDS),
            ("Jwt", JwtFile::FIELDS),
            ("AccessLog", AccessLogFile::FIELDS),
            ("Requests", file::RequestsFile::FIELDS),
        ] {
            assert_eq!(fields(&definitions[name]), sorted(read), "{name}");
        }
    }
}
