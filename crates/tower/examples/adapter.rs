//! The layer in a framework that knows neither tower nor `http` bodies: an adapter is one function.
//!
//! The framework here is made up. With another one, only the two conversions differ: its request into an
//! `http::Request` without a body, and an `http::Response` into its response.
//!
//! ```console
//! $ cargo run -p tidegate-tower --example adapter
//! ```

use std::error::Error;
use std::net::IpAddr;

use http::Request;
use tidegate::tower::{PeerIp, RateLimitLayer, RequestKey};

/// A request as the framework has it.
pub(crate) struct FrameworkRequest {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) peer: IpAddr,
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// A response as the framework has it.
#[derive(Debug)]
pub(crate) struct FrameworkResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Calls `handler` for requests that the layer allows, and answers the others.
pub(crate) async fn limited(
    limit: &RateLimitLayer,
    request: FrameworkRequest,
    handler: impl AsyncFnOnce(&FrameworkRequest) -> FrameworkResponse,
) -> Result<FrameworkResponse, http::Error> {
    let mut head = Request::builder().method(request.method).uri(request.path);
    for (name, value) in &request.headers {
        head = head.header(*name, value);
    }
    let mut head = head.extension(PeerIp(request.peer)).body(())?;
    match limit.check_request(&mut head).await {
        Err(denial) => {
            let (head, body) = denial.into_parts();
            Ok(FrameworkResponse {
                status: head.status.as_u16(),
                headers: texts(&head.headers),
                body: body.to_vec(),
            })
        }
        Ok(allowed) => {
            let mut response = handler(&request).await;
            let mut fields = http::HeaderMap::new();
            allowed.add_fields(&mut fields);
            response.headers.extend(texts(&fields));
            Ok(response)
        }
    }
}

fn texts(headers: &http::HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limit = RateLimitLayer::new("2/minute")?.by(RequestKey::client_ip().trust_hops(0));
    for _ in 0..3 {
        let request = FrameworkRequest {
            method: "GET",
            path: "/",
            peer: "203.0.113.9".parse()?,
            headers: vec![("accept", "text/plain".to_owned())],
        };
        let hello = async |_: &FrameworkRequest| FrameworkResponse {
            status: 200,
            headers: Vec::new(),
            body: b"hello".to_vec(),
        };
        let response = limited(&limit, request, hello).await?;
        println!("{} {}", response.status, String::from_utf8_lossy(&response.body));
        for (name, value) in response.headers {
            println!("  {name}: {value}");
        }
    }
    Ok(())
}
