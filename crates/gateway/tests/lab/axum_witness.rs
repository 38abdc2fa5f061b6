//! The witness in Rust: axum, in this process.

use std::collections::HashMap;

use axum::Router;
use axum::extract::{Path, Query};
use axum::routing::any;
use http::{HeaderMap, Method};
use serde_json::json;

use crate::witness::Witness;

/// Starts it on a separate thread, so that it outlives the runtime of the first test.
pub(crate) fn start() -> Witness {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    listener.set_nonblocking(true).expect("a listener that does not block");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            axum::serve(listener, router()).await.expect("a server that goes on");
        });
    });
    Witness::here("axum", address)
}

fn router() -> Router {
    let routes = ["/login", "/v1/mail:send", "/users/@me", "/users/{id}", "/admin/{*rest}"];
    routes.into_iter().fold(Router::new(), |router, route| {
        let serve = move |method: Method,
                          Path(parts): Path<HashMap<String, String>>,
                          Query(query): Query<HashMap<String, String>>,
                          fields: HeaderMap| async move {
            let field = |name: &str| fields.get(name).and_then(|value| value.to_str().ok());
            let host = field("host").map(|host| host.split(':').next().unwrap_or_default());
            let account = json!({
                "route": format!("{route} {parts:?}"),
                "method": method.as_str(),
                "key": field("x-api-key"),
                "bearer": field("authorization").and_then(bearer),
                "user": query.get("user"),
                "session": field("cookie").and_then(session),
                "host": host.map(str::to_ascii_lowercase),
            });
            account.to_string()
        };
        router.route(route, any(serve))
    })
}

/// Reads the token like the crate `headers`.
fn bearer(credentials: &str) -> Option<&str> {
    let (scheme, token) = credentials.split_at_checked("bearer ".len())?;
    scheme.eq_ignore_ascii_case("bearer ").then(|| token.trim())
}

/// Reads cookies like the crate `cookie`.
fn session(cookies: &str) -> Option<&str> {
    let mut pairs = cookies.split(';').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| name.trim() == "sid").map(|(_, value)| value.trim())
}
