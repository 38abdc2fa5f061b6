//! One connection through the proxy, which forwards bytes from one side to the other.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::Mode;
use crate::wait::now;

/// What the proxy currently does, for all of its connections.
#[derive(Debug)]
pub(crate) struct Switch {
    mode: Mutex<Mode>,
    changed: Condvar,
}

impl Switch {
    pub(crate) fn new() -> Self {
        Self { mode: Mutex::new(Mode::Forward), changed: Condvar::new() }
    }

    pub(crate) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
        self.changed.notify_all();
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode.lock().unwrap().clone()
    }

    /// The mode, once it is one in which bytes move; `None` if the link is closed first.
    fn wait_for_passage(&self, link: &Link) -> Option<Mode> {
        let mode = self.mode.lock().unwrap();
        let is_held = |mode: &Mode| *mode == Mode::Blackhole || link.is_frozen();
        let stuck = |mode: &mut Mode| is_held(mode) && !link.is_closed();
        let mode = self.changed.wait_while(mode, stuck).unwrap();
        (!link.is_closed()).then(|| mode.clone())
    }

    fn sleep_until(&self, due: Instant, link: &Link) {
        let time = due.saturating_duration_since(now());
        let mode = self.mode.lock().unwrap();
        let _ = self.changed.wait_timeout_while(mode, time, |_| !link.is_closed()).unwrap();
    }

    /// Wakes waiting threads, so that they see that their link is closed.
    fn wake(&self) {
        // With the lock held, no thread can be between looking and waiting.
        let _mode = self.mode.lock().unwrap();
        self.changed.notify_all();
    }
}

/// A client's connection and ours to the server on its behalf.
#[derive(Debug)]
pub(crate) struct Link {
    client: TcpStream,
    upstream: OnceLock<TcpStream>,
    /// Set when we end it. A thread that sees it ends without a message to either side.
    closed: AtomicBool,
    /// Set when nothing on it moves any more, whatever the mode.
    frozen: AtomicBool,
}

impl Link {
    pub(crate) fn new(client: TcpStream) -> Self {
        Self {
            client,
            upstream: OnceLock::new(),
            closed: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
        }
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::SeqCst)
    }

    /// Holds back everything from now on. Only closing ends that, so no thread has to be woken.
    pub(crate) fn freeze(&self) {
        self.frozen.store(true, Ordering::SeqCst);
    }

    /// Makes both sides see a reset when the link is dropped, and its threads let go of it.
    ///
    /// Only reading is shut down: that wakes our threads, and the network does not notice. Shutting
    /// down writing would look like an orderly close.
    pub(crate) fn reset(&self, switch: &Switch) {
        self.closed.store(true, Ordering::SeqCst);
        for stream in [Some(&self.client), self.upstream.get()].into_iter().flatten() {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
            let _ = stream.shutdown(Shutdown::Read);
        }
        switch.wake();
    }

    /// Forwards bytes until both sides are done, or the link is closed.
    pub(crate) fn run(&self, to: std::net::SocketAddr, switch: &Switch, bytes_up: &AtomicU64) {
        if switch.wait_for_passage(self).is_none() {
            return;
        }
        let Ok(upstream) = TcpStream::connect_timeout(&to, CONNECT_TIME) else { return };
        let upstream = self.upstream.get_or_init(|| upstream);
        if self.is_closed() || prepare(&self.client).and(prepare(upstream)).is_err() {
            return;
        }
        let (replies, outbox) = channel();
        thread::scope(|scope| {
            scope.spawn(|| self.read_replies(upstream, switch, replies));
            scope.spawn(|| self.write_replies(upstream, switch, outbox));
            self.carry_requests(upstream, switch, bytes_up);
        });
    }

    fn carry_requests(&self, upstream: &TcpStream, switch: &Switch, bytes_up: &AtomicU64) {
        let mut buffer = [0; BUFFER];
        while switch.wait_for_passage(self).is_some() {
            let read = (&self.client).read(&mut buffer).unwrap_or(0);
            // The link may have been frozen while we waited for bytes.
            if switch.wait_for_passage(self).is_none() {
                return;
            }
            bytes_up.fetch_add(read as u64, Ordering::SeqCst);
            if read == 0 || self.write_all(upstream, &buffer[..read]).is_err() {
                let _ = upstream.shutdown(Shutdown::Write);
                return;
            }
        }
    }

    /// Reads replies, and forwards what the mode makes of them.
    fn read_replies(&self, upstream: &TcpStream, switch: &Switch, out: Sender<(Instant, Vec<u8>)>) {
        let mut buffer = [0; BUFFER];
        let mut read = |mut from: &TcpStream| {
            let read = from.read(&mut buffer).unwrap_or(0);
            buffer[..read].to_vec()
        };
        loop {
            let mut reply = read(upstream);
            let Some(mode) = switch.wait_for_passage(self) else { return };
            if reply.is_empty() {
                return;
            }
            let mut due = now();
            let is_last = matches!(mode, Mode::Truncate(_));
            match mode {
                Mode::Delay(time) => due += time,
                Mode::DropReplies => continue,
                Mode::Garbage(bytes) => reply = bytes,
                Mode::Truncate(length) => reply.truncate(length),
                Mode::Forward | Mode::Blackhole | Mode::Reset | Mode::Refuse => {}
            }
            if out.send((due, reply)).is_err() || is_last {
                return;
            }
        }
    }

    /// Writes replies when they are due. A thread of its own, so that a delayed reply delays only
    /// itself and not the ones that come while it waits.
    fn write_replies(
        &self,
        upstream: &TcpStream,
        switch: &Switch,
        replies: Receiver<(Instant, Vec<u8>)>,
    ) {
        for (due, bytes) in replies {
            switch.sleep_until(due, self);
            if self.write_all(&self.client, &bytes).is_err() {
                break;
            }
        }
        // No more replies come: that is the end of the connection.
        if !self.is_closed() {
            let _ = self.client.shutdown(Shutdown::Both);
            let _ = upstream.shutdown(Shutdown::Both);
        }
    }

    /// Writes all, unless the link is closed while the other side does not read.
    fn write_all(&self, mut to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.is_closed() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            match to.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(Duration::from_millis(20)))
}

const BUFFER: usize = 16 << 10;
const CONNECT_TIME: Duration = Duration::from_secs(1);
