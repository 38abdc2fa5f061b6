//! From a body to a valid question, or to a refusal that says why not.

use serde::Deserialize;
use serde::de::Error;
use serde_json::value::RawValue;
use tidegate::{Cost, Owed, Plan};
use tidegate_wire::{BatchRequest, CheckRequest, RefundRequest};

use super::diagnose::{a_count, diagnose, diagnose_batch, wrong};
use super::problem::Refusal;
use super::subject::Subject;

/// The subject, and how much: a check, or a refund.
#[derive(Debug)]
pub(super) struct Question<'a> {
    pub(super) subject: Subject<'a>,
    pub(super) units: Cost,
}

impl<'a> Question<'a> {
    pub(super) fn check(body: &'a [u8]) -> Result<Self, Refusal> {
        let request: CheckRequest<'a> =
            object(body).map_err(|error| diagnose(body, "cost", &error))?;
        let units = units("cost", request.cost)?;
        let subject = Subject::new(request.policy, request.key, request.attributes)?;
        Ok(Self { subject, units })
    }

    pub(super) fn refund(body: &'a [u8]) -> Result<Self, Refusal> {
        let request: RefundRequest<'a> =
            object(body).map_err(|error| diagnose(body, "amount", &error))?;
        let units = units("amount", request.amount)?;
        let subject = Subject::new(request.policy, request.key, request.attributes)?;
        Ok(Self { subject, units })
    }

    pub(super) fn owed<'p>(&self, plan: &'p Plan) -> Result<Owed<'p>, Refusal> {
        self.subject.owed(plan, self.units)
    }
}

/// Reads an object. What is derived for a struct would also take a list of its members' values, in an
/// order that nobody was told.
pub(crate) fn object<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, serde_json::Error> {
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(serde_json::Error::custom("a list"));
    }
    serde_json::from_slice(body)
}

/// The checks of a batch, unread.
pub(super) fn checks(body: &[u8]) -> Result<Vec<&RawValue>, Refusal> {
    let batch: BatchRequest<'_> = object(body).map_err(|error| diagnose_batch(body, &error))?;
    match batch.checks.len() {
        0..=BatchRequest::MAX => Ok(batch.checks),
        length => {
            let most = BatchRequest::MAX;
            let detail = format!("`checks` has {length} items: expected at most {most}");
            Err(Refusal::bad(Some("checks"), detail))
        }
    }
}

fn units(member: &str, units: Option<u64>) -> Result<Cost, Refusal> {
    let Some(units) = units else { return Ok(Cost::ONE) };
    Cost::new(units).map_err(|_| wrong(member, units, &a_count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unit_unless_said() {
        let check = Question::check(br#"{"policy": "p", "key": "k"}"#).unwrap();
        assert_eq!(check.units, Cost::ONE);
        let check = Question::check(br#"{"attributes": {}, "cost": 0}"#).unwrap();
        assert!(check.units.is_peek());
        let refund = Question::refund(br#"{"policy": "p", "key": "k", "amount": 3}"#).unwrap();
        assert_eq!(refund.units.get(), 3);
        assert!(Question::refund(br#"{"policy": "p", "key": "k", "cost": 3}"#).is_err());
    }

    #[test]
    fn a_list_of_values_is_no_question() {
        let lists = [r#"["p", "k", null, 1]"#, " \n\t[\"p\", \"k\", null, 1]", "[]", "[[]]"];
        for list in lists {
            let list = list.as_bytes();
            for refusal in [Question::check(list).unwrap_err(), Question::refund(list).unwrap_err()]
            {
                assert!(refusal.to_string().starts_with("the body is ["), "{refusal}");
            }
            assert!(checks(list).unwrap_err().to_string().starts_with("the body is ["));
        }
    }

    #[test]
    fn checks_of_a_batch_are_counted_and_not_read() {
        let batch = |count: usize| format!(r#"{{"checks": [{}]}}"#, vec!["7"; count].join(","));
        assert_eq!(checks(batch(256).as_bytes()).unwrap().len(), 256);
        let refusal = checks(batch(257).as_bytes()).unwrap_err().to_string();
        assert_eq!(refusal, "`checks` has 257 items: expected at most 256");
    }
}
