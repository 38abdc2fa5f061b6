//! Reads a body into a valid check or refund, or into a refusal that says what is wrong.

use serde::Deserialize;
use serde::de::Error;
use serde_json::value::RawValue;
use tidegate::{Cost, Plan, RequestCharges};
use tidegate_wire::{BatchRequest, CheckRequest, RefundRequest};

use super::diagnosis::{diagnose, diagnose_batch, expected_count, wrong_member};
use super::refusal::HttpRefusal;
use super::subject::HttpSubject;

/// A check or a refund: its subject, and how many units.
#[derive(Debug)]
pub(super) struct HttpQuestion<'a> {
    pub(super) subject: HttpSubject<'a>,
    pub(super) units: Cost,
}

impl<'a> HttpQuestion<'a> {
    pub(super) fn read_check(body: &'a [u8]) -> Result<Self, HttpRefusal> {
        let request: CheckRequest<'a> =
            read_object(body).map_err(|error| diagnose(body, "cost", &error))?;
        let units = units("cost", request.cost)?;
        let subject = HttpSubject::new(request.policy, request.key, request.attributes)?;
        Ok(Self { subject, units })
    }

    pub(super) fn read_refund(body: &'a [u8]) -> Result<Self, HttpRefusal> {
        let request: RefundRequest<'a> =
            read_object(body).map_err(|error| diagnose(body, "amount", &error))?;
        let units = units("amount", request.amount)?;
        let subject = HttpSubject::new(request.policy, request.key, request.attributes)?;
        Ok(Self { subject, units })
    }

    pub(super) fn request_charges<'p>(
        &self,
        plan: &'p Plan,
    ) -> Result<RequestCharges<'p>, HttpRefusal> {
        self.subject.request_charges(plan, self.units)
    }
}

/// Reads an object. Derived deserialization would also accept a list of the members' values, in an order
/// that is not documented.
pub(crate) fn read_object<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, serde_json::Error> {
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(serde_json::Error::custom("a list"));
    }
    serde_json::from_slice(body)
}

/// The checks of a batch, not yet parsed.
pub(super) fn read_checks(body: &[u8]) -> Result<Vec<&RawValue>, HttpRefusal> {
    let batch: BatchRequest<'_> =
        read_object(body).map_err(|error| diagnose_batch(body, &error))?;
    match batch.checks.len() {
        0..=BatchRequest::MAX => Ok(batch.checks),
        length => {
            let most = BatchRequest::MAX;
            let detail = format!("`checks` has {length} items: expected at most {most}");
            Err(HttpRefusal::invalid(Some("checks"), detail))
        }
    }
}

fn units(member: &str, units: Option<u64>) -> Result<Cost, HttpRefusal> {
    let Some(units) = units else { return Ok(Cost::ONE) };
    Cost::new(units).map_err(|_| wrong_member(member, units, &expected_count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_one_by_default() {
        let check = HttpQuestion::read_check(br#"{"policy": "p", "key": "k"}"#).unwrap();
        assert_eq!(check.units, Cost::ONE);
        let check = HttpQuestion::read_check(br#"{"attributes": {}, "cost": 0}"#).unwrap();
        assert!(check.units.is_peek());
        let refund =
            HttpQuestion::read_refund(br#"{"policy": "p", "key": "k", "amount": 3}"#).unwrap();
        assert_eq!(refund.units.get(), 3);
        assert!(HttpQuestion::read_refund(br#"{"policy": "p", "key": "k", "cost": 3}"#).is_err());
    }

    #[test]
    fn a_list_of_values_is_refused() {
        let lists = [r#"["p", "k", null, 1]"#, " \n\t[\"p\", \"k\", null, 1]", "[]", "[[]]"];
        for list in lists {
            let list = list.as_bytes();
            for refusal in [
                HttpQuestion::read_check(list).unwrap_err(),
                HttpQuestion::read_refund(list).unwrap_err(),
            ] {
                assert!(refusal.to_string().starts_with("the body is ["), "{refusal}");
            }
            assert!(read_checks(list).unwrap_err().to_string().starts_with("the body is ["));
        }
    }

    #[test]
    fn checks_of_a_batch_are_counted_and_not_read() {
        let batch = |count: usize| format!(r#"{{"checks": [{}]}}"#, vec!["7"; count].join(","));
        assert_eq!(read_checks(batch(256).as_bytes()).unwrap().len(), 256);
        let refusal = read_checks(batch(257).as_bytes()).unwrap_err().to_string();
        assert_eq!(refusal, "`checks` has 257 items: expected at most 256");
    }
}
