//! A limit for each plan: anonymous callers by address, users by what they pay.
//!
//! ```console
//! $ cargo run -p tidegate-tower --features axum --example tiers
//! $ curl -i http://127.0.0.1:3000/                                  # 3 a minute
//! $ curl -i http://127.0.0.1:3000/ -H 'authorization: Bearer bob'   # 5 a minute
//! $ curl -i http://127.0.0.1:3000/ -H 'authorization: Bearer pro'   # 1000 a day
//! ```

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use tidegate::config::PolicySource;
use tidegate::{MemoryStore, PlanLimiter};
use tidegate_tower::{RateLimitDecision, RateLimitLayer, RequestKey};

const POLICIES: &str = "
policies:
  - name: anonymous
    match: { user: '!*' }
    key: [ip]
    limits: [3/minute]
  - name: per-user
    key: [user]
    limits: [5/minute]
    tiers:
      - { when: { plan: pro }, limits: [1000/day] }
";

/// A user who has signed in.
#[derive(Clone)]
struct User {
    name: String,
    plan: &'static str,
}

/// A placeholder for your program's authentication.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let header = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    if let Some(name) = header.and_then(|value| value.strip_prefix("Bearer ")) {
        let plan = if name == "pro" { "pro" } else { "free" };
        let user = User { name: name.to_owned(), plan };
        request.extensions_mut().insert(user);
    }
    next.run(request).await
}

async fn hello(RateLimitDecision(decision): RateLimitDecision) -> String {
    format!("hello, {} more\n", decision.remaining().unwrap_or_default())
}

pub(crate) fn app() -> Result<Router, Box<dyn Error>> {
    let source = PolicySource::new("tiers", POLICIES)?;
    let limit = RateLimitLayer::limiter(PlanLimiter::load(&source, MemoryStore::new())?)
        .attribute("user", RequestKey::extension(|user: &User| user.name.clone()))
        .attribute("plan", RequestKey::extension(|user: &User| user.plan));
    // The last layer is the first to see a request.
    let app = Router::new().route("/", get(hello)).layer(limit);
    Ok(app.layer(middleware::from_fn(authenticate)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    let app = app()?.into_make_service_with_connect_info::<SocketAddr>();
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}
