//! Asks Sentinels where the primary is.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_store::StoreErrorKind;

use super::dial::{dial_for_questions, within};
use super::failure::Failure;
use super::reply::Reply;
use super::wire::Wire;
use crate::RedisConfig;
use crate::url::{Address, Login};

/// The Sentinels of one service, most trusted first.
#[derive(Debug)]
pub(super) struct Sentinels {
    service: String,
    login: Login,
    known: Mutex<Vec<Address>>,
}

impl Sentinels {
    pub(super) const fn new(service: String, login: Login, known: Vec<Address>) -> Self {
        Self { service, login, known: Mutex::new(known) }
    }

    /// Where the primary is, and which Sentinel said so.
    pub(super) async fn primary(
        &self,
        config: &Arc<RedisConfig>,
    ) -> Result<(Address, Address), Failure> {
        let mut last = Failure::not_run(StoreErrorKind::Misconfigured, "no Sentinel is known");
        let sentinels = self.known.lock().clone();
        for sentinel in sentinels {
            match self.ask(&sentinel, config).await {
                Ok((primary, others)) => {
                    self.trust(&sentinel, others);
                    return Ok((primary, sentinel));
                }
                Err(failure) => last = failure,
            }
        }
        Err(Failure { message: format!("Sentinel {}", last.message).into(), ..last })
    }

    /// Where one Sentinel says the primary is, and which other Sentinels it knows.
    async fn ask(
        &self,
        sentinel: &Address,
        config: &Arc<RedisConfig>,
    ) -> Result<(Address, Vec<Address>), Failure> {
        let mut wire = dial_for_questions(sentinel, &self.login, config).await?;
        within(config, sentinel, async {
            let mut question = redis::cmd("SENTINEL");
            question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
            let reply = wire.demand(&question).await?;
            let primary = match reply.items() {
                [host, port] => address(host.text(), port.text()),
                _ => None,
            };
            let primary = primary.ok_or_else(|| {
                let message = format!("it knows no primary called {:?}", self.service);
                Failure::not_run(StoreErrorKind::Misconfigured, message)
            })?;
            Ok((primary, self.others(&mut wire).await))
        })
        .await
    }

    /// The other Sentinels that this one knows; none if it will not say.
    async fn others(&self, wire: &mut Wire) -> Vec<Address> {
        let mut question = redis::cmd("SENTINEL");
        question.arg("SENTINELS").arg(&self.service);
        let reply = wire.demand(&question).await.unwrap_or(Reply::Nil);
        let others = reply.items().iter();
        others.filter_map(|other| address(other.field("ip"), other.field("port"))).collect()
    }

    /// Asks this one first from now on, and the others that it knows if it fails.
    fn trust(&self, sentinel: &Address, others: Vec<Address>) {
        let mut known = self.known.lock();
        if let Some(at) = known.iter().position(|address| address == sentinel) {
            known[..=at].rotate_right(1);
        }
        for other in others {
            if known.len() < MOST_SENTINELS && !known.contains(&other) {
                known.push(other);
            }
        }
    }

    /// Asks this one last from now on: it sent us to a server that is not a primary, or not there.
    pub(super) fn doubt(&self, sentinel: &Address) {
        let mut known = self.known.lock();
        if let Some(at) = known.iter().position(|address| address == sentinel) {
            known[at..].rotate_left(1);
        }
    }
}

fn address(host: Option<&str>, port: Option<&str>) -> Option<Address> {
    Some(Address::Tcp { host: host?.to_owned(), port: port?.parse().ok()? })
}

/// Sentinels to remember, besides those that the configuration names.
const MOST_SENTINELS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str) -> Address {
        Address::Tcp { host: host.to_owned(), port: 1 }
    }

    #[test]
    fn the_one_that_answered_is_asked_first_and_the_one_that_misled_us_last() {
        let sentinels =
            Sentinels::new("m".to_owned(), Login::default(), vec![at("a"), at("b"), at("c")]);
        sentinels.trust(&at("c"), vec![at("d"), at("a")]);
        assert_eq!(*sentinels.known.lock(), [at("c"), at("a"), at("b"), at("d")]);
        sentinels.doubt(&at("c"));
        assert_eq!(*sentinels.known.lock(), [at("a"), at("b"), at("d"), at("c")]);
        sentinels.doubt(&at("unknown"));
        sentinels.trust(&at("unknown"), vec![]);
        assert_eq!(*sentinels.known.lock(), [at("a"), at("b"), at("d"), at("c")]);
        sentinels.trust(&at("a"), (0..100).map(|n| at(&n.to_string())).collect());
        assert_eq!(sentinels.known.lock().len(), MOST_SENTINELS);
    }
}
