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

/// Where callers and the supervisor meet.
#[derive(Debug)]
pub(super) struct LaneChannel {
    pub(super) state: watch::Sender<LaneState>,
    /// Rung when a fault was found.
    pub(super) bell: Notify,
    pub(super) route: Arc<NodeRoute>,
}

/// What callers find.
#[derive(Clone, Debug)]
pub(super) enum LaneState {
    /// Nobody looks after it: nobody has called yet, or the runtime of the callers that did is
    /// gone.
    Idle,
    /// A connection is being made, and was not known to be hard to get: worth waiting for.
    Dialing,
    Up(Arc<SharedConnection>),
    /// The last attempt failed, and more are made in the background. Not worth waiting for.
    Down(RedisFailure),
}

impl ConnectionLane {
    pub(super) fn new(route: Arc<NodeRoute>) -> Self {
        let state = watch::Sender::new(LaneState::Idle);
        let post = Arc::new(LaneChannel { state, bell: Notify::new(), route });
        Self { channel: post, supervisor: ScopedTask::default() }
    }

    /// The connection: right away, or once the attempt in progress has ended.
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
                let message = "the connection was given up";
                return Err(RedisFailure::not_run(StoreErrorKind::Unreachable, message));
            }
        }
    }

    fn start_if_idle(&self) {
        // The one that changes the state also starts the task.
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

    /// Asks for a connection to be replaced.
    pub(super) fn report(&self, live: &SharedConnection, fault: ConnectionFault) {
        if live.record_fault(fault) {
            self.channel.bell.notify_one();
        }
    }

    /// Records that a caller's deadline passed.
    pub(super) fn record_timeout(&self) {
        let LaneState::Up(live) = self.channel.state.borrow().clone() else { return };
        if live.count_missed() >= MISSED_IN_A_ROW {
            self.report(&live, ConnectionFault::Silent);
        }
    }
}

/// This many deadlines in a row are no accident.
const MISSED_IN_A_ROW: u32 = 3;

impl LaneState {
    /// What a caller gets from it; nothing if it has to wait.
    fn outcome(&self) -> Option<Result<Arc<SharedConnection>, RedisFailure>> {
        match self {
            Self::Up(live) if live.is_usable() => Some(Ok(Arc::clone(live))),
            Self::Down(failure) => Some(Err(failure.clone())),
            // A connection that just broke counts as one being made: it will be in a moment.
            Self::Up(_) | Self::Idle | Self::Dialing => None,
        }
    }
}
