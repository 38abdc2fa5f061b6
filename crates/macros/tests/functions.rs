//! Calls of limited functions.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tidegate::{
    Clock, Decision, DecisionReason, DecisionSource, Denied, Limiter, MemoryStore, RateLimiter,
    Timestamp, WaitError, WaitLimits, rate_limit,
};
use tokio::time::Instant;

#[rate_limit(name = "async", quota = "2/day", key = |user| user)]
async fn twice_a_day(user: &str) -> Result<usize, Denied> {
    tokio::task::yield_now().await;
    Ok(user.len())
}

#[tokio::test]
async fn an_async_function_is_limited_by_key() {
    for _ in 0..2 {
        assert_eq!(twice_a_day("alice").await.unwrap(), 5);
    }
    let denied = twice_a_day("alice").await.unwrap_err();
    assert_eq!(denied.decision().unwrap().reason(), DecisionReason::LimitExceeded);
    assert!(
        denied.to_string().starts_with(r#""async" denied this call: try again in "#),
        "{denied}"
    );
    assert_eq!(twice_a_day("bob").await.unwrap(), 3);
    // Futures of limited functions can be spawned.
    tokio::spawn(twice_a_day("carol")).await.unwrap().unwrap();
}

#[rate_limit(name = "sync", quota = ["5/day", "2/hour"], key = |a, b| (*a, b.as_str()))]
fn of_two(a: u32, b: String) -> Result<String, Box<dyn std::error::Error>> {
    Ok(format!("{a}{b}"))
}

#[test]
fn a_denial_converts_into_any_error_type() {
    let call = |a| of_two(a, "x".to_owned());
    assert_eq!(call(1).unwrap(), "1x");
    call(1).unwrap();
    let error = call(1).unwrap_err();
    assert_eq!(error.downcast_ref::<Denied>().unwrap().name(), "sync");
    call(2).unwrap();
}

struct Service {
    limiter: Limiter,
    tenant: String,
}

impl Service {
    #[rate_limit(limiter = self.limiter, key = |self, id| (&self.tenant, *id))]
    async fn load<T: Default + Send>(&self, id: u64) -> Result<T, Denied> {
        let _ = id;
        Ok(T::default())
    }

    #[rate_limit(limiter = &self.limiter, key = |x, y| (*x, *y))]
    fn sum(&mut self, (x, y): (i64, i64)) -> Result<i64, Denied> {
        Ok(x + y)
    }
}

#[tokio::test]
async fn methods_may_bring_their_limiter() {
    let limiter = Limiter::builder().name("service").limit("1/day").build().unwrap();
    let mut service = Service { limiter, tenant: "t".to_owned() };
    assert_eq!(service.load::<String>(7).await.unwrap(), "");
    // One limit, whatever the function is instantiated with.
    assert_eq!(service.load::<u8>(7).await.unwrap_err().name(), "load");
    assert_eq!(service.load::<u8>(8).await.unwrap(), 0);
    assert_eq!(service.sum((1, 2)).unwrap(), 3);
    assert!(service.sum((1, 2)).is_err());
    assert!(!service.limiter.check_now(&("t", 7_u64)).is_allowed());
}

#[rate_limit(name = "each", quota = "3/day", key = |user| user)]
#[rate_limit(name = "all", quota = "4/day")]
async fn twice_limited(user: u64) -> Result<(), Denied> {
    let _ = user;
    Ok(())
}

#[tokio::test]
async fn what_was_taken_is_given_back_when_a_later_limit_denies() {
    for _ in 0..3 {
        twice_limited(1).await.unwrap();
    }
    assert_eq!(twice_limited(1).await.unwrap_err().name(), "each");
    twice_limited(2).await.unwrap();
    for _ in 0..5 {
        // If these counted, the first limit would deny from the third call on.
        assert_eq!(twice_limited(2).await.unwrap_err().name(), "all");
    }
}

#[rate_limit(name = "nobody asked", quota = "1/day", scope = ip)]
fn by_address() -> Result<(), Denied> {
    Ok(())
}

#[test]
fn without_a_resolver_everybody_shares_a_counter() {
    by_address().unwrap();
    assert!(by_address().is_err());
}

/// Tokio's time, which a test can stop.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000) + self.0.elapsed().into()
    }
}

#[rate_limit(limiter = limiter, on_denied = wait)]
async fn in_line(limiter: &Limiter<MemoryStore<TokioClock>>) -> Result<Instant, Denied> {
    Ok(Instant::now())
}

#[tokio::test(start_paused = true)]
async fn a_function_may_wait_in_line() {
    let store = MemoryStore::builder().clock(TokioClock(Instant::now())).build();
    let patience = WaitLimits { max_wait: Duration::from_millis(250), max_queue: 10 };
    let limiter = Limiter::builder().limit("10/second burst 1").wait_limits(patience);
    let limiter = Arc::new(limiter.store(store).build().unwrap());
    let start = Instant::now();
    for turn in 0..3 {
        let waited = in_line(&limiter).await.unwrap() - start;
        let due = Duration::from_millis(100 * turn);
        assert!(waited >= due && waited < due + Duration::from_millis(20), "{waited:?}");
    }
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let limiter = Arc::clone(&limiter);
        tasks.spawn(async move { in_line(&limiter).await });
    }
    let results = tasks.join_all().await;
    let late: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert_eq!(late.len(), 2);
    for denied in late {
        assert!(matches!(denied.why_not_ready(), Some(WaitError::Later(_))), "{denied}");
        let wait = denied.retry_after().unwrap();
        assert!((80..=100).contains(&wait.as_millis()), "{wait:?}");
    }
}

#[rate_limit(name = "a thread in line", quota = "100/second burst 1", on_denied = wait)]
fn blocking() -> Result<(), Denied> {
    Ok(())
}

#[tokio::test(flavor = "current_thread")]
async fn a_thread_may_wait_too_even_the_only_one_of_a_runtime() {
    for _ in 0..3 {
        blocking().unwrap();
    }
}

#[async_trait::async_trait]
trait Mailer {
    async fn send(&self, to: &str, (text, _): (String, u8)) -> Result<usize, Denied>;

    #[rate_limit(name = "default method", quota = "1/day")]
    async fn ping(&mut self) -> Result<(), Denied> {
        Ok(())
    }
}

struct Postman {
    id: u64,
}

#[async_trait::async_trait]
impl Mailer for Postman {
    #[rate_limit(name = "each postman", quota = "2/day", key = |self, to| (self.id, to))]
    #[rate_limit(name = "all postmen", quota = "3/day", on_denied = wait)]
    async fn send(&self, to: &str, (text, _): (String, u8)) -> Result<usize, Denied> {
        tokio::task::yield_now().await;
        Ok(self.id as usize + to.len() + text.len())
    }
}

#[tokio::test]
async fn methods_of_async_traits_are_limited() {
    let send = |id| tokio::spawn(async move { Postman { id }.send("a", ("b".into(), 0)).await });
    for _ in 0..2 {
        assert_eq!(send(1).await.unwrap().unwrap(), 3);
    }
    assert_eq!(send(1).await.unwrap().unwrap_err().name(), "each postman");
    assert_eq!(send(2).await.unwrap().unwrap(), 4);
    assert_eq!(send(3).await.unwrap().unwrap_err().name(), "all postmen");
    let mut postman = Postman { id: 1 };
    assert!(postman.ping().await.is_ok() && postman.ping().await.is_err());
}

#[rate_limit(name = "a future", quota = "1/day", key = |user| user)]
fn future(user: u64) -> impl Future<Output = Result<u64, Denied>> + Send {
    let twice = user * 2;
    async move { Ok(twice) }
}

#[rate_limit(name = "a boxed future", quota = "1/day", key = |user| user)]
fn boxed(user: &str) -> Pin<Box<dyn Future<Output = Result<usize, Denied>> + Send + '_>> {
    Box::pin(async move { Ok(user.len()) })
}

#[tokio::test]
async fn functions_that_return_futures_are_limited_when_these_run() {
    // A future that is never polled checks no limit.
    drop((future(1), boxed("a")));
    assert_eq!(tokio::spawn(future(1)).await.unwrap().unwrap(), 2);
    assert_eq!(future(1).await.unwrap_err().name(), "a future");
    assert_eq!(boxed("a").await.unwrap(), 1);
    assert_eq!(boxed("a").await.unwrap_err().name(), "a boxed future");
}

/// A limiter of another type, which cannot decide immediately.
struct Slow;

impl RateLimiter for Slow {
    async fn decide<K: tidegate::Key + Sync + ?Sized>(&self, _: &K, _: tidegate::Cost) -> Decision {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Decision::without_verdicts(false, DecisionSource::None)
    }
}

static SLOW: LazyLock<Arc<Slow>> = LazyLock::new(|| Arc::new(Slow));

#[rate_limit(name = "slow", limiter = *SLOW)]
fn ask_slowly() -> Result<(), Denied> {
    Ok(())
}

#[test]
fn tests_can_replace_the_limiter() {
    assert_eq!(
        ask_slowly().unwrap_err().decision().unwrap().reason(),
        DecisionReason::LimitExceeded
    );
}

#[rate_limit(name = "tokens", quota = "10/day", key = |user| *user, cost = |text| text.len())]
#[rate_limit(name = "all tokens", quota = "12/day", cost = |text| text.len())]
fn complete(user: u64, text: &str) -> Result<usize, Denied> {
    let _ = user;
    Ok(text.len())
}

#[rate_limit(name = "reports", quota = "10/day", cost = 4)]
async fn report() -> Result<(), Denied> {
    Ok(())
}

#[rate_limit(name = "negative", quota = "10/day", cost = |units| *units)]
fn negative(units: i64) -> Result<(), Denied> {
    Ok(())
}

#[tokio::test]
async fn a_call_costs_what_its_arguments_say() {
    assert!(complete(1, "seven..").is_ok());
    assert_eq!(complete(1, "four").unwrap_err().name(), "tokens");
    // The second limit denies, and the first gets its units back.
    assert_eq!(complete(2, "sixsix").unwrap_err().name(), "all tokens");
    assert!(complete(2, "fives").is_ok());
    assert!(report().await.is_ok() && report().await.is_ok());
    assert_eq!(report().await.unwrap_err().decision().unwrap().remaining(), Some(2));
    assert!(negative(-1).is_err() && negative(10).is_ok());
}
