//! Follows one Sentinel: queries it for the primary, and subscribes to its announcements.

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

/// Follows one Sentinel.
pub(super) struct SentinelFollower {
    registry: Arc<SentinelRegistry>,
    sentinel: RedisAddress,
}

impl SentinelFollower {
    pub(super) const fn new(registry: Arc<SentinelRegistry>, sentinel: RedisAddress) -> Self {
        Self { registry, sentinel }
    }

    /// Runs until the Sentinel is not worth following, and returns its address.
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

    /// Follows the Sentinel until that fails. An answer resets `failures`.
    async fn follow(&self, failures: &mut u32) -> Result<DuplicateSentinel, RedisFailure> {
        tokio::select! {
            ended = self.poll_primary(failures) => ended,
            failure = self.listen() => Err(failure),
        }
    }

    async fn connect(&self) -> Result<RawConnection, RedisFailure> {
        dial_for_questions(&self.sentinel, &self.registry.login, &self.registry.config).await
    }

    /// Queries the Sentinel every second, and whenever the primary is suspected to have changed.
    async fn poll_primary(&self, failures: &mut u32) -> Result<DuplicateSentinel, RedisFailure> {
        let mut connection = self.connect().await?;
        let id = self.bounded(self.id(&mut connection)).await?;
        self.registry.record_id(&self.sentinel, id);
        let (mut suspicions, mut number) = (self.registry.suspicions.subscribe(), 0);
        loop {
            if self.registry.is_duplicate(&self.sentinel) {
                return Ok(DuplicateSentinel);
            }
            suspicions.mark_unchanged();
            let view = self.bounded(self.ask(&mut connection)).await?;
            *failures = 0;
            self.registry.record_view(&self.sentinel, view);
            if number == 0 {
                self.registry.add_sentinels(self.bounded(self.others(&mut connection)).await?);
            }
            number = (number + 1) % OTHERS_EVERY;
            sleep(REST).await;
            let _ = timeout(EVERY, suspicions.changed()).await;
        }
    }

    async fn bounded<T>(
        &self,
        query: impl Future<Output = Result<T, RedisFailure>>,
    ) -> Result<T, RedisFailure> {
        within(&self.registry.config, &self.sentinel, query).await
    }

    /// The Sentinel's view. The epoch is read first, so that an old address never has a new epoch.
    async fn ask(&self, connection: &mut RawConnection) -> Result<SentinelView, RedisFailure> {
        let state = connection
            .ask(redis::cmd("SENTINEL").arg("MASTER").arg(&self.registry.service))
            .await?;
        // We may not be allowed to read it: then all epochs are equal.
        let epoch = state.ok().and_then(|state| state.field("config-epoch")?.parse().ok());
        let mut query = redis::cmd("SENTINEL");
        query.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.registry.service);
        let reply = connection.ask_or_fail(&query).await?;
        let primary = match reply.items() {
            [host, port] => address(host.text(), port.text()),
            _ => None,
        };
        let primary = primary.ok_or_else(|| {
            let message = format!("it does not know a primary named {:?}", self.registry.service);
            RedisFailure::not_run(StoreErrorKind::Misconfigured, message)
        })?;
        Ok(SentinelView { primary, epoch: epoch.unwrap_or(0) })
    }

    /// The Sentinel's ID, if we are allowed to read it.
    async fn id(&self, connection: &mut RawConnection) -> Result<Option<String>, RedisFailure> {
        let reply = connection.ask(redis::cmd("SENTINEL").arg("MYID")).await?;
        Ok(reply.ok().and_then(|reply| reply.text().map(str::to_owned)))
    }

    /// The other Sentinels that this one knows; none if we are not allowed to read them.
    async fn others(
        &self,
        connection: &mut RawConnection,
    ) -> Result<Vec<RedisAddress>, RedisFailure> {
        let mut query = redis::cmd("SENTINEL");
        query.arg("SENTINELS").arg(&self.registry.service);
        let reply = connection.ask(&query).await?.unwrap_or(RedisReply::Nil);
        let others = reply.items().iter();
        Ok(others.filter_map(|other| address(other.field("ip"), other.field("port"))).collect())
    }

    /// Has all Sentinels queried when this one announces a change, of whatever service.
    async fn listen(&self) -> RedisFailure {
        let connection = match self.connect().await {
            Ok(connection) => connection,
            Err(failure) => return failure,
        };
        let mut subscription = redis::cmd("SUBSCRIBE");
        subscription.arg("+switch-master").arg("+promoted-slave");
        connection
            .listen(&subscription, || self.registry.suspect_primary())
            .await
            .at(&self.sentinel)
    }
}

/// The Sentinel is already followed at another address.
struct DuplicateSentinel;

fn address(host: Option<&str>, port: Option<&str>) -> Option<RedisAddress> {
    Some(RedisAddress::Tcp { host: host?.to_owned(), port: port?.parse().ok()? })
}

/// How often a Sentinel is queried if nothing suggests another primary.
const EVERY: Duration = Duration::from_secs(1);
/// The least time between two queries, however many suspicions there are.
const REST: Duration = Duration::from_millis(50);
/// After this many queries, the Sentinel is also queried for the others that it knows.
const OTHERS_EVERY: u32 = 30;
/// After this many failures in a row, a Sentinel that only others reported is forgotten.
const MOST_FAILURES: u32 = 10;
