//! Compiles the rules for ambiguous requests.

use crate::files::file::{
    FileRequestRules, OverrideFieldsRule, RefuseOrKeep, SchemesRule, UnderscoresRule, choose,
};
use crate::files::problem::ProblemReport;
use crate::files::requests::RequestRules;
use crate::files::yaml::SourceValue;

/// The rules of a gateway, which forwards requests and can drop fields from them.
pub fn rules_for_forwarding(
    file: Option<&FileRequestRules>,
    encoded_slashes: Option<&SourceValue<RefuseOrKeep>>,
    report: &mut ProblemReport<'_>,
) -> RequestRules {
    let mut rules = file.map(|file| rules(file, UnderscoresRule::Drop, report)).unwrap_or_default();
    if let Some(here) = encoded_slashes {
        if file.is_some_and(|file| file.encoded_slashes.is_some()) {
            report.add(&here.at, "encoded_slashes occurs twice: expected it in \"requests\" only");
        }
        rules.keeps_encoded_slashes = here.value == RefuseOrKeep::Keep;
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
    rules(file, UnderscoresRule::Refuse, report)
}

fn rules(
    file: &FileRequestRules,
    underscores: UnderscoresRule,
    report: &mut ProblemReport<'_>,
) -> RequestRules {
    let all = [underscores, UnderscoresRule::Keep];
    let underscores = file.underscores.as_ref();
    let underscores = underscores.and_then(|name| choose(name, "choice", &all, report));
    RequestRules {
        path_parameters: file.path_parameters.as_ref().map(|it| it.value).unwrap_or_default(),
        keeps_encoded_slashes: is_chosen(&file.encoded_slashes, RefuseOrKeep::Keep),
        keeps_underscores: underscores == Some(UnderscoresRule::Keep),
        keeps_override_fields: is_chosen(&file.override_fields, OverrideFieldsRule::Keep),
        keeps_odd_cookies: is_chosen(&file.odd_cookies, RefuseOrKeep::Keep),
        keeps_odd_queries: is_chosen(&file.odd_queries, RefuseOrKeep::Keep),
        refuses_other_schemes: is_chosen(&file.other_schemes, SchemesRule::Refuse),
    }
}

fn is_chosen<C: PartialEq>(file: &Option<SourceValue<C>>, choice: C) -> bool {
    file.as_ref().is_some_and(|chosen| chosen.value == choice)
}
