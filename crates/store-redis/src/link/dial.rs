//! Makes connections: connects, logs in and selects the database, all within one time limit.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, ServerError};
use tidegate_store::StoreErrorKind;
use tokio::time::timeout;

use super::failure::RedisFailure;
use super::raw_connection::RawConnection;
use super::shared_connection::{ConnectionDriver, SharedConnection};
use crate::RedisConfig;
use crate::url::{RedisAddress, RedisLogin};

/// What a server has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequiredRole {
    /// Whatever answers at the address.
    Any,
    /// A primary.
    Primary,
}

/// A connection ready for calls, set up as the configuration says.
pub(super) async fn dial(
    address: &RedisAddress,
    role: RequiredRole,
    config: &Arc<RedisConfig>,
) -> Result<(SharedConnection, ConnectionDriver), RedisFailure> {
    let wire = within(config, address, async {
        let mut wire = log_in(address, &login_of(config).await?, config).await?;
        select(&mut wire, config.url.database).await?;
        if role == RequiredRole::Primary {
            require_primary(&mut wire).await?;
        }
        Ok(wire)
    })
    .await?;
    share(wire).await.map_err(|failure| failure.at(address))
}

/// A connection for a few questions, logged in as `login`.
pub(super) async fn dial_for_questions(
    address: &RedisAddress,
    login: &RedisLogin,
    config: &Arc<RedisConfig>,
) -> Result<RawConnection, RedisFailure> {
    within(config, address, log_in(address, login, config)).await
}

/// Bounds an attempt, and adds where it failed.
pub(super) async fn within<T>(
    config: &RedisConfig,
    address: &RedisAddress,
    attempt: impl Future<Output = Result<T, RedisFailure>>,
) -> Result<T, RedisFailure> {
    let limit = config.connect_timeout;
    let outcome = timeout(limit, attempt).await.unwrap_or_else(|_| {
        let message = format!("no answer within {limit:?}");
        Err(RedisFailure::not_run(StoreErrorKind::Unreachable, message))
    });
    // Whatever happened, no caller's request was part of it.
    outcome.map_err(|failure| RedisFailure::not_run(failure.kind, failure.at(address).message))
}

const MAX_PASSWORD: u64 = 64 << 10;

async fn log_in(
    address: &RedisAddress,
    login: &RedisLogin,
    config: &Arc<RedisConfig>,
) -> Result<RawConnection, RedisFailure> {
    let mut wire = RawConnection::open(address, config).await?;
    let mut hello = redis::cmd("HELLO");
    hello.arg(3);
    if let Some((user, password)) = credentials(login) {
        hello.arg("AUTH").arg(user.unwrap_or("default")).arg(password);
    }
    hello.arg("SETNAME").arg("tidegate");
    match wire.ask(&hello).await? {
        Ok(_) => Ok(wire),
        // A server or a proxy that only has the old protocol, which will do.
        Err(error) if matches!(error.code(), "ERR" | "NOPROTO") => {
            log_in_plainly(&mut wire, login, &error).await?;
            Ok(wire)
        }
        Err(error) => Err(RedisFailure::of_server(&error)),
    }
}

async fn log_in_plainly(
    wire: &mut RawConnection,
    login: &RedisLogin,
    refusal: &ServerError,
) -> Result<(), RedisFailure> {
    let question = match credentials(login) {
        None => redis::cmd("PING"),
        Some((user, password)) => {
            let mut auth = redis::cmd("AUTH");
            auth.arg(user).arg(password);
            auth
        }
    };
    match wire.ask(&question).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) if error.code() == "ERR" => Err(misconfigured(&error)),
        Ok(Err(error)) => Err(RedisFailure::of_server(&error)),
        // It refused and hung up, which is how Redis treats connections beyond its limit.
        Err(_) => {
            let message = RedisFailure::of_server(refusal).message;
            Err(RedisFailure::not_run(StoreErrorKind::Overloaded, message))
        }
    }
}

/// How servers are logged in to, with the password of now.
pub(super) async fn login_of(config: &Arc<RedisConfig>) -> Result<RedisLogin, RedisFailure> {
    let login = config.url.login.clone();
    let Some(path) = config.password_file.clone() else { return Ok(login) };
    let place = path.display().to_string();
    let wrong = |why: &str| {
        let message = format!("the password in {place}: {why}");
        RedisFailure::not_run(StoreErrorKind::Misconfigured, message)
    };
    // A file system may hang.
    let read = tokio::task::spawn_blocking(move || read_password(&path)).await;
    let text = read.map_err(|_| wrong("not read"))?.map_err(|error| wrong(&error.to_string()))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(wrong("empty: expected a password")),
        password => Ok(RedisLogin { password: Some(password.to_owned()), ..login }),
    }
}

fn read_password(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_PASSWORD).read_to_string(&mut text)?;
    Ok(text)
}

/// The user, if any, and the password, if there is anything to log in with.
fn credentials(login: &RedisLogin) -> Option<(Option<&str>, &str)> {
    let user = login.user.as_deref();
    match login.password.as_deref() {
        Some(password) => Some((user, password)),
        None => user.map(|user| (Some(user), "")),
    }
}

async fn select(wire: &mut RawConnection, database: u32) -> Result<(), RedisFailure> {
    if database == 0 {
        return Ok(());
    }
    match wire.ask(redis::cmd("SELECT").arg(database)).await? {
        Ok(_) => Ok(()),
        Err(error) if error.code() == "ERR" => Err(misconfigured(&error)),
        Err(error) => Err(RedisFailure::of_server(&error)),
    }
}

/// Sentinels may name a server that has not yet heard of its promotion, or is no longer the
/// primary.
async fn require_primary(wire: &mut RawConnection) -> Result<(), RedisFailure> {
    match wire.ask(&redis::cmd("ROLE")).await? {
        Ok(reply) => match reply.items().first().and_then(|role| role.text()) {
            Some("master") => Ok(()),
            role => {
                let message = format!("its role is {}", role.unwrap_or("unknown"));
                Err(RedisFailure::not_run(StoreErrorKind::ReadOnly, message))
            }
        },
        // We are not allowed to ask. The first call will find out.
        Err(error) if error.code() == "NOPERM" => Ok(()),
        Err(error) => Err(RedisFailure::of_server(&error)),
    }
}

fn misconfigured(error: &ServerError) -> RedisFailure {
    RedisFailure::not_run(StoreErrorKind::Misconfigured, RedisFailure::of_server(error).message)
}

/// Turns a logged-in connection into one that many callers share.
async fn share(wire: RawConnection) -> Result<(SharedConnection, ConnectionDriver), RedisFailure> {
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(Some(RESPONSE_TIMEOUT))
        .set_pipeline_buffer_size(PIPELINE)
        .set_write_backpressure_boundary(WRITE_BUFFER);
    // Everything has been said: with these settings the client adds nothing of its own.
    let info =
        RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2).set_skip_set_lib_name();
    let (connection, driver) = MultiplexedConnection::new_with_config(&info, wire.stream, config)
        .await
        .map_err(|error| RedisFailure::of_client(&error))?;
    Ok(SharedConnection::new(connection, driver, wire.address))
}

/// A backstop: callers have deadlines of their own, none longer than this.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(11);
/// Calls that may wait to be written.
const PIPELINE: usize = 4_096;
/// How much is buffered before it is written, when more keeps coming.
const WRITE_BUFFER: usize = 64 * 1024;
