//! `HELLO` and `AUTH`: the commands with which a client logs in.

use tidegate::Store;

use super::{RespSession, TOO_MANY, refuse};
use crate::ListenerKind;
use crate::transport::resp::batch::RespFlow;
use crate::transport::resp::reply::{RespProtocol, RespReplies};
use crate::transport::resp::request::quoted;
use crate::transport::resp::{RespListenerContext, info};

impl RespSession {
    /// `HELLO [2|3 [AUTH user password] [SETNAME name]]`: changes nothing unless all parts succeed.
    pub(super) fn hello<S: Store>(
        &mut self,
        arguments: &[&[u8]],
        context: &RespListenerContext<S>,
        replies: &mut RespReplies,
    ) -> RespFlow {
        let (protocol, mut options) = match arguments {
            [] => (replies.protocol(), arguments),
            [b"2", rest @ ..] => (RespProtocol::Resp2, rest),
            [b"3", rest @ ..] => (RespProtocol::Resp3, rest),
            _ => {
                let problem = "NOPROTO unsupported protocol version: expected 2 or 3";
                return refuse(context, problem, replies);
            }
        };
        let (mut is_authenticated, mut name) = (self.is_authenticated, None);
        loop {
            match options {
                [word, user, guess, rest @ ..] if word.eq_ignore_ascii_case(b"AUTH") => {
                    if let Err(flow) = self.authenticate(user, guess, context, replies) {
                        return flow;
                    }
                    (is_authenticated, options) = (true, rest);
                }
                [word, text, rest @ ..] if word.eq_ignore_ascii_case(b"SETNAME") => {
                    (name, options) = (Some(*text), rest);
                }
                [] => break,
                [word, ..] => {
                    let problem = format!("ERR Syntax error in HELLO option {}", quoted(word));
                    return refuse(context, &problem, replies);
                }
            }
        }
        if !is_authenticated {
            let problem = "NOAUTH HELLO needs AUTH <user> <password> before anything else";
            return refuse(context, problem, replies);
        }
        if let Some(name) = name
            && let Err(problem) = self.client.rename(name)
        {
            return refuse(context, problem, replies);
        }
        self.is_authenticated = is_authenticated;
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
    pub(super) fn auth<S: Store>(
        &mut self,
        arguments: &[&[u8]],
        context: &RespListenerContext<S>,
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
        if let Err(flow) = self.authenticate(user, guess, context, replies) {
            return flow;
        }
        self.is_authenticated = true;
        replies.status("OK");
        RespFlow::Continue
    }

    /// Checks a password. Answers a wrong password here, and closes the connection of a client that has
    /// sent too many.
    fn authenticate<S: Store>(
        &mut self,
        user: &[u8],
        guess: &[u8],
        context: &RespListenerContext<S>,
        replies: &mut RespReplies,
    ) -> Result<(), RespFlow> {
        let (password, logins) = (context.options.password.as_ref(), context.app.logins());
        if password.is_some() && logins.wait(ListenerKind::Resp, self.address).is_some() {
            refuse(context, TOO_MANY, replies);
            return Err(RespFlow::Close);
        }
        // There is only the default user. Without a configured password any guess succeeds, as in Redis.
        if user == b"default" && password.is_none_or(|password| password.is(guess)) {
            return Ok(());
        }
        refuse(context, WRONG_PASSWORD, replies);
        if password.is_some() {
            logins.record_failure(ListenerKind::Resp, self.address);
            self.wrong_passwords = self.wrong_passwords.saturating_add(1);
        }
        Err(if self.wrong_passwords < MOST_WRONG { RespFlow::Continue } else { RespFlow::Close })
    }
}

/// The most wrong passwords on one connection.
const MOST_WRONG: u32 = 10;
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
/// Redis's own text, which clients recognise.
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the \
                           default user. Are you sure your configuration is correct?";
