//! The Redis protocol, so that every Redis client can be a client of Tidegate.
//!
//! `CL.THROTTLE` replies as redis-cell does, the `RL.*` commands apply policies, and the other commands
//! are those that clients send when they connect. [`decoder`] finds commands in bytes, [`request`]
//! interprets them, [`batch`] decides them, and [`reply`] writes the replies of a whole pipeline together.

mod all_policies;
mod batch;
mod client;
mod command_spec;
mod connection;
mod decoder;
mod fast_path;
mod info;
mod inline;
mod password;
mod policies;
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

/// The options of a listener for Redis clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RespOptions {
    /// The password that clients must send. Defaults to none.
    pub password: Option<Password>,
}

/// Answers Redis clients on `listener` until `shutdown` resolves, then finishes the commands that
/// have arrived.
///
/// Returns when the last connection is closed, or when the drain has taken its maximum time.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::MemoryStore;
/// use tidegate_server::resp::{self, RespOptions};
/// use tidegate_server::{App, ListenerConfig};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// let app = Arc::new(App::demo(MemoryStore::new())?);
/// let shutdown = async { /* wait for a signal */ };
/// let (config, options) = (ListenerConfig::default(), RespOptions::default());
/// resp::serve(listener, app, config, options, shutdown).await;
/// # Ok(())
/// # }
/// ```
pub async fn serve<S: Store + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    config: ListenerConfig,
    options: RespOptions,
    shutdown: impl Future<Output = ()>,
) {
    let context = Arc::new(RespListenerContext::new(app, config, options));
    let shutdown = async {
        shutdown.await;
        context.app.start_draining();
    };
    accept::run(listener, &context.config, shutdown, |stream, seat| {
        let address = stream.peer().address;
        connection::serve(stream, address, Arc::clone(&context), seat)
    })
    .await;
}

/// What the connections of a listener share.
struct RespListenerContext<S> {
    app: Arc<App<S>>,
    config: ListenerConfig,
    options: RespOptions,
    bounds: RespCommandBounds,
}

impl<S: Store> RespListenerContext<S> {
    fn new(app: Arc<App<S>>, config: ListenerConfig, options: RespOptions) -> Self {
        let bounds =
            RespCommandBounds { words: MAX_WORDS, bytes: config.max_body, line: config.max_head };
        Self { app, config, options, bounds }
    }
}

/// The most words in a command: more than the attributes that a plan can have.
const MAX_WORDS: usize = 256;
