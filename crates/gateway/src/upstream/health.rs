//! Asks addresses from time to time whether they are well.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::{Method, Request, StatusCode};
use tidegate::config::gateway::HealthCheck;
use tokio::time::{sleep, timeout};

use super::Failure;
use super::cluster::Cluster;
use super::connect::connect;
use super::endpoint::Endpoint;
use super::h1::{Exchange, Framing, Link, Outcome, Outgoing};
use super::h2::{self, RequestBody};
use crate::forward::{FieldFilter, Forward, Rules, Trailers};

/// Asks every address of a service, for ever.
pub(crate) async fn watch(cluster: Arc<Cluster>) {
    let Some(check) = &cluster.about.health else { return };
    loop {
        // At the same time: those that do not answer keep nobody waiting for the others.
        join_all(cluster.endpoints.iter().map(|it| look(&cluster, it, check))).await;
        sleep(check.every.into()).await;
    }
}

async fn look(cluster: &Cluster, endpoint: &Endpoint, check: &HealthCheck) {
    let asked = timeout(check.timeout.into(), ask(cluster, endpoint, &check.path)).await;
    endpoint.said(matches!(asked, Ok(Ok(status)) if status.as_u16() < 400));
}

async fn ask(cluster: &Cluster, endpoint: &Endpoint, path: &str) -> Result<StatusCode, Failure> {
    let (wire, is_h2) = connect(cluster, endpoint).await?;
    let (parts, ()) = Request::new(()).into_parts();
    let (rules, filter) = (Rules::default(), FieldFilter::default());
    let forward = Forward {
        parts: &parts,
        target: path,
        host: None,
        rules: &rules,
        client: None,
        peer: None,
        is_secure: false,
        believed: false,
        upgrade: None,
        preserves_host: false,
        trace: None,
        framing: Framing::Sized,
        filter: &filter,
        length: None,
        trailers: Trailers::Dropped,
    };
    if is_h2 {
        let sender = h2::handshake(wire, LONG).await?;
        let request = forward.request(&endpoint.authority, false, RequestBody::default());
        let request = request.ok_or(Failure::Garbage("it cannot be asked for its host"))?;
        let response = h2::send(sender, request, LONG).await.map_err(|it| it.failure)?;
        return Ok(response.status());
    }
    let head = forward.encode(&endpoint.authority);
    let outgoing = Outgoing::new(head, None, Framing::Sized, Trailers::Dropped);
    match Exchange::new(Link::new(wire), outgoing, Method::GET, LONG).run(LONG).await {
        Outcome::Whole { status, .. } | Outcome::Streamed { status, .. } => Ok(status),
        Outcome::Switched { .. } => Err(Failure::Garbage("it switches protocols unasked")),
        Outcome::Failed { failure, .. } => Err(failure),
    }
}

/// The check as a whole has a timeout.
const LONG: Duration = Duration::from_secs(3_600);
