//! A whole application: policies from a file that is followed, logins, reports that cost more, limited functions, gRPC,
//! and counters in memory or in Redis, whichever `STORE` says.
//!
//! ```console
//! $ cargo run -p tidegate-tower --features axum,redis,tonic --example application
//! $ STORE=redis://127.0.0.1:6379 cargo run -p tidegate-tower --features axum,redis,tonic --example application
//! $ curl -i -H 'x-user: alice' http://127.0.0.1:3000/report
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use tidegate::tower::{RateLimitLayer, RequestKey};
use tidegate::{AlgorithmKind, AnyStore, Denied, Limiter, Quota, attribute, rate_limit};

/// Who asks, as the authentication has found out.
#[derive(Clone)]
struct User {
    name: String,
    plan: &'static str,
}

async fn authenticate(mut request: Request, next: Next) -> Response {
    let name = request.headers().get("x-user").and_then(|name| name.to_str().ok());
    if let Some(name) = name.map(str::to_owned) {
        let plan = if name.starts_with("pro") { "pro" } else { "free" };
        request.extensions_mut().insert(User { name, plan });
    }
    next.run(request).await
}

async fn login(password: String) -> StatusCode {
    if password == "correct horse" { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
}

/// A denied call is a 429 with `Retry-After`.
#[rate_limit(name = "mails", quota = "2/day", algorithm = "sliding-log", key = |to| to)]
async fn send_mail(to: String) -> Result<String, Denied> {
    Ok(format!("sent to {to}\n"))
}

#[rate_limit(name = "hashes", quota = "100/minute", cost = |text| text.len())]
fn hash(text: &str) -> Result<usize, Denied> {
    Ok(text.bytes().map(usize::from).sum())
}

pub(crate) fn app(store: &AnyStore, policies: &Path) -> Result<Router, Box<dyn Error>> {
    let client = || RequestKey::client_ip().trust_hops(0);
    let everybody = Limiter::builder()
        .name("per-ip")
        .limit(Quota::per_minute(100).burst(30))
        .store(store.clone())
        .build()?;
    let logins = Limiter::builder()
        .name("login")
        .algorithm(AlgorithmKind::SlidingLog)
        .limits(["3/minute", "20/hour"])
        .store(store.clone())
        .build()?;
    let per_user = RateLimitLayer::policy_file_in(policies, store.clone())?
        .watch()
        .by(client())
        .attribute("user", RequestKey::extension(|user: &User| user.name.clone()))
        .attribute("plan", RequestKey::extension(|user: &User| user.plan))
        .cost(|head| if head.uri().path() == "/report" { 4 } else { 1 });
    Ok(Router::new()
        .route("/", get(|| async { "hello\n" }))
        .route("/report", get(|| async { "all is well\n" }))
        .route("/mails", post(send_mail))
        .route("/hash", post(|text: String| async move { hash(&text).map(|sum| sum.to_string()) }))
        .layer(per_user)
        .layer(middleware::from_fn(authenticate))
        .route(
            "/login",
            post(login).layer(
                // A broken database must not lock anybody out.
                RateLimitLayer::limiter(logins).by(client()).count_if(|it| it.status() == 401),
            ),
        )
        .layer(RateLimitLayer::limiter(everybody).by(client())))
}

/// Limits on gRPC are the same layer.
async fn grpc(store: AnyStore, address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::builder().name("grpc").limit("100/minute").store(store).build()?;
    let (_reporter, health) = tonic_health::server::health_reporter();
    let mut server = tonic::transport::Server::builder().layer(RateLimitLayer::limiter(limiter));
    Ok(server.add_service(health).serve(address).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("STORE").unwrap_or_else(|_| "memory".to_owned());
    // Rather not start than count alone without anybody knowing.
    let store = AnyStore::connect(&url, "the secret of this deployment").await?;
    attribute::use_store(store.clone())?;
    let policies = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/application.yaml"));
    let app = app(&store, &policies)?.into_make_service_with_connect_info::<SocketAddr>();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}, counting in {store:?}", listener.local_addr()?);
    tokio::try_join!(grpc(store, "127.0.0.1:50051".parse()?), async {
        axum::serve(listener, app).await.map_err(Into::into)
    })?;
    Ok(())
}
