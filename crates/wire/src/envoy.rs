//! The messages that Envoy exchanges with a rate limit service.
//!
//! The code is generated from `proto/` by `cargo run -p xtask -- protobuf`, and the modules are
//! nested like the packages.
//!
//! ```
//! use prost::Message;
//! use tidegate_wire::envoy::{RateLimitDescriptor, RateLimitRequest};
//!
//! let descriptor = RateLimitDescriptor::new([("user", "alice")]);
//! let (domain, descriptors) = ("edge".to_owned(), vec![descriptor]);
//! let request = RateLimitRequest { domain, descriptors, hits_addend: 0 };
//! let read = RateLimitRequest::decode(&request.encode_to_vec()[..])?;
//! assert_eq!(read, request);
//! # Ok::<(), prost::DecodeError>(())
//! ```

pub use self::packages::envoy::config::core::v3::HeaderValue;
pub use self::packages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
pub use self::packages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
pub use self::packages::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit, rate_limit::Unit,
};
#[cfg(feature = "service")]
pub use self::packages::envoy::service::ratelimit::v3::rate_limit_service_server;
pub use self::packages::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
pub use self::packages::envoy::r#type::v3::RateLimitUnit;

/// All files of the service, as a serialised `FileDescriptorSet`, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

/// The service's full name.
pub const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

impl RateLimitDescriptor {
    /// A descriptor with these entries.
    pub fn new<K: Into<String>, V: Into<Vec<u8>>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let entry = |(key, value): (K, V)| Entry { key: key.into(), value: value.into().into() };
        Self { entries: entries.into_iter().map(entry).collect(), ..Self::default() }
    }
}

#[allow(clippy::all, clippy::use_self, missing_docs, unreachable_pub, reason = "generated")]
mod packages {
    pub mod envoy {
        pub mod config {
            pub mod core {
                pub mod v3 {
                    include!("generated/envoy.config.core.v3.rs");
                }
            }
        }
        pub mod extensions {
            pub mod common {
                pub mod ratelimit {
                    pub mod v3 {
                        include!("generated/envoy.extensions.common.ratelimit.v3.rs");
                    }
                }
            }
        }
        pub mod service {
            pub mod ratelimit {
                pub mod v3 {
                    include!("generated/envoy.service.ratelimit.v3.rs");
                }
            }
        }
        pub mod r#type {
            pub mod v3 {
                include!("generated/envoy.type.v3.rs");
            }
        }
    }
}
