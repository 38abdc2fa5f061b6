//! Compiles the rules for ambiguous requests.

use super::choices::choose;
use crate::file::FileRequestRules;
use crate::problem::ProblemReport;
use crate::requests::{PathParameters, RequestRules};
use crate::yaml::SourceValue;

/// The rules of a gateway, which forwards requests and can drop fields from them.
pub(super) fn rules_for_gateway(
    file: Option<&FileRequestRules>,
    encoded_slashes: Option<&SourceValue<String>>,
    report: &mut ProblemReport<'_>,
) -> RequestRules {
    let mut rules = file.map(|file| rules(file, "drop", report)).unwrap_or_default();
    if let Some(here) = encoded_slashes {
        if file.is_some_and(|file| file.encoded_slashes.is_some()) {
            report.add(&here.at, "encoded_slashes occurs twice: expected it in \"requests\" only");
        }
        rules.keeps_encoded_slashes = is_second(here, ["refuse", "keep"], report);
    }
    rules
}

/// The rules for checks of requests by a proxy or a program, which can only be refused.
pub(super) fn rules_for_checks(
    file: Option<&FileRequestRules>,
    report: &mut ProblemReport<'_>,
) -> RequestRules {
    let Some(file) = file else { return RequestRules::default() };
    if let Some(field) = &file.override_fields {
        report.add(
            &field.at,
            "override_fields applies only to a gateway: expected it in \"gateway\"",
        );
    }
    rules(file, "refuse", report)
}

fn rules(
    file: &FileRequestRules,
    underscores: &'static str,
    report: &mut ProblemReport<'_>,
) -> RequestRules {
    let mut second = |text: &Option<SourceValue<String>>, names| {
        text.as_ref().is_some_and(|text| is_second(text, names, report))
    };
    let rules = RequestRules {
        path_parameters: PathParameters::default(),
        keeps_encoded_slashes: second(&file.encoded_slashes, ["refuse", "keep"]),
        keeps_underscores: second(&file.underscores, [underscores, "keep"]),
        keeps_override_fields: second(&file.override_fields, ["drop", "keep"]),
        keeps_odd_cookies: second(&file.odd_cookies, ["refuse", "keep"]),
        keeps_odd_queries: second(&file.odd_queries, ["refuse", "keep"]),
        refuses_other_schemes: second(&file.other_schemes, ["allow", "refuse"]),
    };
    let parameters = file
        .path_parameters
        .as_ref()
        .and_then(|name| choose(name, "choice", PathParameters::ALL, PathParameters::name, report));
    rules.path_parameters(parameters.unwrap_or_default())
}

/// Whether the second of two choices is chosen; the first is the default.
fn is_second(
    text: &SourceValue<String>,
    names: [&'static str; 2],
    report: &mut ProblemReport<'_>,
) -> bool {
    choose(text, "choice", &names, |name| name, report) == Some(names[1])
}
