//! Decisions in HTTP, for the server, the gateway and the tower layer.
//!
//! [`RateLimitAnswer`] is a decision with the limits that it is about. [`describe`] writes it into header
//! fields, [`answer_body`] makes it the JSON of `/v1/check`, and [`denial`] is the whole response to a
//! denied request. [`HttpRequest`] has the attributes of a request, by the names that policies use, and
//! [`ClientIp`] finds its client behind proxies. Code that finds attributes in another way reads
//! [cookies](only_cookie), [queries](only_parameter) and [hosts](RequestHost) the same way.
//!
//! ```
//! use tidegate::Limiter;
//! use tidegate_http::{RateLimitAnswer, denial};
//!
//! let limiter = Limiter::builder().name("login").limit("1/hour").build()?;
//! let _ = limiter.check_now("alice");
//! let decision = limiter.check_now("alice");
//! let response = denial(&RateLimitAnswer::of_policy(limiter.policy(), &decision));
//! assert_eq!(response.status(), 429);
//! assert!(response.headers().contains_key("retry-after"));
//! # Ok::<(), tidegate::BuildError>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod client_ip;
mod denial;
mod fields;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod grpc;
mod legacy;
mod policy_header;
mod request;

pub use answer::{LimitReport, RateLimitAnswer};
pub use client_ip::ClientIp;
pub use denial::{allowed_body, answer_body, denial, denial_without_fields, json, write_denial};
pub use fields::{RateLimitFields, describe, each_field};
pub use grpc::{grpc_denial, grpc_message, grpc_refusal, is_grpc_call};
pub use legacy::describe_legacy;
pub use policy_header::CachedPolicyHeader;
pub use request::{
    HttpRequest, RequestFault, RequestHost, RequestPath, all_cookies, bearer, content_length,
    cookie_values, is_same_variable, only_bearer, only_cookie, only_field, only_parameter,
    only_text, query_value, query_values, read_method, refuse_other_spelling,
};

/// The media type of answers.
pub const JSON: &str = "application/json";
/// The media type of denials and refusals: RFC 9457.
pub const PROBLEM_JSON: &str = "application/problem+json";
