//! The layer in tonic.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

#[path = "../examples/grpc.rs"]
#[allow(dead_code, reason = "an example has a main")]
mod grpc;

use tonic::transport::Channel;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[tokio::test]
async fn a_call_too_many_is_resource_exhausted_with_retry_info() {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let server = async move { grpc::serve(incoming).await.unwrap() };
    tokio::task::LocalSet::new()
        .run_until(async move {
            tokio::task::spawn_local(server);
            let channel = Channel::from_shared(format!("http://{address}")).unwrap();
            let mut client = HealthClient::new(channel.connect().await.unwrap());
            let mut check =
                async || client.check(Request::new(HealthCheckRequest::default())).await;
            for _ in 0..3 {
                let response = check().await.unwrap();
                assert!(response.metadata().contains_key("ratelimit"));
            }
            let status = check().await.unwrap_err();
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert!(status.message().starts_with("limit_exceeded: try again in "), "{status:?}");
            assert!(!status.message().contains("us"), "{status:?}");
            assert!(status.metadata().contains_key("retry-after"));
            assert!(status.metadata().contains_key("grpc-retry-pushback-ms"));
            // google.rpc.Status: code 8 first, and the one detail is a RetryInfo.
            let details = status.details();
            assert_eq!(details[..2], [8, 8]);
            let url = b"type.googleapis.com/google.rpc.RetryInfo";
            assert!(details.windows(url.len()).any(|part| part == url));
        })
        .await;
}
