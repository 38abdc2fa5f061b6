//! What a client has said about itself, and the commands that concern the connection.

use std::net::IpAddr;

use tidegate::Store;

use super::batch::RespFlow;
use super::client::RespClient;
use super::command_spec::{self, RespCommandSpec, RespVerb};
use super::decoder::RespDecoder;
use super::repeat::RespCommandTemplate;
use super::reply::{RespProtocol, RespReplies};
use super::request::{RespRequest, quoted};
use super::{RespListenerContext, info};
use crate::{ClientRight, ListenerConfig, ListenerKind, RefusalReason, Transport};

/// A client, as far as it is known.
#[derive(Debug)]
pub(super) struct RespSession {
    client: RespClient,
    /// Whether it has sent the password, or there is none.
    is_authenticated: bool,
    has_password: bool,
    /// Where it comes from, if that is not a unix socket.
    address: Option<IpAddr>,
    wrong_passwords: u32,
    /// What it asked last: most clients ask the same over and over, for other keys.
    template: Option<RespCommandTemplate>,
}

impl RespSession {
    pub(super) fn new(id: u64, address: Option<IpAddr>, config: &ListenerConfig) -> Self {
        let has_password = config.resp_password.is_some();
        Self {
            client: RespClient::new(id),
            is_authenticated: !has_password,
            has_password,
            address,
            wrong_passwords: 0,
            template: None,
        }
    }

    pub(super) const fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Takes note of a question that may come again, or forgets the last.
    pub(super) fn remember_command(&mut self, habit: Option<RespCommandTemplate>) {
        self.template = habit;
    }

    /// Answers whatever comes next that was asked last, and returns how many times.
    pub(super) fn answer_repeats<S: Store>(
        &self,
        decoder: &mut RespDecoder<'_>,
        door: &RespListenerContext<S>,
        replies: &mut RespReplies,
    ) -> u64 {
        self.template.as_ref().map_or(0, |habit| habit.answer(decoder, door, replies))
    }

    /// Executes whatever is not a question, and answers it.
    pub(super) async fn answer<S: Store>(
        &mut self,
        request: RespRequest<'_>,
        words: &[&[u8]],
        door: &RespListenerContext<S>,
        replies: &mut RespReplies,
    ) -> RespFlow {
        let limiter = door.app.limiter();
        let may = |right| door.config.rights.permit(Transport::Resp, right);
        let changed = match request {
            RespRequest::Refund(owed) if may(ClientRight::Refund) => limiter.refund(&owed).await,
            RespRequest::ResetKey(owed) if may(ClientRight::Reset) => limiter.reset(&owed).await,
            RespRequest::Refund(_) => return refuse(door, NO_REFUNDS, replies),
            RespRequest::ResetKey(_) => return refuse(door, NO_RESETS, replies),
            RespRequest::ConnectionCommand(spec) => {
                return self.answer_connection_command(spec, words, door, replies);
            }
            RespRequest::Refused(problem) => return refuse(door, &problem, replies),
            RespRequest::Foreign => {
                door.app.count_refusal(ListenerKind::Resp, RefusalReason::Forbidden);
                return RespFlow::Close;
            }
            RespRequest::Question(_) => return RespFlow::Close,
        };
        match changed {
            Ok(()) => replies.status("OK"),
            Err(error) => replies.error(&format!("ERR the store did not answer: {error}")),
        }
        RespFlow::Continue
    }

    fn answer_connection_command<S: Store>(
        &mut self,
        spec: &RespCommandSpec,
        words: &[&[u8]],
        door: &RespListenerContext<S>,
        replies: &mut RespReplies,
    ) -> RespFlow {
        let arguments = words.get(1..).unwrap_or_default();
        match spec.verb {
            RespVerb::Ping => match arguments {
                [text, ..] => replies.bulk(text),
                [] => replies.status("PONG"),
            },
            RespVerb::Echo => replies.bulk(arguments.first().copied().unwrap_or_default()),
            RespVerb::Hello => return self.hello(arguments, door, replies),
            RespVerb::Auth => return self.auth(arguments, door, replies),
            RespVerb::Select => select(arguments, replies),
            RespVerb::Client => self.client.answer(arguments, replies),
            RespVerb::Command => command_spec::describe(arguments, replies),
            RespVerb::Info => replies.text(&info::text(arguments, door.app.redis_clients())),
            RespVerb::Config => config(arguments, replies),
            RespVerb::Reset => self.reset(replies),
            RespVerb::Quit => {
                replies.status("OK");
                return RespFlow::Close;
            }
            // Decided long before.
            RespVerb::Throttle
            | RespVerb::Check
            | RespVerb::Peek
            | RespVerb::Refund
            | RespVerb::ResetKey => {}
        }
        RespFlow::Continue
    }

    /// `HELLO [2|3 [AUTH user password] [SETNAME name]]`: nothing is changed unless all of it can
    /// be.
    fn hello<S: Store>(
        &mut self,
        arguments: &[&[u8]],
        door: &RespListenerContext<S>,
        replies: &mut RespReplies,
    ) -> RespFlow {
        let (protocol, mut options) = match arguments {
            [] => (replies.protocol(), arguments),
            [b"2", rest @ ..] => (RespProtocol::Resp2, rest),
            [b"3", rest @ ..] => (RespProtocol::Resp3, rest),
            _ => {
                let problem = "NOPROTO unsupported protocol version: expected 2 or 3";
                return refuse(door, problem, replies);
            }
        };
        let (mut is_known, mut name) = (self.is_authenticated, None);
        loop {
            match options {
                [word, user, guess, rest @ ..] if word.eq_ignore_ascii_case(b"AUTH") => {
                    if let Err(flow) = self.authenticate(user, guess, door, replies) {
                        return flow;
                    }
                    (is_known, options) = (true, rest);
                }
                [word, text, rest @ ..] if word.eq_ignore_ascii_case(b"SETNAME") => {
                    (name, options) = (Some(*text), rest);
                }
                [] => break,
                [word, ..] => {
                    let problem = format!("ERR Syntax error in HELLO option {}", quoted(word));
                    return refuse(door, &problem, replies);
                }
            }
        }
        if !is_known {
            let problem = "NOAUTH HELLO needs AUTH <user> <password> before anything else";
            return refuse(door, problem, replies);
        }
        if let Some(name) = name
            && let Err(problem) = self.client.rename(name)
        {
            return refuse(door, problem, replies);
        }
        self.is_authenticated = is_known;
        replies.set_protocol(protocol);
        self.write_hello(replies);
        RespFlow::Continue
    }

    fn write_hello(&self, replies: &mut RespReplies) {
        replies.map(7);
        for (name, value) in [
            ("server", "tidegate"),
            ("version", info::SPOKEN_VERSION),
            ("mode", "standalone"),
            ("role", "master"),
        ] {
            replies.bulk(name.as_bytes());
            replies.bulk(value.as_bytes());
        }
        replies.bulk(b"proto");
        replies.integer(replies.protocol().number());
        replies.bulk(b"id");
        replies.count(self.client.id());
        replies.bulk(b"modules");
        replies.list(0);
    }

    /// `AUTH [user] password`
    fn auth<S: Store>(
        &mut self,
        arguments: &[&[u8]],
        door: &RespListenerContext<S>,
        replies: &mut RespReplies,
    ) -> RespFlow {
        let (user, guess) = match arguments {
            [guess] => (&b"default"[..], *guess),
            [user, guess, ..] => (*user, *guess),
            [] => return RespFlow::Continue,
        };
        if !self.has_password && arguments.len() == 1 {
            replies.error(NO_PASSWORD);
            return RespFlow::Continue;
        }
        if let Err(flow) = self.authenticate(user, guess, door, replies) {
            return flow;
        }
        self.is_authenticated = true;
        replies.status("OK");
        RespFlow::Continue
    }

    /// Whether a password is right. One that is not is answered here, and a client that guesses is
    /// not heard for long.
    fn authenticate<S: Store>(
        &mut self,
        user: &[u8],
        guess: &[u8],
        door: &RespListenerContext<S>,
        replies: &mut RespReplies,
    ) -> Result<(), RespFlow> {
        let (password, logins) = (door.config.resp_password.as_ref(), door.app.logins());
        if password.is_some() && logins.wait(ListenerKind::Resp, self.address).is_some() {
            refuse(door, TOO_MANY, replies);
            return Err(RespFlow::Close);
        }
        // There is one user. Without a password any will do, as with Redis.
        if user == b"default" && password.is_none_or(|password| password.is(guess)) {
            return Ok(());
        }
        refuse(door, WRONG_PASSWORD, replies);
        if password.is_some() {
            logins.record_failure(ListenerKind::Resp, self.address);
            self.wrong_passwords = self.wrong_passwords.saturating_add(1);
        }
        Err(if self.wrong_passwords < MOST_WRONG { RespFlow::Continue } else { RespFlow::Close })
    }

    /// As if the client had just connected.
    fn reset(&mut self, replies: &mut RespReplies) {
        self.client = RespClient::new(self.client.id());
        self.is_authenticated = !self.has_password;
        replies.set_protocol(RespProtocol::default());
        replies.status("RESET");
    }
}

/// Answers with an error, and counts it.
#[cold]
fn refuse<S: Store>(
    door: &RespListenerContext<S>,
    problem: &str,
    replies: &mut RespReplies,
) -> RespFlow {
    let reason = match problem.split(' ').next() {
        Some("NOAUTH" | "WRONGPASS") => RefusalReason::Unauthenticated,
        Some("NOPERM") => RefusalReason::Forbidden,
        _ if problem == TOO_MANY => RefusalReason::Overload,
        _ if problem.starts_with("ERR unknown command") => RefusalReason::NotFound,
        _ => RefusalReason::Malformed,
    };
    door.app.count_refusal(ListenerKind::Resp, reason);
    replies.error(problem);
    RespFlow::Continue
}

/// There is one database.
fn select(arguments: &[&[u8]], replies: &mut RespReplies) {
    match arguments {
        [b"0"] => replies.status("OK"),
        _ => replies.error("ERR DB index is out of range: expected 0"),
    }
}

/// Some clients ask for settings of Redis; there are none here.
fn config(arguments: &[&[u8]], replies: &mut RespReplies) {
    match arguments {
        [get, _, ..] if get.eq_ignore_ascii_case(b"GET") => replies.map(0),
        _ => replies.error("ERR CONFIG knows GET only: limits are in the configuration file"),
    }
}

const NO_REFUNDS: &str = "NOPERM refunds are off: expected serve --allow resp:refund";
const NO_RESETS: &str = "NOPERM resets are off: expected serve --allow resp:reset";
const TOO_MANY: &str = "ERR too many wrong passwords from this address: expected a pause";
/// On one connection.
const MOST_WRONG: u32 = 10;
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
/// Clients recognise this one by its words.
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the \
                           default user. Are you sure your configuration is correct?";
