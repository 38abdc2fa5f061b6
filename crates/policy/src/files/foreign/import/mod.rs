//! Translates files of other limiters into our own format, with comments on what is not carried over.

mod envoy;
mod limitador;
mod writer;

use super::{FileFormat, rlaas};
use crate::files::file::{ConfigFile, FileLimitForm};
use crate::files::problem::{FileProblems, ProblemReport};
use crate::files::yaml;
use crate::{Plan, PolicySource};
use writer::{ImportWriter, PolicyText};

/// Translates another limiter's file into ours: RLaaS, envoyproxy/ratelimit or limitador.
///
/// ```
/// use tidegate::Plan;
/// use tidegate::config::{PolicySource, import};
///
/// let theirs = "
/// domain: edge
/// descriptors:
///   - key: remote_address
///     rate_limit: { unit: minute, requests_per_unit: 100 }
/// ";
/// let ours = import(&PolicySource::new("ratelimit.yaml", theirs)?)?;
/// assert!(ours.contains("limits: [100/minute]"));
/// assert!(Plan::compile(&PolicySource::new("limits.yaml", ours)?).is_ok());
/// # Ok::<(), tidegate::config::FileProblems>(())
/// ```
pub fn import(source: &PolicySource) -> Result<String, FileProblems> {
    let mut report = ProblemReport::new(source);
    let text = yaml::parse(&mut report).and_then(|root| match FileFormat::of(&root) {
        FileFormat::Envoy => envoy::translate(&root, &mut report),
        FileFormat::Limitador => limitador::translate(&root, &mut report),
        FileFormat::Rlaas => rlaas::read(&root, &mut report).map(|file| translate_rlaas(&file)),
        FileFormat::Tidegate => {
            let theirs = "an envoyproxy/ratelimit, limitador or RLaaS file";
            let what = match root.get("policies").is_some() {
                true => "this is a Tidegate file already",
                false => "there is nothing to import here",
            };
            report.add(&root.at, format!("{what}: expected {theirs}"));
            None
        }
    });
    match text {
        Some(text) if report.is_clean() => check(source, text),
        _ => Err(report.into_problems()),
    }
}

/// Compiles the translation: some names and values of other formats are invalid in ours.
fn check(source: &PolicySource, text: String) -> Result<String, FileProblems> {
    let ours = PolicySource::new("imported", text)?;
    let Err(problems) = Plan::compile(&ours) else { return Ok(ours.text().to_owned()) };
    let mut report = ProblemReport::new(source);
    for problem in problems.iter() {
        report
            .add(&(0..0), format!("cannot be expressed in a Tidegate file: {}", problem.message()));
    }
    Err(report.into_problems())
}

fn translate_rlaas(file: &ConfigFile) -> String {
    let mut writer = match &file.store {
        Some(store) => ImportWriter::with_store("RLaaS", &store.value),
        None => ImportWriter::new("RLaaS"),
    };
    for policy in &file.policies {
        let limits = policy.limits.iter().flatten().filter_map(|limit| match &limit.form {
            FileLimitForm::Fields(fields) => {
                let per = fields.per.as_ref().map(|per| per.value.as_str()).unwrap_or_default();
                Some(format!("{}/{per}", fields.quota.value))
            }
            FileLimitForm::Text(_) => None,
        });
        let mut text = PolicyText::new(&policy.name.value);
        text.limits = limits.collect();
        text.key = vec!["userId".to_owned()];
        text.algorithm = policy.algorithm.as_ref().map(|choice| choice.value.name().to_owned());
        text.counts_denied = policy.count_denied.as_ref().is_some_and(|flag| flag.value);
        text.key_format = policy.key_format.as_ref().map(|format| format.value.clone());
        writer.policy(&text);
    }
    writer.finish()
}
