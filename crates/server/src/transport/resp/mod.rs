//! The Redis protocol, so that every Redis client is a client of ours.
//!
//! `CL.THROTTLE` answers as redis-cell does, `RL.*` ask the policies, and the rest is what clients
//! send before they get to the point. [`decoder`] finds commands in bytes, [`request`] what they
//! mean, [`batch`] decides them, and [`reply`] writes the answers, all of a pipeline in one go.

mod batch;
mod client;
mod command_spec;
mod connection;
mod decimal;
mod decoder;
mod info;
mod inline;
mod password;
mod policies;
mod repeat;
mod reply;
mod request;
mod session;
mod stream;
mod throttle;

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;

use std::future::Future;
use std::sync::Arc;

use tidegate::Store;

use self::decoder::RespCommandBounds;
pub(crate) use self::info::RespClientCounters;
pub use self::password::Password;
use crate::{App, Listener, ListenerConfig, accept};

/// Answers Redis clients on `listener` until `shutdown` resolves, then finishes the commands that
/// have come.
///
/// Returns when the last connection is closed, or when the drain has taken its maximum time.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::MemoryStore;
/// use tidegate_server::{App, ListenerConfig, resp};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// let app = Arc::new(App::demo(MemoryStore::new())?);
/// let shutdown = async { /* until somebody says stop */ };
/// resp::serve(listener, app, ListenerConfig::default(), shutdown).await;
/// # Ok(())
/// # }
/// ```
pub async fn serve<S: Store + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    config: ListenerConfig,
    shutdown: impl Future<Output = ()>,
) {
    let door = Arc::new(RespListenerContext::new(app, config));
    let shutdown = async {
        shutdown.await;
        door.app.start_draining();
    };
    accept::run(listener, &door.config, shutdown, |stream, seat| {
        let address = stream.peer().address;
        connection::serve(stream, address, Arc::clone(&door), seat)
    })
    .await;
}

/// What the connections of a listener share.
struct RespListenerContext<S> {
    app: Arc<App<S>>,
    config: ListenerConfig,
    bounds: RespCommandBounds,
}

impl<S: Store> RespListenerContext<S> {
    fn new(app: Arc<App<S>>, config: ListenerConfig) -> Self {
        let bounds =
            RespCommandBounds { words: MAX_WORDS, bytes: config.max_body, line: config.max_head };
        Self { app, config, bounds }
    }
}

/// The most words in a command: all attributes that a plan may ask for, and then some.
const MAX_WORDS: usize = 256;
