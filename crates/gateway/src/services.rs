//! The parts of a plan's gateway besides its limits: services, routes, token keys, and the access log.
//! Their files are read when a plan is loaded and when they change, never during a request.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tidegate_server::NamedFiles;

use crate::access_log::{AccessLog, AccessLogError};
use crate::config::{GatewayPlan, HeaderRules, JwtPlan, UpstreamPlan};
use crate::forward::FieldRules;
use crate::jwt::{JwtKeysError, JwtVerifier};
use crate::upstream::{UpstreamCluster, UpstreamTlsError};

/// Everything that a gateway's configuration describes, ready for use.
#[derive(Debug)]
pub(crate) struct GatewayServices {
    pub(crate) gateway: GatewayPlan,
    /// In the order of the gateway's services.
    pub(crate) clusters: Vec<Arc<UpstreamCluster>>,
    /// In the order of the gateway's routes.
    pub(crate) route_targets: Vec<RouteTarget>,
    pub(crate) verifier: Option<Arc<JwtVerifier>>,
    pub(crate) log: Option<Arc<AccessLog>>,
    /// Lines lost by this access log and its predecessors.
    pub(crate) lost_lines: Arc<AtomicU64>,
    /// Token signatures verified by these services and their predecessors.
    pub(crate) signatures: Arc<AtomicU64>,
    /// The files that were read, with their state at that time.
    pub(crate) files: NamedFiles,
}

/// The service of a route, and the changes to fields on the way there and back.
#[derive(Debug)]
pub(crate) struct RouteTarget {
    pub(crate) name: String,
    pub(crate) cluster: Arc<UpstreamCluster>,
    pub(crate) requests: Arc<FieldRules>,
    pub(crate) responses: Arc<FieldRules>,
}

/// The reason why a gateway cannot follow its configuration: a file is missing or invalid.
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
    /// Takes over from `before` what stays the same: the state of addresses, and the open log. Adds the
    /// files that were read to `files`, even if one of them is at fault.
    pub(crate) fn new(
        gateway: GatewayPlan,
        before: Option<&Self>,
        files: &mut NamedFiles,
    ) -> Result<Self, GatewayError> {
        ServicesBuilder { before, files, kept_problems: None }.make(gateway)
    }

    /// The same services with the current contents of their files. A part whose file is invalid stays as
    /// it is, and is listed among the problems.
    pub(crate) fn refreshed(&self) -> (Option<Self>, Vec<String>) {
        let (mut files, mut problems) = (NamedFiles::default(), Vec::new());
        let kept_problems = Some(&mut problems);
        let builder = ServicesBuilder { before: Some(self), files: &mut files, kept_problems };
        match builder.make(self.gateway.clone()) {
            Ok(made) => (Some(made), problems),
            Err(error) => (None, vec![error.to_string()]),
        }
    }
}

/// Builds services, and reuses parts of the previous ones.
struct ServicesBuilder<'a> {
    before: Option<&'a GatewayServices>,
    files: &'a mut NamedFiles,
    /// If set, a part that cannot be rebuilt stays as it was, and the reason is added here. If not set,
    /// the whole build fails.
    kept_problems: Option<&'a mut Vec<String>>,
}

impl ServicesBuilder<'_> {
    fn make(mut self, gateway: GatewayPlan) -> Result<GatewayServices, GatewayError> {
        let before = self.before;
        let mut clusters = Vec::with_capacity(gateway.upstreams().len());
        for config in gateway.upstreams() {
            clusters.push(self.cluster(config)?);
        }
        let mut route_targets = Vec::with_capacity(gateway.routes().len());
        for (number, route) in gateway.routes().iter().enumerate() {
            let Some(cluster) = clusters.get(route.upstream()) else { continue };
            let previous = before.and_then(|it| it.route_targets.get(number));
            let requests = [&gateway.request_headers, &route.request_headers];
            let responses = [&gateway.response_headers, &route.response_headers];
            route_targets.push(RouteTarget {
                name: route.name.clone(),
                cluster: Arc::clone(cluster),
                requests: self.rules(&requests, previous.map(|it| &it.requests))?,
                responses: self.rules(&responses, previous.map(|it| &it.responses))?,
            });
        }
        let signatures = before.map(|it| Arc::clone(&it.signatures)).unwrap_or_default();
        let verifier = match &gateway.jwt {
            None => None,
            Some(config) => Some(self.verifier(config, &signatures)?),
        };
        let lost_lines = before.map(|it| Arc::clone(&it.lost_lines)).unwrap_or_default();
        let log = log(&gateway, before, &lost_lines)?;
        let files = self.files.clone();
        Ok(GatewayServices {
            gateway,
            clusters,
            route_targets,
            verifier,
            log,
            lost_lines,
            signatures,
            files,
        })
    }

    fn cluster(&mut self, config: &UpstreamPlan) -> Result<Arc<UpstreamCluster>, GatewayError> {
        let clusters = self.before.map(|it| &it.clusters[..]).unwrap_or_default();
        let previous = clusters.iter().find(|cluster| cluster.config.name == config.name);
        if let Some(same) = previous.and_then(|it| it.if_unchanged(config, self.files)) {
            return Ok(same);
        }
        let made = UpstreamCluster::new(config, previous.map(|it| &**it), self.files).map(Arc::new);
        self.or_previous(made.map_err(GatewayError::from), previous.cloned())
    }

    fn rules(
        &mut self,
        rules: &[&HeaderRules],
        previous: Option<&Arc<FieldRules>>,
    ) -> Result<Arc<FieldRules>, GatewayError> {
        let made = FieldRules::new(rules, self.files).map(Arc::new);
        self.or_previous(made, previous.cloned())
    }

    fn verifier(
        &mut self,
        config: &JwtPlan,
        signatures: &Arc<AtomicU64>,
    ) -> Result<Arc<JwtVerifier>, GatewayError> {
        let made =
            JwtVerifier::new(config, self.files).map(|it| Arc::new(it.with_counter(signatures)));
        let previous = self.before.and_then(|it| it.verifier.clone());
        self.or_previous(made.map_err(GatewayError::from), previous)
    }

    /// The new part, or the previous one if it failed and the previous one can stay.
    fn or_previous<T>(
        &mut self,
        made: Result<T, GatewayError>,
        previous: Option<T>,
    ) -> Result<T, GatewayError> {
        match (made, &mut self.kept_problems, previous) {
            (Err(error), Some(problems), Some(previous)) => {
                let problem = error.to_string();
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
                Ok(previous)
            }
            (made, _, _) => made,
        }
    }
}

fn log(
    gateway: &GatewayPlan,
    before: Option<&GatewayServices>,
    lost_lines: &Arc<AtomicU64>,
) -> Result<Option<Arc<AccessLog>>, AccessLogError> {
    let Some(config) = &gateway.access_log else { return Ok(None) };
    let open = before.and_then(|it| it.log.as_ref()).filter(|log| log.has_config(config));
    match open {
        Some(log) => Ok(Some(Arc::clone(log))),
        None => Ok(Some(Arc::new(AccessLog::open(config, Arc::clone(lost_lines))?))),
    }
}
