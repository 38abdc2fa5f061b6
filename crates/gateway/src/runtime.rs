//! A gateway as one plan has it: made when the plan comes into effect. Nothing here can fail.

use std::sync::Arc;

use tidegate::Plan;
use tidegate_http::ClientIp;

use crate::attributes::Wanted;
use crate::forward::FieldFilter;
use crate::routed_by::RoutedBy;
use crate::services::Services;

/// All that requests need to know.
#[derive(Debug)]
pub(crate) struct Runtime {
    /// By which plan. Held, so that no other can be at its address.
    pub(crate) plan: Arc<Plan>,
    pub(crate) services: Arc<Services>,
    pub(crate) routed_by: RoutedBy,
    /// Which fields of requests go on.
    pub(crate) filter: FieldFilter,
    pub(crate) trust: ClientIp,
    pub(crate) wanted: Wanted,
}

impl Runtime {
    pub(crate) fn new(plan: Arc<Plan>, services: Arc<Services>) -> Self {
        let trust = match plan.settings().trusted_proxies() {
            [] => ClientIp::of_the_socket(),
            networks => ClientIp::behind_proxies(networks.iter().copied()),
        };
        let wanted = Wanted::by(&plan, &services.gateway);
        let routed_by = RoutedBy::of(&services.gateway);
        let filter = FieldFilter::by(&plan, &services.gateway);
        Self { trust, wanted, routed_by, filter, plan, services }
    }
}
