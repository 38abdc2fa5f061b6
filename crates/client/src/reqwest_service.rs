//! Adapts reqwest's client to a tower service of http requests.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use reqwest::{Body, Client, Error};
use tower_service::Service;

/// reqwest's client as a tower service of http requests, which layers need. Requires the feature
/// `reqwest`, which enables none of reqwest's own features.
///
/// ```no_run
/// use http::Request;
/// use reqwest::Body;
/// use tidegate::client::{PoliteLayer, ReqwestService};
/// use tower::{Layer, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = PoliteLayer::new().layer(ReqwestService::from(reqwest::Client::new()));
///
/// let request = Request::get("http://localhost:8080/tides").body(Body::default())?;
/// let response = client.oneshot(request).await?;
/// let text = reqwest::Response::from(response).text().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ReqwestService(Client);

impl From<Client> for ReqwestService {
    fn from(client: Client) -> Self {
        Self(client)
    }
}

impl<B: Into<Body>> Service<Request<B>> for ReqwestService {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let sent = request.try_into().map(|request| self.0.execute(request));
        Box::pin(async move { Ok(sent?.await?.into()) })
    }
}
