//! Repeated fields and list fields, and their effect on routes and costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use support::echo::Echo;
use support::recorder::Recorder;
use support::{Front, GENEROUS};

fn request(fields: &str) -> String {
    format!("GET / HTTP/1.1\r\nhost: test\r\n{fields}\r\n")
}

#[tokio::test]
async fn a_field_with_two_values_chooses_no_route() {
    let echo = Echo::start().await;
    let front = Front::start(&format!(
        "gateway:
  upstreams: {{ up: 'http://{}' }}
  routes:
  - {{ name: inner, match: {{ 'header:X-Team': core }}, upstream: up }}
  - {{ name: outer, upstream: up }}
{GENEROUS}",
        echo.address
    ))
    .await;
    for twice in ["x-team: core\r\nx-team: other\r\n", "x-team: other\r\nX-Team: core\r\n"] {
        let reply = front.ask(&request(twice)).await;
        assert!(reply.problem(400).contains("header:x-team occurs twice"), "{reply:?}");
    }
    assert_eq!(echo.requests(), 0);
    assert_eq!(front.ask(&request("x-team: core\r\nx-team: core\r\n")).await.status, 400);
    for fine in ["x-other: 1\r\nx-other: 2\r\n", ""] {
        assert_eq!(front.ask(&request(fine)).await.status, 200, "{fine}");
    }
}

#[tokio::test]
async fn a_route_takes_back_what_the_gateway_sets() {
    let service = Recorder::start().await;
    let front = Front::start(&format!(
        "gateway:
  upstreams: {{ up: 'http://{}' }}
  request_headers: {{ set: {{ x-internal-key: secret }}, add: {{ x-hop: a }} }}
  response_headers: {{ set: {{ x-served-by: gateway }} }}
  routes:
  - name: outer
    upstream: up
    request_headers: {{ remove: [x-internal-key, x-hop] }}
    response_headers: {{ remove: [x-served-by] }}
{GENEROUS}",
        service.address
    ))
    .await;
    let reply = front.ask(&request("x-internal-key: guess\r\n")).await;
    assert_eq!((reply.status, reply.header("x-served-by")), (200, None));
    let heard = String::from_utf8(service.take()).unwrap();
    assert!(!heard.contains("x-internal-key") && !heard.contains("x-hop"), "{heard}");
}

#[tokio::test]
async fn http2_is_not_switched_to_from_the_middle_of_a_list() {
    let service = Recorder::start().await;
    let front = Front::to(service.address).await;
    for (list, is_passed_on) in [("foo, h2c", false), ("foo", true)] {
        front.ask(&request(&format!("connection: upgrade\r\nupgrade: {list}\r\n"))).await;
        let heard = String::from_utf8(service.take()).unwrap();
        assert_eq!(heard.contains("upgrade"), is_passed_on, "{heard}");
    }
}

#[tokio::test]
async fn a_cost_that_the_response_tells_shows_on_it() {
    let echo = Echo::start().await;
    let front = Front::start(&format!(
        "gateway: {{ upstreams: {{ up: 'http://{}' }} }}
http: {{ legacy_headers: seconds }}
policies:
- {{ name: tokens, key: [ip], limits: [100/hour], cost: {{ response_header: x-tokens, default: 1 }} }}",
        echo.address
    ))
    .await;
    for (path, left) in [
        ("/?x-tokens=60", 40),
        ("/", 39),
        ("/?x-tokens=0", 39),
        // A cost that exceeds the quota takes all that is left.
        ("/?x-tokens=1000", 0),
    ] {
        let reply = front.get(path).await;
        assert_eq!((reply.status, reply.header("retry-after")), (200, None), "{path}");
        let field = reply.header("ratelimit").unwrap();
        assert!(field.starts_with(&format!("\"tokens\";r={left};")), "{path}: {field}");
        assert_eq!(reply.header("x-ratelimit-remaining"), Some(&*left.to_string()), "{path}");
    }
    assert_eq!(front.get("/").await.status, 429);
}
