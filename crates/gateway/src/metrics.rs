//! What operators see of services, on the page of metrics.

use std::sync::{Arc, Weak};

use tidegate::Plan;
use tidegate_server::{MetricFamily, MetricSource};

use crate::Gateway;
use crate::upstream::{UpstreamCluster, UpstreamResult};

/// The services of a gateway, while there is one.
#[derive(Debug)]
pub(crate) struct ServiceMetrics(Weak<Gateway>);

impl ServiceMetrics {
    pub(crate) fn of(gateway: &Arc<Gateway>) -> Self {
        Self(Arc::downgrade(gateway))
    }
}

impl MetricSource for ServiceMetrics {
    fn families(&self, plan: &Arc<Plan>) -> Vec<MetricFamily> {
        let Some(gateway) = self.0.upgrade() else { return Vec::new() };
        let runtime = gateway.runtime(plan);
        let clusters = &runtime.services.clusters;
        let requests = clusters.iter().flat_map(|cluster| requests(cluster)).collect();
        let addresses = clusters.iter().map(|it| (labels(it), it.endpoints.len() as u64));
        let well = clusters.iter().map(|it| (labels(it), it.healthy_count() as u64));
        vec![
            MetricFamily {
                name: "tidegate_upstream_requests_total",
                kind: "counter",
                help: "Requests that the gateway had for a service, by what became of them.",
                samples: requests,
            },
            MetricFamily {
                name: "tidegate_upstream_addresses",
                kind: "gauge",
                help: "Addresses that a service has.",
                samples: addresses.collect(),
            },
            MetricFamily {
                name: "tidegate_upstream_well",
                kind: "gauge",
                help: "Addresses of a service that neither fail nor say that they are not well.",
                samples: well.collect(),
            },
            MetricFamily {
                name: "tidegate_gateway_buffered_bytes",
                kind: "gauge",
                help: "Memory of answers and bodies over HTTP/2 and of requests in line that wait.",
                samples: vec![(Vec::new(), gateway.budget.used() as u64)],
            },
            MetricFamily {
                name: "tidegate_gateway_buffers_refused_total",
                kind: "counter",
                help: "Requests that were refused because no memory was left for what waits.",
                samples: vec![(Vec::new(), gateway.budget.refusals())],
            },
            MetricFamily {
                name: "tidegate_access_log_dropped_total",
                kind: "counter",
                help: "Lines of the access log that were lost: nobody took them, or a disk was full.",
                samples: vec![(Vec::new(), gateway.lost_log_lines())],
            },
            MetricFamily {
                name: "tidegate_signatures_total",
                kind: "counter",
                help: "Signatures of tokens that the gateway has verified, whatever came of it.",
                samples: vec![(Vec::new(), gateway.verified_signatures())],
            },
        ]
    }
}

/// All of them from the beginning, so that a rate has where to start.
fn requests(cluster: &UpstreamCluster) -> impl Iterator<Item = (Vec<(&'static str, String)>, u64)> {
    UpstreamResult::ALL.into_iter().map(|fate| {
        let mut labels = labels(cluster);
        labels.push(("result", fate.name().to_owned()));
        (labels, cluster.counts.of(fate))
    })
}

fn labels(cluster: &UpstreamCluster) -> Vec<(&'static str, String)> {
    vec![("upstream", cluster.about.name.clone())]
}
