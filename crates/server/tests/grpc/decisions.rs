//! The decisions about descriptors.

use tidegate::Span;
use tidegate_wire::envoy::{
    Code, RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitUnit, Unit,
};

use super::support::{Server, brief, entry, header, hits, refund, request};

const FILE: &str = "
domain: edge
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 3 } }
  - { key: user, value: vip, rate_limit: { unlimited: true } }
  - { key: beta, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: banned, rate_limit: { unit: second, requests_per_unit: 0 } }
";

const POLICIES: &str = "
policies:
  - { name: per-user, match: { domain: edge }, key: [user], limits: [2/minute, 3/hour], algorithm: fixed-window }
  - { name: month, key: [account], limits: [{ quota: 9, per: calendar-month }] }
  - { name: odd, key: [odd], limits: [5 per 10s] }
";

#[tokio::test]
async fn a_file_of_envoys_answers_and_says_how_each_descriptor_stands() {
    let server = Server::start(FILE).await;
    let client = server.connect().await;
    let alice = request([entry("user", "alice")]);
    server.clock.advance(Span::from_millis(500));
    for left in [2, 1, 0] {
        let response = client.ask(&alice).await;
        assert_eq!(brief(&response), (true, vec![(true, left)]));
        assert_eq!(header(&response, "retry-after"), None);
    }
    let response = client.ask(&alice).await;
    assert_eq!(brief(&response), (false, vec![(false, 0)]));
    let status = &response.statuses[0];
    let limit = status.current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit()), (3, Unit::Minute));
    assert_eq!(limit.name, "edge.user");
    let reset = status.duration_until_reset.unwrap();
    assert_eq!((reset.seconds, reset.nanos), (59, 500_000_000));
    assert_eq!(header(&response, "ratelimit-policy"), Some(r#""edge.user";q=3;w=60"#));
    assert_eq!(header(&response, "ratelimit"), Some(r#""edge.user";r=0;t=60"#));
    assert_eq!(header(&response, "retry-after"), Some("60"));

    assert_eq!(brief(&client.ask(&request([entry("user", "bob")])).await).1, [(true, 2)]);
    server.clock.advance(Span::from_secs(60));
    assert_eq!(brief(&client.ask(&alice).await).1, [(true, 2)]);
}

#[tokio::test]
async fn what_has_no_limit_is_allowed_and_says_nothing() {
    let server = Server::start(FILE).await;
    let nothing = request([entry("other", "x"), entry("user", "vip")]);
    let response = server.ask(&nothing).await;
    assert_eq!(brief(&response), (true, vec![(true, 0), (true, u32::MAX)]));
    assert!(response.statuses.iter().all(|status| status.current_limit.is_none()));
    assert!(response.response_headers_to_add.is_empty());
    let elsewhere =
        RateLimitRequest { domain: "other".to_owned(), ..request([entry("user", "a")]) };
    assert_eq!(brief(&server.ask(&elsewhere).await), (true, vec![(true, 0)]));
}

#[tokio::test]
async fn a_cost_that_is_no_number_is_denied_and_not_refused() {
    let policies = "policies: [{ name: t, key: [user], limits: [9/m], cost: { attribute: n } }]";
    let server = Server::start(policies).await;
    let ask = |cost| request([RateLimitDescriptor::new([("user", "alice"), ("n", cost)])]);
    assert_eq!(brief(&server.ask(&ask("4")).await), (true, vec![(true, 5)]));
    // Envoy may let a request pass if it gets no answer.
    assert_eq!(brief(&server.ask(&ask("many")).await), (false, vec![(false, 5)]));
}

#[tokio::test]
async fn a_shadow_is_seen_and_never_denies_and_zero_denies_everything() {
    let server = Server::start(FILE).await;
    let beta = request([entry("beta", "x")]);
    for left in [0, 0, 0] {
        let response = server.ask(&beta).await;
        assert_eq!(brief(&response), (true, vec![(true, left)]));
        assert_eq!(response.statuses[0].current_limit.as_ref().unwrap().unit(), Unit::Hour);
    }
    let response = server.ask(&request([entry("banned", "x")])).await;
    assert_eq!(brief(&response), (false, vec![(false, 0)]));
    assert_eq!(header(&response, "retry-after"), None, "it will never be allowed");
}

#[tokio::test]
async fn policies_of_ours_see_entries_as_attributes_and_the_domain() {
    let server = Server::start(POLICIES).await;
    let alice = || RateLimitDescriptor::new([("user", "alice"), ("path", "/x")]);
    assert_eq!(brief(&server.ask(&request([alice()])).await).1, [(true, 1)]);
    let response = server.ask(&request([alice()])).await;
    assert_eq!(response.statuses[0].current_limit.as_ref().unwrap().name, "per-user");
    assert_eq!(brief(&server.ask(&request([alice()])).await), (false, vec![(false, 0)]));
    // The second limit has been charged for only two: one is left when the minute is over.
    server.clock.advance(Span::from_secs(60));
    assert_eq!(brief(&server.ask(&request([alice()])).await).1, [(true, 0)]);
    let response = server.ask(&request([alice()])).await;
    assert_eq!(response.statuses[0].current_limit.as_ref().unwrap().unit(), Unit::Hour);

    let elsewhere = RateLimitRequest { domain: "other".to_owned(), ..request([alice()]) };
    assert_eq!(brief(&server.ask(&elsewhere).await), (true, vec![(true, 0)]));
    // An entry cannot pretend to be another domain.
    let claims = RateLimitDescriptor::new([("domain", "edge"), ("user", "bob")]);
    let claims = RateLimitRequest { domain: "other".to_owned(), ..request([claims]) };
    assert!(server.ask(&claims).await.statuses[0].current_limit.is_none());
}

#[tokio::test]
async fn units_are_named_where_there_is_a_name() {
    let server = Server::start(POLICIES).await;
    for (key, expected) in [("account", (9, Unit::Month)), ("odd", (5, Unit::Unknown))] {
        let response = server.ask(&request([entry(key, "x")])).await;
        let limit = response.statuses[0].current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit()), expected);
    }
}

#[tokio::test]
async fn hits_are_those_of_the_descriptor_and_zero_only_looks() {
    let server = Server::start(FILE).await;
    let user = || entry("user", "alice");
    let two = RateLimitRequest { hits_addend: 2, ..request([user()]) };
    assert_eq!(brief(&server.ask(&two).await).1, [(true, 1)]);
    for _ in 0..3 {
        let look = request([hits(user(), 0)]);
        assert_eq!(brief(&server.ask(&look).await), (true, vec![(true, 1)]));
    }
    let mixed = RateLimitRequest { hits_addend: 2, ..request([hits(user(), 1)]) };
    assert_eq!(brief(&server.ask(&mixed).await).1, [(true, 0)]);
    // A peek is denied when nothing is left: some callers only peek before they pay.
    let response = server.ask(&request([hits(user(), 0)])).await;
    assert_eq!(brief(&response), (false, vec![(false, 0)]));
    assert_eq!(header(&response, "retry-after"), Some("60"));
}

#[tokio::test]
async fn more_than_ever_fits_is_denied_and_takes_nothing() {
    let server = Server::start(FILE).await;
    let response = server.ask(&request([hits(entry("user", "alice"), 4)])).await;
    assert_eq!(brief(&response), (false, vec![(false, 3)]));
    assert_eq!(header(&response, "retry-after"), None);
}

#[tokio::test]
async fn negative_hits_give_back() {
    let server = Server::start(FILE).await;
    let user = || entry("user", "alice");
    assert_eq!(brief(&server.ask(&request([hits(user(), 3)])).await).1, [(true, 0)]);
    assert_eq!(brief(&server.ask(&request([refund(user(), 2)])).await), (true, vec![(true, 2)]));
    assert_eq!(brief(&server.ask(&request([hits(user(), 2)])).await).1, [(true, 0)]);
    // Never more than there was.
    assert_eq!(brief(&server.ask(&request([refund(user(), 9)])).await).1, [(true, 3)]);
    // Without a number, as much as a request takes.
    server.ask(&request([hits(user(), 3)])).await;
    let one = RateLimitDescriptor { is_negative_hits: true, ..user() };
    assert_eq!(brief(&server.ask(&request([one])).await).1, [(true, 1)]);
}

#[tokio::test]
async fn who_gives_back_is_not_told_to_wait() {
    // Nothing is left after the refund either: a denied caller is blocked for a while.
    let limits = "policies: [{ name: a, key: [user], limits: [1/minute], \
                  algorithm: fixed-window, block_for: 10m }]";
    let server = Server::start(limits).await;
    let user = || request([entry("user", "alice")]);
    server.ask(&user()).await;
    assert_eq!(header(&server.ask(&user()).await, "retry-after"), Some("600"));
    let response = server.ask(&request([refund(entry("user", "alice"), 1)])).await;
    assert_eq!(brief(&response), (true, vec![(true, 0)]));
    assert_eq!(header(&response, "retry-after"), None);
    assert_eq!(header(&response, "ratelimit"), Some(r#""a";r=0;t=600"#));
}

#[tokio::test]
async fn a_descriptor_may_bring_its_own_limit() {
    let limited = |user: &str, requests_per_unit, unit: RateLimitUnit| RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit, unit: unit.into() }),
        ..entry("user", user)
    };
    for limits in [FILE, POLICIES] {
        let server = Server::start(limits).await;
        let five = || request([limited("alice", 5, RateLimitUnit::Hour)]);
        for left in [4, 3, 2, 1, 0] {
            assert_eq!(brief(&server.ask(&five()).await), (true, vec![(true, left)]));
        }
        let response = server.ask(&five()).await;
        assert_eq!(brief(&response), (false, vec![(false, 0)]));
        let limit = response.statuses[0].current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit()), (5, Unit::Hour));
        assert_eq!(header(&response, "ratelimit-policy"), Some(r#""override";q=5;w=3600"#));
        // Another limit in the same window finds the count; others do not.
        let seven = request([limited("alice", 7, RateLimitUnit::Hour)]);
        assert_eq!(brief(&server.ask(&seven).await).1, [(true, 1)]);
        let daily = request([limited("alice", 7, RateLimitUnit::Day)]);
        assert_eq!(brief(&server.ask(&daily).await).1, [(true, 6)]);
        let bob = request([limited("bob", 7, RateLimitUnit::Hour)]);
        assert_eq!(brief(&server.ask(&bob).await).1, [(true, 6)]);
        let elsewhere = RateLimitRequest { domain: "other".to_owned(), ..five() };
        assert_eq!(brief(&server.ask(&elsewhere).await).1, [(true, 4)]);
        // The configured limit was not charged.
        let response = server.ask(&request([entry("user", "alice")])).await;
        assert!(response.overall_code() == Code::Ok && response.statuses[0].limit_remaining > 0);
    }
}

#[tokio::test]
async fn a_value_that_is_no_text_is_limited_like_any_other() {
    let server = Server::start(FILE).await;
    let strange = || request([RateLimitDescriptor::new([("user", b"\xff\xfe".to_vec())])]);
    for left in [2, 1, 0] {
        assert_eq!(brief(&server.ask(&strange()).await).1, [(true, left)]);
    }
    assert_eq!(brief(&server.ask(&strange()).await), (false, vec![(false, 0)]));
}

#[tokio::test]
async fn a_request_that_makes_no_sense_is_told_which_field() {
    let server = Server::start(FILE).await;
    let client = server.connect().await;
    let nameless = RateLimitRequest { domain: String::new(), ..request([entry("user", "a")]) };
    let huge = hits(entry("user", "a"), u64::MAX);
    for (request, expected) in [
        (nameless, "domain is empty: expected a name"),
        (request([]), "descriptors is empty: expected at least one"),
        (request(vec![entry("a", "b"); 33]), "descriptors has 33 items: expected at most 32"),
        (request([huge]), "descriptors[0].hits_addend is 18446744073709551615"),
    ] {
        let (reason, detail) = client.refused(&request).await;
        assert_eq!(reason, "malformed");
        assert!(detail.starts_with(expected), "{detail}");
    }
}
