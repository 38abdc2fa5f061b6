//! `RL.CHECK * name=value ...` and `RL.PEEK * name=value ...`: checks by all policies that apply to the
//! attributes, as `attributes` do over HTTP.

use tidegate::{Cost, Decision, Plan, RequestCharges};
use tidegate_http::{RateLimitAnswer, each_field};

use super::command_spec::{RespCommandSpec, RespVerb};
use super::policies::{RespCheckReply, RespPolicyArgs};
use super::reply::{RespProtocol, RespReplies, whole};

/// Whether a command is about all policies. A policy that is itself named `*` keeps its name.
#[inline]
pub(super) fn are_meant(words: &[&[u8]], plan: &Plan) -> bool {
    words.get(1) == Some(&ALL) && plan.policy("*").is_none()
}

/// The charges of a command in all policies that apply.
pub(super) fn request_charges<'p>(
    spec: &RespCommandSpec,
    words: &[&[u8]],
    plan: &'p Plan,
) -> Result<Box<RequestCharges<'p>>, String> {
    let args = RespPolicyArgs::named(words.get(2..).unwrap_or_default())?;
    let (args, cost) = match (args, spec.verb) {
        (Some(args), RespVerb::Check) => {
            let cost = args.cost.unwrap_or(Cost::ONE);
            (args, cost)
        }
        (Some(args), _) if args.cost.is_none() => (args, Cost::PEEK),
        _ => return Err(usage_error(spec)),
    };
    let charges = plan.charges(&args.attributes[..], cost);
    charges.cost_fault().map_or(Ok(()), |fault| Err(fault.to_string()))?;
    Ok(Box::new(charges))
}

#[cold]
fn usage_error(spec: &RespCommandSpec) -> String {
    let cost = if spec.verb == RespVerb::Check { " [COST n]" } else { "" };
    format!("all policies were asked: expected {} * name=value ...{cost}", spec.name)
}

/// Writes the reply of a check by name, and after it the policy that decided, its window in milliseconds,
/// where the decision comes from, and the values of the two `RateLimit` fields. Texts that do not apply
/// are empty, never null: a client that expects a string gets one.
pub(super) fn answer(charges: &RequestCharges<'_>, decision: &Decision, replies: &mut RespReplies) {
    let answer = RateLimitAnswer::of_charges(charges, decision);
    RespCheckReply::of(&answer).write_with(NAMES.len(), replies);
    let window = answer.tightest().map(|report| report.rule.limit.quota().window());
    let (mut quota, mut state) = (Vec::new(), Vec::new());
    each_field(&answer, None, |name, write| match name {
        "ratelimit-policy" => write(&mut quota),
        "ratelimit" => write(&mut state),
        _ => {}
    });
    let [policy_name, window_name, source_name, quota_name, state_name] = NAMES;
    text(policy_name, answer.policy().unwrap_or_default().as_bytes(), replies);
    begin(window_name, replies);
    replies.integer(window.map_or(-1, |window| whole(window.as_millis_ceil())));
    text(source_name, decision.source().name().as_bytes(), replies);
    text(quota_name, &quota, replies);
    text(state_name, &state, replies);
}

fn text(name: &str, value: &[u8], replies: &mut RespReplies) {
    begin(name, replies);
    replies.bulk(value);
}

/// Writes a member's name. Only maps have names.
fn begin(name: &str, replies: &mut RespReplies) {
    if replies.protocol() == RespProtocol::Resp3 {
        replies.bulk(name.as_bytes());
    }
}

const ALL: &[u8] = b"*";
const NAMES: [&str; 5] = ["policy", "window_ms", "source", "ratelimit_policy", "ratelimit"];

#[cfg(test)]
mod tests {
    use super::super::command_spec;
    use super::*;
    use tidegate::config::PolicySource;

    fn plan(policies: &str) -> Plan {
        Plan::compile(&PolicySource::new("test", format!("policies: [{policies}]")).unwrap())
            .unwrap()
    }

    const POLICIES: &str = "
        { name: login, match: { path: /login }, key: [ip], limits: [5/minute] },
        { name: per-user, key: [user], limits: [100/minute],
          tiers: [{ when: { plan: pro }, limits: [1000/minute] }] },
        { name: tokens, key: [model], limits: [9/minute], cost: { attribute: tokens, default: 2 } }";

    /// The capacity and the cost of each charge.
    fn charged(command: &str) -> Result<Vec<(u64, u64)>, String> {
        let plan = plan(POLICIES);
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let spec = command_spec::find(words[0]).unwrap();
        assert!(are_meant(&words, &plan));
        request_charges(spec, &words, &plan).map(|charges| {
            let numbers = |charge: &tidegate::Charge<'_>| {
                (charge.rule().limit.capacity(), charge.cost().get())
            };
            charges.charges().iter().map(numbers).collect()
        })
    }

    #[test]
    fn every_policy_that_applies_is_charged() {
        for (command, charges) in [
            ("RL.CHECK * user=7 path=/login ip=203.0.113.9", vec![(5, 1), (100, 1)]),
            ("RL.CHECK * path=/login COST 3 ip=203.0.113.9 user=7", vec![(5, 3), (100, 3)]),
            ("RL.PEEK * user=7 plan=pro", vec![(1000, 0)]),
            ("RL.CHECK * path=/cart ip=203.0.113.9", vec![]),
            ("RL.CHECK * model=large tokens=4", vec![(9, 4)]),
            ("RL.CHECK *", vec![]),
        ] {
            assert_eq!(charged(command), Ok(charges), "{command}");
        }
    }

    #[test]
    fn what_is_not_an_attribute_is_refused() {
        let usage = |expected: &str| Err(format!("all policies were asked: expected {expected}"));
        for command in ["RL.CHECK * alice", "RL.CHECK * user=7 3", "RL.CHECK * user=7 COST"] {
            assert_eq!(charged(command), usage("RL.CHECK * name=value ... [COST n]"), "{command}");
        }
        assert_eq!(charged("RL.PEEK * user=7 COST 1"), usage("RL.PEEK * name=value ..."));
        let twice = r#"attribute "user" occurs twice: expected one value"#;
        assert_eq!(charged("RL.CHECK * user=7 user=8"), Err(twice.to_owned()));
        let number = r#"tokens is "many": expected a whole number from 0 to 1000000000000000"#;
        assert_eq!(charged("RL.CHECK * model=large tokens=many"), Err(number.to_owned()));
        let names = |count: usize| (0..count).map(|name| format!(" a{name}=x")).collect::<String>();
        assert_eq!(charged(&format!("RL.CHECK *{}", names(256))), Ok(vec![]));
        let many = "too many attributes: expected at most 256";
        assert_eq!(charged(&format!("RL.CHECK *{}", names(257))), Err(many.to_owned()));
    }

    #[test]
    fn a_policy_with_that_name_keeps_it() {
        let plan = plan(r#"{ name: "*", key: [user], limits: [5/minute] }"#);
        assert!(!are_meant(&[b"RL.CHECK", b"*", b"alice"], &plan));
        assert!(!are_meant(&[b"RL.CHECK"], &plan));
    }
}
