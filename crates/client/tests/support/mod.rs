//! A scripted server, and its client.

#![allow(dead_code, reason = "no test needs all of it")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use tidegate_client::{BodyReplay, ClientEvent, PoliteError, PoliteLayer};
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt, service_fn};

/// A status, and header fields.
pub(crate) type Script = (u16, Vec<(&'static str, &'static str)>);

pub(crate) fn line(status: u16, fields: &[(&'static str, &'static str)]) -> Script {
    (status, fields.to_vec())
}

/// Answers by a script, repeats its last line, and records when and what it was sent.
#[derive(Clone)]
pub(crate) struct Server {
    script: Arc<Mutex<VecDeque<Script>>>,
    asked: Arc<Mutex<Vec<(Duration, String)>>>,
    start: Instant,
}

impl Server {
    pub(crate) fn new(script: impl IntoIterator<Item = Script>) -> Self {
        let script = Arc::new(Mutex::new(script.into_iter().collect()));
        Self { script, asked: Arc::default(), start: Instant::now() }
    }

    pub(crate) fn answer(&self, request: Request<String>) -> Response<()> {
        self.asked.lock().unwrap().push((self.start.elapsed(), request.into_body()));
        let mut script = self.script.lock().unwrap();
        let (status, fields) =
            if script.len() > 1 { script.pop_front().unwrap() } else { script[0].clone() };
        let mut response = Response::builder().status(status);
        for (name, value) in fields {
            response = response.header(name, value);
        }
        response.body(()).unwrap()
    }

    pub(crate) fn client<R: BodyReplay<String>>(&self, layer: PoliteLayer<R>) -> Client {
        let server = self.clone();
        let service = service_fn(move |request| {
            let response = server.answer(request);
            async move { Ok::<_, Infallible>(response) }
        });
        Client(BoxCloneSyncService::new(layer.seed(7).layer(service)))
    }

    /// When requests arrived, in milliseconds.
    pub(crate) fn times(&self) -> Vec<u128> {
        self.asked.lock().unwrap().iter().map(|(at, _)| at.as_millis()).collect()
    }

    /// The requests that it got.
    pub(crate) fn bodies(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }
}

pub(crate) type Answer = Result<u16, PoliteError<Infallible>>;

#[derive(Clone)]
pub(crate) struct Client(
    pub(crate) BoxCloneSyncService<Request<String>, Response<()>, PoliteError<Infallible>>,
);

impl Client {
    pub(crate) async fn request(&self, request: Request<String>) -> Answer {
        Ok(self.0.clone().ready().await?.call(request).await?.status().as_u16())
    }

    pub(crate) async fn send(&self, method: Method, body: &str) -> Answer {
        let request = Request::builder().method(method).uri("http://a/");
        self.request(request.body(body.to_owned()).unwrap()).await
    }

    pub(crate) async fn get(&self) -> Answer {
        self.send(Method::GET, "").await
    }

    pub(crate) async fn get_from(&self, uri: &str) -> Answer {
        self.request(Request::get(uri).body(String::new()).unwrap()).await
    }
}

/// A layer that records all events, and the record.
pub(crate) fn heard<R>(layer: PoliteLayer<R>) -> (PoliteLayer<R>, Arc<Mutex<Vec<ClientEvent>>>) {
    let events = Arc::<Mutex<Vec<_>>>::default();
    let heard = Arc::clone(&events);
    (layer.observer(move |event: &ClientEvent| heard.lock().unwrap().push(*event)), events)
}
