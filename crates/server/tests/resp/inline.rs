//! Inline commands, which are parsed exactly as Redis does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tidegate_testkit::Redis;

use crate::support::Server;

/// The message of an `ECHO`, as Redis 7 answers; `None` if it closes because of unbalanced quotes.
const LINES: [(&[u8], Option<&[u8]>); 26] = [
    (b"ECHO key=\"al ice\"", Some(b"key=al ice")),
    (b"ECHO a\"b c\"", Some(b"ab c")),
    (b"ECHO x'y z'", Some(b"xy z")),
    (b"ECHO ax4\"\"", Some(b"ax4")),
    (b"EC\"HO\" x", Some(b"x")),
    (b"ECHO \"\"", Some(b"")),
    (b"ECHO 'a\"b'", Some(b"a\"b")),
    (b"ECHO it's", None),
    (b"ECHO \"a\"b", None),
    (b"ECHO \"a\"'b'", None),
    (b"ECHO ''''", None),
    (b"ECHO a\"b", None),
    (b"ECHO \"a\\\"", None),
    (b"ECHO a'b\\'", None),
    (b"ECHO 'it\\'s'", Some(b"it's")),
    (b"ECHO '\\x41'", Some(b"\\x41")),
    (b"ECHO \"\\x41\"", Some(b"A")),
    (b"ECHO \"\\x4\"", Some(b"x4")),
    (b"ECHO \"a\\qb\\n\\r\\t\\b\\a\"", Some(b"aqb\n\r\t\x08\x07")),
    (b"ECHO a\\\"b\"", Some(b"a\\b")),
    (b"ECHO a\\", Some(b"a\\")),
    (b"ECHO \x0bab", Some(b"ab")),
    (b"\x0b\x0cECHO \"a\"\x0b", Some(b"a")),
    (b"ECHO a\x0bb\x0c", Some(b"a\x0bb\x0c")),
    (b"ECHO \"\x0b\"", Some(b"\x0b")),
    (b" \t ECHO \t a \t", Some(b"a")),
];

#[test]
fn lines_are_read_as_redis_reads_them() {
    let (ours, theirs) = (Server::start(), Redis::start());
    for (line, message) in LINES {
        let expected = match message {
            Some(text) => {
                let head = format!("${}\r\n", text.len());
                [head.as_bytes(), text, b"\r\n+PONG\r\n"].concat()
            }
            None => b"-ERR Protocol error: unbalanced quotes in request\r\n".to_vec(),
        };
        let readable = |bytes: &[u8]| bytes.escape_ascii().to_string();
        for address in [ours.address, theirs.address()] {
            let answer = answer(address, line, expected.len());
            assert_eq!(readable(&answer), readable(&expected), "{}", readable(line));
        }
    }
}

/// The reply to a line and a `PING`, of at most this length.
fn answer(address: SocketAddr, line: &[u8], most: usize) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&[line, b"\r\nPING\r\n"].concat()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.take(most as u64).read_to_end(&mut answer);
    answer
}
