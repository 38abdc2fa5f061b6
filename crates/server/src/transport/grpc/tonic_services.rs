//! Health and reflection, which are called rarely and are served by tonic.

use std::convert::Infallible;
use std::pin::Pin;

use http::Request;
use hyper::body::Incoming;
use tidegate_wire::envoy::{DESCRIPTORS, SERVICE};
use tonic::codegen::Service;
use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tonic_reflection::server::Builder;

/// The services besides `ShouldRateLimit`.
pub(super) struct TonicServices {
    health: HealthReporter,
    services: Vec<(&'static str, BoxedTonicService)>,
}

type BoxedTonicService = Box<dyn Fn(Request<Incoming>) -> TonicResponseFuture + Send + Sync>;
type TonicResponseFuture = Pin<Box<dyn Future<Output = http::Response<tonic::body::Body>> + Send>>;

impl TonicServices {
    pub(super) async fn new() -> Self {
        let health = HealthReporter::new();
        for service in HEALTHY {
            health.set_service_status(service, ServingStatus::Serving).await;
        }
        let check = HealthServer::new(HealthService::from_health_reporter(health.clone()))
            .max_decoding_message_size(MAX_MESSAGE);
        let mut services = vec![boxed(check)];
        // Our own descriptors are valid. If they were not, only reflection would be missing.
        if let Ok(reflection) = reflection().build_v1() {
            services.push(boxed(reflection.max_decoding_message_size(MAX_MESSAGE)));
        }
        if let Ok(reflection) = reflection().build_v1alpha() {
            services.push(boxed(reflection.max_decoding_message_size(MAX_MESSAGE)));
        }
        Self { health, services }
    }

    /// The service that a path belongs to.
    pub(super) fn find(&self, path: &str) -> Option<&BoxedTonicService> {
        let (name, _method) = path.strip_prefix('/')?.split_once('/')?;
        self.services.iter().find(|(service, _)| *service == name).map(|(_, service)| service)
    }

    /// Reports the server as not serving, so that load balancers stop sending requests.
    pub(super) async fn stop_serving(&self) {
        for service in HEALTHY {
            self.health.set_service_status(service, ServingStatus::NotServing).await;
        }
    }

    /// Ends all health watches, which have received the last status: their endless streams would hold
    /// up the drain.
    pub(super) async fn end_watches(&self) {
        for service in HEALTHY {
            self.health.clone().clear_service_status(service).await;
        }
    }
}

fn reflection() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

fn boxed<T>(service: T) -> (&'static str, BoxedTonicService)
where
    T: Service<Request<Incoming>, Response = http::Response<tonic::body::Body>, Error = Infallible>,
    T: NamedService + Clone + Send + Sync + 'static,
    T::Future: Send + 'static,
{
    let call = move |request| -> TonicResponseFuture {
        let response = service.clone().call(request);
        Box::pin(async move {
            match response.await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        })
    };
    (T::NAME, Box::new(call))
}

/// The services that health reports. The empty name stands for the whole server.
const HEALTHY: [&str; 2] = ["", SERVICE];
const MAX_MESSAGE: usize = 4 << 10;
