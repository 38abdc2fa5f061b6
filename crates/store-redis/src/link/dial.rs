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

/// The role that a server must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequiredRole {
    /// Any role.
    Any,
    /// A primary.
    Primary,
}

/// Opens a connection that is ready for calls, as configured.
pub(super) async fn dial(
    address: &RedisAddress,
    role: RequiredRole,
    config: &Arc<RedisConfig>,
) -> Result<(SharedConnection, ConnectionDriver), RedisFailure> {
    let connection = within(config, address, async {
        let mut connection = log_in(address, &login_of(config).await?, config).await?;
        select(&mut connection, config.url.database).await?;
        if role == RequiredRole::Primary {
            require_primary(&mut connection).await?;
        }
        Ok(connection)
    })
    .await?;
    share(connection).await.map_err(|failure| failure.at(address))
}

/// Opens a connection for a few queries, logged in as `login`.
pub(super) async fn dial_for_questions(
    address: &RedisAddress,
    login: &RedisLogin,
    config: &Arc<RedisConfig>,
) -> Result<RawConnection, RedisFailure> {
    within(config, address, log_in(address, login, config)).await
}

/// Bounds an attempt by the connect timeout, and adds the address to its failure.
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
    // No caller's request was part of the attempt, so none can have run.
    outcome.map_err(|failure| RedisFailure::not_run(failure.kind, failure.at(address).message))
}

/// The most bytes that are read from a password file.
const MAX_PASSWORD: u64 = 64 << 10;

async fn log_in(
    address: &RedisAddress,
    login: &RedisLogin,
    config: &Arc<RedisConfig>,
) -> Result<RawConnection, RedisFailure> {
    let mut connection = RawConnection::open(address, config).await?;
    let mut hello = redis::cmd("HELLO");
    hello.arg(3);
    if let Some((user, password)) = credentials(login) {
        hello.arg("AUTH").arg(user.unwrap_or("default")).arg(password);
    }
    hello.arg("SETNAME").arg("tidegate");
    match connection.ask(&hello).await? {
        Ok(_) => Ok(connection),
        // A server or a proxy that knows only RESP2, which is sufficient.
        Err(error) if matches!(error.code(), "ERR" | "NOPROTO") => {
            log_in_plainly(&mut connection, login, &error).await?;
            Ok(connection)
        }
        Err(error) => Err(RedisFailure::of_server(&error)),
    }
}

async fn log_in_plainly(
    connection: &mut RawConnection,
    login: &RedisLogin,
    refusal: &ServerError,
) -> Result<(), RedisFailure> {
    let command = match credentials(login) {
        None => redis::cmd("PING"),
        Some((user, password)) => {
            let mut auth = redis::cmd("AUTH");
            auth.arg(user).arg(password);
            auth
        }
    };
    match connection.ask(&command).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) if error.code() == "ERR" => Err(misconfigured(&error)),
        Ok(Err(error)) => Err(RedisFailure::of_server(&error)),
        // It refused and closed the connection, as Redis does beyond its limit of clients.
        Err(_) => {
            let message = RedisFailure::of_server(refusal).message;
            Err(RedisFailure::not_run(StoreErrorKind::Overloaded, message))
        }
    }
}

/// The login for servers, with the current password.
pub(super) async fn login_of(config: &Arc<RedisConfig>) -> Result<RedisLogin, RedisFailure> {
    let login = config.url.login.clone();
    let Some(path) = config.password_file.clone() else { return Ok(login) };
    let file = path.display().to_string();
    let wrong = |why: &str| {
        let message = format!("password file {file}: {why}");
        RedisFailure::not_run(StoreErrorKind::Misconfigured, message)
    };
    // A file system may hang, so the file is not read on this thread.
    let read = tokio::task::spawn_blocking(move || read_password(&path)).await;
    let text =
        read.map_err(|_| wrong("could not be read"))?.map_err(|error| wrong(&error.to_string()))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(wrong("empty, expected a password")),
        password => Ok(RedisLogin { password: Some(password.to_owned()), ..login }),
    }
}

fn read_password(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_PASSWORD).read_to_string(&mut text)?;
    Ok(text)
}

/// The user, if any, and the password; `None` if there is nothing to log in with.
fn credentials(login: &RedisLogin) -> Option<(Option<&str>, &str)> {
    let user = login.user.as_deref();
    match login.password.as_deref() {
        Some(password) => Some((user, password)),
        None => user.map(|user| (Some(user), "")),
    }
}

async fn select(connection: &mut RawConnection, database: u32) -> Result<(), RedisFailure> {
    if database == 0 {
        return Ok(());
    }
    match connection.ask(redis::cmd("SELECT").arg(database)).await? {
        Ok(_) => Ok(()),
        Err(error) if error.code() == "ERR" => Err(misconfigured(&error)),
        Err(error) => Err(RedisFailure::of_server(&error)),
    }
}

/// Fails unless the server is a primary: Sentinels may report a server that is not promoted yet, or is
/// no longer the primary.
async fn require_primary(connection: &mut RawConnection) -> Result<(), RedisFailure> {
    match connection.ask(&redis::cmd("ROLE")).await? {
        Ok(reply) => match reply.items().first().and_then(|role| role.text()) {
            Some("master") => Ok(()),
            role => {
                let message = format!("its role is {}, expected master", role.unwrap_or("unknown"));
                Err(RedisFailure::not_run(StoreErrorKind::ReadOnly, message))
            }
        },
        // The user may not run `ROLE`. The first call will find out.
        Err(error) if error.code() == "NOPERM" => Ok(()),
        Err(error) => Err(RedisFailure::of_server(&error)),
    }
}

fn misconfigured(error: &ServerError) -> RedisFailure {
    RedisFailure::not_run(StoreErrorKind::Misconfigured, RedisFailure::of_server(error).message)
}

/// Turns a logged-in connection into one that many callers share.
async fn share(raw: RawConnection) -> Result<(SharedConnection, ConnectionDriver), RedisFailure> {
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(Some(RESPONSE_TIMEOUT))
        .set_pipeline_buffer_size(PIPELINE)
        .set_write_backpressure_boundary(WRITE_BUFFER);
    // The handshake is done: with these settings the client sends nothing of its own.
    let info =
        RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2).set_skip_set_lib_name();
    let (connection, driver) = MultiplexedConnection::new_with_config(&info, raw.stream, config)
        .await
        .map_err(|error| RedisFailure::of_client(&error))?;
    Ok(SharedConnection::new(connection, driver, raw.address))
}

/// A backstop: callers have deadlines of their own, none longer than this.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(11);
/// How many calls may wait to be written.
const PIPELINE: usize = 4_096;
/// How much is buffered before it is written, when more keeps coming.
const WRITE_BUFFER: usize = 64 * 1024;
