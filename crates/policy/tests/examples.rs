//! The files under `examples/policies`, each loaded and put to use.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::path::Path;

use tidegate_core::{Cost, Span, Timestamp};
use tidegate_policy::{Plan, PolicySource};
use tidegate_store::{LocalStore, ManualClock, MemoryStore, Verdicts};

/// A plan at work, on a clock that stands still at noon on the first of January 2024, a Monday.
struct Gate {
    plan: Plan,
    store: MemoryStore<ManualClock>,
    clock: ManualClock,
}

impl Gate {
    fn new(file: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies").join(file);
        let plan = PolicySource::read(&path).and_then(|source| Plan::compile(&source));
        let plan = plan.unwrap_or_else(|problems| panic!("{problems}"));
        let clock = ManualClock::at(Timestamp::from_secs(1_704_110_400));
        let store = MemoryStore::builder().clock(clock.clone()).build();
        Self { plan, store, clock }
    }

    fn allows(&self, request: &[(&str, &str)]) -> bool {
        let request_charges = self.plan.charges(request, Cost::ONE);
        self.store.settle_now(request_charges.charges(), &mut Verdicts::new())
    }

    /// The number of requests that pass before one is denied.
    fn admitted(&self, request: &[(&str, &str)]) -> usize {
        (0..200_000).take_while(|_| self.allows(request)).count()
    }
}

#[test]
fn a_gateway_limits_by_user_address_key_endpoint_and_all_together() {
    let gate = Gate::new("gateway.yaml");
    assert_eq!(gate.admitted(&[("ip", "203.0.113.9")]), 600);
    assert_eq!(gate.admitted(&[("ip", "2001:db8::1")]), 600);
    assert!(!gate.allows(&[("ip", "2001:db8::2")]), "the same network");
    assert_eq!(gate.admitted(&[("api_key", "k1")]), 100);
    assert_eq!(gate.admitted(&[("user", "1")]), 300);
    let search = |user| [("path", "/api/search"), ("method", "GET"), ("user", user)];
    // 60 for each user on one endpoint, and a hundred for all users together.
    assert_eq!(gate.admitted(&search("2")), 60);
    assert_eq!(gate.admitted(&search("3")), 40);
    let user = |path| [("path", path), ("method", "GET"), ("user", "4")];
    assert_eq!(gate.admitted(&user("/api/users/1")), 60);
    assert!(!gate.allows(&user("/api/users/2")), "the same endpoint");
    assert_eq!(gate.admitted(&user("/api/orders/1/items")), 60);
    // No refused request was charged to the shared limit.
    let passed = 600 + 600 + 100 + 300 + 60 + 40 + 60 + 60;
    assert_eq!(gate.admitted(&[]), 5_000 - passed);
}

#[test]
fn tiers_give_the_anonymous_60_an_hour_and_the_signed_in_10000_a_day() {
    let gate = Gate::new("tiers.yaml");
    assert_eq!(gate.admitted(&[("ip", "203.0.113.9")]), 60);
    let user = |id, plan| [("ip", "203.0.113.9"), ("user", id), ("plan", plan)];
    assert_eq!(gate.admitted(&user("1", "free")), 10_000);
    assert_eq!(gate.admitted(&user("2", "enterprise")), 2_000);
    assert_eq!(gate.admitted(&user("3", "staff")), 200_000);
    assert_eq!(gate.admitted(&user("4", "banned")), 0);
    assert_eq!(gate.admitted(&user("42", "free")), 50_000);
    let report = [("user", "5"), ("path", "/reports/q1")];
    assert_eq!(gate.admitted(&report), 100);
    gate.clock.advance(Span::from_days(30));
    assert!(!gate.allows(&report), "still January");
    gate.clock.advance(Span::from_days(1));
    assert_eq!(gate.admitted(&report), 100);
}

#[test]
fn accounts_have_5_resets_an_hour_and_logins_are_counted_exactly() {
    let gate = Gate::new("accounts.yaml");
    let reset = |email| [("path", "/password/reset"), ("method", "POST"), ("email", email)];
    assert_eq!(gate.admitted(&reset("bob@example.org")), 5);
    assert!(!gate.allows(&reset("Bob@Example.ORG")));
    gate.clock.advance(Span::from_secs(3_600));
    assert_eq!(gate.admitted(&reset("BOB@example.org")), 5);

    let login = |ip| [("path", "/login/"), ("method", "POST"), ("ip", ip), ("email", "eve@x.org")];
    assert_eq!(gate.admitted(&login("203.0.113.9")), 5);
    // Observed, not enforced: another address may try the same account.
    assert_eq!(gate.admitted(&login("203.0.113.10")), 5);
    assert_eq!(gate.admitted(&login("203.0.113.11")), 5);
    let policy = gate.plan.policy("login-by-ip").unwrap();
    assert_eq!(policy.block().unwrap().span, Span::from_secs(900));
}

#[test]
fn any_action_can_be_limited() {
    let gate = Gate::new("actions.yaml");
    let act = |action, tenant| [("action", action), ("tenant", tenant)];
    assert_eq!(gate.admitted(&act("send-mail", "a")), 500);
    gate.clock.advance(Span::from_secs(12 * 3_600));
    assert_eq!(gate.admitted(&act("send-mail", "a")), 500, "a new day");
    let message = [("action", "send-sms"), ("phone", "+4912345")];
    // A caller that keeps to the rate is never denied.
    for _ in 0..5 {
        assert_eq!(gate.admitted(&message), 1);
        gate.clock.advance(Span::from_secs(30));
    }
    assert_eq!(gate.admitted(&message), 0, "the sixth in an hour");
    let write = |tenant| [("action", "write"), ("tenant", tenant), ("weight", "5")];
    assert_eq!(gate.admitted(&write("a")), 40);
    assert!(!gate.allows(&act("read", "a")), "the same bucket");
    assert_eq!(gate.admitted(&act("read", "b")), 200);
    assert!(!gate.allows(&write("b")), "the same bucket");
    let tokens = |count| [("action", "completion"), ("tenant", "a"), ("tokens", count)];
    assert_eq!(gate.admitted(&tokens("5000")), 4);
    assert!(!gate.allows(&tokens("everything")));
    assert_eq!(gate.admitted(&act("completion", "b")), 20);
}

/// An example is a file that people start from.
#[test]
fn no_example_needs_a_hint() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let policies = examples.join("policies");
    let files = std::fs::read_dir(policies).unwrap().map(|entry| entry.unwrap().path());
    let others = ["envoy/limits.yaml", "proxies/limits.yaml"];
    let starter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/src/starter.yaml");
    for path in files.chain(others.map(|file| examples.join(file))).chain([starter]) {
        let plan = PolicySource::read(&path).and_then(|source| Plan::compile(&source)).unwrap();
        assert_eq!(plan.hints(), [""; 0], "{}", path.display());
    }
}

#[test]
fn tenants_have_policies_of_their_own() {
    let gate = Gate::new("tenants.yaml");
    let user = |tenant| [("tenant", tenant), ("user", "1")];
    assert_eq!(gate.admitted(&user("acme")), 100);
    assert_eq!(gate.admitted(&user("globex")), 20);
    assert_eq!(gate.admitted(&user("initech")), 50);
    assert_eq!(gate.admitted(&user("hooli")), 30);
    assert_eq!(gate.admitted(&user("umbrella")), 30);
    assert_eq!(gate.plan.charges(&[("user", "1")], Cost::ONE).charges().len(), 0);
}

#[test]
fn keys_can_be_readable() {
    let gate = Gate::new("keys.yaml");
    let format = gate.plan.settings().key_format().unwrap();
    assert_eq!(format.as_str(), "gateway:{entity}:{limit}:{window_start}");
    let own = gate.plan.policy("exports").unwrap().key_format().unwrap();
    assert_eq!(own.as_str(), "gateway:{entity}:export:{window_start_ms}");
    assert!(gate.plan.policy("search").unwrap().key_format().is_none());
    assert_eq!(gate.admitted(&[("user", "1")]), 100);
}

#[test]
fn every_example_is_tested() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies");
    let source = include_str!("examples.rs");
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(source.contains(&format!("Gate::new(\"{name}\")")), "{name}");
    }
}
