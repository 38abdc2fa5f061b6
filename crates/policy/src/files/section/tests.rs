#![allow(clippy::unwrap_used, reason = "tests panic")]

use super::*;
use crate::{Plan, PolicySource, json_schema};

/// A section for programs that ring a bell.
#[derive(Debug)]
struct BellSection;

file_table! {
    /// A bell.
    struct FileBell("Bell", "a bell") {
        /// Its tone.
        tone: SourceValue<String> [required "a tone"],
    }
}

file_table! {
    /// What a policy has of a bell.
    struct FileBellPolicy("BellPolicy", "a policy") {
        /// How often it rings.
        rings: Option<SourceValue<String>> as u64,
    }
}

file_table! {
    /// A cost that is heard later.
    struct FileBellCost("BellCost", "a cost") {
        /// What is heard.
        echo: Option<SourceValue<String>>,
    }
}

impl Section for BellSection {
    const NAME: &'static str = "bell";
    const ABOUT: &'static str = "A bell that rings.";
    type File = FileBell;
    type PolicyFile = FileBellPolicy;
    type CostFile = FileBellCost;
    type Plan = String;
    type Policy = u64;

    fn compile(
        file: &SourceValue<FileBell>,
        context: &SectionContext<'_>,
        report: &mut ProblemReport<'_>,
    ) -> Option<String> {
        if file.value.tone.value == "silence" {
            report.add(&file.value.tone.at, "a bell that nobody hears");
        }
        let attributes: Vec<_> = context.attributes().collect();
        Some(format!("{} for {}", file.value.tone.value, attributes.join(", ")))
    }

    fn compile_policy(
        file: &SectionPolicy<'_, Self>,
        report: &mut ProblemReport<'_>,
    ) -> Option<u64> {
        let echo = file.cost.as_ref().and_then(|cost| cost.echo.as_ref());
        if let Some(echo) = echo.filter(|echo| echo.value == "silence") {
            report.add(&echo.at, "an echo that nobody hears");
        }
        whole(file.fields.rings.as_ref()?, "a number of rings", report)
    }
}

const SECTIONS: Sections = &[&BellSection];

fn compile(text: &str, sections: Sections) -> Result<Plan, String> {
    let source = PolicySource::new("f", text).unwrap().with_sections(sections);
    Plan::compile(&source).map_err(|problems| {
        let messages: Vec<_> = problems.iter().map(|it| it.message().to_owned()).collect();
        messages.join("\n")
    })
}

#[test]
fn a_section_is_compiled_into_the_plan_and_into_policies() {
    let text = "{ bell: { tone: deep }, policies: [
        { name: a, key: [user], limits: [5/minute], rings: 3 },
        { name: b, key: [ip], limits: [5/minute], cost: { echo: x } } ] }";
    let plan = compile(text, SECTIONS).unwrap();
    assert_eq!(plan.section::<BellSection>().unwrap(), "deep for user, ip");
    let [a, b] = plan.policies() else { unreachable!() };
    assert_eq!((a.section::<BellSection>(), a.is_counted_later()), (Some(&3), false));
    assert_eq!((b.section::<BellSection>(), b.is_counted_later()), (None, true));
    let plan = compile("policies: [{ name: a, key: [], limits: [5/minute] }]", SECTIONS).unwrap();
    assert!(plan.section::<BellSection>().is_none());
}

#[test]
fn a_section_that_the_program_does_not_have_is_an_unknown_field() {
    let text = "{ bell: {}, policies: [{ name: a, key: [], limits: [5/minute] }] }";
    let said = compile(text, &[]).unwrap_err();
    assert!(said.starts_with("unknown field \"bell\": expected store, "), "{said}");
    assert!(said.ends_with("defaults, policies"), "{said}");
    let text = "{ gateway: {}, policies: [{ name: a, key: [], limits: [5/minute] }] }";
    let said = compile(text, SECTIONS).unwrap_err();
    let expected = "is for the gateway of `tidegate serve`: this program does not read it";
    assert_eq!(said, format!("\"gateway\" {expected}"));
}

#[test]
fn one_run_reports_the_problems_of_the_file_and_of_its_sections() {
    let text = "{ bell: { tone: silence }, bel: 1, policies: [
        { name: a, key: [], limits: [5/minute], rings: often, ring: 1 },
        { name: b, key: [], limits: [5/minute], cost: { attribute: a, echo: x } },
        { name: c, key: [], limits: [5/minute], cost: { echo: silence } } ] }";
    let said = compile(text, SECTIONS).unwrap_err();
    for part in [
        "a bell that nobody hears",
        "an echo that nobody hears",
        "unknown field \"bel\" (did you mean \"bell\"?): expected store, store_password, key_format, \
         trusted_proxies, path_case, http, defaults, bell, policies",
        "\"often\": expected a number of rings",
        "unknown field \"ring\" (did you mean \"rings\"?): expected name, ",
        "key_format, rings",
        "expected exactly one source of the cost: attribute, echo",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}

#[test]
fn the_schema_has_the_fields_of_sections_at_their_places() {
    let without: serde_json::Value = serde_json::from_str(&json_schema(&[])).unwrap();
    let with: serde_json::Value = serde_json::from_str(&json_schema(SECTIONS)).unwrap();
    for (place, name) in [
        ("/properties", "bell"),
        ("/definitions/Policy/properties", "rings"),
        ("/definitions/CostFields/properties", "echo"),
    ] {
        assert!(without.pointer(place).unwrap().get(name).is_none(), "{name}");
        assert!(with.pointer(place).unwrap().get(name).is_some(), "{name}");
    }
    assert_eq!(with["properties"]["bell"]["description"], BellSection::ABOUT);
    assert_eq!(with["required"], serde_json::json!(["policies"]));
}
