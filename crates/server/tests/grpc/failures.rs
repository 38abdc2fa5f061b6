//! A store that does not answer: the policies' fallbacks decide, and the call succeeds.

use std::future::pending;
use std::time::Duration;

use tidegate::{Charge, Promise, SettleResult, Span, Store, StoreError, StoreErrorKind, Verdicts};
use tidegate_server::grpc::GrpcOptions;
use tidegate_server::{ClientRights, ListenerConfig};
use tidegate_wire::envoy::RateLimitOverride;

use super::support::{METHOD, Server, brief, entry, framed, header, load, post, refund, request};

const MODES: &str = "
policies:
  - { name: closed, key: [a], limits: [5/minute], on_store_error: closed }
  - { name: open, key: [b], limits: [1/minute], on_store_error: open }
  - { name: local, key: [c], limits: [1/minute] }
";

/// Fails immediately, or never answers.
struct Broken {
    hangs: bool,
}

impl Broken {
    async fn fail<T>(&self) -> Result<T, StoreError> {
        if self.hangs {
            pending::<()>().await;
        }
        Err(StoreError::new(StoreErrorKind::Unreachable, "nobody is there"))
    }
}

impl Store for Broken {
    fn settle<'a>(
        &'a self,
        _: &'a [Charge<'a>],
        _: Option<Span>,
        _: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        Promise::Later(async move { self.fail().await })
    }

    async fn refund(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        self.fail().await
    }

    async fn reset(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        self.fail().await
    }
}

#[tokio::test]
async fn each_policy_says_what_happens() {
    let app = load(MODES, Broken { hangs: false }).with_rights(ClientRights::ALL);
    let server = Server::run(app, ListenerConfig::default(), GrpcOptions::default()).await;
    let closed = server.ask(&request([entry("a", "x")])).await;
    assert_eq!(brief(&closed), (false, vec![(false, 0)]));
    assert_eq!(header(&closed, "retry-after"), Some("1"));
    for _ in 0..2 {
        assert!(brief(&server.ask(&request([entry("b", "x")])).await).0);
    }
    assert_eq!(brief(&server.ask(&request([entry("c", "x")])).await), (true, vec![(true, 0)]));
    assert_eq!(brief(&server.ask(&request([entry("c", "x")])).await), (false, vec![(false, 0)]));
    // Envoy's access log can show it.
    let told = closed.dynamic_metadata.unwrap();
    let kind = told.fields["source"].kind.clone();
    assert_eq!(kind, Some(prost_types::value::Kind::StringValue("fallback".to_owned())));
    // Of two descriptors, only the closed policy's is over its limit.
    let both = server.ask(&request([entry("b", "x"), entry("a", "x")])).await;
    assert_eq!(brief(&both), (false, vec![(true, 0), (false, 0)]));
    // A refund that is not possible is not an error.
    assert!(brief(&server.ask(&request([refund(entry("c", "x"), 1)])).await).0);
    let mut own = entry("d", "x");
    own.limit = Some(RateLimitOverride { requests_per_unit: 1, unit: 2 });
    assert_eq!(brief(&server.ask(&request([own.clone()])).await), (true, vec![(true, 0)]));
    assert_eq!(brief(&server.ask(&request([own])).await), (false, vec![(false, 0)]));
}

#[tokio::test]
async fn a_client_waits_no_longer_than_it_wants_to() {
    let config =
        ListenerConfig { body_timeout: Duration::from_millis(200), ..ListenerConfig::default() };
    let server = Server::on(Broken { hangs: true }, MODES, config).await;
    let client = server.connect().await;
    let mut head = post(METHOD);
    head.headers_mut().insert("grpc-timeout", "20m".parse().unwrap());
    let body = framed(&request([entry("c", "x")]));
    let reply = client.send(head, body.clone()).await.unwrap();
    assert_eq!(reply.denial(), ("timeout".to_owned(), "no decision within 20ms".to_owned()));
    // And not forever if the call has no deadline.
    let reply = client.call(METHOD, body).await;
    assert_eq!(reply.denial(), ("timeout".to_owned(), "no decision within 200ms".to_owned()));
}
