use std::sync::Arc;

use proptest::prelude::*;
use tidegate::{ManualClock, MemoryStore, Timestamp};
use tokio::io::{AsyncReadExt, duplex};
use tokio::sync::watch;

use super::super::batch::{self, Flow};
use super::super::decode::tests::encode;
use super::super::line::Line;
use super::super::session::Session;
use super::*;
use crate::{App, Config, resp::Password};

/// What a client hears that sends these chunks, each after the previous one was answered.
async fn answers(chunks: &[Vec<u8>]) -> Vec<u8> {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let app = App::demo(MemoryStore::builder().clock(clock).build()).unwrap();
    let config = Config {
        resp_password: Some(Password::new("open sesame")),
        max_body: 4_110,
        ..Config::default()
    };
    let door = Door::new(Arc::new(app), config);
    let ((mut client, server), (_open, closing)) = (duplex(1 << 20), watch::channel(false));
    let mut session = Session::new(1, &door.config);
    let mut line = Line::new(server, &door.config, closing);
    for chunk in chunks {
        let (taken, flow) = batch::answer(&door, &mut session, &mut line, chunk).await;
        assert!(line.flush().await);
        if flow == Flow::Leave || taken < chunk.len() {
            break;
        }
    }
    drop(line);
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).await.unwrap();
    heard
}

/// Of literals of any length.
fn command(words: &[&[u8]]) -> Vec<u8> {
    encode(words)
}

/// Mostly questions that differ only in their key, and whatever else may come in between.
fn pipeline() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let keys = [&b""[..], b"a", b"b", b"a\r\n$1\r\n2", b"100000"];
    // Too long for what a command may have, or for a key.
    let long = [&[b'k'; 4_096][..], &[b'k'; 4_097]];
    let keys = prop_oneof![
        50 => prop::sample::select(keys.to_vec()),
        1 => prop::sample::select(long.to_vec()),
    ];
    let limits = [["4", "10", "60"], ["4", "10", "60"], ["4", "10", "6"], ["x", "10", "60"]];
    let asks = (keys, prop::sample::select(limits.to_vec()));
    let asks = (asks, 0..8_u8).prop_map(|((key, [burst, count, period]), variety)| {
        let name: &[u8] = if variety == 0 { b"cl.throttle" } else { b"CL.THROTTLE" };
        let words: [&[u8]; 6] =
            [name, key, burst.as_bytes(), count.as_bytes(), period.as_bytes(), b"2"];
        command(if variety == 1 { &words } else { &words[..5] })
    });
    let others = [
        &b"*2\r\n$4\r\nAUTH\r\n$11\r\nopen sesame\r\n"[..],
        b"*1\r\n$5\r\nRESET\r\n",
        b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n",
        b"CL.THROTTLE a 4 10 60\r\n",
        b"*5\r\n$11\r\nCL.THROTTLE\r\n$01\r\na\r\n$1\r\n4\r\n$2\r\n10\r\n$2\r\n60\r\n",
        b"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nab\r\n$1\r\n4\r\n$2\r\n10\r\n$2\r\n60\r\n",
        b"*5\r\n$11\r\nCL.THROTTLE\r\n$0000000000000000001\r\na\r\n$1\r\n4\r\n$2\r\n10\r\n$2\r\n60\r\n",
        b"*3\r\n$8\r\nRL.CHECK\r\n$4\r\ndemo\r\n$1\r\na\r\n",
        b"*0\r\n",
    ];
    let others = prop::sample::select(others.to_vec()).prop_map(<[u8]>::to_vec);
    prop::collection::vec(prop_oneof![12 => asks, 1 => others], 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// However commands arrive, they are answered alike.
    #[test]
    fn a_pipeline_is_answered_as_its_commands_are(pipeline in pipeline(), is_known: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let hello = is_known.then(|| command(&[b"AUTH", b"open sesame"]));
        let commands: Vec<_> = hello.into_iter().chain(pipeline).collect();
        let one_by_one = runtime.block_on(answers(&commands));
        let together = runtime.block_on(answers(&[commands.concat()]));
        prop_assert_eq!(
            String::from_utf8_lossy(&one_by_one),
            String::from_utf8_lossy(&together)
        );
    }
}

fn repeat(command: &[u8]) -> Option<Repeat<'_>> {
    let source =
        tidegate::config::Source::new("t", "policies: [{ name: a, key: [], limits: [1/s] }]");
    let plan = Plan::compile(&source.unwrap()).unwrap();
    let words: [&[u8]; 5] = [b"CL.THROTTLE", b"alice", b"4", b"10", b"60"];
    Repeat::of(command, b"alice", super::super::throttle::read(&words, &plan).unwrap())
}

#[test]
fn another_key_is_found_and_nothing_else_is() {
    let alice = command(&[b"CL.THROTTLE", b"alice", b"4", b"10", b"60"]);
    let repeat = repeat(&alice).unwrap();
    for key in [&b"alice"[..], b"", b"\r\n", &[b'k'; 4_096]] {
        let other = command(&[b"CL.THROTTLE", key, b"4", b"10", b"60"]);
        assert_eq!(repeat.find(&other), Some((key, other.len())));
        let more = [&other[..], b"*1\r\n"].concat();
        assert_eq!(repeat.find(&more), Some((key, other.len())));
        for length in 0..other.len() {
            assert_eq!(repeat.find(&other[..length]), None, "{length}");
        }
    }
    for other in [
        command(&[b"CL.THROTTLE", &[b'k'; 4_097], b"4", b"10", b"60"]),
        command(&[b"CL.THROTTLE", b"alice", b"5", b"10", b"60"]),
        command(&[b"CL.THROTTLE", b"alice", b"4", b"10", b"60", b"1"]),
        command(&[b"CL.THROTTLX", b"alice", b"4", b"10", b"60"]),
    ] {
        assert_eq!(repeat.find(&other), None);
    }
}

#[test]
fn a_line_is_not_repeated() {
    assert!(repeat(b"CL.THROTTLE alice 4 10 60\r\n").is_none());
}
