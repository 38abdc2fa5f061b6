//! A gateway as one plan has it: made when the plan comes into effect. Nothing here can fail.

use std::sync::Arc;

use tidegate::Plan;
use tidegate_http::ClientIp;

use crate::attributes::AttributeLookup;
use crate::forward::FieldFilter;
use crate::route_fields::RouteFields;
use crate::services::GatewayServices;

/// All that requests need to know.
#[derive(Debug)]
pub(crate) struct GatewayRuntime {
    /// By which plan. Held, so that no other can be at its address.
    pub(crate) plan: Arc<Plan>,
    pub(crate) services: Arc<GatewayServices>,
    pub(crate) route_fields: RouteFields,
    /// Which fields of requests go on.
    pub(crate) filter: FieldFilter,
    pub(crate) trust: ClientIp,
    pub(crate) attribute_lookup: AttributeLookup,
    /// Whether a response may tell what its request costs.
    pub(crate) has_after_costs: bool,
}

impl GatewayRuntime {
    pub(crate) fn new(plan: Arc<Plan>, services: Arc<GatewayServices>) -> Self {
        let trust = match plan.settings().trusted_proxies() {
            [] => ClientIp::of_socket(),
            networks => ClientIp::behind_proxies(networks.iter().copied()),
        };
        let wanted = AttributeLookup::by(&plan, &services.gateway);
        let routed_by = RouteFields::of(&services.gateway);
        let filter = FieldFilter::by(&plan, &services.gateway);
        let has_after_costs = plan.policies().iter().any(|it| it.response_cost().is_some());
        Self {
            trust,
            attribute_lookup: wanted,
            route_fields: routed_by,
            filter,
            has_after_costs,
            plan,
            services,
        }
    }
}
