//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate::Store;
use tokio::net::TcpStream;

use super::route;
use super::watch::{Deadline, Progress, Watched};
use crate::accept::Closing;
use crate::{App, Config};

/// Answers requests until the client leaves, takes too long, or the server closes.
pub(super) async fn serve<S: Store + 'static>(
    stream: TcpStream,
    app: Arc<App<S>>,
    config: Arc<Config>,
    mut closing: Closing,
) {
    let progress = Progress::new();
    let mut deadline = Deadline::new(progress.clone(), &config);
    let io = TokioIo::new(Watched::new(stream, progress.clone()));
    let (head, body) = (config.max_head, config.max_body);
    let service = service_fn(move |request| {
        let (app, config, progress) = (app.clone(), config.clone(), progress.clone());
        async move {
            progress.answering();
            let response = route::answer(&app, &config, request).await;
            progress.answered();
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = pin!(builder(head, body).serve_connection(io, service));
    let mut closed = pin!(async move { drop(closing.wait_for(|closing| *closing).await) });
    let mut is_open = true;
    // By hand and not by `select!`: the deadline must look after the connection has moved.
    poll_fn(|cx| {
        if is_open && closed.as_mut().poll(cx).is_ready() {
            is_open = false;
            connection.as_mut().graceful_shutdown();
        }
        match connection.as_mut().poll(cx) {
            // An error is a client that broke off or broke the protocol; hyper has answered it.
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => deadline.poll(cx),
        }
    })
    .await;
}

fn builder(max_head: usize, max_body: usize) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Not `pipeline_flush`: it withholds an answer while any byte of another request is unread,
    // never sends hyper's own 400 and 431, and lifts the bound of what waits to be written.
    builder
        // See `watch`, which tells a slow head from an idle connection.
        .header_read_timeout(None)
        .max_header_size(max_head)
        // What one connection can make us hold. hyper refuses less than 8 KiB.
        .max_buf_size(max_head.saturating_add(max_body).max(8 << 10));
    builder
}
