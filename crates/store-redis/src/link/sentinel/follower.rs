//! Keeps up with one Sentinel.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tokio::time::{sleep, timeout};

use super::Desk;
use super::views::View;
use crate::link::backoff::Backoff;
use crate::link::dial::{dial_for_questions, within};
use crate::link::failure::Failure;
use crate::link::reply::Reply;
use crate::link::wire::Wire;
use crate::url::Address;

/// Keeps up with one Sentinel.
pub(super) struct Follower {
    desk: Arc<Desk>,
    sentinel: Address,
}

impl Follower {
    pub(super) const fn new(desk: Arc<Desk>, sentinel: Address) -> Self {
        Self { desk, sentinel }
    }

    /// Ends if the Sentinel is not worth following; returns which one it was.
    pub(super) async fn run(self) -> Address {
        let (mut backoff, mut failures) = (Backoff::default(), 0);
        loop {
            let failure = match self.follow(&mut failures).await {
                Err(failure) => failure,
                Ok(Twin) => {
                    self.desk.forget(&self.sentinel);
                    return self.sentinel;
                }
            };
            if failures == 0 {
                backoff.reset();
            }
            failures += 1;
            backoff.failed(failure.kind);
            let message = format!("Sentinel {}", failure.message);
            self.desk.lost(&self.sentinel, Failure::not_run(failure.kind, message));
            if failures > MOST_FAILURES && !self.desk.named.contains(&self.sentinel) {
                self.desk.forget(&self.sentinel);
                return self.sentinel;
            }
            sleep(backoff.pause()).await;
        }
    }

    /// Follows it until that fails. An answer forgives earlier failures.
    async fn follow(&self, failures: &mut u32) -> Result<Twin, Failure> {
        tokio::select! {
            ended = self.ask_again_and_again(failures) => ended,
            failure = self.listen() => Err(failure),
        }
    }

    async fn connect(&self) -> Result<Wire, Failure> {
        dial_for_questions(&self.sentinel, &self.desk.login, &self.desk.config).await
    }

    /// Asks every second, and whenever there is a doubt.
    async fn ask_again_and_again(&self, failures: &mut u32) -> Result<Twin, Failure> {
        let mut wire = self.connect().await?;
        let id = self.bounded(self.id(&mut wire)).await?;
        self.desk.introduce(&self.sentinel, id);
        let (mut doubts, mut number) = (self.desk.doubts.subscribe(), 0);
        loop {
            if self.desk.is_twin(&self.sentinel) {
                return Ok(Twin);
            }
            doubts.mark_unchanged();
            let view = self.bounded(self.ask(&mut wire)).await?;
            *failures = 0;
            self.desk.told(&self.sentinel, view);
            if number == 0 {
                self.desk.meet(self.bounded(self.others(&mut wire)).await?);
            }
            number = (number + 1) % OTHERS_EVERY;
            sleep(REST).await;
            let _ = timeout(EVERY, doubts.changed()).await;
        }
    }

    async fn bounded<T>(
        &self,
        question: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        within(&self.desk.config, &self.sentinel, question).await
    }

    /// Where it says the primary is. The epoch is asked for first, so that an old address never has
    /// a new one.
    async fn ask(&self, wire: &mut Wire) -> Result<View, Failure> {
        let state = wire.ask(redis::cmd("SENTINEL").arg("MASTER").arg(&self.desk.service)).await?;
        // It may not tell: then all epochs are alike.
        let epoch = state.ok().and_then(|state| state.field("config-epoch")?.parse().ok());
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.desk.service);
        let reply = wire.demand(&question).await?;
        let primary = match reply.items() {
            [host, port] => address(host.text(), port.text()),
            _ => None,
        };
        let primary = primary.ok_or_else(|| {
            let message = format!("it knows no primary called {:?}", self.desk.service);
            Failure::not_run(StoreErrorKind::Misconfigured, message)
        })?;
        Ok(View { primary, epoch: epoch.unwrap_or(0) })
    }

    /// Its name for itself, if it tells.
    async fn id(&self, wire: &mut Wire) -> Result<Option<String>, Failure> {
        let reply = wire.ask(redis::cmd("SENTINEL").arg("MYID")).await?;
        Ok(reply.ok().and_then(|reply| reply.text().map(str::to_owned)))
    }

    /// The other Sentinels that this one knows; none if it will not say.
    async fn others(&self, wire: &mut Wire) -> Result<Vec<Address>, Failure> {
        let mut question = redis::cmd("SENTINEL");
        question.arg("SENTINELS").arg(&self.desk.service);
        let reply = wire.ask(&question).await?.unwrap_or(Reply::Nil);
        let others = reply.items().iter();
        Ok(others.filter_map(|other| address(other.field("ip"), other.field("port"))).collect())
    }

    /// Asks again when it announces a change, of whatever service.
    async fn listen(&self) -> Failure {
        let wire = match self.connect().await {
            Ok(wire) => wire,
            Err(failure) => return failure,
        };
        let mut subscription = redis::cmd("SUBSCRIBE");
        subscription.arg("+switch-master").arg("+promoted-slave");
        wire.listen(&subscription, || self.desk.doubt()).await.at(&self.sentinel)
    }
}

/// The Sentinel is already followed by another address.
struct Twin;

fn address(host: Option<&str>, port: Option<&str>) -> Option<Address> {
    Some(Address::Tcp { host: host?.to_owned(), port: port?.parse().ok()? })
}

/// How often a Sentinel is asked where the primary is, if nobody has a doubt.
const EVERY: Duration = Duration::from_secs(1);
/// The least time between two questions, however many doubts there are.
const REST: Duration = Duration::from_millis(50);
/// After this many questions, it is also asked which others it knows.
const OTHERS_EVERY: u32 = 30;
/// After this many attempts in a row, a Sentinel that only others named is given up.
const MOST_FAILURES: u32 = 10;
