//! Unmodified third-party clients.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tidegate_testkit::{peer, peers, skipped};

use crate::support::Server;

/// Runs a program to its end, and returns what it has printed.
#[track_caller]
fn run(program: &Path, prepare: impl FnOnce(&mut Command), input: &str) -> String {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    prepare(&mut command);
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    out.replace("\r\n", "\n")
}

#[test]
fn redis_cli() {
    let Some(program) = peer("redis-cli") else { return };
    let server = Server::start();
    let port = server.address.port().to_string();
    let cli = |arguments: &[&str], input: &str| {
        let prepare = |command: &mut Command| {
            command.args(["-p", &port]).args(arguments);
        };
        run(&program, prepare, input)
    };
    assert_eq!(cli(&["PING"], ""), "PONG\n");
    assert_eq!(cli(&["CL.THROTTLE", "user123", "15", "30", "60"], ""), "0\n16\n15\n-1\n2\n");
    assert_eq!(cli(&["RL.CHECK", "demo", "alice"], ""), "1\n10\n9\n-1\n120000\nwithin_limit\n");
    let named = cli(&["-3", "RL.PEEK", "demo", "alice"], "");
    assert!(named.contains("remaining 9") || named.contains("remaining\n9"), "{named}");
    assert!(cli(&["RL.CHECK", "nope", "x"], "").contains("unknown policy \"nope\""));
    // Interactively: redis-cli sends COMMAND DOCS first, and then the commands that are typed.
    let typed = cli(&[], "RL.REFUND demo alice 1\nRL.PEEK demo alice\nECHO \"two words\"\nQUIT\n");
    assert!(
        typed.contains("OK") && typed.contains("10\n10\n") && typed.contains("two words"),
        "{typed}"
    );
    let piped = cli(&["--pipe"], "RL.CHECK demo bob\r\nRL.CHECK demo bob\r\n");
    assert!(piped.contains("errors: 0, replies: 2"), "{piped}");
}

#[test]
fn redis_cli_with_a_password() {
    let Some(program) = peer("redis-cli") else { return };
    let server = Server::with_password("sesame");
    let port = server.address.port().to_string();
    let cli = |password: &str, arguments: &[&str]| {
        let prepare = |command: &mut Command| {
            command.args(["-p", &port]).args(arguments).env("REDISCLI_AUTH", password);
        };
        run(&program, prepare, "")
    };
    assert_eq!(cli("sesame", &["PING"]), "PONG\n");
    assert_eq!(cli("sesame", &["-3", "PING"]), "PONG\n");
    assert!(cli("wrong", &["PING"]).contains("NOAUTH"));
}

const PYTHON: &str = r#"
import os, redis
port = int(os.environ["PORT"])
for protocol in (2, 3):
    client = redis.Redis(port=port, protocol=protocol, client_name="py", decode_responses=True)
    assert client.ping() is True
    assert client.echo("hi") == "hi"
    assert client.client_getname() == "py"
    assert client.info()["redis_version"] == "7.2.0"
    key = f"py{protocol}"
    assert client.execute_command("CL.THROTTLE", key, 1, 1, 60) == [0, 2, 1, -1, 60]
    with client.pipeline(transaction=False) as pipe:
        for _ in range(12):
            pipe.execute_command("RL.CHECK", "demo", key)
        answers = pipe.execute()
    if protocol == 3:
        assert answers[0] == {"allowed": 1, "limit": 10, "remaining": 9, "retry_after_ms": -1,
                              "reset_after_ms": 120000, "reason": "within_limit"}, answers[0]
        assert [answer["allowed"] for answer in answers] == [1] * 10 + [0] * 2
    else:
        assert [answer[0] for answer in answers] == [1] * 10 + [0] * 2
    try:
        client.execute_command("RL.CHECK", "nope", "x")
        assert False
    except redis.ResponseError as error:
        assert 'unknown policy "nope"' in str(error)
print("done")
"#;

#[test]
fn redis_py() {
    let Some(program) = peer("python") else { return };
    if !can(&program, &["-c", "import redis"]) {
        skipped("redis-py");
        return;
    }
    let server = Server::start();
    let port = server.address.port().to_string();
    let prepare = |command: &mut Command| {
        command.arg("-").env("PORT", port);
    };
    assert_eq!(run(&program, prepare, PYTHON), "done\n");
}

const NODE: &str = r#"
const Redis = require("ioredis");
const assert = require("assert");
(async () => {
  const client = new Redis({ port: Number(process.env.PORT), connectionName: "node" });
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.client("GETNAME"), "node");
  assert.deepEqual(await client.call("CL.THROTTLE", "js", 1, 1, 60), [0, 2, 1, -1, 60]);
  const pipeline = client.pipeline();
  for (let i = 0; i < 12; i++) pipeline.call("RL.CHECK", "demo", "js");
  // With RESP3, ioredis treats a map as a list of names and values.
  const values = (answer) => (answer.length == 12 ? answer.filter((_, at) => at % 2) : answer);
  const answers = (await pipeline.exec()).map(([error, answer]) => values(answer));
  assert.deepEqual(answers[0], [1, 10, 9, -1, 120000, "within_limit"]);
  assert.equal(answers.filter((answer) => answer[0] === 1).length, 10);
  await assert.rejects(client.call("RL.CHECK", "nope", "x"), /unknown policy "nope"/);
  await client.quit();
  console.log("done");
})();
"#;

#[test]
fn ioredis() {
    let Some(program) = peer("node") else { return };
    let modules = peers().map(|peers| peers.join("node_modules")).unwrap_or_default();
    if !modules.join("ioredis").is_dir() {
        skipped("ioredis");
        return;
    }
    let server = Server::start();
    let port = server.address.port().to_string();
    let prepare = |command: &mut Command| {
        command.arg("-").env("PORT", port).env("NODE_PATH", modules);
    };
    assert_eq!(run(&program, prepare, NODE), "done\n");
}

fn can(program: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[test]
fn the_rust_crate() {
    let server = Server::start();
    for (protocol, key) in [("resp2", "rs2"), ("resp3", "rs3")] {
        let url = format!("redis://{}/?protocol={protocol}", server.address);
        let client = redis::Client::open(url).unwrap();
        let mut connection = client.get_connection().unwrap();
        let mut throttle = redis::cmd("CL.THROTTLE");
        throttle.arg(key).arg(1).arg(1).arg(60);
        let answer: (i64, i64, i64, i64, i64) = throttle.query(&mut connection).unwrap();
        assert_eq!(answer, (0, 2, 1, -1, 60));
        let mut pipe = redis::pipe();
        for _ in 0..3 {
            pipe.add_command(throttle.clone());
        }
        let answers: Vec<Vec<i64>> = pipe.query(&mut connection).unwrap();
        assert_eq!(answers.iter().map(|answer| answer[0]).collect::<Vec<_>>(), [0, 1, 1]);
    }
}

#[tokio::test]
async fn the_rust_crate_multiplexed() {
    let server = Server::start();
    let client = redis::Client::open(format!("redis://{}/", server.address)).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let mut connection = connection.clone();
            tokio::spawn(async move {
                let mut check = redis::cmd("RL.CHECK");
                let answer: (i64, i64, i64, i64, i64, String) =
                    check.arg("demo").arg("alice").query_async(&mut connection).await.unwrap();
                answer.0
            })
        })
        .collect();
    let mut allowed = 0;
    for task in tasks {
        allowed += task.await.unwrap();
    }
    assert_eq!(allowed, 10);
}
