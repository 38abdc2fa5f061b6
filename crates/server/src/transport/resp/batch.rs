//! Everything that a client has sent so far, answered in order and written together.

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tidegate::{Decision, Store};
use tokio::io::{AsyncRead, AsyncWrite};

use super::RespListenerContext;
use super::decoder::RespDecoder;
use super::repeat::RespCommandTemplate;
use super::reply::RespReplies;
use super::request::{self, RespQuestion, RespRequest};
use super::session::RespSession;
use super::stream::RespStream;
use crate::{App, ListenerKind, RefusalReason};

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RespFlow {
    Continue,
    Close,
    /// Some of the answers could not be written: nothing more may be.
    WriteFailed,
}

/// Answers all complete commands of `input`, and returns how many bytes they were.
pub(super) async fn answer<S, IO>(
    door: &RespListenerContext<S>,
    session: &mut RespSession,
    line: &mut RespStream<IO>,
    input: &[u8],
) -> (usize, RespFlow)
where
    S: Store,
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let mut decoder = RespDecoder::new(input, door.bounds);
    let commands = session.answer_repeats(&mut decoder, door, line.replies());
    door.app.redis_clients().count(commands);
    let flow = match decoder.rest() {
        [] => RespFlow::Continue,
        _ => answer_any(door, session, line, &mut decoder).await,
    };
    (decoder.taken(), flow)
}

/// Answers commands of any kind.
///
/// With a remote store, decisions are in flight together; everything else waits until those before
/// it are answered. An embedded store answers at once, and nothing is ever queued.
async fn answer_any<S, IO>(
    door: &RespListenerContext<S>,
    session: &mut RespSession,
    line: &mut RespStream<IO>,
    decoder: &mut RespDecoder<'_>,
) -> RespFlow
where
    S: Store,
    IO: AsyncRead + AsyncWrite + Unpin,
{
    // Once for all of them: each decision uses one plan.
    let plan = door.app.limiter().plan();
    let mut under_way = door.app.limiter().is_remote().then(FuturesOrdered::new);
    let mut commands = 0;
    let flow = loop {
        let command = match decoder.next() {
            Ok(Some(command)) => command,
            Ok(None) => break RespFlow::Continue,
            Err(malformed) => {
                answer_all(&mut under_way, line.replies()).await;
                door.app.count_refusal(ListenerKind::Resp, RefusalReason::Malformed);
                line.replies().error(&format!("ERR {malformed}"));
                break RespFlow::Close;
            }
        };
        let words = command.words();
        commands += 1;
        match (request::read(&words, &plan, session.is_authenticated()), &mut under_way) {
            (RespRequest::Question(question), None) => {
                if let Some(decision) = question.try_decide(&door.app) {
                    question.answer(&decision, line.replies());
                    let key = question.key_index();
                    session.remember_command(RespCommandTemplate::of(
                        decoder,
                        (&words, key),
                        &plan,
                        || question.repeated_command(&words, &plan, &door.app),
                    ));
                    commands += session.answer_repeats(decoder, door, line.replies());
                } else {
                    let decision = question.decide(&door.app).await;
                    question.answer(&decision, line.replies());
                }
            }
            (RespRequest::Question(question), Some(queue)) => {
                queue.push_back(decide(&door.app, question));
                if queue.len() >= MAX_IN_FLIGHT {
                    answer_next(queue, line.replies()).await;
                }
            }
            (other, _) => {
                // It may change who the client is.
                session.remember_command(None);
                answer_all(&mut under_way, line.replies()).await;
                let replies = line.replies();
                if session.answer(other, &words, door, replies).await == RespFlow::Close {
                    break RespFlow::Close;
                }
            }
        }
        // A client that sends a lot and reads little waits here, and we hold no more for it.
        if line.is_full() && !line.flush().await {
            break RespFlow::WriteFailed;
        }
    };
    if flow != RespFlow::WriteFailed {
        answer_all(&mut under_way, line.replies()).await;
    }
    door.app.redis_clients().count(commands);
    flow
}

async fn decide<'p, S: Store>(
    app: &App<S>,
    question: RespQuestion<'p>,
) -> (RespQuestion<'p>, Decision) {
    let decision = question.decide(app).await;
    (question, decision)
}

/// Answers the oldest question, once it is decided; false if there is none.
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

/// Decisions of one client in flight.
const MAX_IN_FLIGHT: usize = 256;
