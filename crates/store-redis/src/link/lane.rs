//! One connection to a node, and the task that keeps it up.

use std::sync::Arc;

use tidegate_store::StoreErrorKind;
use tokio::sync::{Notify, watch};

use super::failure::Failure;
use super::live::{Fault, Live};
use super::node::Route;
use super::supervisor::Supervisor;
use super::task::Task;

/// One connection to a node. Calls on it keep their order.
#[derive(Debug)]
pub(super) struct Lane {
    post: Arc<Post>,
    supervisor: Task,
}

/// Where callers and the supervisor meet.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) state: watch::Sender<State>,
    /// Rung when a fault was found.
    pub(super) bell: Notify,
    pub(super) route: Arc<Route>,
}

/// What callers find.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// Nobody looks after it: nobody has called yet, or the runtime of the callers that did is
    /// gone.
    Idle,
    /// A connection is being made, and was not known to be hard to get: worth waiting for.
    Dialing,
    Up(Arc<Live>),
    /// The last attempt failed, and more are made in the background. Not worth waiting for.
    Down(Failure),
}

impl Lane {
    pub(super) fn new(route: Arc<Route>) -> Self {
        let state = watch::Sender::new(State::Idle);
        let post = Arc::new(Post { state, bell: Notify::new(), route });
        Self { post, supervisor: Task::default() }
    }

    /// The connection: right away, or once the attempt in progress has ended.
    pub(super) async fn live(&self) -> Result<Arc<Live>, Failure> {
        if let Some(outcome) = self.post.state.borrow().outcome() {
            return outcome;
        }
        let mut states = self.post.state.subscribe();
        loop {
            self.start_if_idle();
            if let Some(outcome) = states.borrow_and_update().outcome() {
                return outcome;
            }
            if states.changed().await.is_err() {
                let message = "the connection was given up";
                return Err(Failure::not_run(StoreErrorKind::Unreachable, message));
            }
        }
    }

    fn start_if_idle(&self) {
        // The one that changes the state also starts the task.
        let won = self.post.state.send_if_modified(|state| {
            let idle = matches!(state, State::Idle);
            if idle {
                *state = State::Dialing;
            }
            idle
        });
        if won {
            self.supervisor.start(Supervisor::new(Arc::clone(&self.post)).run());
        }
    }

    /// Asks for a connection to be replaced.
    pub(super) fn report(&self, live: &Live, fault: Fault) {
        if live.blame(fault) {
            self.post.bell.notify_one();
        }
    }

    /// Records that a caller's deadline passed.
    pub(super) fn timed_out(&self) {
        let State::Up(live) = self.post.state.borrow().clone() else { return };
        if live.missed() >= MISSED_IN_A_ROW {
            self.report(&live, Fault::Silent);
        }
    }
}

/// This many deadlines in a row are no accident.
const MISSED_IN_A_ROW: u32 = 3;

impl State {
    /// What a caller gets from it; nothing if it has to wait.
    fn outcome(&self) -> Option<Result<Arc<Live>, Failure>> {
        match self {
            Self::Up(live) if live.is_usable() => Some(Ok(Arc::clone(live))),
            Self::Down(failure) => Some(Err(failure.clone())),
            // A connection that just broke counts as one being made: it will be in a moment.
            Self::Up(_) | Self::Idle | Self::Dialing => None,
        }
    }
}
