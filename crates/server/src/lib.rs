//! The server: one limiter behind doors that other programs knock on.
//!
//! [`serve`] takes a bound listener and a future that ends it, so a test can use port 0 and a
//! program its signals. Requests become decisions in [`App`]; everything about bytes stays in
//! the transports.
//!
//! ```
//! use std::sync::Arc;
//! use tidegate::MemoryStore;
//! use tidegate_server::{App, Config, serve};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let app = Arc::new(App::demo(MemoryStore::new())?);
//! let shutdown = async { /* until somebody says stop */ };
//! serve(listener, app, Config::default(), shutdown).await;
//! # Ok(())
//! # }
//! ```

pub mod accept;
mod app;
mod config;
mod reload;
mod transport;

pub use app::App;
pub use config::Config;
pub use reload::{Reloaded, Reloader};
pub use transport::http::serve;
