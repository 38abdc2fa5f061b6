//! Properties of the code that reads files and requests. The targets in `fuzz/` search for inputs that
//! violate them, and ordinary tests check them on the corpora.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a property panics")]

use tidegate_core::{Cost, KeyTemplate, Limit, Quota, Span};

use crate::{FileProblems, IpAddress, IpNetwork, Plan, PolicySource, import, path_in_normal_form};

/// A file becomes a plan that handles any request, or problems that can be shown. The same holds for
/// another limiter's file, and its translation is a valid file of ours.
pub fn policies(bytes: &[u8]) {
    let source = match PolicySource::from_bytes("fuzz.yaml", bytes) {
        Ok(source) => source,
        Err(problems) => return show(&problems),
    };
    match Plan::compile(&source) {
        Err(problems) => show(&problems),
        Ok(plan) => {
            for request in REQUESTS {
                let charges = plan.charges(*request, Cost::ONE);
                assert!(charges.charges().len() <= Plan::MAX_CHARGES);
                let explained = plan.explain(*request);
                assert!(explained.len() <= plan.policies().len());
            }
            assert!(plan.attributes().count() <= Plan::MAX_ATTRIBUTES);
        }
    }
    match import(&source) {
        Err(problems) => show(&problems),
        Ok(text) => {
            let ours = PolicySource::new("imported.yaml", text).expect("a text of ours");
            Plan::compile(&ours).unwrap_or_else(|problems| panic!("{problems}"));
        }
    }
}

/// There is at least one problem, and every message is short enough to show.
fn show(problems: &FileProblems) {
    assert!(problems.iter().count() > 0);
    assert!(!problems.to_string().is_empty());
    let longest = problems.iter().map(|problem| problem.message().len()).max();
    assert!(longest.is_some_and(|bytes| bytes < MAX_MESSAGE), "a message of {longest:?} bytes");
}

/// Quotas, spans and limits read the same after they were written; parsing templates and networks never
/// panics.
pub fn quotas(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(quota) = text.parse::<Quota>() {
        assert_eq!(quota.to_string().parse::<Quota>(), Ok(quota));
    }
    if let Ok(span) = text.parse::<Span>() {
        assert_eq!(span.to_string().parse::<Span>(), Ok(span));
    }
    if let Ok(limit) = text.parse::<Limit>() {
        assert_eq!(limit.quota().to_string().parse::<Quota>(), Ok(limit.quota()));
    }
    let _ = text.parse::<KeyTemplate>();
    let _ = text.parse::<IpNetwork>();
}

/// The normal form of a path is its own normal form and has no dot segments. An address reads the same
/// after it was written.
pub fn normal_forms(bytes: &[u8]) {
    let normal = path_in_normal_form(bytes);
    assert!(normal.starts_with(b"/"), "{}", normal.escape_ascii());
    assert_eq!(path_in_normal_form(&normal), normal);
    let mut segments = normal.split(|byte| *byte == b'/').skip(1);
    assert!(!segments.any(|segment| matches!(segment, b"." | b"..")), "{}", normal.escape_ascii());
    // Some services decode once more than we do, so no escaped letter may be left to decode.
    let decoded = normal.windows(3).filter(|escape| is_escaped_letter(escape)).count();
    assert_eq!(decoded, 0, "an escaped letter in {}", normal.escape_ascii());
    if let Some(address) = IpAddress::read(bytes) {
        let text = std::net::IpAddr::from(address).to_string();
        assert_eq!(IpAddress::read(text.as_bytes()), Some(address));
    }
}

fn is_escaped_letter(text: &[u8]) -> bool {
    let [b'%', digits @ ..] = text else { return false };
    let digits = std::str::from_utf8(digits).unwrap_or_default();
    u8::from_str_radix(digits, 16).is_ok_and(|byte| byte.is_ascii_alphanumeric())
}

const REQUESTS: &[&[(&str, &str)]] = &[
    &[],
    &[("ip", "203.0.113.9"), ("user", "alice"), ("path", "/api/a/../b"), ("method", "POST")],
    &[("ip", "::ffff:203.0.113.9"), ("key", "\u{0}"), ("host", "example.com"), ("api_key", "k")],
];

/// In bytes; more than any message needs.
const MAX_MESSAGE: usize = 4_000;

#[cfg(test)]
mod tests {
    use tidegate_testkit::fuzz;

    #[test]
    fn a_file_is_a_plan_or_has_problems_that_can_be_shown() {
        fuzz("policies", super::policies);
    }

    #[test]
    fn quotas_read_the_same_after_they_were_written() {
        fuzz("quotas", super::quotas);
    }

    #[test]
    fn paths_and_addresses_have_one_normal_form() {
        fuzz("normal_forms", super::normal_forms);
    }
}
