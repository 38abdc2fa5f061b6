//! The parts of a policy that only a gateway reads, as they are written in the file.

use std::collections::BTreeMap;

use tidegate_policy::section::{
    OneOf, OneOrMany, SourceValue, YamlScalar, file_choice, file_table, texts,
};

use super::options::{FileHeader, field_list};

file_table! {
    /// What a gateway does with denied callers.
    pub struct FileGatewayPolicy("GatewayPolicy", "a policy") {
        /// Whether the gateway refuses denied callers, or lets them wait in line.
        on_denied: Option<SourceValue<String>> as OneOf<OnDenied>,
        /// The longest time that a caller waits in line. Defaults to 5s.
        max_wait: Option<SourceValue<String>>,
        /// How the gateway responds to denied callers, in place of the default response.
        denied: Option<FileDeniedResponse>,
    }
}

file_choice! {
    /// Whether denied callers wait in line.
    pub enum OnDenied("choice", "OnDeniedName", "What a gateway does with denied callers.") {
        /// They are refused.
        Refuse = "refuse",
        /// They wait.
        Wait = "wait",
    }
}

file_table! {
    /// A cost that only the response determines.
    pub struct FileResponseCost("ResponseCost", "a cost") {
        /// A header of the response that holds a number.
        response_header: Option<SourceValue<String>>,
        /// Only responses with these statuses count, such as 401 or 5xx.
        response_status: Option<Vec<SourceValue<String>>> as OneOrMany<YamlScalar>
            = texts("a status such as 401 or 5xx"),
    }
}

file_table! {
    /// The response to denied callers.
    pub struct FileDeniedResponse("Denied", "a response to denied callers") {
        /// The status, 400 to 599. Defaults to 429.
        status: Option<SourceValue<String>> as u16,
        /// The body. Defaults to a problem document.
        body: Option<SourceValue<String>>,
        /// The body's media type. Defaults to text/plain.
        content_type: Option<SourceValue<String>>,
        /// Headers in addition to Retry-After and RateLimit.
        headers: Vec<FileHeader> as BTreeMap<String, String> = field_list,
    }
}
