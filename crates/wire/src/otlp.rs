//! The OpenTelemetry messages that export traces to a collector.
//!
//! The code is generated from `proto/` by `cargo run -p xtask -- protobuf`, and the modules are
//! nested like the packages.
//!
//! ```
//! use tidegate_wire::otlp::{KeyValue, Value};
//!
//! let attribute = KeyValue::new("service.name", Value::StringValue("tidegate".to_owned()));
//! assert_eq!(attribute.key, "service.name");
//! ```

pub use self::packages::opentelemetry::proto::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
pub use self::packages::opentelemetry::proto::common::v1::any_value::Value;
pub use self::packages::opentelemetry::proto::common::v1::{
    AnyValue, InstrumentationScope, KeyValue,
};
pub use self::packages::opentelemetry::proto::resource::v1::Resource;
pub use self::packages::opentelemetry::proto::trace::v1::span::SpanKind;
pub use self::packages::opentelemetry::proto::trace::v1::status::StatusCode;
pub use self::packages::opentelemetry::proto::trace::v1::{
    ResourceSpans, ScopeSpans, Span, Status,
};

/// The path of the gRPC call that exports traces to a collector.
pub const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

impl KeyValue {
    /// An attribute.
    pub fn new(key: &str, value: Value) -> Self {
        Self { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
    }
}

#[allow(clippy::all, clippy::use_self, missing_docs, unreachable_pub, reason = "generated")]
mod packages {
    pub mod opentelemetry {
        pub mod proto {
            pub mod collector {
                pub mod trace {
                    pub mod v1 {
                        include!("generated/opentelemetry.proto.collector.trace.v1.rs");
                    }
                }
            }
            pub mod common {
                pub mod v1 {
                    include!("generated/opentelemetry.proto.common.v1.rs");
                }
            }
            pub mod resource {
                pub mod v1 {
                    include!("generated/opentelemetry.proto.resource.v1.rs");
                }
            }
            pub mod trace {
                pub mod v1 {
                    include!("generated/opentelemetry.proto.trace.v1.rs");
                }
            }
        }
    }
}
