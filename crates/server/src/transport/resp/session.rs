//! What a client has said about itself, and the commands that concern the connection.

use std::net::IpAddr;

use tidegate::Store;

use super::batch::Flow;
use super::catalogue::{self, Spec, Verb};
use super::client::Client;
use super::decode::Decoder;
use super::repeat::Repeat;
use super::reply::{Protocol, Replies};
use super::request::{Request, quoted};
use super::{Door, info};
use crate::{Config, ListenerKind, RefusalReason, Right, Transport};

/// A client, as far as it is known.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    /// Whether it has sent the password, or there is none.
    is_known: bool,
    has_password: bool,
    /// Where it comes from, if that is not a unix socket.
    address: Option<IpAddr>,
    wrong_passwords: u32,
    /// What it asked last: most clients ask the same over and over, for other keys.
    habit: Option<Repeat>,
}

impl Session {
    pub(super) fn new(id: u64, address: Option<IpAddr>, config: &Config) -> Self {
        let has_password = config.resp_password.is_some();
        Self {
            client: Client::new(id),
            is_known: !has_password,
            has_password,
            address,
            wrong_passwords: 0,
            habit: None,
        }
    }

    pub(super) const fn is_known(&self) -> bool {
        self.is_known
    }

    /// Takes note of a question that may come again, or forgets the last.
    pub(super) fn remember(&mut self, habit: Option<Repeat>) {
        self.habit = habit;
    }

    /// Answers whatever comes next that was asked last, and returns how many times.
    pub(super) fn answer_habit<S: Store>(
        &self,
        decoder: &mut Decoder<'_>,
        door: &Door<S>,
        replies: &mut Replies,
    ) -> u64 {
        self.habit.as_ref().map_or(0, |habit| habit.answer(decoder, door, replies))
    }

    /// Executes whatever is not a question, and answers it.
    pub(super) async fn obey<S: Store>(
        &mut self,
        request: Request<'_>,
        words: &[&[u8]],
        door: &Door<S>,
        replies: &mut Replies,
    ) -> Flow {
        let limiter = door.app.limiter();
        let may = |right| door.config.rights.permit(Transport::Resp, right);
        let changed = match request {
            Request::GiveBack(owed) if may(Right::Refund) => limiter.refund(&owed).await,
            Request::Forget(owed) if may(Right::Reset) => limiter.reset(&owed).await,
            Request::GiveBack(_) => return refuse(door, NO_REFUNDS, replies),
            Request::Forget(_) => return refuse(door, NO_RESETS, replies),
            Request::About(spec) => return self.about(spec, words, door, replies),
            Request::Refused(problem) => return refuse(door, &problem, replies),
            Request::Foreign => {
                door.app.count_refusal(ListenerKind::Resp, RefusalReason::Forbidden);
                return Flow::Leave;
            }
            Request::Ask(_) => return Flow::Leave,
        };
        match changed {
            Ok(()) => replies.status("OK"),
            Err(error) => replies.error(&format!("ERR the store did not answer: {error}")),
        }
        Flow::Stay
    }

    fn about<S: Store>(
        &mut self,
        spec: &Spec,
        words: &[&[u8]],
        door: &Door<S>,
        replies: &mut Replies,
    ) -> Flow {
        let arguments = words.get(1..).unwrap_or_default();
        match spec.verb {
            Verb::Ping => match arguments {
                [text, ..] => replies.bulk(text),
                [] => replies.status("PONG"),
            },
            Verb::Echo => replies.bulk(arguments.first().copied().unwrap_or_default()),
            Verb::Hello => return self.hello(arguments, door, replies),
            Verb::Auth => return self.auth(arguments, door, replies),
            Verb::Select => select(arguments, replies),
            Verb::Client => self.client.obey(arguments, replies),
            Verb::Command => catalogue::describe(arguments, replies),
            Verb::Info => replies.text(&info::text(arguments, door.app.redis_clients())),
            Verb::Config => config(arguments, replies),
            Verb::Reset => self.reset(replies),
            Verb::Quit => {
                replies.status("OK");
                return Flow::Leave;
            }
            // Decided long before.
            Verb::Throttle | Verb::Check | Verb::Peek | Verb::Refund | Verb::Forget => {}
        }
        Flow::Stay
    }

    /// `HELLO [2|3 [AUTH user password] [SETNAME name]]`: nothing is changed unless all of it can
    /// be.
    fn hello<S: Store>(
        &mut self,
        arguments: &[&[u8]],
        door: &Door<S>,
        replies: &mut Replies,
    ) -> Flow {
        let (protocol, mut options) = match arguments {
            [] => (replies.protocol(), arguments),
            [b"2", rest @ ..] => (Protocol::Resp2, rest),
            [b"3", rest @ ..] => (Protocol::Resp3, rest),
            _ => {
                let problem = "NOPROTO unsupported protocol version: expected 2 or 3";
                return refuse(door, problem, replies);
            }
        };
        let (mut is_known, mut name) = (self.is_known, None);
        loop {
            match options {
                [word, user, guess, rest @ ..] if word.eq_ignore_ascii_case(b"AUTH") => {
                    if let Err(flow) = self.log_in(user, guess, door, replies) {
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
        self.is_known = is_known;
        replies.speak(protocol);
        self.introduce_ourselves(replies);
        Flow::Stay
    }

    fn introduce_ourselves(&self, replies: &mut Replies) {
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
        door: &Door<S>,
        replies: &mut Replies,
    ) -> Flow {
        let (user, guess) = match arguments {
            [guess] => (&b"default"[..], *guess),
            [user, guess, ..] => (*user, *guess),
            [] => return Flow::Stay,
        };
        if !self.has_password && arguments.len() == 1 {
            replies.error(NO_PASSWORD);
            return Flow::Stay;
        }
        if let Err(flow) = self.log_in(user, guess, door, replies) {
            return flow;
        }
        self.is_known = true;
        replies.status("OK");
        Flow::Stay
    }

    /// Whether a password is right. One that is not is answered here, and a client that guesses is
    /// not heard for long.
    fn log_in<S: Store>(
        &mut self,
        user: &[u8],
        guess: &[u8],
        door: &Door<S>,
        replies: &mut Replies,
    ) -> Result<(), Flow> {
        let (password, logins) = (door.config.resp_password.as_ref(), door.app.logins());
        if password.is_some() && logins.wait(ListenerKind::Resp, self.address).is_some() {
            refuse(door, TOO_MANY, replies);
            return Err(Flow::Leave);
        }
        // There is one user. Without a password any will do, as with Redis.
        if user == b"default" && password.is_none_or(|password| password.is(guess)) {
            return Ok(());
        }
        refuse(door, WRONG_PASSWORD, replies);
        if password.is_some() {
            logins.failed(ListenerKind::Resp, self.address);
            self.wrong_passwords = self.wrong_passwords.saturating_add(1);
        }
        Err(if self.wrong_passwords < MOST_WRONG { Flow::Stay } else { Flow::Leave })
    }

    /// As if the client had just connected.
    fn reset(&mut self, replies: &mut Replies) {
        self.client = Client::new(self.client.id());
        self.is_known = !self.has_password;
        replies.speak(Protocol::default());
        replies.status("RESET");
    }
}

/// Answers with an error, and counts it.
#[cold]
fn refuse<S: Store>(door: &Door<S>, problem: &str, replies: &mut Replies) -> Flow {
    let reason = match problem.split(' ').next() {
        Some("NOAUTH" | "WRONGPASS") => RefusalReason::Unauthenticated,
        Some("NOPERM") => RefusalReason::Forbidden,
        _ if problem == TOO_MANY => RefusalReason::Overload,
        _ if problem.starts_with("ERR unknown command") => RefusalReason::NotFound,
        _ => RefusalReason::Malformed,
    };
    door.app.count_refusal(ListenerKind::Resp, reason);
    replies.error(problem);
    Flow::Stay
}

/// There is one database.
fn select(arguments: &[&[u8]], replies: &mut Replies) {
    match arguments {
        [b"0"] => replies.status("OK"),
        _ => replies.error("ERR DB index is out of range: expected 0"),
    }
}

/// Some clients ask for settings of Redis; there are none here.
fn config(arguments: &[&[u8]], replies: &mut Replies) {
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
