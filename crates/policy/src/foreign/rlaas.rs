//! RLaaS: one algorithm, one quota, for every user.

use crate::compile::whole;
use crate::file::{File, KeyPart, LimitFields, LimitFile, LimitForm, PolicyFile};
use crate::problem::Report;
use crate::yaml::{At, Fields, Node, Spot};

/// The same as a configuration of ours. The other settings of the application are not our
/// business.
pub(crate) fn read(root: &Node, report: &mut Report<'_>) -> Option<File> {
    let node = root.get("rate-limiter")?;
    let fields = Fields::of(node, "rate-limiter", FIELDS, report)?;
    let algorithm =
        match fields.required("use-algo", "fixed-window-algo or sliding-window-algo", report) {
            Some(_) => algorithm(&fields.text("use-algo", report)?, report),
            None => None,
        };
    let quota = fields.required("max-requests", "a number", report).is_some();
    let window = fields.required("window-size", "a number of seconds", report).is_some();
    let quota = quota.then(|| fields.text("max-requests", report)).flatten()?;
    let window = window.then(|| fields.text("window-size", report)).flatten()?;
    whole(&window, "a window in seconds", report)?;
    Some(file(node.at.clone(), algorithm?, quota, window))
}

fn algorithm(name: &Spot<String>, report: &mut Report<'_>) -> Option<Algorithm> {
    let found = ALGORITHMS.iter().find(|algorithm| algorithm.theirs == name.value);
    if found.is_none() {
        let names: Vec<_> = ALGORITHMS.iter().map(|algorithm| algorithm.theirs).collect();
        report.unknown(&name.at, "algorithm", &name.value, &names);
    }
    found.copied()
}

fn file(at: At, algorithm: Algorithm, quota: Spot<String>, window: Spot<String>) -> File {
    let spot = |text: &str| Spot::new(at.clone(), text.to_owned());
    let limit = LimitFields {
        quota,
        per: Some(window.map(|seconds| format!("{seconds}s"))),
        algorithm: None,
        burst: None,
    };
    let policy = PolicyFile {
        name: spot("rlaas"),
        condition: Vec::new(),
        key: vec![KeyPart::Name(spot("userId"))],
        limits: Some(vec![LimitFile { at: at.clone(), form: LimitForm::Fields(limit) }]),
        algorithm: Some(spot(algorithm.ours)),
        tiers: Vec::new(),
        overrides: Vec::new(),
        mode: None,
        count_denied: Some(Spot::new(at.clone(), algorithm.counts_denied)),
        stagger: None,
        block_for: None,
        cost: None,
        on_store_error: None,
        store_deadline: None,
        precision: None,
        key_format: Some(spot(algorithm.key_format)),
        on_denied: None,
        max_wait: None,
        denied: None,
    };
    File { policies: vec![policy], ..File::default() }
}

#[derive(Clone, Copy)]
struct Algorithm {
    theirs: &'static str,
    ours: &'static str,
    key_format: &'static str,
    counts_denied: bool,
}

const ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        theirs: "fixed-window-algo",
        ours: "fixed-window",
        key_format: "rlaas:rate_limit:{entity}:{window_index}",
        counts_denied: true,
    },
    Algorithm {
        theirs: "sliding-window-algo",
        ours: "sliding-log",
        key_format: "rlaas:rate_limit:{entity}",
        counts_denied: false,
    },
];

const FIELDS: &[&str] = &["use-algo", "max-requests", "window-size"];
