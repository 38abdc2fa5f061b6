//! What the gateway of a plan consists of besides limits: services, routes, keys of tokens, a log. It
//! names files, which are read once, when a plan is loaded.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tidegate::config::gateway;

use crate::forward::Rules;
use crate::jwt::{KeysError, Verifier};
use crate::log::{AccessLog, LogError};
use crate::upstream::{Cluster, TlsError};

/// A gateway's configuration, made ready.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) gateway: gateway::Gateway,
    /// In the order of the gateway's services.
    pub(crate) clusters: Vec<Arc<Cluster>>,
    /// In the order of the gateway's routes.
    pub(crate) ways: Vec<Way>,
    pub(crate) verifier: Option<Verifier>,
    pub(crate) log: Option<Arc<AccessLog>>,
    /// Lines that access logs have lost, this one and those before it.
    pub(crate) lost_lines: Arc<AtomicU64>,
}

/// Where a route leads, and what is changed on the way.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) name: String,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) requests: Rules,
    pub(crate) responses: Rules,
}

/// Why a gateway cannot be as its configuration says: a file that is not there, or makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct GatewayError(String);

impl GatewayError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl From<TlsError> for GatewayError {
    fn from(error: TlsError) -> Self {
        Self(error.to_string())
    }
}

impl From<KeysError> for GatewayError {
    fn from(error: KeysError) -> Self {
        Self(error.to_string())
    }
}

impl From<LogError> for GatewayError {
    fn from(error: LogError) -> Self {
        Self(error.to_string())
    }
}

impl Services {
    /// With what is known from those before: of addresses, and the log's file.
    pub(crate) fn new(
        gateway: gateway::Gateway,
        before: Option<&Self>,
    ) -> Result<Self, GatewayError> {
        let known = |name: &str| {
            let clusters = before.map(|it| &it.clusters[..]).unwrap_or_default();
            clusters.iter().find(|cluster| cluster.about.name == name)
        };
        let mut clusters = Vec::with_capacity(gateway.upstreams().len());
        for about in gateway.upstreams() {
            let known = known(&about.name);
            clusters.push(match known.filter(|cluster| cluster.about == *about) {
                Some(same) => Arc::clone(same),
                None => Arc::new(Cluster::new(about, known.map(|it| &**it))?),
            });
        }
        let way = |route: &gateway::Route| {
            Some(Way {
                name: route.name.clone(),
                cluster: Arc::clone(clusters.get(route.upstream())?),
                requests: Rules::new(&[&gateway.request_headers, &route.request_headers]),
                responses: Rules::new(&[&gateway.response_headers, &route.response_headers]),
            })
        };
        let lost_lines = before.map(|it| Arc::clone(&it.lost_lines)).unwrap_or_default();
        let ways = gateway.routes().iter().filter_map(way).collect();
        Ok(Self {
            ways,
            clusters,
            verifier: gateway.jwt.as_ref().map(Verifier::new).transpose()?,
            log: log(&gateway, before, &lost_lines)?,
            lost_lines,
            gateway,
        })
    }
}

fn log(
    gateway: &gateway::Gateway,
    before: Option<&Services>,
    lost_lines: &Arc<AtomicU64>,
) -> Result<Option<Arc<AccessLog>>, LogError> {
    let Some(about) = &gateway.access_log else { return Ok(None) };
    let open = before.and_then(|it| it.log.as_ref()).filter(|log| log.is_of(about));
    match open {
        Some(log) => Ok(Some(Arc::clone(log))),
        None => Ok(Some(Arc::new(AccessLog::open(about, Arc::clone(lost_lines))?))),
    }
}
