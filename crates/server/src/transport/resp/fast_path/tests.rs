//! Tests of repeated commands: they are answered as if each was parsed.

use std::sync::Arc;

use proptest::prelude::*;
use tidegate::config::PolicySource;
use tidegate::{ManualClock, MemoryStore, Timestamp};
use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio::sync::watch;

use super::super::batch::{self, RespFlow};
use super::super::decoder::{RespCommandBounds, tests::encode};
use super::super::info;
use super::super::reply::RespProtocol;
use super::super::session::RespSession;
use super::super::stream::RespStream;
use super::*;
use crate::net::seats::Seat;
use crate::resp::{Password, RespOptions};
use crate::service::metrics::MetricOutcome;
use crate::{App, ClientRights, ListenerConfig};

const POLICIES: &str = "
policies:
  - { name: demo, key: [key], limits: [10/minute] }
  - { name: pair, key: [key], limits: [4/minute, 9/hour] }
  - { name: bucket, key: [ip], limits: [2/minute burst 4], cost: 2 }
  - { name: shadow, mode: shadow, key: [key], limits: [3/minute] }
  - { name: never, key: [key], limits: [0/second] }
  - { name: counted, key: [lower(key)], limits: [2/minute], algorithm: fixed-window, count_denied: true }
  - { name: today, key: [key], limits: [{ quota: 3, per: calendar-day }] }
  - name: own
    key: [key]
    limits: [3/minute]
    overrides: { 'key=a': [5/hour], 'key=b': [1/minute, 5/hour] }
";

fn context() -> RespListenerContext<MemoryStore<ManualClock>> {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let source = PolicySource::new("limits.yaml", POLICIES).unwrap();
    let app = App::load(&source, MemoryStore::builder().clock(clock).build()).unwrap();
    let config = ListenerConfig { max_body: 4_110, ..ListenerConfig::default() };
    let options = RespOptions { password: Some(Password::new("open sesame")) };
    RespListenerContext::new(Arc::new(app.with_rights(ClientRights::ALL)), config, options)
}

/// A client together with the server's state of its connection.
struct RespTestClient<'d> {
    context: &'d RespListenerContext<MemoryStore<ManualClock>>,
    session: RespSession,
    stream: RespStream<DuplexStream>,
    client: DuplexStream,
    _open: watch::Sender<bool>,
}

impl<'d> RespTestClient<'d> {
    fn of(context: &'d RespListenerContext<MemoryStore<ManualClock>>) -> Self {
        let ((client, server), (open, closing)) = (duplex(1 << 20), watch::channel(false));
        let session = RespSession::new(1, None, &context.options);
        let stream =
            RespStream::new(server, &context.config, Seat::alone(closing), RespProtocol::default());
        Self { context, session, stream, client, _open: open }
    }

    /// Whether all commands were answered and the connection stays open.
    async fn send(&mut self, bytes: &[u8]) -> bool {
        let Self { context, session, stream, .. } = self;
        let (taken, flow) = batch::answer(context, session, stream, bytes).await;
        assert!(stream.flush().await);
        flow != RespFlow::Close && taken == bytes.len()
    }

    async fn received(self) -> String {
        let Self { stream, mut client, .. } = self;
        drop(stream);
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        String::from_utf8_lossy(&received).into_owned()
    }
}

/// The replies to these chunks, each of which is sent after the previous one was answered. A forgetful
/// server parses each chunk anew.
async fn answers(chunks: &[Vec<u8>], is_forgetful: bool) -> String {
    let context = context();
    let mut client = RespTestClient::of(&context);
    for chunk in chunks {
        if !client.send(chunk).await {
            break;
        }
        if is_forgetful {
            client.session.remember_command(None);
        }
    }
    client.received().await
}

/// Encodes literals of different lengths.
fn command(words: &[&[u8]]) -> Vec<u8> {
    encode(words)
}

/// Mostly checks that differ only in their key, with other commands in between.
fn pipeline() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let keys = [&b""[..], b"a", b"A", b"b", b"\xff", b"a\r\n$1\r\n2", b"100000", b"203.0.113.9"];
    // Too long for a command, or for a key.
    let long = [&[b'k'; 4_096][..], &[b'k'; 4_097]];
    let keys = prop_oneof![
        50 => prop::sample::select(keys.to_vec()),
        1 => prop::sample::select(long.to_vec()),
    ];
    let limits = [["4", "10", "60"], ["4", "10", "60"], ["4", "10", "6"], ["x", "10", "60"]];
    let throttles = (keys.clone(), prop::sample::select(limits.to_vec()), 0..8_u8).prop_map(
        |(key, [burst, count, period], variety)| {
            let name: &[u8] = if variety == 0 { b"cl.throttle" } else { b"CL.THROTTLE" };
            let quantity: &[u8] = if variety == 1 { b"2" } else { b"0" };
            let words: [&[u8]; 6] =
                [name, key, burst.as_bytes(), count.as_bytes(), period.as_bytes(), quantity];
            command(if variety < 3 { &words } else { &words[..5] })
        },
    );
    let policies = [
        "demo", "demo", "demo", "pair", "bucket", "shadow", "own", "nobody", "never", "counted",
        "today",
    ];
    let checks = (keys, prop::sample::select(policies.to_vec()), 0..9_u8).prop_map(
        |(key, policy, variety)| {
            let name: &[u8] = if variety == 0 { b"RL.PEEK" } else { b"RL.CHECK" };
            let ends: [&[&[u8]]; 4] = [&[b"2"], &[b"COST", b"3"], &[b"x"], &[b"99"]];
            let end = ends.get(usize::from(variety).wrapping_sub(1)).copied().unwrap_or_default();
            command(&[&[name, policy.as_bytes(), key], end].concat())
        },
    );
    // Most clients send the same over and over.
    let asks = prop_oneof![throttles, checks];
    let asks = (asks, 1..6_usize).prop_map(|(ask, times)| vec![ask; times]);
    let others = [
        &b"*2\r\n$4\r\nAUTH\r\n$11\r\nopen sesame\r\n"[..],
        b"*1\r\n$5\r\nRESET\r\n",
        b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n",
        b"CL.THROTTLE a 4 10 60\r\n",
        b"*5\r\n$11\r\nCL.THROTTLE\r\n$01\r\na\r\n$1\r\n4\r\n$2\r\n10\r\n$2\r\n60\r\n",
        b"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nab\r\n$1\r\n4\r\n$2\r\n10\r\n$2\r\n60\r\n",
        b"*5\r\n$11\r\nCL.THROTTLE\r\n$0000000000000000001\r\na\r\n$1\r\n4\r\n$2\r\n10\r\n$2\r\n60\r\n",
        b"*4\r\n$8\r\nRL.CHECK\r\n$4\r\ndemo\r\n$5\r\nkey=a\r\n$6\r\nkey2=b\r\n",
        b"*4\r\n$9\r\nRL.REFUND\r\n$4\r\ndemo\r\n$1\r\na\r\n$1\r\n2\r\n",
        b"*3\r\n$8\r\nRL.RESET\r\n$3\r\nown\r\n$1\r\na\r\n",
        b"*0\r\n",
    ];
    let others = prop::sample::select(others.to_vec()).prop_map(|other| vec![other.to_vec()]);
    let some = prop::collection::vec(prop_oneof![12 => asks, 1 => others], 1..30);
    some.prop_map(|some| some.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Commands get the same replies, however they arrive.
    #[test]
    fn a_pipeline_is_answered_as_its_commands_are(pipeline in pipeline(), is_known: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let hello = is_known.then(|| command(&[b"AUTH", b"open sesame"]));
        let commands: Vec<_> = hello.into_iter().chain(pipeline).collect();
        let anew = runtime.block_on(answers(&commands, true));
        prop_assert_eq!(&anew, &runtime.block_on(answers(&commands, false)));
        prop_assert_eq!(&anew, &runtime.block_on(answers(&[commands.concat()], false)));
    }
}

/// A repeated command is decided by the current plan.
#[tokio::test]
async fn a_repeated_command_does_not_outlive_its_plan() {
    let context = context();
    let mut client = RespTestClient::of(&context);
    let check = |key: &[u8]| command(&[b"RL.CHECK", b"demo", key]);
    assert!(client.send(&command(&[b"AUTH", b"open sesame"])).await);
    assert!(client.send(&check(b"a").repeat(3)).await);
    let changed = POLICIES.replace("10/minute", "4/minute");
    context.app.reload(&PolicySource::new("limits.yaml", changed).unwrap()).unwrap();
    assert!(client.send(&check(b"a").repeat(2)).await);
    let received = client.received().await;
    let replies: Vec<_> =
        received.split("*6\r\n").skip(1).map(|reply| reply.replace("\r\n", " ")).collect();
    assert!(replies[2].starts_with(":1 :10 :7 "), "{replies:?}");
    assert!(replies[3].starts_with(":1 :4 :0 "), "{replies:?}");
    assert!(replies[4].starts_with(":0 :4 :0 "), "{replies:?}");
}

#[tokio::test]
async fn repeated_commands_are_counted() {
    let context = context();
    let mut client = RespTestClient::of(&context);
    let metrics = context.app.metrics();
    assert!(client.send(&command(&[b"AUTH", b"open sesame"])).await);
    assert!(client.send(&command(&[b"RL.CHECK", b"demo", b"a"]).repeat(30)).await);
    assert!(client.send(&command(&[b"RL.PEEK", b"demo", b"a"]).repeat(2)).await);
    assert!(client.send(&command(&ALICE).repeat(9)).await);
    let demo = metrics.policy("demo").unwrap();
    let of = |outcome| (demo.total(outcome), metrics.ad_hoc().total(outcome));
    assert_eq!(of(MetricOutcome::Allowed), (10, 5));
    assert_eq!(of(MetricOutcome::Denied), (20, 4));
    assert_eq!(of(MetricOutcome::Peeked), (2, 0));
    let top = metrics.top().list(1);
    assert_eq!((top.busiest_total, top.busiest[0].count), (30, 30));
    assert_eq!((top.denied_total, top.denied[0].count), (20, 20));
    // One group in sixteen is timed, with all of its commands.
    let before = metrics.latency().count();
    for _ in 0..1_600 {
        assert!(client.send(&command(&[b"RL.PEEK", b"demo", b"a"]).repeat(10)).await);
    }
    let timed = metrics.latency().count() - before;
    assert!((500..2_000).contains(&timed), "{timed}");
    let info = info::text(&[b"stats"], context.app.redis_clients());
    assert!(info.contains("total_commands_processed:16042\r\n"), "{info}");
}

const ALICE: [&[u8]; 5] = [b"CL.THROTTLE", b"alice", b"4", b"10", b"60"];

fn repeat(input: &[u8]) -> Option<RespCommandTemplate> {
    let source = PolicySource::new("t", "policies: [{ name: a, key: [], limits: [1/s] }]");
    let plan = Arc::new(Plan::compile(&source.unwrap()).unwrap());
    let throttle = super::super::throttle::read(&ALICE, &plan).unwrap();
    let bounds = RespCommandBounds { words: 8, bytes: 4_096, line: 4_096 };
    let mut decoder = RespDecoder::new(input, bounds);
    decoder.next().unwrap().unwrap();
    RespCommandTemplate::of(&decoder, (&ALICE, 1), &plan, || {
        Some(RepeatedCommand::Throttle(throttle))
    })
}

#[test]
fn another_key_is_found_and_nothing_else_is() {
    let alice = command(&ALICE);
    let repeat = repeat(&alice).unwrap();
    for key in [&b"alice"[..], b"", b"\r\n", &[b'k'; 4_096]] {
        let other = command(&[b"CL.THROTTLE", key, b"4", b"10", b"60"]);
        assert_eq!(repeat.find(&other), Some((key, &b""[..])));
        let more = [&other[..], b"*1\r\n"].concat();
        assert_eq!(repeat.find(&more), Some((key, &b"*1\r\n"[..])));
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

/// A template would be useless.
#[test]
fn what_something_else_follows_is_not_repeated() {
    let alice = command(&ALICE);
    for (next, is_repeated) in [
        (&b""[..], true),
        (b"*5\r\n$11\r\nCL.", true),
        (&alice, true),
        (b"*1\r\n$4\r\nPING\r\n", false),
        (b"PING\r\n", false),
    ] {
        assert_eq!(repeat(&[&alice[..], next].concat()).is_some(), is_repeated, "{next:?}");
    }
}

/// A replaced plan is freed, however long a client stays silent.
#[tokio::test]
async fn a_silent_client_keeps_no_plan() {
    let context = context();
    let mut client = RespTestClient::of(&context);
    assert!(client.send(&command(&[b"AUTH", b"open sesame"])).await);
    assert!(client.send(&command(&[b"RL.CHECK", b"demo", b"a"]).repeat(2)).await);
    let plan = Arc::downgrade(&context.app.limiter().plan());
    context.app.reload(&PolicySource::new("limits.yaml", POLICIES).unwrap()).unwrap();
    assert_eq!(plan.strong_count(), 0);
}
