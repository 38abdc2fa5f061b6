//! A RESP connection's state, and the commands that read or change it.

mod login;

use std::net::IpAddr;

use tidegate::{Plan, Store};

use super::batch::RespFlow;
use super::client::RespClient;
use super::command_spec::{self, RespCommandSpec, RespVerb};
use super::decoder::RespDecoder;
use super::fast_path::RespCommandTemplate;
use super::reply::{RespProtocol, RespReplies};
use super::request::{self, RespRequest};
use super::{RespListenerContext, RespOptions, info};
use crate::{ClientRight, ListenerKind, RefusalReason, Transport};

/// A connection's state: its client, whether it is authenticated, and its last command.
#[derive(Debug)]
pub(super) struct RespSession {
    client: RespClient,
    /// Whether the client has sent the password, or none is required.
    is_authenticated: bool,
    has_password: bool,
    /// The client's address, unless it uses a unix socket.
    address: Option<IpAddr>,
    wrong_passwords: u32,
    /// Whether `MULTI` was refused, and neither `EXEC` nor `DISCARD` has followed.
    in_transaction: bool,
    /// The last check: most clients repeat it for other keys.
    template: Option<RespCommandTemplate>,
}

impl RespSession {
    pub(super) fn new(id: u64, address: Option<IpAddr>, options: &RespOptions) -> Self {
        let has_password = options.password.is_some();
        Self {
            client: RespClient::new(id),
            is_authenticated: !has_password,
            has_password,
            address,
            wrong_passwords: 0,
            in_transaction: false,
            template: None,
        }
    }

    /// What a command asks for. Within a transaction, it is refused.
    pub(super) fn read_request<'p>(&mut self, words: &[&[u8]], plan: &'p Plan) -> RespRequest<'p> {
        self.refuse_transaction(words)
            .unwrap_or_else(|| request::read(words, plan, self.is_authenticated))
    }

    /// The refusal of a command that begins, ends or is part of a transaction. A client may send the
    /// whole transaction before it reads that `MULTI` was refused, so nothing in it may be charged.
    fn refuse_transaction<'p>(&mut self, words: &[&[u8]]) -> Option<RespRequest<'p>> {
        let is = |name: &str| {
            words.first().is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
        };
        let refusal = match self.in_transaction {
            false if is("MULTI") && self.is_authenticated => {
                self.in_transaction = true;
                NO_TRANSACTIONS
            }
            false if is("EXEC") => "ERR EXEC without MULTI",
            false if is("DISCARD") => "ERR DISCARD without MULTI",
            true if is("EXEC") || is("DISCARD") => {
                self.in_transaction = false;
                TRANSACTION_DISCARDED
            }
            true if is("RESET") || is("QUIT") => {
                self.in_transaction = false;
                return None;
            }
            true => IN_TRANSACTION,
            false => return None,
        };
        Some(RespRequest::Refused(refusal.to_owned()))
    }

    /// Sets or removes the template for repeated commands.
    pub(super) fn remember_command(&mut self, template: Option<RespCommandTemplate>) {
        self.template = template;
    }

    /// Answers the next commands that match the template, and returns how many.
    pub(super) fn answer_repeats<S: Store>(
        &self,
        decoder: &mut RespDecoder<'_>,
        context: &RespListenerContext<S>,
        replies: &mut RespReplies,
    ) -> u64 {
        self.template.as_ref().map_or(0, |template| template.answer(decoder, context, replies))
    }

    /// Executes any request other than a question, and answers it.
    pub(super) async fn answer<S: Store>(
        &mut self,
        request: RespRequest<'_>,
        words: &[&[u8]],
        context: &RespListenerContext<S>,
        replies: &mut RespReplies,
    ) -> RespFlow {
        let limiter = context.app.limiter();
        let may = |right| context.app.permits(Transport::Resp, right);
        let changed = match request {
            RespRequest::Refund(charges) if may(ClientRight::Refund) => {
                limiter.refund(&charges).await
            }
            RespRequest::ResetKey(charges) if may(ClientRight::Reset) => {
                limiter.reset(&charges).await
            }
            RespRequest::Refund(_) => return refuse(context, NO_REFUNDS, replies),
            RespRequest::ResetKey(_) => return refuse(context, NO_RESETS, replies),
            RespRequest::ConnectionCommand(spec) => {
                return self.answer_connection_command(spec, words, context, replies);
            }
            RespRequest::Refused(problem) => return refuse(context, &problem, replies),
            RespRequest::Foreign => {
                context.app.count_refusal(ListenerKind::Resp, RefusalReason::Forbidden);
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
        context: &RespListenerContext<S>,
        replies: &mut RespReplies,
    ) -> RespFlow {
        let arguments = words.get(1..).unwrap_or_default();
        match spec.verb {
            RespVerb::Ping => match arguments {
                [text, ..] => replies.bulk(text),
                [] => replies.status("PONG"),
            },
            RespVerb::Echo => replies.bulk(arguments.first().copied().unwrap_or_default()),
            RespVerb::Hello => return self.hello(arguments, context, replies),
            RespVerb::Auth => return self.auth(arguments, context, replies),
            RespVerb::Select => select(arguments, replies),
            RespVerb::Client => self.client.answer(arguments, replies),
            RespVerb::Command => command_spec::describe(arguments, replies),
            RespVerb::Info => replies.text(&info::text(arguments, context.app.redis_clients())),
            RespVerb::Config => config(arguments, replies),
            RespVerb::Reset => self.reset(replies),
            RespVerb::Quit => {
                replies.status("OK");
                return RespFlow::Close;
            }
            // These are never connection commands.
            RespVerb::Throttle
            | RespVerb::Check
            | RespVerb::Peek
            | RespVerb::Refund
            | RespVerb::ResetKey => {}
        }
        RespFlow::Continue
    }

    /// Resets the connection to its initial state.
    fn reset(&mut self, replies: &mut RespReplies) {
        self.client = RespClient::new(self.client.id());
        self.is_authenticated = !self.has_password;
        replies.set_protocol(RespProtocol::default());
        replies.status("RESET");
    }
}

/// Answers with an error, and counts the refusal.
#[cold]
fn refuse<S: Store>(
    context: &RespListenerContext<S>,
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
    context.app.count_refusal(ListenerKind::Resp, reason);
    replies.error(problem);
    RespFlow::Continue
}

/// `SELECT`: there is only database 0.
fn select(arguments: &[&[u8]], replies: &mut RespReplies) {
    match arguments {
        [b"0"] => replies.status("OK"),
        _ => replies.error("ERR DB index is out of range: expected 0"),
    }
}

/// `CONFIG`: some clients request settings of Redis, of which there are none here.
fn config(arguments: &[&[u8]], replies: &mut RespReplies) {
    match arguments {
        [get, _, ..] if get.eq_ignore_ascii_case(b"GET") => replies.map(0),
        _ => replies.error("ERR CONFIG supports only GET: limits are in the configuration file"),
    }
}

const NO_TRANSACTIONS: &str = "ERR transactions are not supported: expected a pipeline without MULTI \
    and EXEC, such as pipeline(transaction=False) in redis-py";
const IN_TRANSACTION: &str =
    "ERR not executed, because MULTI was refused: expected EXEC or DISCARD";
/// Redis's own text, which clients recognise: they then report the refusal of `MULTI`.
const TRANSACTION_DISCARDED: &str = "EXECABORT Transaction discarded because of previous errors.";
const NO_REFUNDS: &str = "NOPERM refunds are off: expected serve --allow resp:refund";
const NO_RESETS: &str = "NOPERM resets are off: expected serve --allow resp:reset";
const TOO_MANY: &str = "ERR too many wrong passwords from this address: expected a pause";
