//! The floor: a hyper server that decides nothing. Its answers are as large as ours, and have as
//! many headers.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

pub(super) async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(&request)) });
        // Without a timer, and with many answers per write: the most that hyper can do.
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            .pipeline_flush(true)
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}

fn answer(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let is_denied = request.uri().path() == "/denied";
    let body = if is_denied { DENIED } else { ALLOWED };
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert("ratelimit-policy", HeaderValue::from_static(r#""wide";q=100000000;w=60"#));
    fields.insert("ratelimit", HeaderValue::from_static(r#""wide";r=99999999;t=60"#));
    if is_denied {
        fields.insert(RETRY_AFTER, HeaderValue::from_static("86400"));
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    }
    response
}

const ALLOWED: &str = r#"{"allowed":true,"policy":"wide","reason":"allowed","limit":100000000,"remaining":99999999,"retry_after_ms":null,"reset_after_ms":119999,"source":"store","limits":[{"policy":"wide","algorithm":"sliding-window","limit":100000000,"window_ms":60000,"allowed":true,"remaining":99999999,"retry_after_ms":null,"reset_after_ms":119999,"mode":"enforce"}]}"#;
const DENIED: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,"detail":"policy tight allows 1/day: try again in 23h59m","violated-policies":["tight"],"allowed":false,"policy":"tight","reason":"over_limit","limit":1,"remaining":0,"retry_after_ms":86399999,"reset_after_ms":86399999,"source":"store","limits":[{"policy":"tight","algorithm":"sliding-window","limit":1,"window_ms":86400000,"allowed":false,"remaining":0,"retry_after_ms":86399999,"reset_after_ms":86399999,"mode":"enforce"}]}"#;
