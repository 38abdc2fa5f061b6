//! `tidegate serve --otlp`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

mod support;

use std::io::{BufRead as _, Read as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use support::{Server, failure, output, tidegate};

#[test]
fn a_span_leaves_when_the_server_does() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", collector.local_addr().unwrap());
    // It records requests and never answers.
    let collecting = std::thread::spawn(move || {
        let (mut stream, _) = collector.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        heard
    });
    let mut command = tidegate();
    command.args(["serve", "--http", "127.0.0.1:0"]).env("OTEL_EXPORTER_OTLP_ENDPOINT", &url);
    command.env("OTEL_SERVICE_NAME", "our-limits");
    let server = Server::start(&mut command);
    assert_eq!(server.said("traces: "), format!("{url}; all of those that begin here"));
    assert!(server.check().starts_with("HTTP/1.1 200"));
    assert_eq!(server.signal("TERM"), Some(0));
    let heard = collecting.join().unwrap();
    let has = |text: &str| heard.windows(text.len()).any(|part| part == text.as_bytes());
    for part in ["POST /v1/check", "our-limits", "tidegate.policy", "demo", "within_limit"] {
        assert!(has(part), "no {part}");
    }
    assert!(!has("alice"));
}

#[test]
fn a_collector_that_is_away_is_said_once_and_harms_nobody() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = tidegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--otlp", &format!("http://{gone}")]);
    command.args(["--otlp-ratio", "1.0"]).stderr(Stdio::piped());
    let mut server = Server::start(&mut command);
    let lost = |server: &Server| {
        let page = server.get("/metrics");
        let line =
            page.lines().find_map(|it| it.strip_prefix("tidegate_spans_total{result=\"lost\"} "));
        line.unwrap().parse::<u64>().unwrap()
    };
    assert!(server.check().starts_with("HTTP/1.1 200"));
    tidegate_testkit::wait_until("a lost span", Duration::from_secs(10), || lost(&server) == 1);
    assert!(server.check().starts_with("HTTP/1.1 200"));
    let log = server.stderr();
    server.send("TERM");
    let said: Vec<String> = log.lines().map(Result::unwrap).collect();
    assert_eq!(server.exit_code(), Some(0));
    let about = said.iter().filter(|line| line.contains("traces"));
    let about: Vec<_> = about.collect();
    assert!(about.len() == 1 && about[0].contains("cannot be reached"), "{said:#?}");
}

#[test]
fn a_collector_that_makes_no_sense_is_refused_where_it_was_asked_for() {
    let refused = failure(&output(&["serve", "--otlp", "localhost:4317"]));
    assert!(refused.contains("--otlp \"localhost:4317\""), "{refused}");
    assert!(refused.contains("expected http://host:4317"), "{refused}");
    let said = output(&["serve", "--otlp", "http://localhost:4317", "--otlp-ratio", "2"]);
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("\"2\": expected a number from 0 to 1, such as 0.01"), "{said}");
}

#[test]
fn a_collector_of_others_is_no_reason_not_to_start() {
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318/v1/traces"),
        ("OTEL_SDK_DISABLED", "true"),
    ] {
        let mut command = tidegate();
        command.args(["serve", "--http", "127.0.0.1:0"]).stderr(Stdio::piped());
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317").env(name, value);
        let mut server = Server::start(&mut command);
        assert!(!server.greeting.iter().any(|line| line.starts_with("traces: ")));
        let log = server.stderr();
        server.send("TERM");
        let said: Vec<String> = log.lines().map(Result::unwrap).collect();
        assert_eq!(server.exit_code(), Some(0));
        let is_said = said.iter().any(|line| line.starts_with("no traces: "));
        assert_eq!(is_said, name != "OTEL_SDK_DISABLED", "{said:?}");
    }
}
