//! What the gateway of a plan consists of besides limits: services, routes, keys of tokens, a log. It
//! names files, which are read when a plan is loaded and when they change, and never by a request.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tidegate::config::gateway;
use tidegate_server::NamedFiles;

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
    pub(crate) verifier: Option<Arc<Verifier>>,
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
pub(crate) struct Way {
    pub(crate) name: String,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) requests: Arc<Rules>,
    pub(crate) responses: Arc<Rules>,
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
    /// With what is known from those before: of addresses, and the log's file. The files that were
    /// read are those that the configuration names, as far as it could be followed.
    pub(crate) fn new(
        gateway: gateway::Gateway,
        before: Option<&Self>,
        files: &mut NamedFiles,
    ) -> Result<Self, GatewayError> {
        Making { before, files, kept: None }.make(gateway)
    }

    /// The same with what is in its files now. A part whose file makes no sense stays as it is, which is
    /// among the problems.
    pub(crate) fn refreshed(&self) -> (Option<Self>, Vec<String>) {
        let (mut files, mut problems) = (NamedFiles::default(), Vec::new());
        let kept = Some(&mut problems);
        let making = Making { before: Some(self), files: &mut files, kept };
        match making.make(self.gateway.clone()) {
            Ok(made) => (Some(made), problems),
            Err(error) => (None, vec![error.to_string()]),
        }
    }
}

/// How services are made.
struct Making<'a> {
    before: Option<&'a Services>,
    files: &'a mut NamedFiles,
    /// Where what cannot be read anew stays as it was before, and why that is so. Otherwise nothing is
    /// made of it.
    kept: Option<&'a mut Vec<String>>,
}

impl Making<'_> {
    fn make(mut self, gateway: gateway::Gateway) -> Result<Services, GatewayError> {
        let before = self.before;
        let mut clusters = Vec::with_capacity(gateway.upstreams().len());
        for about in gateway.upstreams() {
            clusters.push(self.cluster(about)?);
        }
        let mut ways = Vec::with_capacity(gateway.routes().len());
        for (number, route) in gateway.routes().iter().enumerate() {
            let Some(cluster) = clusters.get(route.upstream()) else { continue };
            let known = before.and_then(|it| it.ways.get(number));
            let requests = [&gateway.request_headers, &route.request_headers];
            let responses = [&gateway.response_headers, &route.response_headers];
            ways.push(Way {
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
        Ok(Services { gateway, clusters, ways, verifier, log, lost_lines, signatures, files })
    }

    fn cluster(&mut self, about: &gateway::Upstream) -> Result<Arc<Cluster>, GatewayError> {
        let clusters = self.before.map(|it| &it.clusters[..]).unwrap_or_default();
        let known = clusters.iter().find(|cluster| cluster.about.name == about.name);
        if let Some(same) = known.and_then(|it| it.same(about, self.files)) {
            return Ok(same);
        }
        let made = Cluster::new(about, known.map(|it| &**it), self.files).map(Arc::new);
        self.or_kept(made.map_err(GatewayError::from), known.cloned())
    }

    fn rules(
        &mut self,
        rules: &[&gateway::HeaderRules],
        known: Option<&Arc<Rules>>,
    ) -> Result<Arc<Rules>, GatewayError> {
        let made = Rules::new(rules, self.files).map(Arc::new);
        self.or_kept(made, known.cloned())
    }

    fn verifier(
        &mut self,
        about: &gateway::Jwt,
        signatures: &Arc<AtomicU64>,
    ) -> Result<Arc<Verifier>, GatewayError> {
        let made = Verifier::new(about, self.files).map(|it| Arc::new(it.counting(signatures)));
        let known = self.before.and_then(|it| it.verifier.clone());
        self.or_kept(made.map_err(GatewayError::from), known)
    }

    /// What was made; or what was there before, where it may stay.
    fn or_kept<T>(
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
