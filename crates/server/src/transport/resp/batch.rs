//! Everything that a client has sent so far, answered in order and written together.

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tidegate::{Decision, Store};
use tokio::io::{AsyncRead, AsyncWrite};

use super::Door;
use super::decode::Decoder;
use super::line::Line;
use super::repeat::Repeat;
use super::reply::Replies;
use super::request::{self, Question, Request};
use super::session::Session;
use crate::{App, ListenerKind, RefusalReason};

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Stay,
    Leave,
    /// Some of the answers could not be written: nothing more may be.
    Lost,
}

/// Answers all complete commands of `input`, and returns how many bytes they were.
pub(super) async fn answer<S, IO>(
    door: &Door<S>,
    session: &mut Session,
    line: &mut Line<IO>,
    input: &[u8],
) -> (usize, Flow)
where
    S: Store,
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let mut decoder = Decoder::new(input, door.bounds);
    let commands = session.answer_habit(&mut decoder, door, line.replies());
    door.app.redis_clients().count(commands);
    let flow = match decoder.rest() {
        [] => Flow::Stay,
        _ => answer_any(door, session, line, &mut decoder).await,
    };
    (decoder.taken(), flow)
}

/// Answers commands of any kind.
///
/// With a remote store, decisions are in flight together; everything else waits until those before
/// it are answered. An embedded store answers at once, and nothing is ever queued.
async fn answer_any<S, IO>(
    door: &Door<S>,
    session: &mut Session,
    line: &mut Line<IO>,
    decoder: &mut Decoder<'_>,
) -> Flow
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
            Ok(None) => break Flow::Stay,
            Err(malformed) => {
                finish(&mut under_way, line.replies()).await;
                door.app.count_refusal(ListenerKind::Resp, RefusalReason::Malformed);
                line.replies().error(&format!("ERR {malformed}"));
                break Flow::Leave;
            }
        };
        let words = command.words();
        commands += 1;
        match (request::read(&words, &plan, session.is_known()), &mut under_way) {
            (Request::Ask(question), None) => {
                if let Some(decision) = question.decide_at_once(&door.app) {
                    question.answer(&decision, line.replies());
                    let key = question.place_of_key();
                    session.remember(Repeat::of(decoder, (&words, key), &plan, || {
                        question.asked(&words, &plan, &door.app)
                    }));
                    commands += session.answer_habit(decoder, door, line.replies());
                } else {
                    let decision = question.decide(&door.app).await;
                    question.answer(&decision, line.replies());
                }
            }
            (Request::Ask(question), Some(queue)) => {
                queue.push_back(decide(&door.app, question));
                if queue.len() >= MOST_UNDER_WAY {
                    answer_next(queue, line.replies()).await;
                }
            }
            (other, _) => {
                // It may change who the client is.
                session.remember(None);
                finish(&mut under_way, line.replies()).await;
                let replies = line.replies();
                if session.obey(other, &words, door, replies).await == Flow::Leave {
                    break Flow::Leave;
                }
            }
        }
        // A client that sends a lot and reads little waits here, and we hold no more for it.
        if line.is_full() && !line.flush().await {
            break Flow::Lost;
        }
    };
    if flow != Flow::Lost {
        finish(&mut under_way, line.replies()).await;
    }
    door.app.redis_clients().count(commands);
    flow
}

async fn decide<'p, S: Store>(app: &App<S>, question: Question<'p>) -> (Question<'p>, Decision) {
    let decision = question.decide(app).await;
    (question, decision)
}

/// Answers the oldest question, once it is decided; false if there is none.
async fn answer_next<'p, F>(queue: &mut FuturesOrdered<F>, replies: &mut Replies) -> bool
where
    F: Future<Output = (Question<'p>, Decision)>,
{
    let Some((question, decision)) = queue.next().await else { return false };
    question.answer(&decision, replies);
    true
}

async fn finish<'p, F>(queue: &mut Option<FuturesOrdered<F>>, replies: &mut Replies)
where
    F: Future<Output = (Question<'p>, Decision)>,
{
    if let Some(queue) = queue {
        while answer_next(queue, replies).await {}
    }
}

/// Decisions of one client in flight.
const MOST_UNDER_WAY: usize = 256;
