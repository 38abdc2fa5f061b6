//! Reads RLaaS files: one algorithm and one quota for every user.

use tidegate_core::{AlgorithmKind, Quota};

use crate::files::compile::whole;
use crate::files::file::{
    ConfigFile, FileKeyPart, FileLimit, FileLimitFields, FileLimitForm, FilePolicy,
};
use crate::files::problem::{ProblemReport, brief};
use crate::files::yaml::{ByteRange, SourceValue, YamlFields, YamlNode, YamlValue};

/// Reads the file as a configuration of ours. The other settings of the application are ignored, except
/// for the store.
pub(crate) fn read(root: &YamlNode, report: &mut ProblemReport<'_>) -> Option<ConfigFile> {
    let node = root.get("rate-limiter")?;
    let policy = YamlFields::of(node, "rate-limiter", FIELDS, report)
        .and_then(|fields| read_policy(&node.at, &fields, report));
    Some(ConfigFile {
        store: store(root),
        policies: policy.into_iter().collect(),
        ..ConfigFile::default()
    })
}

/// The store, if it is text as in our own files. Anything else is a setting of the application.
fn store(root: &YamlNode) -> Option<SourceValue<String>> {
    let node = root.get("store")?;
    match &node.value {
        YamlValue::Text(url) => Some(SourceValue::new(node.at.clone(), url.clone())),
        _ => None,
    }
}

/// Every field is read before any is reported missing, so that one run shows every mistake.
fn read_policy(
    at: &ByteRange,
    fields: &YamlFields<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<FilePolicy> {
    let algorithm = algorithm(fields, report);
    let quota = quota(fields, report);
    let window = window(fields, report);
    Some(policy(at, algorithm?, quota?, window?))
}

fn algorithm(fields: &YamlFields<'_>, report: &mut ProblemReport<'_>) -> Option<RlaasAlgorithm> {
    fields.required("use-algo", "fixed-window-algo or sliding-window-algo", report)?;
    let name = fields.text("use-algo", report)?;
    let found = ALGORITHMS.iter().find(|algorithm| algorithm.theirs == name.value);
    if found.is_none() {
        let names: Vec<_> = ALGORITHMS.iter().map(|algorithm| algorithm.theirs).collect();
        report.add_unknown(&name.at, "algorithm", &name.value, &names);
    }
    found.copied()
}

fn quota(fields: &YamlFields<'_>, report: &mut ProblemReport<'_>) -> Option<SourceValue<String>> {
    fields.required("max-requests", "a number", report)?;
    let quota = fields.text("max-requests", report)?;
    whole(&quota, "a quota", report)?;
    Some(quota)
}

fn window(fields: &YamlFields<'_>, report: &mut ProblemReport<'_>) -> Option<SourceValue<String>> {
    fields.required("window-size", "a number of seconds", report)?;
    let window = fields.text("window-size", report)?;
    let seconds = whole(&window, "a window in seconds", report)?;
    let most = Quota::MAX_WINDOW.as_secs_ceil();
    if !(1..=most).contains(&seconds) {
        let value = brief(&window.value);
        report.add(&window.at, format!("{value:?}: expected a window of 1 to {most} seconds"));
        return None;
    }
    Some(window.map(|_| format!("{seconds}s")))
}

fn policy(
    at: &ByteRange,
    algorithm: RlaasAlgorithm,
    quota: SourceValue<String>,
    window: SourceValue<String>,
) -> FilePolicy {
    let here = |text: &str| SourceValue::new(at.clone(), text.to_owned());
    let limit = FileLimitFields { quota, per: Some(window), ..FileLimitFields::default() };
    FilePolicy {
        name: here("rlaas"),
        key: vec![FileKeyPart::Name(here("userId"))],
        limits: Some(vec![FileLimit { at: at.clone(), form: FileLimitForm::Fields(limit) }]),
        algorithm: Some(SourceValue::new(at.clone(), algorithm.ours)),
        count_denied: Some(SourceValue::new(at.clone(), algorithm.counts_denied)),
        key_format: Some(here(algorithm.key_format)),
        ..FilePolicy::default()
    }
}

/// An algorithm of RLaaS, and the settings that make ours compatible with it.
#[derive(Clone, Copy)]
struct RlaasAlgorithm {
    theirs: &'static str,
    ours: AlgorithmKind,
    key_format: &'static str,
    counts_denied: bool,
}

const ALGORITHMS: &[RlaasAlgorithm] = &[
    RlaasAlgorithm {
        theirs: "fixed-window-algo",
        ours: AlgorithmKind::FixedWindow,
        key_format: "rlaas:rate_limit:{entity}:{window_index}",
        counts_denied: true,
    },
    RlaasAlgorithm {
        theirs: "sliding-window-algo",
        ours: AlgorithmKind::SlidingLog,
        key_format: "rlaas:rate_limit:{entity}",
        counts_denied: false,
    },
];

const FIELDS: &[&str] = &["use-algo", "max-requests", "window-size"];
