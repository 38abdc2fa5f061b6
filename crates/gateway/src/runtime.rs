//! The gateway's state for one plan, built when the plan takes effect. Building it cannot fail.

use std::sync::Arc;

use tidegate::Plan;
use tidegate::config::PlannedPolicy;
use tidegate_http::ClientIp;

use crate::attributes::AttributeLookup;
use crate::forward::FieldFilter;
use crate::route_fields::RouteFields;
use crate::services::GatewayServices;

/// Everything that requests need of a plan and its services.
#[derive(Debug)]
pub(crate) struct GatewayRuntime {
    /// Plans are compared by address. Holding this one keeps its address from being reused.
    pub(crate) plan: Arc<Plan>,
    pub(crate) services: Arc<GatewayServices>,
    pub(crate) route_fields: RouteFields,
    /// Decides which fields of requests are forwarded.
    pub(crate) filter: FieldFilter,
    pub(crate) trust: ClientIp,
    pub(crate) attribute_lookup: AttributeLookup,
    /// Whether some policy takes its cost from the response.
    pub(crate) has_after_costs: bool,
}

impl GatewayRuntime {
    pub(crate) fn new(plan: Arc<Plan>, services: Arc<GatewayServices>) -> Self {
        let trust = match plan.settings().trusted_proxies() {
            [] => ClientIp::of_socket(),
            networks => ClientIp::behind_proxies(networks.iter().copied()),
        };
        let attribute_lookup = AttributeLookup::by(&plan, &services.gateway);
        let route_fields = RouteFields::of(&services.gateway);
        let filter = FieldFilter::by(&plan, &services.gateway);
        let has_after_costs = plan.policies().iter().any(PlannedPolicy::is_counted_later);
        Self { trust, attribute_lookup, route_fields, filter, has_after_costs, plan, services }
    }
}
