//! Bounds on buffered data: responses that clients do not read, request bodies that services do not
//! read, and requests in queues. There is one bound for all of them, and one for each HTTP/2 connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use parking_lot::Mutex;

/// The memory that all connections together can use for buffered data.
#[derive(Debug)]
pub(crate) struct BufferBudget {
    most: usize,
    used: AtomicUsize,
    refused: AtomicU64,
}

/// A part of the budget, released on drop.
#[derive(Debug)]
pub(crate) struct BufferReservation {
    budget: Arc<BufferBudget>,
    bytes: usize,
}

impl BufferBudget {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, used: AtomicUsize::new(0), refused: AtomicU64::new(0) })
    }

    /// Reserves `bytes`, or counts a refusal if not enough is left.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<BufferReservation> {
        if self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > self.most {
            self.release(bytes);
            self.count_refusal();
            return None;
        }
        Some(BufferReservation { budget: Arc::clone(self), bytes })
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts a request that is refused because the budget is used up.
    pub(crate) fn count_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.used() >= self.most
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn refusals(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Drop for BufferReservation {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

/// The buffered data of one HTTP/2 connection.
#[derive(Debug)]
pub(crate) struct Http2Buffers {
    budget: Arc<BufferBudget>,
    answers: Mutex<AnswerBacklog>,
    /// The number of request bodies under way, and the memory that they share.
    uploads: Mutex<(usize, Option<BufferReservation>)>,
}

/// The unsent responses of one connection. One lock guards both fields: otherwise the last chunk could
/// leave between a check and the sleep that follows, and no waker would be called.
#[derive(Debug, Default)]
struct AnswerBacklog {
    /// Bytes that the client has not read.
    waiting: usize,
    /// Responses that wait for room, by number: at most one entry for each.
    sleepers: Vec<(usize, Waker)>,
}

impl Http2Buffers {
    pub(crate) const fn new(budget: Arc<BufferBudget>) -> Self {
        Self {
            budget,
            answers: Mutex::new(AnswerBacklog { waiting: 0, sleepers: Vec::new() }),
            uploads: Mutex::new((0, None)),
        }
    }

    pub(crate) const fn budget(&self) -> &Arc<BufferBudget> {
        &self.budget
    }

    /// How many bytes can wait here. With the budget used up, each response has one chunk at a time.
    fn max_waiting(&self) -> usize {
        if self.budget.is_used_up() { 1 } else { MOST_WAITING }
    }

    /// Reserves memory for a request body. All bodies of a connection share one window, so only the first
    /// takes from the budget. `None` if the budget is used up.
    pub(crate) fn reserve_upload(self: &Arc<Self>) -> Option<UploadReservation> {
        let mut uploads = self.uploads.lock();
        if uploads.0 == 0 {
            uploads.1 = Some(self.budget.reserve(UPLOAD_WINDOW)?);
        }
        uploads.0 += 1;
        Some(UploadReservation(Arc::clone(self)))
    }
}

/// Memory for the body of a request, released on drop.
#[derive(Debug)]
pub(crate) struct UploadReservation(Arc<Http2Buffers>);

impl Drop for UploadReservation {
    fn drop(&mut self) {
        let mut uploads = self.0.uploads.lock();
        uploads.0 = uploads.0.saturating_sub(1);
        if uploads.0 == 0 {
            uploads.1 = None;
        }
    }
}

/// The unsent bytes of one response.
#[derive(Debug)]
pub(crate) struct AnswerBuffer {
    connection: Arc<Http2Buffers>,
    waiting: AtomicUsize,
}

impl AnswerBuffer {
    pub(crate) fn new(connection: Arc<Http2Buffers>) -> Arc<Self> {
        Arc::new(Self { connection, waiting: AtomicUsize::new(0) })
    }

    /// Resolves when the next chunk can be produced. A response with no unsent bytes always continues, so
    /// that unread responses do not block it.
    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        let mut answers = self.connection.answers.lock();
        let is_free = self.waiting.load(Ordering::Relaxed) == 0;
        if is_free || answers.waiting < self.connection.max_waiting() {
            return Poll::Ready(());
        }
        let number = self.number();
        answers.sleepers.retain(|(other, _)| *other != number);
        answers.sleepers.push((number, cx.waker().clone()));
        Poll::Pending
    }

    fn add(&self, bytes: usize) {
        let mut answers = self.connection.answers.lock();
        answers.waiting = answers.waiting.saturating_add(bytes);
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
        self.connection.budget.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Wakes all responses if the connection has room again, or else only this one if it has no unsent
    /// bytes.
    fn sub(&self, bytes: usize) {
        self.connection.budget.release(bytes);
        let mut answers = self.connection.answers.lock();
        answers.waiting = answers.waiting.saturating_sub(bytes);
        let was = self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        let has_room = answers.waiting < self.connection.max_waiting();
        let number = self.number();
        let is_woken = |other: usize| has_room || (was == bytes && other == number);
        let sleepers = std::mem::take(&mut answers.sleepers);
        let (woken, asleep) = sleepers.into_iter().partition(|(other, _)| is_woken(*other));
        answers.sleepers = asleep;
        drop(answers);
        let woken: Vec<(usize, Waker)> = woken;
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Identifies a response within its connection.
    fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// A chunk of a response body, counted until it is sent or dropped.
#[derive(Debug)]
pub(crate) struct AnswerChunk {
    bytes: Bytes,
    counted: Option<(Arc<AnswerBuffer>, usize)>,
}

impl AnswerChunk {
    pub(crate) fn new(bytes: Bytes, buffer: Option<&Arc<AnswerBuffer>>) -> Self {
        let counted = buffer.map(|buffer| {
            let length = bytes.len();
            buffer.add(length);
            (Arc::clone(buffer), length)
        });
        Self { bytes, counted }
    }
}

impl Drop for AnswerChunk {
    fn drop(&mut self) {
        if let Some((buffer, length)) = self.counted.take() {
            buffer.sub(length);
        }
    }
}

impl Buf for AnswerChunk {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        self.bytes.copy_to_bytes(length)
    }
}

/// Unsent bytes on one connection. Beyond that, each response has one chunk at a time.
const MOST_WAITING: usize = 1 << 20;
/// Bytes of request bodies that a client can send on one connection before a service reads them.
pub(crate) const UPLOAD_WINDOW: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ready(buffer: &AnswerBuffer) -> bool {
        buffer.poll_room(&Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn attack_13_a_connection_has_its_bound_and_every_answer_a_piece() {
        let budget = BufferBudget::new(64 << 20);
        let connection = Arc::new(Http2Buffers::new(Arc::clone(&budget)));
        let (first, second) =
            (AnswerBuffer::new(Arc::clone(&connection)), AnswerBuffer::new(connection));
        let chunk = |buffer| AnswerChunk::new(Bytes::from(vec![0; 64 << 10]), Some(buffer));
        let mut chunks = Vec::new();
        while is_ready(&first) && chunks.len() < 100 {
            chunks.push(chunk(&first));
        }
        assert_eq!(chunks.len(), 16);
        assert!(is_ready(&second));
        let one = chunk(&second);
        assert!(!is_ready(&second));
        drop(chunks);
        assert!(is_ready(&second) && is_ready(&first));
        drop(one);
        assert_eq!(budget.used(), 0);
    }

    struct WakeCounter(AtomicUsize);

    impl std::task::Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_answer_goes_on_when_its_own_piece_has_left_however_much_others_have_waiting() {
        let connection = Arc::new(Http2Buffers::new(BufferBudget::new(64 << 20)));
        let (unread, read) =
            (AnswerBuffer::new(Arc::clone(&connection)), AnswerBuffer::new(connection));
        let _chunks: Vec<_> = (0..20)
            .map(|_| AnswerChunk::new(Bytes::from(vec![0; 64 << 10]), Some(&unread)))
            .collect();
        let chunk = AnswerChunk::new(Bytes::from_static(b"a piece"), Some(&read));
        let count = Arc::new(WakeCounter(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        for _ in 0..3 {
            assert!(read.poll_room(&Context::from_waker(&waker)).is_pending());
        }
        drop(chunk);
        assert_eq!(count.0.load(Ordering::Relaxed), 1, "woken once, though polled three times");
        assert!(is_ready(&read) && !is_ready(&unread));
    }

    #[test]
    fn attack_13_when_the_budget_is_used_up_new_ones_are_refused() {
        let budget = BufferBudget::new(1 << 20);
        let connections: Vec<_> =
            (0..5).map(|_| Arc::new(Http2Buffers::new(Arc::clone(&budget)))).collect();
        let uploads: Vec<_> = connections.iter().filter_map(Http2Buffers::reserve_upload).collect();
        assert_eq!((uploads.len(), budget.refusals()), (4, 1));
        assert!(budget.is_used_up());
        // More bodies on the same connection share its reservation.
        assert!(connections[0].reserve_upload().is_some());
        assert!(budget.reserve(1).is_none());
        let buffer = AnswerBuffer::new(Arc::clone(&connections[4]));
        let _chunk = AnswerChunk::new(Bytes::from_static(b"x"), Some(&buffer));
        assert!(!is_ready(&buffer));
        drop(uploads);
        assert!(is_ready(&buffer));
        assert_eq!(budget.used(), 1);
    }
}
