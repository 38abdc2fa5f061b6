//! One connection to a node, and the task that keeps it up.

use std::sync::Arc;

use tidegate_store::StoreErrorKind;
use tokio::sync::{Notify, watch};

use super::failure::RedisFailure;
use super::node::NodeRoute;
use super::scoped_task::ScopedTask;
use super::shared_connection::{ConnectionFault, SharedConnection};
use super::supervisor::ConnectionSupervisor;

/// One connection to a node. Calls on it keep their order.
#[derive(Debug)]
pub(super) struct ConnectionLane {
    channel: Arc<LaneChannel>,
    supervisor: ScopedTask,
}

/// What callers and the supervisor share.
#[derive(Debug)]
pub(super) struct LaneChannel {
    pub(super) state: watch::Sender<LaneState>,
    /// Notified when a fault was found.
    pub(super) bell: Notify,
    pub(super) route: Arc<NodeRoute>,
}

/// The state of a lane's connection, as callers see it.
#[derive(Clone, Debug)]
pub(super) enum LaneState {
    /// There is no supervisor: no call was made yet, or the runtime of the callers that made one has
    /// ended.
    Idle,
    /// A connection is being made, and the last attempt did not fail: worth waiting for.
    Dialing,
    Up(Arc<SharedConnection>),
    /// The last attempt failed, and more are made in the background. Not worth waiting for.
    Down(RedisFailure),
}

impl ConnectionLane {
    pub(super) fn new(route: Arc<NodeRoute>) -> Self {
        let state = watch::Sender::new(LaneState::Idle);
        let channel = Arc::new(LaneChannel { state, bell: Notify::new(), route });
        Self { channel, supervisor: ScopedTask::default() }
    }

    /// The connection. Waits for the attempt in progress, if there is one.
    pub(super) async fn connection(&self) -> Result<Arc<SharedConnection>, RedisFailure> {
        if let Some(outcome) = self.channel.state.borrow().outcome() {
            return outcome;
        }
        let mut states = self.channel.state.subscribe();
        loop {
            self.start_if_idle();
            if let Some(outcome) = states.borrow_and_update().outcome() {
                return outcome;
            }
            if states.changed().await.is_err() {
                let message = "the connection was shut down";
                return Err(RedisFailure::not_run(StoreErrorKind::Unreachable, message));
            }
        }
    }

    fn start_if_idle(&self) {
        // The caller that changes the state also starts the task.
        let won = self.channel.state.send_if_modified(|state| {
            let idle = matches!(state, LaneState::Idle);
            if idle {
                *state = LaneState::Dialing;
            }
            idle
        });
        if won {
            self.supervisor.start(ConnectionSupervisor::new(Arc::clone(&self.channel)).run());
        }
    }

    /// Has the supervisor replace a connection.
    pub(super) fn report(&self, connection: &SharedConnection, fault: ConnectionFault) {
        if connection.record_fault(fault) {
            self.channel.bell.notify_one();
        }
    }

    /// Records that a caller's deadline passed.
    pub(super) fn record_timeout(&self) {
        let LaneState::Up(connection) = self.channel.state.borrow().clone() else { return };
        if connection.count_missed() >= MISSED_IN_A_ROW {
            self.report(&connection, ConnectionFault::Silent);
        }
    }
}

/// A connection is replaced after this many missed deadlines in a row: fewer can be chance.
const MISSED_IN_A_ROW: u32 = 3;

impl LaneState {
    /// What a caller gets; `None` if it has to wait.
    fn outcome(&self) -> Option<Result<Arc<SharedConnection>, RedisFailure>> {
        match self {
            Self::Up(connection) if connection.is_usable() => Some(Ok(Arc::clone(connection))),
            Self::Down(failure) => Some(Err(failure.clone())),
            // A connection that just broke counts as being made: the supervisor is about to dial.
            Self::Up(_) | Self::Idle | Self::Dialing => None,
        }
    }
}
