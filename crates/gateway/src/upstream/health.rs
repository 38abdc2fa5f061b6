//! Health checks: requests a path from every address of a service at an interval.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::{Method, Request, StatusCode};
use tokio::time::{sleep, timeout};

use super::UpstreamFailure;
use super::cluster::UpstreamCluster;
use super::connect::connect;
use super::endpoint::UpstreamEndpoint;
use super::h1::{ForwardFraming, Http1Exchange, Http1Outcome, Http1Request, UpstreamLink};
use super::h2::{self, Http2RequestBody};
use crate::config::HealthCheck;
use crate::forward::{FieldFilter, FieldRules, ForwardRequest, TrailerFilter};

/// Checks every address of a service, forever.
pub(crate) async fn check_forever(cluster: Arc<UpstreamCluster>) {
    let Some(check) = &cluster.config.health else { return };
    loop {
        // Concurrently: an address that does not respond must not delay the others.
        join_all(cluster.endpoints.iter().map(|it| check_endpoint(&cluster, it, check))).await;
        sleep(check.every.into()).await;
    }
}

async fn check_endpoint(
    cluster: &UpstreamCluster,
    endpoint: &UpstreamEndpoint,
    check: &HealthCheck,
) {
    let result = timeout(check.timeout.into(), fetch_status(cluster, endpoint, &check.path)).await;
    endpoint.set_health(matches!(result, Ok(Ok(status)) if status.as_u16() < 400));
}

async fn fetch_status(
    cluster: &UpstreamCluster,
    endpoint: &UpstreamEndpoint,
    path: &str,
) -> Result<StatusCode, UpstreamFailure> {
    let (stream, is_h2) = connect(cluster, endpoint).await?;
    let (parts, ()) = Request::new(()).into_parts();
    let (rules, filter) = (FieldRules::default(), FieldFilter::default());
    let forward = ForwardRequest::without_client(&parts, path, &rules, &filter);
    if is_h2 {
        let sender = h2::handshake(stream, NO_TIMEOUT).await?;
        let request =
            forward.request(&endpoint.authority, endpoint.is_secure(), Http2RequestBody::default());
        let response = h2::send(sender, request?, NO_TIMEOUT).await.map_err(|it| it.failure)?;
        return Ok(response.status());
    }
    let head = forward.encode(&endpoint.authority);
    let request = Http1Request::new(head, None, ForwardFraming::Sized, TrailerFilter::Dropped);
    match Http1Exchange::new(UpstreamLink::new(stream), request, Method::GET, NO_TIMEOUT)
        .run(NO_TIMEOUT)
        .await
    {
        Http1Outcome::Whole { status, .. } | Http1Outcome::Streamed { status, .. } => Ok(status),
        Http1Outcome::Switched { .. } => {
            Err(UpstreamFailure::Malformed("it switches protocols unrequested"))
        }
        Http1Outcome::Failed { failure, .. } => Err(failure),
    }
}

/// Practically none: `check_endpoint` has a timeout for the whole check.
const NO_TIMEOUT: Duration = Duration::from_secs(3_600);
