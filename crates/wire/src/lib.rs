//! The bodies that travel.
//!
//! Types and their JSON, Envoy's messages and OpenTelemetry's, nothing else: what a body means is
//! the server's business, and no other crate of ours is known here. JSON requests borrow from the
//! bytes they were read from.
//!
//! ```
//! use tidegate_wire::CheckRequest;
//!
//! let body = r#"{"policy": "demo", "key": "alice"}"#;
//! let request: CheckRequest<'_> = serde_json::from_str(body)?;
//! assert_eq!(request.key.as_deref(), Some("alice"));
//! assert_eq!(request.cost, None);
//! # Ok::<(), serde_json::Error>(())
//! ```

pub mod admin;
mod attributes;
mod batch;
mod check;
mod count;
pub mod envoy;
mod openapi;
pub mod otlp;
mod problem;
mod refund;
mod text;
mod write;

pub use attributes::Attributes;
pub use batch::{BatchRequest, BatchResponse, BatchResult};
pub use check::{CheckRequest, CheckResponse, LimitStatus};
pub use openapi::openapi;
pub use problem::{Problem, QuotaExceeded, Refused};
pub use refund::RefundRequest;
pub use text::Text;
