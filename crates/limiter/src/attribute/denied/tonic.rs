//! A denial as a status of gRPC.

use tonic::{Code, Status};

use super::Denied;
use crate::grpc_status::grpc_status_details;

/// `RESOURCE_EXHAUSTED` with a `google.rpc.RetryInfo`, as the layer answers. Requires the feature `tonic`.
///
/// ```
/// use tidegate::{Denied, rate_limit};
/// use tonic::{Code, Status};
///
/// #[rate_limit(name = "tides", quota = "1/hour")]
/// async fn tides() -> Result<u64, Status> {
///     Ok(42)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// assert!(tides().await.is_ok());
/// let status = tides().await.unwrap_err();
/// assert_eq!(status.code(), Code::ResourceExhausted);
/// assert!(!status.details().is_empty());
/// # }
/// ```
impl From<Denied> for Status {
    fn from(denied: Denied) -> Self {
        let message = denied.to_string();
        let details = grpc_status_details(&message, denied.retry_after());
        Self::with_details(Code::ResourceExhausted, message, details.into())
    }
}
