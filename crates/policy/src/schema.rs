//! The JSON Schema of a configuration, for editors that complete and check as you type.

use schemars::generate::SchemaSettings;

use crate::file::ConfigFile;

/// Generates the schema that is checked in at `schema/policies.schema.json`.
pub fn json_schema() -> String {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<ConfigFile>();
    let mut text = format!("{:#}", schema.to_value());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::FileUpstreamFields;
    use crate::file::{self, FileKeyFields, FileLimitFields, FilePolicy, FileTier};
    use crate::file::{FileAccessLog, FileApiKey, FileCostFields, FileDeniedResponse, FileGateway};
    use crate::file::{FileHeaderRules, FileHealthCheck, FileJwt, FileRoute, FileTimeouts};

    /// The schema has exactly the fields that the reader accepts.
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
        assert_eq!(fields(&schema), sorted(ConfigFile::FIELDS));
        let definitions = &schema["definitions"];
        for (name, read) in [
            ("Http", file::FileHttp::FIELDS),
            ("Defaults", file::FileDefaults::FIELDS),
            ("Policy", FilePolicy::FIELDS),
            ("Tier", FileTier::FIELDS),
            ("LimitFields", FileLimitFields::FIELDS),
            ("KeyPartFields", FileKeyFields::FIELDS),
            ("CostFields", FileCostFields::FIELDS),
            ("Denied", FileDeniedResponse::FIELDS),
            ("Gateway", FileGateway::FIELDS),
            ("Route", FileRoute::FIELDS),
            ("UpstreamFields", FileUpstreamFields::FIELDS),
            ("Timeouts", FileTimeouts::FIELDS),
            ("Health", FileHealthCheck::FIELDS),
            ("HeaderRules", FileHeaderRules::FIELDS),
            ("ApiKey", FileApiKey::FIELDS),
            ("Jwt", FileJwt::FIELDS),
            ("AccessLog", FileAccessLog::FIELDS),
            ("Requests", file::FileRequestRules::FIELDS),
        ] {
            assert_eq!(fields(&definitions[name]), sorted(read), "{name}");
        }
    }
}
