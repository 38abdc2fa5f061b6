//! The gRPC servers under measurement, each in its own process.

use std::sync::Arc;

use anyhow::{Context, bail};
use prost_types::Duration;
use tidegate::config::PolicySource;
use tidegate::{MemoryStore, RedisConfig, RedisStore, Store};
use tidegate_server::grpc::{self, GrpcOptions};
use tidegate_server::{App, ListenerConfig};
use tidegate_wire::envoy::rate_limit_service_server::{RateLimitService, RateLimitServiceServer};
use tidegate_wire::envoy::{
    Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitRequest, RateLimitResponse, Unit,
};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use super::{SERVERS_CORE, pin};

/// Serves until it is killed; prints its port.
pub(crate) fn serve(contestant: &str, limit: &str) -> anyhow::Result<()> {
    pin(SERVERS_CORE);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        match contestant {
            "tidegate" => {
                let store = MemoryStore::builder().max_keys(2_000_000).build();
                ours(listener, limit, store).await
            }
            url if url.starts_with("redis://") => {
                let config: RedisConfig = url.parse()?;
                ours(listener, limit, RedisStore::builder(config).build()).await
            }
            "tonic, bare" => bare(listener).await,
            other => bail!("{other:?}: expected one of {:?}", super::CONTESTANTS),
        }
    })
}

async fn ours<S: Store + 'static>(
    listener: TcpListener,
    limit: &str,
    store: S,
) -> anyhow::Result<()> {
    let (unit, requests) = match limit {
        "allowed" => ("second", u32::MAX),
        "denied" => ("year", 1),
        other => bail!("{other:?}: expected allowed or denied"),
    };
    let text = format!(
        "domain: bench\ndescriptors: [{{ key: user, \
         rate_limit: {{ unit: {unit}, requests_per_unit: {requests} }} }}]"
    );
    let app = App::load(&PolicySource::new("bench.yaml", text)?, store).context("the policies")?;
    let (config, options) = (ListenerConfig::default(), GrpcOptions::default());
    grpc::serve(listener, Arc::new(app), config, options, std::future::pending()).await;
    Ok(())
}

/// Reads the request and allows it, with an answer as long as ours.
struct Echo;

#[tonic::async_trait]
impl RateLimitService for Echo {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let request = request.into_inner();
        let yes = DescriptorStatus {
            code: Code::Ok.into(),
            current_limit: Some(RateLimit {
                name: "bench/user".to_owned(),
                requests_per_unit: u32::MAX,
                unit: Unit::Second.into(),
            }),
            limit_remaining: u32::MAX - 1,
            duration_until_reset: Some(Duration { seconds: 1, nanos: 0 }),
            ..DescriptorStatus::default()
        };
        let header = |key: &str, value: &str| HeaderValue {
            key: key.to_owned(),
            value: value.to_owned(),
            ..HeaderValue::default()
        };
        Ok(Response::new(RateLimitResponse {
            overall_code: Code::Ok.into(),
            statuses: request.descriptors.iter().map(|_| yes.clone()).collect(),
            response_headers_to_add: vec![
                header("ratelimit-policy", r#""bench/user";q=4294967295;w=1"#),
                header("ratelimit", r#""bench/user";r=4294967294;t=1"#),
            ],
            ..RateLimitResponse::default()
        }))
    }
}

async fn bare(listener: TcpListener) -> anyhow::Result<()> {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let mut server = tonic::transport::Server::builder();
    server.add_service(RateLimitServiceServer::new(Echo)).serve_with_incoming(incoming).await?;
    Ok(())
}
