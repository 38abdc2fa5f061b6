//! Which requests share a counter.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use proptest::prelude::*;
use support::{from, get_from, limiter, statuses};
use tidegate_tower::{PeerIp, RateLimitLayer, RequestHead, RequestKey};

/// An app that allows each caller one request.
fn once(key: RequestKey) -> Router {
    let layer = RateLimitLayer::limiter(limiter("1/day").0).by(key);
    Router::new().route("/", get(|| async { "hello" })).layer(layer)
}

fn with(mut request: Request<Body>, fields: &[(&'static str, &str)]) -> Request<Body> {
    for (name, value) in fields {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    request
}

fn forwarded(peer: &str, field: &str) -> Request<Body> {
    with(get_from(peer), &[("x-forwarded-for", field)])
}

#[tokio::test]
async fn every_notation_of_a_network_of_ipv6_is_one_key() {
    let app = once(RequestKey::client_ip().trust_hops(1));
    assert_eq!(statuses(&app, [forwarded("10.0.0.1", "2001:db8::1")]).await, [200]);
    for same in [
        "2001:DB8:0:0:ffff::",
        "[2001:db8::2]",
        "[2001:db8::3]:443",
        "2001:db8::4%eth0",
        "2001:0db8:0000:0000:1:2:3:4",
        "6.6.6.6, 2001:db8::5",
    ] {
        assert_eq!(statuses(&app, [forwarded("10.0.0.1", same)]).await, [429], "{same}");
    }
    let others = ["2001:db8:0:1::1", "203.0.113.9"].map(|other| forwarded("10.0.0.1", other));
    assert_eq!(statuses(&app, others).await, [200, 200]);
    let mapped = forwarded("10.0.0.1", "::ffff:203.0.113.9");
    assert_eq!(statuses(&app, [mapped]).await, [429]);
}

#[tokio::test]
async fn an_address_that_a_function_finds_is_its_network() {
    let app = once(RequestKey::from_fn(|head| head.peer()));
    let [one, same, other] = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"].map(get_from);
    assert_eq!(statuses(&app, [one, same, other]).await, [200, 429, 200]);
    // A dual-stack socket reports IPv4 addresses as IPv6.
    let [one, same] = ["203.0.113.9", "::ffff:203.0.113.9"].map(get_from);
    assert_eq!(RequestHead::of(&same).peer(), RequestHead::of(&one).peer());
    assert_eq!(statuses(&app, [one, same]).await, [200, 429]);
}

#[tokio::test]
async fn a_wider_network_can_be_one_key() {
    let app = once(RequestKey::client_ip().ipv6_prefix(48));
    let [one, same, other] = ["2001:db8::1", "2001:db8:0:ff::1", "2001:db8:1::1"].map(get_from);
    assert_eq!(statuses(&app, [one, same, other]).await, [200, 429, 200]);
}

#[tokio::test]
async fn proxies_are_trusted_by_number_or_by_network() {
    let app = once(RequestKey::client_ip());
    let requests = ["1.1.1.1", "2.2.2.2"].map(|field| forwarded("10.0.0.1", field));
    assert_eq!(statuses(&app, requests).await, [200, 429]);
    let app = once(RequestKey::client_ip().trust_proxies(["10.0.0.0/8".parse().unwrap()]));
    let requests = [
        forwarded("10.0.0.1", "1.1.1.1"),
        forwarded("10.0.0.1", "9.9.9.9, 1.1.1.1, 10.0.0.2"),
        forwarded("203.0.113.9", "1.1.1.1"),
        forwarded("203.0.113.9", "2.2.2.2"),
    ];
    assert_eq!(statuses(&app, requests).await, [200, 429, 200, 429]);
}

#[tokio::test]
async fn nobody_is_believed_where_the_server_does_not_say_who_connects() {
    let app = once(RequestKey::client_ip().trust_proxies(["10.0.0.0/8".parse().unwrap()]));
    let unknown = |field| {
        let request = Request::get("/").body(Body::empty()).unwrap();
        with(request, &[("x-forwarded-for", field)])
    };
    assert_eq!(statuses(&app, ["1.1.1.1", "2.2.2.2"].map(unknown)).await, [200, 429]);
}

#[tokio::test]
async fn what_is_there_twice_is_refused_and_a_shadow_goes_by_the_first() {
    let twice = |name, values: [&str; 2]| with(get_from("::1"), &values.map(|value| (name, value)));
    let requests =
        || [twice("x-user", ["r1", "k"]), twice("x-user", ["k", "k"]), twice("x-user", ["k", "k"])];
    let by = RequestKey::header("x-user");
    assert_eq!(statuses(&once(by.clone()), requests()).await, [400; 3], "even if they are equal");
    let both = |token: &str| {
        with(get_from("::1"), &[("x-api-key", "k"), ("authorization", &format!("Bearer {token}"))])
    };
    assert_eq!(
        statuses(&once(RequestKey::api_key()), ["r1", "k", "k"].map(both)).await,
        [400, 200, 429]
    );
    assert_eq!(
        statuses(&once(RequestKey::bearer()), ["r1", "r2", "r1"].map(both)).await,
        [200, 200, 429]
    );
    let layer = RateLimitLayer::limiter(limiter("1/day").0).by(by).shadow();
    let watched = Router::new().route("/", get(|| async { "hello" })).layer(layer);
    assert_eq!(statuses(&watched, requests()).await, [200; 3]);
}

#[tokio::test]
async fn without_the_header_it_is_the_address_that_counts() {
    let app = once(RequestKey::header("x-user"));
    let alice = || with(get_from("10.0.0.1"), &[("x-user", "alice")]);
    let bare = || get_from("10.0.0.1");
    assert_eq!(statuses(&app, [alice(), alice(), bare(), bare()]).await, [200, 429, 200, 429]);
    assert_eq!(statuses(&app, [get_from("10.0.0.2")]).await, [200]);
    // Behind a proxy the address is the one that the proxy appended.
    let app = once(RequestKey::header("x-user").trust_hops(1));
    let requests = ["1.1.1.1", "1.1.1.1", "2.2.2.2"].map(|field| forwarded("10.0.0.1", field));
    assert_eq!(statuses(&app, requests).await, [200, 429, 200]);
}

#[tokio::test]
async fn what_is_missing_may_be_something_else() {
    let bare = || [get_from("10.0.0.1"), get_from("10.0.0.2"), get_from("10.0.0.2")];
    assert_eq!(
        statuses(&once(RequestKey::header("x-user").or_shared()), bare()).await,
        [200, 429, 429]
    );
    assert_eq!(
        statuses(&once(RequestKey::header("x-user").or_unlimited()), bare()).await,
        [200; 3]
    );
    let app = once(RequestKey::header("x-user").or(RequestKey::header("x-tenant")));
    let tenant = || with(get_from("10.0.0.3"), &[("x-tenant", "t")]);
    assert_eq!(statuses(&app, [tenant(), tenant()]).await, [200, 429]);
    assert_eq!(statuses(&app, bare()).await, [200, 200, 429]);
    let either = RequestKey::header("x-user")
        .or(RequestKey::header("x-tenant"))
        .or(RequestKey::header("x-other"));
    let app = once(either.clone());
    let other = || with(get_from("10.0.0.3"), &[("x-other", "t")]);
    // The same text, but different callers.
    assert_eq!(statuses(&app, [tenant(), other(), other()]).await, [200, 200, 429]);
    assert_eq!(statuses(&app, [tenant()]).await, [429]);
    assert_eq!(statuses(&app, bare()).await, [200, 200, 429]);
    let app = once(either.or_unlimited());
    assert_eq!(statuses(&app, [tenant(), tenant(), other(), other()]).await, [200, 429, 200, 429]);
    assert_eq!(statuses(&app, bare()).await, [200; 3]);
    // No request has a header with an invalid name.
    assert_eq!(statuses(&once(RequestKey::header("no name")), bare()).await, [200, 200, 429]);
}

/// Two clients behind one proxy, the first of them twice.
fn behind_a_proxy() -> [Request<Body>; 3] {
    ["1.1.1.1", "1.1.1.1", "2.2.2.2"].map(|field| forwarded("10.0.0.1", field))
}

#[tokio::test]
async fn what_one_key_says_of_proxies_holds_for_those_joined_with_it() {
    let (user, tenant) = (|| RequestKey::header("x-user"), || RequestKey::header("x-tenant"));
    let trusting = || user().trust_hops(1);
    for key in [
        trusting().or(tenant()),
        tenant().or(trusting()),
        tenant().or(RequestKey::header("x-other").or(trusting())),
        RequestKey::all([trusting(), tenant()]).or(RequestKey::header("x-other")),
        RequestKey::header("x-other").or(RequestKey::all([trusting(), tenant()])),
        RequestKey::all([tenant(), RequestKey::all([trusting(), RequestKey::header("x-other")])]),
        RequestKey::all([RequestKey::all([trusting(), tenant()]), RequestKey::header("x-other")]),
    ] {
        assert_eq!(
            statuses(&once(key.clone()), behind_a_proxy()).await,
            [200, 429, 200],
            "{key:?}"
        );
    }
    // Other keys do not override a setting, and the last setting for all of them wins.
    let both = trusting().or(tenant().trust_hops(0));
    assert_eq!(statuses(&once(both.clone()), behind_a_proxy()).await, [200, 429, 429]);
    assert_eq!(statuses(&once(both.trust_hops(1)), behind_a_proxy()).await, [200, 429, 200]);
}

#[tokio::test]
async fn what_one_key_says_of_networks_holds_for_those_joined_with_it() {
    let requests = || ["2001:db8::1", "2001:db8:0:ff::1", "2001:db8:1::1"].map(get_from);
    let wide = || RequestKey::client_ip().ipv6_prefix(48);
    for key in [
        RequestKey::header("x-user").or(wide()),
        RequestKey::header("x-user").ipv6_prefix(48).or(RequestKey::client_ip()),
        RequestKey::all([wide(), RequestKey::header("x-user")]),
        RequestKey::all([
            RequestKey::all([wide(), RequestKey::header("x-a")]),
            RequestKey::header("x-b"),
        ]),
    ] {
        assert_eq!(statuses(&once(key.clone()), requests()).await, [200, 429, 200], "{key:?}");
    }
}

#[tokio::test]
async fn callers_without_a_key_share_a_counter() {
    let app = once(RequestKey::client_ip());
    let unknown = || Request::get("/").body(Body::empty()).unwrap();
    assert_eq!(statuses(&app, [unknown(), unknown(), get_from("::1")]).await, [200, 429, 200]);
    let mut told = unknown();
    told.extensions_mut().insert(PeerIp("::2".parse().unwrap()));
    assert_eq!(statuses(&app, [told]).await, [429], "one network with ::1");
}

#[tokio::test]
async fn api_keys_extensions_and_functions_are_keys() {
    let app = once(RequestKey::api_key());
    let requests = [
        with(get_from("::1"), &[("authorization", "Bearer t1")]),
        with(get_from("::1"), &[("authorization", "bearer t1 "), ("x-api-key", "t1")]),
        with(get_from("::1"), &[("authorization", "Basic xyz"), ("x-api-key", "k1")]),
        with(get_from("::1"), &[("x-api-key", "t1")]),
    ];
    assert_eq!(statuses(&app, requests).await, [200, 429, 200, 429]);

    #[derive(Clone)]
    struct User(u64);
    let app = once(RequestKey::extension(|user: &User| user.0));
    let requests = [1, 1, 2].map(|id| {
        let mut request = get_from("::1");
        request.extensions_mut().insert(User(id));
        request
    });
    assert_eq!(statuses(&app, requests).await, [200, 429, 200]);

    let app = once(RequestKey::from_fn(|head| Some(head.uri().query()?.to_owned())));
    let requests = ["/?a", "/?a", "/?b", "/", "/"].map(|path| from("::1", path));
    assert_eq!(statuses(&app, requests).await, [200, 429, 200, 200, 429]);
}

#[tokio::test]
async fn several_keys_are_one_and_none_looks_like_another() {
    let app = once(RequestKey::all([
        RequestKey::header("a"),
        RequestKey::header("b"),
        RequestKey::header("c"),
    ]));
    let request = |fields: &[(&'static str, &str)]| with(get_from("32.33.34.35"), fields);
    let requests = [
        request(&[("a", "x"), ("b", "yz"), ("c", "")]),
        request(&[("a", "xy"), ("b", "z"), ("c", "")]),
        request(&[("a", "x"), ("b", "yz"), ("c", "")]),
        // The address replaces the third key or the first: the bytes are the same.
        request(&[("a", " !\"#"), ("b", "ip4")]),
        request(&[("b", " !\"#"), ("c", "ip4")]),
    ];
    assert_eq!(statuses(&app, requests).await, [200, 200, 429, 200, 200]);
    let app =
        once(RequestKey::all([RequestKey::client_ip(), RequestKey::header("a").or_unlimited()]));
    assert_eq!(statuses(&app, [request(&[]), request(&[])]).await, [200, 200]);
}

#[tokio::test]
async fn a_limiter_finds_what_the_layer_counts() {
    let (limiter, _clock) = limiter("1/day");
    let layer = RateLimitLayer::limiter(limiter.clone()).by(RequestKey::header("x-user"));
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer);
    let alice = || with(get_from("::1"), &[("x-user", "alice")]);
    assert_eq!(statuses(&app, [alice(), alice()]).await, [200, 429]);
    limiter.reset_now("alice");
    assert_eq!(statuses(&app, [alice()]).await, [200]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Entries that a client writes itself are to the left of those that the proxy appends.
    #[test]
    fn a_spoofed_prefix_never_changes_the_key(
        prefix in "[ -~]{0,60}",
        lines in prop::collection::vec("[ -~]{0,30}", 0..3),
        hops in 1_usize..3,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let keys = [
            RequestKey::client_ip().trust_hops(hops),
            RequestKey::client_ip().trust_proxies(["10.0.0.0/8".parse().unwrap()]),
            RequestKey::header("x-user").trust_hops(hops),
        ];
        for key in keys {
            let app = once(key);
            let inner = if hops == 2 { ", 10.0.0.2" } else { "" };
            let honest = format!("203.0.113.9{inner}");
            let spoofed = format!("{prefix}, {honest}");
            let fields: Vec<_> = lines.iter().chain([&spoofed]).map(|line| ("x-forwarded-for", line.as_str())).collect();
            let requests = [forwarded("10.0.0.1", &honest), with(get_from("10.0.0.1"), &fields)];
            prop_assert_eq!(runtime.block_on(statuses(&app, requests)), [200, 429]);
        }
    }
}
