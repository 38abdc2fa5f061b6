//! The message bodies that travel over the wire.
//!
//! Types and their JSON, plus Envoy's and OpenTelemetry's messages, and nothing else: the server
//! gives a body its meaning, and this crate depends on no other crate of the workspace. JSON
//! requests borrow from the bytes they were read from.
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

#![cfg_attr(docsrs, feature(doc_cfg))]

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

pub use attributes::JsonAttributes;
pub use batch::{BatchRequest, BatchResponse, BatchResult};
pub use check::{CheckRequest, CheckResponse, LimitStatus};
pub use openapi::openapi;
pub use problem::{ProblemDetails, QuotaExceeded, RefusalMembers};
pub use refund::RefundRequest;
pub use text::JsonText;
