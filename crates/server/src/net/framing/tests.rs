//! Which requests pass, and which are corrupted.

use super::*;

/// How many bytes of a text pass when it is read in portions, and whether the last one is corrupted.
fn passed(text: &str, portion: usize) -> (usize, bool) {
    let (mut framing, mut passed) = (InboundFraming::http1_proxy(), 0);
    for bytes in text.as_bytes().chunks(portion) {
        let verdict = framing.inspect(bytes);
        passed += verdict.pass;
        if verdict.is_corrupted || verdict.pass < bytes.len() {
            return (passed, verdict.is_corrupted);
        }
    }
    (passed, false)
}

#[test]
fn requests_follow_each_other_in_any_portions() {
    let text = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
                POST /b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: Chunked\r\n\r\n\
                5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n\
                \r\nGET /c HTTP/1.1\r\nhost: a\r\n\r\n\
                GET /d HTTP/1.0\r\n\r\n";
    for portion in 1..=text.len() {
        assert_eq!(passed(text, portion), (text.len(), false), "{portion}");
    }
}

#[test]
fn what_could_be_read_in_two_ways_is_spoilt_at_the_end_of_its_head() {
    let first = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    for fields in [
        "host: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked",
        "host: a\r\ntransfer-encoding: chunked\r\ncontent-length: 5",
        "host: a\r\ncontent-length: 5\r\ncontent-length: 5",
        "host: a\r\ntransfer-encoding: gzip, chunked",
        "host: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "host: a\r\ncontent-length: +5",
        "host: a\r\ncontent-length: 0x5",
        "host: a\r\ncontent-length:",
        "host: a\r\nhost: b",
        "accept: *",
        "host: a\nx: y",
    ] {
        let head = format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
        let text = format!("{first}{head}GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n");
        for portion in 1..=text.len() {
            let expected = (first.len() + head.len(), true);
            assert_eq!(passed(&text, portion), expected, "{fields} {portion}");
        }
    }
}

#[test]
fn a_server_needs_no_host_and_never_switches() {
    let text = "GET / HTTP/1.1\r\nupgrade: h2c\r\n\r\nGET / HTTP/1.1\r\n\r\n";
    let verdict = InboundFraming::http1().inspect(text.as_bytes());
    assert_eq!(verdict, FramingVerdict { pass: text.len(), is_corrupted: false });
}

#[test]
fn nothing_is_handed_on_behind_a_broken_chunk() {
    let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    for chunks in ["5\nhello\r\n", "5;a\nhello\r\n", "x\r\n", "5\r\nhelloX", "0\r\nx: y\n\r\n"] {
        let text = format!("{head}{chunks}GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n");
        let (passed, is_corrupted) = passed(&text, text.len());
        assert!(passed <= head.len() + chunks.len() && !is_corrupted, "{chunks:?}");
    }
}

/// What hyper reads after all bytes that passed.
fn end(framing: &mut InboundFraming, room: usize) -> Vec<u8> {
    let mut bytes = vec![0; room];
    let mut buf = ReadBuf::new(&mut bytes);
    framing.end(&mut buf);
    buf.filled().to_vec()
}

#[test]
fn a_spoilt_head_has_an_end_once_there_is_room_for_it() {
    let mut framing = InboundFraming::http1_proxy();
    assert_eq!(end(&mut framing, 8), b"");
    framing.inspect(b"GET / HTTP/1.1\r\n\r\n");
    assert!(framing.is_broken());
    assert_eq!(end(&mut framing, 3), b"");
    assert_eq!(end(&mut framing, 4), b"\r\n\r\n");
    assert!(framing.is_broken());
    assert_eq!(end(&mut framing, 8), b"", "only once");
}

#[test]
fn a_head_in_part_is_known_as_such() {
    let mut framing = InboundFraming::http1();
    let is = |framing: &InboundFraming| (framing.is_in_head(), framing.is_between_requests());
    assert_eq!(is(&framing), (false, true));
    framing.inspect(b"POST / HTTP/1.1\r\ncontent-length: 2\r\n");
    assert_eq!(is(&framing), (true, false));
    framing.inspect(b"\r\na");
    assert_eq!(is(&framing), (false, false), "within a body");
    framing.inspect(b"b");
    assert_eq!(is(&framing), (false, true));
    assert_eq!((framing.last_stream(), framing.unfinished()), (0, None));
}

#[test]
fn a_head_in_part_of_http2_is_known_as_such() {
    let mut framing = InboundFraming::http2();
    assert!(framing.is_in_head() && !framing.is_between_requests());
    framing.inspect(&[0; 24]);
    assert_eq!((framing.is_in_head(), framing.last_stream()), (false, 0));
    // Three bytes of a request's head, to be continued, on stream 5.
    framing.inspect(&[0, 0, 3, 1, 0, 0, 0, 0, 5, 0, 0, 0]);
    assert_eq!((framing.is_in_head(), framing.last_stream()), (true, 5));
    let first = framing.unfinished();
    assert!(first.is_some());
    framing.inspect(&[0, 0, 0, 9, 4, 0, 0, 0, 5]);
    assert_eq!((framing.is_in_head(), framing.unfinished()), (false, None));
    framing.inspect(&[0, 0, 3, 1, 0, 0, 0, 0, 3]);
    assert_eq!(framing.last_stream(), 5, "the last is the highest");
    assert!(framing.unfinished().is_some() && framing.unfinished() != first);
}

#[test]
fn what_follows_an_upgrade_is_kept_and_nothing_else_is() {
    let head = b"GET / HTTP/1.1\r\nhost: a\r\nupgrade: x\r\n\r\n";
    let mut bytes = [b"before", &head[..], b"after"].concat();
    let mut buf = ReadBuf::new(&mut bytes);
    buf.set_filled(buf.capacity());
    let mut framing = InboundFraming::http1_proxy();
    assert_eq!(framing.follow(&mut buf, 6), b"after");
    assert_eq!(buf.filled(), [b"before", &head[..]].concat());
    let mut bytes = b"GET / HTTP/1.1\r\n\r\nmore".to_vec();
    let mut buf = ReadBuf::new(&mut bytes);
    buf.set_filled(buf.capacity());
    let mut framing = InboundFraming::http1_proxy();
    assert_eq!(framing.follow(&mut buf, 0), b"", "what is lost is not read again");
    assert_eq!(buf.filled(), b"GET / HTTP/1.1\r\n\r\0");
    assert_eq!(framing.inspect(b"more").pass, 0);
}

#[test]
fn a_chunk_is_as_long_as_its_digits_say() {
    let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    let data = "0".repeat(0x1a);
    let text = format!("{head}01a\r\n{data}\r\n1A\r\n{data}\r\n00\r\n\r\n");
    let mut framing = InboundFraming::http1();
    for (at, byte) in text.bytes().enumerate() {
        assert_eq!(framing.inspect(&[byte]).pass, 1, "{at}");
        assert_eq!(framing.is_between_requests(), at + 1 == text.len(), "{at}");
    }
    let mut framing = InboundFraming::http1();
    framing.inspect(format!("{head}ffffffffffffffff\r\n").as_bytes());
    assert!(!framing.is_broken());
    framing.inspect(b"x");
    assert!(!framing.is_between_requests());
    let mut framing = InboundFraming::http1();
    framing.inspect(format!("{head}10000000000000000\r\n").as_bytes());
    assert!(framing.is_broken());
}

#[test]
fn an_older_version_has_no_chunks() {
    for (version, is_broken) in [("1.1", false), ("1.0", true)] {
        let head = format!("POST / HTTP/{version}\r\ntransfer-encoding: chunked\r\n\r\n");
        let mut framing = InboundFraming::http1();
        framing.inspect(head.as_bytes());
        assert_eq!(framing.is_broken(), is_broken, "{version}");
    }
}

#[test]
fn a_goaway_names_the_last_stream_and_no_error() {
    let frame = goaway(0x0102_0304);
    assert_eq!(frame, [0, 0, 8, 7, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0]);
}

#[test]
fn a_head_without_end_is_given_up() {
    let mut framing = InboundFraming::http1();
    let line = [b'x'; 1 << 16];
    for _ in 0..=16 {
        framing.inspect(&line);
        assert!(!framing.is_broken());
    }
    framing.inspect(&line);
    assert!(framing.is_broken());
}

#[test]
fn an_upgrade_is_waited_for() {
    let head = "GET /ws HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\n\r\n";
    let mut framing = InboundFraming::http1_proxy();
    let verdict = framing.inspect(format!("{head}\x01\x02").as_bytes());
    assert_eq!(verdict, FramingVerdict { pass: head.len(), is_corrupted: false });
    assert!(framing.is_held());
    framing.resume(true);
    assert_eq!(framing.inspect(b"\n\n\x00\n\n").pass, 5);
    let mut framing = InboundFraming::http1_proxy();
    framing.inspect(head.as_bytes());
    framing.resume(false);
    assert_eq!(framing.inspect(head.as_bytes()).pass, head.len());
    assert!(framing.is_held());
}
