//! Limiters behind HTTP: any request, any answer.

use std::sync::Arc;

use ::http::header::HOST;
use ::http::{HeaderMap, HeaderName, Request, StatusCode, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::{AdapterError, CallAnswer, filled};
use crate::history::StatedWait;

/// A request with `{key}` and `{cost}` in its URL, its fields or its body, and where the answer is.
#[derive(Clone, Debug)]
pub struct HttpTemplate {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// An absolute URL that begins with `http://`.
    pub url: String,
    /// More fields.
    pub headers: Vec<(String, String)>,
    /// The body, if there is one.
    pub body: Option<String>,
    /// What says whether a call was admitted.
    pub admitted_by: AdmittedBy,
    /// The statuses of a denial.
    pub denied: Vec<u16>,
    /// Where it says what is left.
    pub remaining: Option<AnswerField>,
    /// Where it says how long to wait.
    pub retry_after: Option<AnswerField>,
    /// The unit of that, in microseconds.
    pub retry_unit: i64,
}

/// What says whether a call was admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmittedBy {
    /// The status: 2xx, or one of a denial.
    Status,
    /// A boolean, or a number that is not 0, at a JSON pointer.
    Pointer(String),
}

/// A part of an answer: a JSON pointer into the body if it begins with a slash, otherwise a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerField {
    /// In the body.
    Pointer(String),
    /// In the head.
    Header(String),
}

impl From<&str> for AnswerField {
    fn from(text: &str) -> Self {
        match text.starts_with('/') {
            true => Self::Pointer(text.to_owned()),
            false => Self::Header(text.to_owned()),
        }
    }
}

impl HttpTemplate {
    fn authority(&self) -> Result<String, AdapterError> {
        let uri: Uri = self.url.replace(['{', '}'], "").parse().map_err(::http::Error::from)?;
        let host = uri.host().filter(|_| uri.scheme_str() == Some("http"));
        let host =
            host.ok_or_else(|| AdapterError::answer(format!("not an http:// URL: {}", self.url)))?;
        Ok(format!("{host}:{}", uri.port_u16().unwrap_or(80)))
    }

    fn request(&self, key: &str, cost: u64) -> Result<Request<Full<Bytes>>, AdapterError> {
        let url: Uri = filled(&self.url, key, cost).parse().map_err(::http::Error::from)?;
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::builder().method(self.method.as_str()).uri(path);
        request = request.header(HOST, url.authority().map_or("", |it| it.as_str()));
        for (name, value) in &self.headers {
            request = request.header(name.as_str(), filled(value, key, cost));
        }
        let body = self.body.as_ref().map(|body| filled(body, key, cost)).unwrap_or_default();
        Ok(request.body(Full::from(body))?)
    }

    fn answer(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<CallAnswer, AdapterError> {
        let is_denied = self.denied.contains(&status.as_u16());
        if !status.is_success() && !is_denied {
            return Err(AdapterError::answer(format!("status {status}")));
        }
        let json: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let allowed = match &self.admitted_by {
            AdmittedBy::Status => !is_denied,
            AdmittedBy::Pointer(pointer) => match json.pointer(pointer) {
                Some(Value::Bool(allowed)) => *allowed,
                Some(Value::Number(number)) => number.as_f64() != Some(0.0),
                _ if is_denied => false,
                _ => return Err(AdapterError::answer(format!("no boolean at {pointer}"))),
            },
        };
        let number = |field: &Option<AnswerField>| match field.as_ref()? {
            AnswerField::Pointer(pointer) => number(json.pointer(pointer)?),
            AnswerField::Header(name) => {
                headers.get(HeaderName::try_from(name).ok()?)?.to_str().ok()?.trim().parse().ok()
            }
        };
        let wait = number(&self.retry_after).filter(|_| !allowed);
        Ok(CallAnswer {
            allowed,
            remaining: number(&self.remaining).filter(|left| *left >= 0.0).map(|left| left as u64),
            retry_after: wait.and_then(|wait| StatedWait::of(wait, self.retry_unit)),
        })
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// A connection that is kept open.
#[derive(Debug)]
pub(crate) struct HttpLink {
    template: Arc<HttpTemplate>,
    sender: SendRequest<Full<Bytes>>,
}

impl HttpLink {
    pub(super) async fn open(template: Arc<HttpTemplate>) -> Result<Self, AdapterError> {
        let stream = TcpStream::connect(template.authority()?).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Its errors also reach the sender, which reports them.
        tokio::spawn(async { drop(connection.await) });
        Ok(Self { template, sender })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    pub(super) async fn call(&mut self, key: &str, cost: u64) -> Result<CallAnswer, AdapterError> {
        let request = self.template.request(key, cost)?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MOST_BODY).collect().await;
        let body = body.map_err(|error| AdapterError::answer(error.to_string()))?.to_bytes();
        self.template.answer(head.status, &head.headers, &body)
    }
}

const MOST_BODY: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn template(admitted_by: AdmittedBy) -> HttpTemplate {
        HttpTemplate {
            method: "POST".to_owned(),
            url: "http://127.0.0.1:8080/check/{key}?cost={cost}".to_owned(),
            headers: vec![("x-key".to_owned(), "{key}".to_owned())],
            body: Some(r#"{"key": "{key}"}"#.to_owned()),
            admitted_by,
            denied: vec![429],
            remaining: Some("/left".into()),
            retry_after: Some("retry-after".into()),
            retry_unit: 1_000_000,
        }
    }

    #[test]
    fn a_template_is_filled_in() {
        let template = template(AdmittedBy::Status);
        let request = template.request("abc", 7).unwrap();
        assert_eq!(request.uri(), "/check/abc?cost=7");
        assert_eq!(request.headers()["x-key"], "abc");
        assert_eq!(request.headers()["host"], "127.0.0.1:8080");
        assert_eq!(template.authority().unwrap(), "127.0.0.1:8080");
        let other = HttpTemplate { url: "https://x".to_owned(), ..template };
        assert!(other.authority().is_err());
    }

    #[test]
    fn answers_are_read_from_the_status_the_body_and_the_head() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "3".parse().unwrap());
        let answer = |template: &HttpTemplate, status: u16, body: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            template.answer(status, &headers, body.as_bytes())
        };
        let by_status = template(AdmittedBy::Status);
        let admitted = answer(&by_status, 200, r#"{"left": 4}"#).unwrap();
        assert_eq!(
            (admitted.allowed, admitted.remaining, admitted.retry_after),
            (true, Some(4), None)
        );
        let denied = answer(&by_status, 429, "").unwrap();
        let wait = StatedWait { micros: 3_000_000, rounding: 1_000_000 };
        assert_eq!((denied.allowed, denied.retry_after), (false, Some(wait)));
        assert!(answer(&by_status, 500, "").is_err());
        let by_pointer = template(AdmittedBy::Pointer("/ok".to_owned()));
        assert!(!answer(&by_pointer, 200, r#"{"ok": false}"#).unwrap().allowed);
        assert!(answer(&by_pointer, 200, r#"{"ok": 1}"#).unwrap().allowed);
        assert!(answer(&by_pointer, 200, "{}").is_err());
    }
}
