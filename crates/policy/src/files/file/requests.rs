//! The rules for ambiguous requests, as they are written in the file.

use super::OneOf;
use crate::files::requests::PathParameters;
use crate::files::yaml::SourceValue;
use crate::{file_choice, file_table};

file_table! {
    /// Which parts of requests are refused because services are known to read them in two ways, and which are
    /// allowed nevertheless.
    pub struct FileRequestRules("Requests", "requests") {
        /// Paths with an encoded slash or backslash: refuse (the default) or keep.
        encoded_slashes: Option<SourceValue<RefuseOrKeep>>,
        /// What happens to a semicolon in a path and the text after it in its segment: refuse (the default);
        /// strip, also from the forwarded request; ignore, which forwards it but neither matches nor counts
        /// it; or keep, as part of the path.
        path_parameters: Option<SourceValue<PathParameters>>,
        /// Fields with an underscore, which some services read as a hyphen. At the gateway: drop (the
        /// default) or keep. Elsewhere: refuse (the default) a request with a field of a policy in its other
        /// spelling, or keep.
        underscores: Option<SourceValue<String>> as OneOf<UnderscoresRule>,
        /// Fields that override a path, method or address, such as X-Original-URL: drop (the default) or
        /// keep. Only at the gateway.
        override_fields: Option<SourceValue<OverrideFieldsRule>>,
        /// Cookies that policies use and that can be read in two ways, such as quoted ones: refuse (the
        /// default) or keep.
        odd_cookies: Option<SourceValue<RefuseOrKeep>>,
        /// Queries in which a parameter that policies use can be read in two ways: refuse (the default) or
        /// keep.
        odd_queries: Option<SourceValue<RefuseOrKeep>>,
        /// An Authorization that is not a bearer token: allow (the default) or refuse.
        other_schemes: Option<SourceValue<SchemesRule>>,
    }
}

file_choice! {
    /// Whether something is refused.
    pub enum RefuseOrKeep("choice", "RefuseOrKeep", "Refused or not.") {
        /// It is refused.
        Refuse = "refuse",
        /// It is not.
        Keep = "keep",
    }

    /// Whether fields that override a path, method or address are forwarded.
    pub enum OverrideFieldsRule("choice", "DropOrKeep", "Forwarded or not.") {
        Drop = "drop",
        Keep = "keep",
    }

    /// Whether an Authorization that is not a bearer token is refused.
    pub enum SchemesRule("choice", "AllowOrRefuse", "Allowed or not.") {
        Allow = "allow",
        Refuse = "refuse",
    }

    /// What happens to fields with an underscore. A gateway drops them and others refuse them, or they are
    /// kept.
    pub(crate) enum UnderscoresRule(
        "choice", "UnderscoresName", "What happens to fields with an underscore."
    ) {
        Drop = "drop",
        Refuse = "refuse",
        Keep = "keep",
    }
}
