//! A worker that smooths its calls: a fragile service gets one every 20 milliseconds, however fast
//! jobs arrive.
//!
//! ```console
//! $ cargo run -p tidegate --example worker
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Limiter, Stopwatch, Store, WaitError, WaitLimits};

/// Handles all of `jobs`, each in its own task; returns how many gave up waiting.
pub(crate) async fn work<S: Store + 'static>(
    limiter: Arc<Limiter<S>>,
    jobs: u32,
    call: impl Fn(u32) + Clone + Send + 'static,
) -> usize {
    let mut tasks = tokio::task::JoinSet::new();
    for job in 0..jobs {
        let (limiter, call) = (Arc::clone(&limiter), call.clone());
        tasks.spawn(async move {
            limiter.until_ready("fragile-service").await?;
            call(job);
            Ok::<_, WaitError>(())
        });
    }
    tasks.join_all().await.into_iter().filter(Result::is_err).count()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::builder()
        .limit("50/second burst 1")
        .wait_limits(WaitLimits { max_wait: Duration::from_millis(500), max_queue: 100 })
        .build()?;
    let started = Stopwatch::start();
    let print = move |job| println!("{:>4} ms: job {job}", started.nanos() / 1_000_000);
    let late = work(Arc::new(limiter), 40, print).await;
    println!("{late} jobs would have waited for longer than half a second");
    Ok(())
}
