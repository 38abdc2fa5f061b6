//! A service with several addresses: chooses the address for each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_server::NamedFiles;

use super::client_shares::{ClientShare, ClientShares};
use super::counts::UpstreamCounts;
use super::endpoint::UpstreamEndpoint;
use super::tls::{self, UpstreamTlsConfig};
use super::{UpstreamFailure, tls::UpstreamTlsError};
use crate::config::{UpstreamPlan, UpstreamScheme};

/// A service and all its addresses. Shared by all workers.
#[derive(Debug)]
pub(crate) struct UpstreamCluster {
    pub(crate) config: UpstreamPlan,
    pub(crate) endpoints: Vec<Arc<UpstreamEndpoint>>,
    pub(crate) tls: Option<UpstreamTlsConfig>,
    /// The files with the certificates that verify the service.
    ca: NamedFiles,
    pub(crate) counts: Arc<UpstreamCounts>,
    shares: ClientShares,
    next: AtomicUsize,
}

impl UpstreamCluster {
    /// Takes over the state of addresses from `before`. If the certificates have changed, there is nothing to
    /// take over: the pooled connections were verified with the old ones.
    pub(crate) fn new(
        config: &UpstreamPlan,
        before: Option<&Self>,
        files: &mut NamedFiles,
    ) -> Result<Self, UpstreamTlsError> {
        let (is_secure, mut ca) = (is_secure(config), NamedFiles::default());
        let read = || tls::client(config.ca.as_deref(), &mut ca);
        let tls = is_secure.then(read).transpose();
        files.extend(&ca);
        let tls = tls?;
        let trusted = before.filter(|it| !is_secure || it.ca == ca);
        let known = |address: &_| {
            let known = trusted.into_iter().flat_map(|it| &it.endpoints);
            known.clone().find(|it| it.address == *address).map(Arc::clone)
        };
        let endpoints = config.endpoints.iter().map(|address| {
            known(address)
                .unwrap_or_else(|| Arc::new(UpstreamEndpoint::new(&config.name, address.clone())))
        });
        let endpoints: Vec<_> = endpoints.collect();
        // The old results belong to another health check.
        if before.is_some_and(|it| it.config.health != config.health) {
            endpoints.iter().for_each(|endpoint| endpoint.forget_health());
        }
        let counts = before.map(|it| Arc::clone(&it.counts)).unwrap_or_default();
        let next = AtomicUsize::new(0);
        let shares = before.map(|it| it.shares.clone()).unwrap_or_default();
        Ok(Self { config: config.clone(), endpoints, tls, ca, counts, shares, next })
    }

    /// The same service, if neither its configuration nor its files have changed.
    pub(crate) fn if_unchanged(
        self: &Arc<Self>,
        config: &UpstreamPlan,
        files: &mut NamedFiles,
    ) -> Option<Arc<Self>> {
        if self.config != *config || self.ca.have_changed() {
            return None;
        }
        files.extend(&self.ca);
        Some(Arc::clone(self))
    }

    /// The healthy address with the fewest requests under way; ties go in turns. Addresses that were tried
    /// or are resting come last.
    pub(crate) fn choose(&self, tried: &[u64]) -> Result<&Arc<UpstreamEndpoint>, UpstreamFailure> {
        let most = self.config.max_requests;
        if let [only] = &self.endpoints[..] {
            return match (self.is_unwell(only), only.under_way() < most) {
                (true, _) => Err(UpstreamFailure::Unwell),
                (false, false) => Err(UpstreamFailure::Full),
                (false, true) => Ok(only),
            };
        }
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let (mut best, mut total, mut any_well) = (None, 0_usize, false);
        for offset in 0..self.endpoints.len() {
            let index = start.wrapping_add(offset) % self.endpoints.len();
            let Some(endpoint) = self.endpoints.get(index) else { continue };
            let under_way = endpoint.under_way();
            total = total.saturating_add(under_way);
            if self.is_unwell(endpoint) {
                continue;
            }
            any_well = true;
            let rank = (tried.contains(&endpoint.number), endpoint.is_resting(), under_way);
            if best.as_ref().is_none_or(|(other, _)| rank < *other) {
                best = Some((rank, endpoint));
            }
        }
        match best {
            _ if !any_well => Err(UpstreamFailure::Unwell),
            Some((_, endpoint)) if total < most => Ok(endpoint),
            _ => Err(UpstreamFailure::Full),
        }
    }

    /// Takes a slot from the client's share. There are shares only while slots are short.
    pub(crate) fn take_share(
        &self,
        client: Option<&str>,
    ) -> Result<Option<ClientShare>, UpstreamFailure> {
        let taken = self.endpoints.iter().map(|endpoint| endpoint.under_way()).sum();
        self.shares.take(client, taken, self.config.max_requests)
    }

    /// How many addresses neither fail requests nor their health check.
    pub(crate) fn healthy_count(&self) -> usize {
        let does_well = |it: &&Arc<UpstreamEndpoint>| !it.is_failing() && !self.is_unwell(it);
        self.endpoints.iter().filter(does_well).count()
    }

    /// Ignores old results if the health check was removed: nothing would ever reset them.
    fn is_unwell(&self, endpoint: &UpstreamEndpoint) -> bool {
        self.config.health.is_some() && endpoint.is_unwell()
    }
}

fn is_secure(config: &UpstreamPlan) -> bool {
    config.endpoints.iter().any(|it| it.scheme == UpstreamScheme::Https)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{GatewaySection, SECTIONS};
    use tidegate::Plan;
    use tidegate::config::PolicySource;

    fn cluster(fields: &str) -> UpstreamCluster {
        made(&upstream(fields), None)
    }

    fn made(config: &UpstreamPlan, before: Option<&UpstreamCluster>) -> UpstreamCluster {
        UpstreamCluster::new(config, before, &mut NamedFiles::default()).unwrap()
    }

    fn upstream(fields: &str) -> UpstreamPlan {
        let text = format!(
            "gateway: {{ upstreams: {{ a: {fields} }} }}\n\
             policies: [{{ name: p, key: [ip], limits: [1/s] }}]"
        );
        let plan = Plan::compile(&PolicySource::new("test", text).unwrap().with_sections(SECTIONS))
            .unwrap();
        plan.section::<GatewaySection>().unwrap().upstreams()[0].clone()
    }

    fn port(cluster: &UpstreamCluster) -> Option<u16> {
        cluster.choose(&[]).ok().map(|endpoint| endpoint.address.port)
    }

    #[test]
    fn the_least_busy_address_is_chosen_and_ties_go_in_turns() {
        let cluster = cluster("[http://h:1, http://h:2, http://h:3]");
        let mut first: Vec<_> = (0..3).filter_map(|_| port(&cluster)).collect();
        first.sort_unstable();
        assert_eq!(first, [1, 2, 3]);
        cluster.endpoints[0].begin();
        cluster.endpoints[2].begin();
        assert_eq!((port(&cluster), port(&cluster)), (Some(2), Some(2)));
    }

    #[test]
    fn resting_addresses_come_last_and_unhealthy_ones_get_no_request() {
        let cluster = cluster("{ urls: [http://h:1, http://h:2], health: { path: / } }");
        for _ in 0..3 {
            cluster.endpoints[0].record_failure(&UpstreamFailure::Closed);
        }
        assert_eq!((port(&cluster), port(&cluster)), (Some(2), Some(2)));
        assert_eq!(cluster.healthy_count(), 1);
        cluster.endpoints[1].set_health(false);
        assert_eq!((port(&cluster), cluster.healthy_count()), (Some(1), 0));
        cluster.endpoints[0].set_health(false);
        assert_eq!(port(&cluster), None);
    }

    #[test]
    fn an_address_whose_health_check_changed_is_not_unhealthy() {
        for urls in ["http://h:1", "[http://h:1, http://h:2]"] {
            let fields = |rest: &str| upstream(&format!("{{ urls: {urls}, {rest} }}"));
            let checked = made(&fields("health: { path: /a }"), None);
            checked.endpoints.iter().for_each(|endpoint| endpoint.set_health(false));
            assert_eq!(port(&checked), None);
            let same = fields("health: { path: /a }, max_requests: 7");
            assert_eq!(port(&made(&same, Some(&checked))), None);
            let unchecked = made(&fields("max_requests: 7"), Some(&checked));
            assert!(port(&unchecked).is_some());
            // A result of the old health check can still arrive.
            unchecked.endpoints.iter().for_each(|endpoint| endpoint.set_health(false));
            assert!(port(&unchecked).is_some());
            let other = made(&fields("health: { path: /b }"), Some(&checked));
            assert!(port(&other).is_some());
        }
    }

    #[test]
    fn a_retry_goes_to_another_address_if_there_is_one() {
        let cluster = cluster("[http://h:1, http://h:2]");
        let tried = [cluster.endpoints[0].number];
        for _ in 0..4 {
            assert_eq!(cluster.choose(&tried).unwrap().address.port, 2);
        }
    }

    #[test]
    fn requests_under_way_are_bounded() {
        for urls in ["http://h:1", "[http://h:1, http://h:2]"] {
            let cluster = cluster(&format!("{{ urls: {urls}, max_requests: 1 }}"));
            assert!(port(&cluster).is_some());
            cluster.endpoints[0].begin();
            assert_eq!(port(&cluster), None);
            cluster.endpoints[0].end();
            assert!(port(&cluster).is_some());
        }
    }
}
