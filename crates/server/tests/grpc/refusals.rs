//! What Envoy's rate limit filter does with each answer that is not OK: each cell of the table in
//! docs/proxies.md is tested here.

use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::server::SendResponse;
use http::{HeaderMap, Response};
use tidegate_testkit::peer;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use super::envoy::{get, start};

/// A stand-in for Tidegate that gives every call the answer in the first column.
struct StandIn {
    port: u16,
    answer: Arc<Mutex<String>>,
    task: AbortHandle,
}

impl StandIn {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = Arc::new(Mutex::new(String::new()));
        let chosen = Arc::clone(&answer);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&chosen)));
            }
        });
        Self { port, answer, task: task.abort_handle() }
    }
}

async fn serve(stream: TcpStream, chosen: Arc<Mutex<String>>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let mut waiting = Vec::new();
    while let Some(Ok((request, respond))) = connection.accept().await {
        let is_health = request.uri().path().starts_with("/grpc.health.");
        let answer = if is_health { HEALTHY.to_owned() } else { chosen.lock().unwrap().clone() };
        match &answer[..] {
            // The caller gives up before we do.
            "no answer in time" => waiting.push(respond),
            "connection closed" => return,
            answer => say(respond, answer),
        }
    }
}

fn say(mut respond: SendResponse<Bytes>, answer: &str) {
    let head = Response::builder().header("content-type", "application/grpc");
    let message = match answer {
        // A field 1 with the value 1 or 2, behind its length.
        HEALTHY | "OK" => Some(Bytes::from_static(b"\0\0\0\0\x02\x08\x01")),
        "OVER_LIMIT" => Some(Bytes::from_static(b"\0\0\0\0\x02\x08\x02")),
        _ => None,
    };
    let status = match answer {
        "INVALID_ARGUMENT" => "3",
        "RESOURCE_EXHAUSTED" => "8",
        "UNIMPLEMENTED" => "12",
        "INTERNAL" => "13",
        "UNAVAILABLE" => "14",
        "UNAUTHENTICATED" => "16",
        answer => {
            assert!(message.is_some(), "{answer} is not an answer");
            "0"
        }
    };
    let Some(message) = message else {
        let _ = respond.send_response(head.header("grpc-status", status).body(()).unwrap(), true);
        return;
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", status.parse().unwrap());
    if let Ok(mut body) = respond.send_response(head.body(()).unwrap(), false) {
        let _ = body.send_data(message, false).and_then(|()| body.send_trailers(trailers));
    }
}

const HEALTHY: &str = "SERVING";

#[tokio::test(flavor = "multi_thread")]
async fn envoy_treats_every_answer_as_the_table_says() {
    let Some(envoy) = peer("envoy") else { return };
    for setting in ["failure_mode_deny: true", "failure_mode_deny: false"] {
        let tidegate = StandIn::start().await;
        let change = |text: String| {
            // Shorter than the test's timeout, and longer than a busy machine takes.
            let text = text.replace("failure_mode_deny: false", setting);
            text.replace("failure_mode_deny: true", setting)
                .replace("timeout: 0.02s", "timeout: 3s")
        };
        let asked = tokio::task::block_in_place(|| {
            let (envoy, port) = start(&envoy, tidegate.port, change);
            let mut wrong = Vec::new();
            for (row, expected) in column_of(setting) {
                if row == "no connection" {
                    tidegate.task.abort();
                }
                tidegate.answer.lock().unwrap().clone_from(&row);
                let (status, _) = get(port, "alice");
                let cell = format!("{} {status}", if status == 200 { "open" } else { "closed" });
                if cell != expected {
                    wrong.push(format!("{setting}, {row}: {cell}, and not {expected}"));
                }
            }
            drop(envoy);
            wrong
        });
        assert!(asked.is_empty(), "docs/proxies.md is wrong:\n{}", asked.join("\n"));
    }
}

/// The rows of the table with this column, and its cells: `closed 500`.
fn column_of(name: &str) -> Vec<(String, String)> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/proxies.md");
    let text = std::fs::read_to_string(docs).unwrap();
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.replace(['`', '*'], "").trim().to_owned()).collect()
    };
    let mut lines = text.lines().skip_while(|line| !line.contains(name) || !line.starts_with('|'));
    let head = cells(lines.next().expect("a table"));
    let column = head.iter().position(|cell| cell == name).expect("a column");
    let rows = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells);
    rows.map(|row| (row[0].clone(), row[column].clone())).collect()
}
