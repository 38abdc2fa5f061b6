//! A listener whose threads end with it.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::process::{free_port, local};

/// Accepts connections until dropped, each served by a thread of its own.
///
/// Dropping it waits for those threads: its owner must end their connections first.
#[derive(Debug)]
pub(crate) struct AcceptLoop {
    address: SocketAddr,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl AcceptLoop {
    pub(crate) fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = listen();
        let address = listener.local_addr().expect("the address we listen on");
        let closing = Arc::new(AtomicBool::new(false));
        let closed = Arc::clone(&closing);
        let thread = thread::spawn(move || accept(&listener, &closed, &serve));
        Self { address, closing, thread: Some(thread) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for AcceptLoop {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        // Wakes the thread, which is waiting for a connection.
        let _ = TcpStream::connect(self.address);
        let ended = self.thread.take().map_or(Ok(()), JoinHandle::join);
        // If an assertion in a test's closure failed there, the test must fail.
        assert!(ended.is_ok() || thread::panicking(), "a connection's thread panicked");
    }
}

fn listen() -> TcpListener {
    (0..100).find_map(|_| TcpListener::bind(local(free_port())).ok()).expect("a port to listen on")
}

fn accept(listener: &TcpListener, closing: &AtomicBool, serve: &(impl Fn(TcpStream) + Sync)) {
    thread::scope(|scope| {
        while let Ok((stream, _)) = listener.accept() {
            if closing.load(Ordering::SeqCst) {
                break;
            }
            let _ = stream.set_nodelay(true);
            scope.spawn(move || serve(stream));
        }
    });
}

/// A register of open connections, which can be closed.
#[derive(Debug)]
pub(crate) struct ConnectionRegister<T>(Mutex<Option<Vec<Arc<T>>>>);

impl<T> ConnectionRegister<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }

    /// Registers a connection until the guard is dropped; `None` if the register is closed.
    pub(crate) fn register(&self, item: T) -> Option<RegisteredConnection<'_, T>> {
        let item = Arc::new(item);
        self.0.lock().unwrap().as_mut()?.push(Arc::clone(&item));
        Some(RegisteredConnection { register: self, item })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().as_ref().map_or(0, Vec::len)
    }

    /// The connections, which stay registered.
    pub(crate) fn list(&self) -> Vec<Arc<T>> {
        self.0.lock().unwrap().clone().unwrap_or_default()
    }

    /// The connections, which are no longer registered.
    pub(crate) fn take(&self) -> Vec<Arc<T>> {
        self.0.lock().unwrap().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The same, and closes the register.
    pub(crate) fn close(&self) -> Vec<Arc<T>> {
        self.0.lock().unwrap().take().unwrap_or_default()
    }
}

/// A registered connection. It leaves the register on drop, even if its thread panics.
#[derive(Debug)]
pub(crate) struct RegisteredConnection<'a, T> {
    register: &'a ConnectionRegister<T>,
    item: Arc<T>,
}

impl<T> Deref for RegisteredConnection<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T> Drop for RegisteredConnection<'_, T> {
    fn drop(&mut self) {
        if let Some(items) = self.register.0.lock().unwrap().as_mut() {
            items.retain(|other| !Arc::ptr_eq(other, &self.item));
        }
    }
}
