//! The gateway's metrics: services, buffers, the access log, and token signatures.

use std::sync::Arc;

use tidegate::Plan;
use tidegate_server::MetricFamily;

use crate::Gateway;
use crate::upstream::{UpstreamCluster, UpstreamResult};

/// The current metrics, under this plan.
pub(crate) fn families(gateway: &Gateway, plan: &Arc<Plan>) -> Vec<MetricFamily> {
    let runtime = gateway.runtime(plan);
    let clusters = &runtime.services.clusters;
    let requests = clusters.iter().flat_map(|cluster| requests(cluster)).collect();
    let addresses = clusters.iter().map(|it| (labels(it), it.endpoints.len() as u64));
    let well = clusters.iter().map(|it| (labels(it), it.healthy_count() as u64));
    vec![
        MetricFamily {
            name: "tidegate_upstream_requests_total",
            kind: "counter",
            help: "Requests of the gateway to a service, by result.",
            samples: requests,
        },
        MetricFamily {
            name: "tidegate_upstream_addresses",
            kind: "gauge",
            help: "Addresses of a service.",
            samples: addresses.collect(),
        },
        MetricFamily {
            name: "tidegate_upstream_well",
            kind: "gauge",
            help: "Addresses of a service that neither fail requests nor their health check.",
            samples: well.collect(),
        },
        MetricFamily {
            name: "tidegate_gateway_buffered_bytes",
            kind: "gauge",
            help: "Memory of buffered HTTP/2 bodies and of requests in queues.",
            samples: vec![(Vec::new(), gateway.budget.used() as u64)],
        },
        MetricFamily {
            name: "tidegate_gateway_buffers_refused_total",
            kind: "counter",
            help: "Requests that were refused because the buffer memory was used up.",
            samples: vec![(Vec::new(), gateway.budget.refusals())],
        },
        MetricFamily {
            name: "tidegate_access_log_dropped_total",
            kind: "counter",
            help: "Access log lines that were lost because the reader was too slow or the disk was full.",
            samples: vec![(Vec::new(), gateway.lost_log_lines())],
        },
        MetricFamily {
            name: "tidegate_signatures_total",
            kind: "counter",
            help: "Token signatures that the gateway has verified, valid or not.",
            samples: vec![(Vec::new(), gateway.verified_signatures())],
        },
    ]
}

/// All results have a sample from the beginning, so that a rate has a starting point.
fn requests(cluster: &UpstreamCluster) -> impl Iterator<Item = (Vec<(&'static str, String)>, u64)> {
    UpstreamResult::ALL.into_iter().map(|result| {
        let mut labels = labels(cluster);
        labels.push(("result", result.name().to_owned()));
        (labels, cluster.counts.of(result))
    })
}

fn labels(cluster: &UpstreamCluster) -> Vec<(&'static str, String)> {
    vec![("upstream", cluster.config.name.clone())]
}
