//! Writes responses as bytes, the same way as hyper would.

use std::cell::RefCell;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use tidegate::Plan;
use tidegate_http::{JSON, PROBLEM_JSON, RateLimitAnswer, each_field, write_denial};

use crate::transport::http::HttpResponse;

/// Responses that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct FastPathOutput {
    bytes: Vec<u8>,
    /// The current body, which is written first because its length precedes it.
    body: Vec<u8>,
}

impl FastPathOutput {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Adds the response for a decision, and returns its status.
    pub(super) fn add_decision(
        &mut self,
        plan: &Plan,
        answer: &RateLimitAnswer<'_, '_>,
    ) -> StatusCode {
        self.body.clear();
        let (status, kind) = if answer.decision().is_allowed() {
            tidegate_http::answer_body(answer).write(&mut self.body);
            (StatusCode::OK, JSON)
        } else {
            write_denial(answer, &mut self.body);
            (StatusCode::TOO_MANY_REQUESTS, PROBLEM_JSON)
        };
        self.begin(status);
        self.put(&["content-type: ", kind, "\r\n"]);
        each_field(answer, plan.settings().legacy_headers(), |name, write| {
            self.put(&[name, ": "]);
            write(&mut self.bytes);
            self.put(&["\r\n"]);
        });
        let body = std::mem::take(&mut self.body);
        self.end(&body);
        self.body = body;
        status
    }

    /// Adds any response.
    pub(super) fn add_response(&mut self, response: &HttpResponse) {
        self.begin(response.status());
        for (name, value) in response.headers() {
            self.put(&[name.as_str(), ": "]);
            self.bytes.extend_from_slice(value.as_bytes());
            self.put(&["\r\n"]);
        }
        self.end(response.body());
    }

    fn begin(&mut self, status: StatusCode) {
        let reason = status.canonical_reason().unwrap_or_default();
        self.put(&["HTTP/1.1 ", status.as_str(), " ", reason, "\r\n"]);
    }

    fn end(&mut self, body: &[u8]) {
        self.put(&["content-length: ", itoa::Buffer::new().format(body.len()), "\r\ndate: "]);
        DATE.with_borrow_mut(|date| self.bytes.extend_from_slice(date.now()));
        self.put(&["\r\n\r\n"]);
        self.bytes.extend_from_slice(body);
    }

    fn put(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part.as_bytes()));
    }
}

thread_local! {
    static DATE: RefCell<HttpDateCache> = const { RefCell::new(HttpDateCache { second: u64::MAX, text: Vec::new() }) };
}

/// The date as a header value, written once a second.
struct HttpDateCache {
    second: u64,
    text: Vec<u8>,
}

impl HttpDateCache {
    #[allow(
        clippy::disallowed_methods,
        reason = "the real date, whichever clock the decisions use"
    )]
    fn now(&mut self) -> &[u8] {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        self.at(since.as_secs())
    }

    fn at(&mut self, second: u64) -> &[u8] {
        if self.second != second {
            self.second = second;
            self.text.clear();
            let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(second.min(LAST)));
            // Writing to a `Vec` does not fail.
            let _ = write!(self.text, "{date}");
        }
        &self.text
    }
}

/// The end of the year 9999: HTTP dates cannot be later.
const LAST: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::CONTENT_TYPE;

    use super::*;

    #[test]
    fn an_answer_has_its_status_fields_length_date_and_body() {
        let mut response = HttpResponse::new("{}".into());
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        let mut output = FastPathOutput::default();
        output.add_response(&response);
        let text = String::from_utf8(output.bytes).unwrap();
        let head = "HTTP/1.1 429 Too Many Requests\r\ncontent-type: text/plain\r\n\
                    content-length: 2\r\ndate: ";
        assert!(text.starts_with(head) && text.ends_with(" GMT\r\n\r\n{}"), "{text}");
    }

    #[test]
    fn a_date_is_written_anew_when_it_is_another() {
        let mut date = HttpDateCache { second: u64::MAX, text: Vec::new() };
        assert_eq!(date.at(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date.at(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date.at(1_763_251_199), b"Sat, 15 Nov 2025 23:59:59 GMT");
        assert_eq!(date.at(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
