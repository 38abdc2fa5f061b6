//! Answers all commands that a client has sent so far, in order, and writes the replies together.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tidegate::{Decision, Plan, Store};
use tokio::io::{AsyncRead, AsyncWrite};

use super::RespListenerContext;
use super::decoder::{RespDecoder, RespProtocolError};
use super::fast_path::RespCommandTemplate;
use super::reply::RespReplies;
use super::request::{RespQuestion, RespRequest};
use super::session::RespSession;
use super::stream::RespStream;
use crate::{App, ListenerKind, RefusalReason};

/// Whether a connection continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RespFlow {
    Continue,
    Close,
    /// Part of the replies could not be written, so nothing more may be written.
    WriteFailed,
}

/// Answers all complete commands of `input`, and returns how many bytes they took.
pub(super) async fn answer<S, IO>(
    context: &RespListenerContext<S>,
    session: &mut RespSession,
    stream: &mut RespStream<IO>,
    input: &[u8],
) -> (usize, RespFlow)
where
    S: Store,
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let mut decoder = RespDecoder::new(input, context.bounds);
    let commands = session.answer_repeats(&mut decoder, context, stream.replies());
    context.app.redis_clients().count(commands);
    let flow = match decoder.rest() {
        [] => RespFlow::Continue,
        _ => answer_any(context, session, stream, &mut decoder).await,
    };
    (decoder.taken(), flow)
}

/// Answers commands of any kind.
///
/// With a remote store, decisions are in flight together; any other command waits until the decisions
/// before it are answered. An embedded store decides immediately, so nothing is ever queued.
async fn answer_any<S, IO>(
    context: &RespListenerContext<S>,
    session: &mut RespSession,
    stream: &mut RespStream<IO>,
    decoder: &mut RespDecoder<'_>,
) -> RespFlow
where
    S: Store,
    IO: AsyncRead + AsyncWrite + Unpin,
{
    // Load the plan once for all commands: each decision must use one plan.
    let plan = context.app.limiter().plan();
    let mut in_flight = context.app.limiter().is_remote().then(FuturesOrdered::new);
    let mut commands = 0;
    let flow = loop {
        let command = match decoder.next() {
            Ok(Some(command)) => command,
            Ok(None) => break RespFlow::Continue,
            Err(error) => {
                answer_all(&mut in_flight, stream.replies()).await;
                break refuse_malformed(context, &error, stream.replies());
            }
        };
        let words = command.words();
        commands += 1;
        match (session.read_request(&words, &plan), &mut in_flight) {
            (RespRequest::Question(question), None) => {
                let asked = (&words[..], question);
                commands +=
                    answer_question(context, session, stream.replies(), decoder, &plan, asked)
                        .await;
            }
            (RespRequest::Question(question), Some(queue)) => {
                let decision = decide(&context.app, question);
                add_in_flight(queue, decision, stream.replies()).await;
            }
            (other, _) => {
                // The command can change whether the client is authenticated.
                session.remember_command(None);
                answer_all(&mut in_flight, stream.replies()).await;
                let replies = stream.replies();
                if session.answer(other, &words, context, replies).await == RespFlow::Close {
                    break RespFlow::Close;
                }
            }
        }
        // A client that sends much and reads little waits here, which bounds its memory.
        if stream.is_full() && !stream.flush().await {
            break RespFlow::WriteFailed;
        }
    };
    if flow != RespFlow::WriteFailed {
        answer_all(&mut in_flight, stream.replies()).await;
    }
    context.app.redis_clients().count(commands);
    flow
}

/// Tells a client that it broke the protocol. Where the next command would begin is unknown.
fn refuse_malformed<S: Store>(
    context: &RespListenerContext<S>,
    error: &RespProtocolError,
    replies: &mut RespReplies,
) -> RespFlow {
    context.app.count_refusal(ListenerKind::Resp, RefusalReason::Malformed);
    replies.error(&format!("ERR {error}"));
    RespFlow::Close
}

/// Answers one question by a store in this process. Repetitions of the command that follow take the short
/// way, if they can. Returns how many do.
async fn answer_question<S: Store>(
    context: &RespListenerContext<S>,
    session: &mut RespSession,
    replies: &mut RespReplies,
    decoder: &mut RespDecoder<'_>,
    plan: &Arc<Plan>,
    (words, question): (&[&[u8]], RespQuestion<'_>),
) -> u64 {
    let decision = question.decide(&context.app).await;
    question.answer(&decision, replies);
    let key = question.key_index();
    let template = RespCommandTemplate::of(decoder, (words, key), plan, || {
        question.repeated_command(words, plan, &context.app)
    });
    session.remember_command(template);
    session.answer_repeats(decoder, context, replies)
}

async fn decide<'p, S: Store>(
    app: &App<S>,
    question: RespQuestion<'p>,
) -> (RespQuestion<'p>, Decision) {
    let decision = question.decide(app).await;
    (question, decision)
}

/// Adds a decision to those in flight. If they are too many, it waits for the oldest.
async fn add_in_flight<'p, F>(queue: &mut FuturesOrdered<F>, decision: F, replies: &mut RespReplies)
where
    F: Future<Output = (RespQuestion<'p>, Decision)>,
{
    queue.push_back(decision);
    if queue.len() >= MAX_IN_FLIGHT {
        answer_next(queue, replies).await;
    }
}

/// Answers the oldest question once it is decided. Returns false if there is none.
async fn answer_next<'p, F>(queue: &mut FuturesOrdered<F>, replies: &mut RespReplies) -> bool
where
    F: Future<Output = (RespQuestion<'p>, Decision)>,
{
    let Some((question, decision)) = queue.next().await else { return false };
    question.answer(&decision, replies);
    true
}

async fn answer_all<'p, F>(queue: &mut Option<FuturesOrdered<F>>, replies: &mut RespReplies)
where
    F: Future<Output = (RespQuestion<'p>, Decision)>,
{
    if let Some(queue) = queue {
        while answer_next(queue, replies).await {}
    }
}

/// The most decisions of one client in flight.
const MAX_IN_FLIGHT: usize = 256;
