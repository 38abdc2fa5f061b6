//! Calls with a time limit. A timeout is recorded, or a connection that hangs would never be
//! replaced.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tokio::time::{Instant, timeout};

use super::shared_connection::ConnectionFault;
use super::{RedisFailure, RedisLink, RedisReply, ScriptCall};

impl RedisLink {
    /// [`run`](Self::run), with a time limit.
    pub(crate) async fn run_within(
        &self,
        slot: u16,
        lane: usize,
        call: &ScriptCall,
        patience: Duration,
    ) -> Result<RedisReply, RedisFailure> {
        self.within(slot, lane, patience, self.run(slot, lane, call)).await
    }

    /// How long a call takes, once its connection is up. A connection that does not answer within
    /// `patience` is replaced: while the breaker is open, no caller would notice.
    pub(crate) async fn probe(
        &self,
        slot: u16,
        lane: usize,
        call: &ScriptCall,
        patience: Duration,
    ) -> Result<Duration, RedisFailure> {
        let connected = async {
            let node = self.node(slot).await?;
            self.connection(&node, lane).await
        };
        let late = |_| Err(no_answer(patience));
        let _ = timeout(patience, connected).await.unwrap_or_else(late)?;
        let (began, mut over) = (Instant::now(), None);
        // A node that is alive may redirect the call to one that is not.
        let run = self.run_over(slot, lane, call, |now_over| {
            over = now_over.map(|(node, connection)| (Arc::clone(node), Arc::clone(connection)));
        });
        let answer = timeout(patience, run).await;
        answer.unwrap_or_else(|_| {
            if let Some((node, connection)) = over {
                node.lane(lane).report(&connection, ConnectionFault::Silent);
            }
            self.suspect_topology();
            Err(no_answer(patience))
        })?;
        Ok(began.elapsed())
    }

    pub(super) async fn within<T>(
        &self,
        slot: u16,
        lane: usize,
        patience: Duration,
        call: impl Future<Output = Result<T, RedisFailure>>,
    ) -> Result<T, RedisFailure> {
        timeout(patience, call).await.unwrap_or_else(|_| {
            self.record_timeout(slot, lane);
            Err(no_answer(patience))
        })
    }
}

fn no_answer(patience: Duration) -> RedisFailure {
    RedisFailure::unknown(StoreErrorKind::Timeout, format!("no answer within {patience:?}"))
}
