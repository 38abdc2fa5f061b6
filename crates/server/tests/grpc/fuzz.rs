//! Malformed messages over a connection: each is answered, and none causes a panic.

use bytes::Bytes;
use tidegate_testkit::Mutator;

use super::support::{METHOD, Server, entry, frame, request};

const FILE: &str = "
domain: edge
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 3 } }
  - { key: path, value: /api*, rate_limit: { unit: day, requests_per_unit: 7 } }
";

#[tokio::test]
async fn whatever_is_sent_is_answered() {
    let server = Server::start(FILE).await;
    let client = server.connect().await;
    let mut mutator = Mutator::new("envoy");
    let mut inputs = mutator.corpus().to_vec().into_iter();
    while let Some(input) = inputs.next().or_else(|| mutator.goes_on().then(|| mutator.input())) {
        // With a correct message header, and with the bytes as their own header.
        for body in [frame(0, &input), Bytes::from(input)] {
            let reply = client.call(METHOD, body.clone()).await;
            let code = reply.code();
            assert_eq!(reply.http, 200, "{body:?}");
            assert!(matches!(code, 0 | 12), "{code} for {body:?}");
        }
    }
    client.ask(&request([entry("user", "alice")])).await;
}
