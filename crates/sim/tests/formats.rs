//! Every format that logs come in, whole and broken.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use tidegate::{Attributes as _, Span};
use tidegate_sim::WorkProgress;
use tidegate_sim::log::{
    LogGenerator, LogInput, LogLineFormat, LogReadError, LogReader, LogSummary,
};

const WANTED: [&str; 9] =
    ["ip", "method", "path", "query", "host", "status", "user_agent", "user", "plan"];

type Row = (u64, Vec<Option<String>>);

fn try_read(bytes: &[u8], reader: LogReader) -> Result<(Vec<Row>, LogSummary), LogReadError> {
    let mut rows = Vec::new();
    let input = LogInput::bytes("test.log", bytes);
    let reading = reader.read(vec![input], &WorkProgress::default(), |request| {
        let text = |name: &&str| {
            request.attribute(name).map(|value| String::from_utf8_lossy(value).into_owned())
        };
        rows.push((request.at.as_micros(), WANTED.iter().map(text).collect()));
    })?;
    Ok((rows, reading))
}

fn read(text: &str) -> (Vec<Row>, LogSummary) {
    try_read(text.as_bytes(), LogReader::new(WANTED)).unwrap_or_else(|error| panic!("{error}"))
}

/// The one row of a log, as `name=value` of what it has.
#[track_caller]
fn only(text: &str) -> (u64, String) {
    let (rows, reading) = read(text);
    assert_eq!((rows.len(), reading.malformed), (1, 0), "{reading:?}");
    let values = WANTED.iter().zip(&rows[0].1);
    let shown = values.filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
    (rows[0].0, shown.collect::<Vec<_>>().join(" "))
}

const AT: u64 = 971_211_336_000_000;

#[test]
fn common_and_combined() {
    let line =
        r#"203.0.113.9 - frank [10/Oct/2000:13:55:36 -0700] "GET /a/b?c=d HTTP/1.0" 200 2326"#;
    let rest = "ip=203.0.113.9 method=GET path=/a/b query=c=d status=200";
    assert_eq!(only(line), (AT, format!("{rest} user=frank")));
    let combined =
        format!(r#"{line} "http://example.com/\"x\"" "Mozilla \"quoted\" 5.0" extra 0.1"#);
    let agent = r#"user_agent=Mozilla \"quoted\" 5.0"#;
    assert_eq!(only(&combined), (AT, format!("{rest} {agent} user=frank")));
    let nobody = r#"::1 - - [10/Oct/2000:13:55:36 -0700] "-" 408 0 "-" "-""#;
    assert_eq!(only(nobody), (AT, "ip=::1 status=408".to_owned()));
}

#[test]
fn json_of_nginx_envoy_caddy_and_ours() {
    for (line, expected) in [
        (
            r#"{"time_iso8601":"2000-10-10T13:55:36-07:00","remote_addr":"1.2.3.4","remote_user":"",
               "request":"POST /x?y=1 HTTP/1.1","status":"201","http_user_agent":"a\"b","http_host":"h"}"#,
            r#"ip=1.2.3.4 method=POST path=/x query=y=1 host=h status=201 user_agent=a"b"#,
        ),
        (
            r#"{"start_time":"2000-10-10T20:55:36.000Z","method":"GET","path":"/v1?q=é",
               "response_code":429,"authority":"api.example.com","user_agent":"-",
               "downstream_remote_address":"10.0.0.1:4711","bytes_sent":1.5,"x":[1,{"y":2}],"z":null}"#,
            "ip=10.0.0.1:4711 method=GET path=/v1 query=q=é host=api.example.com status=429",
        ),
        (
            r#"{"ts":971211336.0,"request":{"remote_ip":"9.9.9.9","method":"PUT","uri":"/a?b",
               "host":"c","headers":{"User-Agent":["x"]}},"status":200,"user_id":"42"}"#,
            "ip=9.9.9.9 method=PUT path=/a query=b host=c status=200 user=42",
        ),
        (
            r#"{"time":"2000-10-10T20:55:36Z","ip":"2001:db8::1","method":"GET","host":"h",
               "path":"/p","status":200,"user_agent":"ua","attributes":{"user":"7","plan":"pro"}}"#,
            "ip=2001:db8::1 method=GET path=/p host=h status=200 user_agent=ua user=7 plan=pro",
        ),
    ] {
        let line = line.replace('\n', " ");
        assert_eq!(only(&line), (AT, expected.to_owned()), "{line}");
    }
}

#[test]
fn csv_with_names_in_any_order_and_any_delimiter() {
    for text in [
        "ip,timestamp,path,plan\n1.1.1.1,971211336,/a,pro\n",
        "\u{feff}IP;Timestamp;Path;plan;other\n1.1.1.1;2000-10-10T20:55:36Z;/a;pro;x",
        "plan\tpath\tclient_ip\ttime\r\npro\t/a\t1.1.1.1\t971211336.0\r\n",
    ] {
        assert_eq!(only(text), (AT, "ip=1.1.1.1 path=/a plan=pro".to_owned()), "{text:?}");
    }
    let quoted = "time,user,path\n971211336,\"a, \"\"b\"\"\",\"/x\"\n";
    assert_eq!(only(quoted), (AT, "path=/x user=a, \"b\"".to_owned()));
}

#[test]
fn a_better_name_wins_whatever_the_order() {
    for line in [
        r#"{"ip":"1.1.1.1","remote_addr":"2.2.2.2","time":971211336}"#,
        r#"{"remote_addr":"2.2.2.2","time":971211336,"ip":"1.1.1.1"}"#,
    ] {
        assert_eq!(only(line), (AT, "ip=1.1.1.1".to_owned()));
    }
}

#[test]
fn malformed_lines_are_counted_shown_and_survived() {
    let good = r#"1.1.1.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 1"#;
    let long = "x".repeat(70_000);
    let text = format!(
        "nonsense\n{good}\n\n1.1.1.1 - - [yesterday] \"GET /\" 200 1\n{long}\n{good}\n\u{0}\n"
    );
    let (rows, reading) = read(&text);
    assert_eq!((rows.len(), reading.malformed), (2, 4));
    let shown: Vec<_> = reading.examples.iter().map(|one| (one.line, one.why)).collect();
    let expected = [
        (1, "it has no [time]"),
        (4, "its [time] cannot be read"),
        (5, "it is longer than 64 KiB"),
        (7, "it has no [time]"),
    ];
    assert_eq!(shown, expected);
    let (_, reading) = read("{\"time\":1}\n{\"time\":\n{\"ip\":\"1\"}\n[1]\n{\"time\":2} x\n");
    let lines: Vec<_> = reading.examples.iter().map(|one| one.line).collect();
    assert_eq!((reading.requests, lines), (1, vec![2, 3, 4, 5]));
    let (_, reading) = read("time,ip\n1,a\n2\n3,b,c\n4,\"x\n5,d\n");
    assert_eq!((reading.requests, reading.malformed), (2, 3));
}

#[test]
fn packed_logs_are_unpacked_also_in_several_parts() {
    let line = r#"{"time":971211336,"ip":"1.1.1.1"}"#;
    let pack = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let mut packed = pack(&format!("{line}\n"));
    packed.extend(pack(&format!("{line}\n{line}")));
    let (rows, _) = try_read(&packed, LogReader::new(WANTED)).unwrap();
    assert_eq!(rows.len(), 3);
    packed.truncate(packed.len() - 12);
    let error = try_read(&packed, LogReader::new(WANTED)).unwrap_err().to_string();
    assert!(error.starts_with("cannot read test.log after line"), "{error}");
}

#[test]
fn a_file_that_is_not_a_log_is_refused_by_name() {
    for text in ["<html>\n<body>\n", "a,b,c\n1,2,3\n", "\u{1}\u{2}"] {
        let error = try_read(text.as_bytes(), LogReader::new(WANTED)).unwrap_err().to_string();
        assert!(error.contains("test.log: cannot tell the format from"), "{error}");
    }
    let (rows, reading) = read("");
    assert!(rows.is_empty() && reading.first.is_none());
}

#[test]
fn a_format_can_be_forced() {
    let reader = LogReader::new(WANTED).format(Some(LogLineFormat::Json));
    let (rows, reading) = try_read(b"nonsense\n{\"time\":1}\n", reader).unwrap();
    assert_eq!((rows.len(), reading.malformed), (1, 1));
}

#[test]
fn lines_out_of_order_are_put_in_order() {
    let lines: String =
        [5, 3, 4, 9, 8, 40, 7].iter().map(|at| format!("{{\"time\":{at}}}\n")).collect();
    let (rows, reading) =
        try_read(lines.as_bytes(), LogReader::new(WANTED).slack(Span::from_secs(10))).unwrap();
    let seconds: Vec<_> = rows.iter().map(|(at, _)| at / 1_000_000).collect();
    assert_eq!(seconds, [3, 4, 5, 8, 9, 9, 40]);
    assert_eq!(reading.late, 1);
}

#[test]
fn generated_logs_say_the_same_in_every_format() {
    let logs = [LogLineFormat::Common, LogLineFormat::Json, LogLineFormat::Csv].map(|format| {
        let mut bytes = Vec::new();
        LogGenerator { lines: 20_000, seed: 3, format }.write(&mut bytes).unwrap();
        let (rows, reading) = try_read(&bytes, LogReader::new(WANTED)).unwrap();
        assert_eq!((reading.requests, reading.malformed, reading.late), (20_000, 0, 0));
        assert_eq!(reading.formats, [format]);
        rows
    });
    let [common, json, csv] = logs;
    // In the common format, times are whole seconds, so equal ones may come in another order.
    assert_eq!(common.len(), json.len());
    let by = |name: &str| WANTED.iter().position(|wanted| *wanted == name).unwrap();
    for (one, two) in json.iter().zip(&csv) {
        assert_eq!(one.0, two.0);
        for name in ["ip", "method", "path", "status", "user"] {
            assert_eq!(one.1[by(name)], two.1[by(name)]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever a file contains, the worst that happens is malformed lines.
    #[test]
    fn anything_can_be_read(bytes: Vec<u8>, start in 0..4_usize) {
        let start = ["", "{\"time\":1}\n", "time,ip\n", "1 - - [10/Oct/2000:13:55:36 -0700] \"GET / H\" 2 1\n"][start];
        let mut text = start.as_bytes().to_vec();
        text.extend(&bytes);
        let _ = try_read(&text, LogReader::new(WANTED));
    }

    #[test]
    fn almost_a_line_can_be_read(text in r#"[\[\]"{}:,\\ a-z0-9/\-]{0,80}"#) {
        for start in ["{", "1.1.1.1 - - [", "time,ip\n\""] {
            let _ = try_read(format!("{start}{text}\n").as_bytes(), LogReader::new(WANTED));
        }
    }
}
