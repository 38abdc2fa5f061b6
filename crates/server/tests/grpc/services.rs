//! Health and reflection.

use std::time::Duration;

use prost::Message;
use tidegate_server::ListenerConfig;
use tidegate_wire::envoy::SERVICE;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::support::{Client, Server, framed, post, soon};

const LIMITS: &str = "policies: [{ name: p, key: [a], limits: [5/minute] }]";

async fn health(client: &Client, service: &str) -> Result<ServingStatus, u32> {
    let request = framed(&HealthCheckRequest { service: service.to_owned() });
    let reply = client.call("/grpc.health.v1.Health/Check", request).await;
    match reply.code() {
        0 => Ok(HealthCheckResponse::decode(&reply.data[5..]).unwrap().status()),
        code => Err(code),
    }
}

#[tokio::test]
async fn it_is_healthy_until_it_stops() {
    let config =
        ListenerConfig { drain_delay: Duration::from_millis(300), ..ListenerConfig::default() };
    let mut server = Server::with(LIMITS, config).await;
    let client = server.connect().await;
    for service in ["", SERVICE] {
        assert_eq!(health(&client, service).await, Ok(ServingStatus::Serving));
    }
    assert_eq!(health(&client, "other").await, Err(5));

    let mut watching = client.0.clone().ready().await.unwrap();
    let (response, mut stream) =
        watching.send_request(post("/grpc.health.v1.Health/Watch"), false).unwrap();
    stream.send_data(framed(&HealthCheckRequest { service: SERVICE.to_owned() }), true).unwrap();
    let mut told = soon(response).await.unwrap().into_body();
    assert_eq!(next_status(&mut told).await, Some(ServingStatus::Serving));
    server.stop();
    assert_eq!(next_status(&mut told).await, Some(ServingStatus::NotServing));
    assert_eq!(health(&client, "").await, Ok(ServingStatus::NotServing));
    // The watch ends, or the drain would wait for it.
    assert_eq!(next_status(&mut told).await, None);
    server.stopped().await;
}

async fn next_status(stream: &mut h2::RecvStream) -> Option<ServingStatus> {
    let data = soon(stream.data()).await?.unwrap();
    Some(HealthCheckResponse::decode(&data[5..]).unwrap().status())
}

async fn reflect(client: &Client, version: &str, question: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
    let reply = client.call(&path, framed(&request)).await;
    assert_eq!(reply.code(), 0, "{reply:?}");
    ServerReflectionResponse::decode(&reply.data[5..]).unwrap().message_response.unwrap()
}

#[tokio::test]
async fn whoever_asks_is_shown_the_services_and_their_messages() {
    let server = Server::start(LIMITS).await;
    let client = server.connect().await;
    // Both versions look the same on the wire.
    for version in ["v1", "v1alpha"] {
        let list = MessageRequest::ListServices(String::new());
        let MessageResponse::ListServicesResponse(list) = reflect(&client, version, list).await
        else {
            panic!("no list")
        };
        let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
        for expected in [SERVICE, "grpc.health.v1.Health"] {
            assert!(names.contains(&expected), "{names:?}");
        }
        let symbol = MessageRequest::FileContainingSymbol(format!("{SERVICE}.ShouldRateLimit"));
        let MessageResponse::FileDescriptorResponse(file) = reflect(&client, version, symbol).await
        else {
            panic!("no file")
        };
        let file = prost_types::FileDescriptorProto::decode(&file.file_descriptor_proto[0][..]);
        assert_eq!(file.unwrap().package(), "envoy.service.ratelimit.v3");
    }
}
