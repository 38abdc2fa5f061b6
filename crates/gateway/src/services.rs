//! What the gateway of a plan consists of besides limits: services, routes, keys of tokens, a log. It
//! names files, which are read when a plan is loaded and when they change, and never by a request.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tidegate::config::gateway;
use tidegate_server::NamedFiles;

use crate::access_log::{AccessLog, AccessLogError};
use crate::forward::FieldRules;
use crate::jwt::{JwtKeysError, JwtVerifier};
use crate::upstream::{UpstreamCluster, UpstreamTlsError};

/// A gateway's configuration, made ready.
#[derive(Debug)]
pub(crate) struct GatewayServices {
    pub(crate) gateway: gateway::GatewayPlan,
    /// In the order of the gateway's services.
    pub(crate) clusters: Vec<Arc<UpstreamCluster>>,
    /// In the order of the gateway's routes.
    pub(crate) route_targets: Vec<RouteTarget>,
    pub(crate) verifier: Option<Arc<JwtVerifier>>,
    pub(crate) log: Option<Arc<AccessLog>>,
    /// Lines that access logs have lost, this one and those before it.
    pub(crate) lost_lines: Arc<AtomicU64>,
    /// Signatures of tokens that were verified, by these services and those before them.
    pub(crate) signatures: Arc<AtomicU64>,
    /// As they were when all this was made.
    pub(crate) files: NamedFiles,
}

/// Where a route leads, and what is changed on the way.
#[derive(Debug)]
pub(crate) struct RouteTarget {
    pub(crate) name: String,
    pub(crate) cluster: Arc<UpstreamCluster>,
    pub(crate) requests: Arc<FieldRules>,
    pub(crate) responses: Arc<FieldRules>,
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

impl From<UpstreamTlsError> for GatewayError {
    fn from(error: UpstreamTlsError) -> Self {
        Self(error.to_string())
    }
}

impl From<JwtKeysError> for GatewayError {
    fn from(error: JwtKeysError) -> Self {
        Self(error.to_string())
    }
}

impl From<AccessLogError> for GatewayError {
    fn from(error: AccessLogError) -> Self {
        Self(error.to_string())
    }
}

impl GatewayServices {
    /// With what is known from those before: of addresses, and the log's file. The files that were
    /// read are those that the configuration names, as far as it could be followed.
    pub(crate) fn new(
        gateway: gateway::GatewayPlan,
        before: Option<&Self>,
        files: &mut NamedFiles,
    ) -> Result<Self, GatewayError> {
        ServicesBuilder { before, files, kept: None }.make(gateway)
    }

    /// The same with what is in its files now. A part whose file makes no sense stays as it is, which is
    /// among the problems.
    pub(crate) fn refreshed(&self) -> (Option<Self>, Vec<String>) {
        let (mut files, mut problems) = (NamedFiles::default(), Vec::new());
        let kept = Some(&mut problems);
        let making = ServicesBuilder { before: Some(self), files: &mut files, kept };
        match making.make(self.gateway.clone()) {
            Ok(made) => (Some(made), problems),
            Err(error) => (None, vec![error.to_string()]),
        }
    }
}

/// How services are made.
struct ServicesBuilder<'a> {
    before: Option<&'a GatewayServices>,
    files: &'a mut NamedFiles,
    /// Where what cannot be read anew stays as it was before, and why that is so. Otherwise nothing is
    /// made of it.
    kept: Option<&'a mut Vec<String>>,
}

impl ServicesBuilder<'_> {
    fn make(mut self, gateway: gateway::GatewayPlan) -> Result<GatewayServices, GatewayError> {
        let before = self.before;
        let mut clusters = Vec::with_capacity(gateway.upstreams().len());
        for about in gateway.upstreams() {
            clusters.push(self.cluster(about)?);
        }
        let mut ways = Vec::with_capacity(gateway.routes().len());
        for (number, route) in gateway.routes().iter().enumerate() {
            let Some(cluster) = clusters.get(route.upstream()) else { continue };
            let known = before.and_then(|it| it.route_targets.get(number));
            let requests = [&gateway.request_headers, &route.request_headers];
            let responses = [&gateway.response_headers, &route.response_headers];
            ways.push(RouteTarget {
                name: route.name.clone(),
                cluster: Arc::clone(cluster),
                requests: self.rules(&requests, known.map(|it| &it.requests))?,
                responses: self.rules(&responses, known.map(|it| &it.responses))?,
            });
        }
        let signatures = before.map(|it| Arc::clone(&it.signatures)).unwrap_or_default();
        let verifier = match &gateway.jwt {
            None => None,
            Some(about) => Some(self.verifier(about, &signatures)?),
        };
        let lost_lines = before.map(|it| Arc::clone(&it.lost_lines)).unwrap_or_default();
        let log = log(&gateway, before, &lost_lines)?;
        let files = self.files.clone();
        Ok(GatewayServices {
            gateway,
            clusters,
            route_targets: ways,
            verifier,
            log,
            lost_lines,
            signatures,
            files,
        })
    }

    fn cluster(
        &mut self,
        about: &gateway::UpstreamPlan,
    ) -> Result<Arc<UpstreamCluster>, GatewayError> {
        let clusters = self.before.map(|it| &it.clusters[..]).unwrap_or_default();
        let known = clusters.iter().find(|cluster| cluster.about.name == about.name);
        if let Some(same) = known.and_then(|it| it.if_unchanged(about, self.files)) {
            return Ok(same);
        }
        let made = UpstreamCluster::new(about, known.map(|it| &**it), self.files).map(Arc::new);
        self.or_previous(made.map_err(GatewayError::from), known.cloned())
    }

    fn rules(
        &mut self,
        rules: &[&gateway::HeaderRules],
        known: Option<&Arc<FieldRules>>,
    ) -> Result<Arc<FieldRules>, GatewayError> {
        let made = FieldRules::new(rules, self.files).map(Arc::new);
        self.or_previous(made, known.cloned())
    }

    fn verifier(
        &mut self,
        about: &gateway::JwtPlan,
        signatures: &Arc<AtomicU64>,
    ) -> Result<Arc<JwtVerifier>, GatewayError> {
        let made =
            JwtVerifier::new(about, self.files).map(|it| Arc::new(it.with_counter(signatures)));
        let known = self.before.and_then(|it| it.verifier.clone());
        self.or_previous(made.map_err(GatewayError::from), known)
    }

    /// What was made; or what was there before, where it may stay.
    fn or_previous<T>(
        &mut self,
        made: Result<T, GatewayError>,
        known: Option<T>,
    ) -> Result<T, GatewayError> {
        match (made, &mut self.kept, known) {
            (Err(error), Some(problems), Some(known)) => {
                let problem = error.to_string();
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
                Ok(known)
            }
            (made, _, _) => made,
        }
    }
}

fn log(
    gateway: &gateway::GatewayPlan,
    before: Option<&GatewayServices>,
    lost_lines: &Arc<AtomicU64>,
) -> Result<Option<Arc<AccessLog>>, AccessLogError> {
    let Some(about) = &gateway.access_log else { return Ok(None) };
    let open = before.and_then(|it| it.log.as_ref()).filter(|log| log.has_config(about));
    match open {
        Some(log) => Ok(Some(Arc::clone(log))),
        None => Ok(Some(Arc::new(AccessLog::open(about, Arc::clone(lost_lines))?))),
    }
}
