//! Keeps up with one Sentinel.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tokio::time::{sleep, timeout};

use super::SentinelRegistry;
use super::views::SentinelView;
use crate::link::backoff::ConnectionBackoff;
use crate::link::dial::{dial_for_questions, within};
use crate::link::failure::RedisFailure;
use crate::link::raw_connection::RawConnection;
use crate::link::reply::RedisReply;
use crate::url::RedisAddress;

/// Keeps up with one Sentinel.
pub(super) struct SentinelFollower {
    registry: Arc<SentinelRegistry>,
    sentinel: RedisAddress,
}

impl SentinelFollower {
    pub(super) const fn new(desk: Arc<SentinelRegistry>, sentinel: RedisAddress) -> Self {
        Self { registry: desk, sentinel }
    }

    /// Ends if the Sentinel is not worth following; returns which one it was.
    pub(super) async fn run(self) -> RedisAddress {
        let (mut backoff, mut failures) = (ConnectionBackoff::default(), 0);
        loop {
            let failure = match self.follow(&mut failures).await {
                Err(failure) => failure,
                Ok(DuplicateSentinel) => {
                    self.registry.forget(&self.sentinel);
                    return self.sentinel;
                }
            };
            if failures == 0 {
                backoff.reset();
            }
            failures += 1;
            backoff.record_failure(failure.kind);
            let message = format!("Sentinel {}", failure.message);
            self.registry.record_loss(&self.sentinel, RedisFailure::not_run(failure.kind, message));
            if failures > MOST_FAILURES && !self.registry.named.contains(&self.sentinel) {
                self.registry.forget(&self.sentinel);
                return self.sentinel;
            }
            sleep(backoff.pause()).await;
        }
    }

    /// Follows it until that fails. An answer forgives earlier failures.
    async fn follow(&self, failures: &mut u32) -> Result<DuplicateSentinel, RedisFailure> {
        tokio::select! {
            ended = self.poll_primary(failures) => ended,
            failure = self.listen() => Err(failure),
        }
    }

    async fn connect(&self) -> Result<RawConnection, RedisFailure> {
        dial_for_questions(&self.sentinel, &self.registry.login, &self.registry.config).await
    }

    /// Asks every second, and whenever there is a doubt.
    async fn poll_primary(&self, failures: &mut u32) -> Result<DuplicateSentinel, RedisFailure> {
        let mut wire = self.connect().await?;
        let id = self.bounded(self.id(&mut wire)).await?;
        self.registry.record_id(&self.sentinel, id);
        let (mut doubts, mut number) = (self.registry.suspicions.subscribe(), 0);
        loop {
            if self.registry.is_duplicate(&self.sentinel) {
                return Ok(DuplicateSentinel);
            }
            doubts.mark_unchanged();
            let view = self.bounded(self.ask(&mut wire)).await?;
            *failures = 0;
            self.registry.record_view(&self.sentinel, view);
            if number == 0 {
                self.registry.add_sentinels(self.bounded(self.others(&mut wire)).await?);
            }
            number = (number + 1) % OTHERS_EVERY;
            sleep(REST).await;
            let _ = timeout(EVERY, doubts.changed()).await;
        }
    }

    async fn bounded<T>(
        &self,
        question: impl Future<Output = Result<T, RedisFailure>>,
    ) -> Result<T, RedisFailure> {
        within(&self.registry.config, &self.sentinel, question).await
    }

    /// Where it says the primary is. The epoch is asked for first, so that an old address never has
    /// a new one.
    async fn ask(&self, wire: &mut RawConnection) -> Result<SentinelView, RedisFailure> {
        let state =
            wire.ask(redis::cmd("SENTINEL").arg("MASTER").arg(&self.registry.service)).await?;
        // It may not tell: then all epochs are alike.
        let epoch = state.ok().and_then(|state| state.field("config-epoch")?.parse().ok());
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.registry.service);
        let reply = wire.ask_or_fail(&question).await?;
        let primary = match reply.items() {
            [host, port] => address(host.text(), port.text()),
            _ => None,
        };
        let primary = primary.ok_or_else(|| {
            let message = format!("it knows no primary called {:?}", self.registry.service);
            RedisFailure::not_run(StoreErrorKind::Misconfigured, message)
        })?;
        Ok(SentinelView { primary, epoch: epoch.unwrap_or(0) })
    }

    /// Its name for itself, if it tells.
    async fn id(&self, wire: &mut RawConnection) -> Result<Option<String>, RedisFailure> {
        let reply = wire.ask(redis::cmd("SENTINEL").arg("MYID")).await?;
        Ok(reply.ok().and_then(|reply| reply.text().map(str::to_owned)))
    }

    /// The other Sentinels that this one knows; none if it will not say.
    async fn others(&self, wire: &mut RawConnection) -> Result<Vec<RedisAddress>, RedisFailure> {
        let mut question = redis::cmd("SENTINEL");
        question.arg("SENTINELS").arg(&self.registry.service);
        let reply = wire.ask(&question).await?.unwrap_or(RedisReply::Nil);
        let others = reply.items().iter();
        Ok(others.filter_map(|other| address(other.field("ip"), other.field("port"))).collect())
    }

    /// Asks again when it announces a change, of whatever service.
    async fn listen(&self) -> RedisFailure {
        let wire = match self.connect().await {
            Ok(wire) => wire,
            Err(failure) => return failure,
        };
        let mut subscription = redis::cmd("SUBSCRIBE");
        subscription.arg("+switch-master").arg("+promoted-slave");
        wire.listen(&subscription, || self.registry.suspect_primary()).await.at(&self.sentinel)
    }
}

/// The Sentinel is already followed by another address.
struct DuplicateSentinel;

fn address(host: Option<&str>, port: Option<&str>) -> Option<RedisAddress> {
    Some(RedisAddress::Tcp { host: host?.to_owned(), port: port?.parse().ok()? })
}

/// How often a Sentinel is asked where the primary is, if nobody has a doubt.
const EVERY: Duration = Duration::from_secs(1);
/// The least time between two questions, however many doubts there are.
const REST: Duration = Duration::from_millis(50);
/// After this many questions, it is also asked which others it knows.
const OTHERS_EVERY: u32 = 30;
/// After this many attempts in a row, a Sentinel that only others named is given up.
const MOST_FAILURES: u32 = 10;
