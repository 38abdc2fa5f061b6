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
pub(crate) struct Door {
    address: SocketAddr,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Door {
    pub(crate) fn open(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
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

impl Drop for Door {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        // The thread is waiting for a visitor.
        let _ = TcpStream::connect(self.address);
        let ended = self.thread.take().map_or(Ok(()), JoinHandle::join);
        // An assertion in a test's own closure has failed there: the test must hear about it.
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

/// The open connections, until it is closed itself.
#[derive(Debug)]
pub(crate) struct Register<T>(Mutex<Option<Vec<Arc<T>>>>);

impl<T> Register<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }

    /// Registers a connection until its guest leaves, unless it comes too late.
    pub(crate) fn admit(&self, item: T) -> Option<Guest<'_, T>> {
        let item = Arc::new(item);
        self.0.lock().unwrap().as_mut()?.push(Arc::clone(&item));
        Some(Guest { register: self, item })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().as_ref().map_or(0, Vec::len)
    }

    /// The connections, which stay.
    pub(crate) fn list(&self) -> Vec<Arc<T>> {
        self.0.lock().unwrap().clone().unwrap_or_default()
    }

    /// The connections, which are now unowned.
    pub(crate) fn take(&self) -> Vec<Arc<T>> {
        self.0.lock().unwrap().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The same, and no more are let in.
    pub(crate) fn close(&self) -> Vec<Arc<T>> {
        self.0.lock().unwrap().take().unwrap_or_default()
    }
}

/// A connection while it is served. It leaves the register even if its thread panics.
#[derive(Debug)]
pub(crate) struct Guest<'a, T> {
    register: &'a Register<T>,
    item: Arc<T>,
}

impl<T> Deref for Guest<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T> Drop for Guest<'_, T> {
    fn drop(&mut self) {
        if let Some(items) = self.register.0.lock().unwrap().as_mut() {
            items.retain(|other| !Arc::ptr_eq(other, &self.item));
        }
    }
}
