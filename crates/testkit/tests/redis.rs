//! One server: it starts, works, breaks and stops.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tidegate_testkit::{Redis, Reply, wait_until};

#[test]
fn it_answers_and_leaves_nothing_behind() {
    let redis = Redis::start();
    assert_eq!(redis.command(&["SET", "a", "1"]), Reply::Simple("OK".into()));
    assert_eq!(redis.command(&["INCR", "a"]), Reply::Integer(2));
    assert_eq!(redis.command(&["GET", "b"]), Reply::Bulk(None));
    assert_eq!(redis.command(&["KEYS", "*"]), Reply::Array(Some(vec![Reply::bulk("a")])));
    assert!(redis.command(&["NONSENSE"]).is_error());
    assert!(redis.command(&["DEBUG", "SLEEP", "0"]).is_ok());
    assert_eq!(redis.command(&["CONFIG", "GET", "save"]).items()[1], Reply::bulk(""));
    let dir = redis.command(&["CONFIG", "GET", "dir"]).items()[1].text();
    let pid = redis.pid();
    assert!(runs(pid) && Path::new(&dir).exists());
    drop(redis);
    assert!(!runs(pid) && !Path::new(&dir).exists());
}

#[test]
fn it_is_killed_and_comes_back_on_its_port() {
    let redis = Redis::builder().arg("maxmemory", "7mb").start();
    let (port, pid) = (redis.port(), redis.pid());
    redis.command(&["SET", "a", "1"]);
    redis.kill();
    assert!(redis.try_command(&["PING"]).is_err() && !runs(pid));
    redis.start_again();
    assert_eq!(redis.port(), port);
    assert_ne!(redis.pid(), pid);
    assert_eq!(redis.command(&["GET", "a"]), Reply::Bulk(None));
    assert_eq!(redis.info("memory")["maxmemory"], (7 << 20).to_string());
    redis.start_again();
    assert_eq!(redis.command(&["PING"]), Reply::Simple("PONG".into()));
}

#[test]
fn another_can_take_its_port() {
    let first = Redis::start();
    let port = first.port();
    drop(first);
    assert_eq!(Redis::builder().port(port).start().port(), port);
}

#[test]
fn it_can_be_stopped_and_goes_on() {
    let redis = Redis::start();
    let mut connection = redis.connect().unwrap();
    redis.pause();
    connection.send(&["PING"]).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", redis.pid())).unwrap();
    assert!(state.contains(") T "));
    redis.resume();
    assert_eq!(connection.receive().unwrap(), Reply::Simple("PONG".into()));
    redis.pause();
    let pid = redis.pid();
    drop(redis);
    assert!(!runs(pid));
}

#[test]
fn it_says_what_it_uses() {
    let redis = Redis::start();
    let (cpu, memory) = (redis.cpu_micros(), redis.used_memory());
    redis.command(&["SET", "large", &"x".repeat(1 << 20)]);
    let busy = "for i = 1, 3000000 do local x = i * i end";
    redis.command(&["EVAL", busy, "0"]).or_panic();
    assert!(redis.used_memory() >= memory + (1 << 20));
    assert!(redis.cpu_micros() > cpu + 1_000);
}

#[test]
fn it_asks_for_passwords_and_knows_users() {
    let redis = Redis::builder()
        .password("secret")
        .user("alice on >wonder ~* &* +@all")
        .unix_socket()
        .start();
    assert_eq!(redis.command(&["ACL", "WHOAMI"]), Reply::bulk("default"));
    let mut stranger =
        tidegate_testkit::Connection::open(redis.address(), Duration::from_secs(1)).unwrap();
    assert!(stranger.call(&["GET", "a"]).unwrap().text().starts_with("NOAUTH"));
    assert!(stranger.call(&["AUTH", "alice", "wonder"]).unwrap().is_ok());
    assert!(redis.unix_socket().unwrap().exists());
    assert!(redis.url().starts_with("redis://:secret@127.0.0.1:"));
}

#[test]
fn one_that_keeps_us_out_is_up_all_the_same() {
    let redis = Redis::builder().user("default off").user("alice on >wonder ~* &* +@all").start();
    assert!(redis.command(&["PING"]).text().starts_with("NOAUTH"));
}

#[test]
#[should_panic(expected = "Bad directive")]
fn its_log_is_shown_when_it_does_not_start() {
    Redis::builder().arg("no-such-setting", "1").start();
}

#[test]
#[should_panic(expected = "port taken")]
fn it_does_not_take_a_strangers_answer_for_its_own() {
    let stranger = Redis::start();
    Redis::builder().port(stranger.port()).start();
}

#[test]
fn it_lives_on_when_the_thread_that_started_it_ends() {
    let redis = std::thread::spawn(Redis::start).join().unwrap();
    let mut connection = redis.connect().unwrap();
    // The signal would come with the thread's end: it has had time to.
    for _ in 0..100 {
        assert_eq!(connection.call(&["PING"]).unwrap(), Reply::Simple("PONG".into()));
    }
}

/// The other half of the next test, run in a process of its own.
#[test]
#[ignore = "started by it_dies_with_a_process_that_is_killed"]
fn process_that_is_killed() {
    let redis = Redis::start();
    redis.pause();
    println!("server {} .", redis.pid());
    let _ = std::io::Write::flush(&mut std::io::stdout());
    std::thread::park();
}

#[test]
fn it_dies_with_a_process_that_is_killed() {
    use std::io::{BufRead, BufReader};
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--nocapture", "process_that_is_killed"]);
    let mut process = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let pid = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("server ")?.1.split_once(' ')?.0.parse::<u32>().ok());
    let pid = pid.unwrap();
    assert!(runs(pid));
    process.kill().unwrap();
    process.wait().unwrap();
    wait_until("the server to die", Duration::from_secs(5), || !runs(pid));
    let left = std::env::temp_dir().join(format!("tidegate-testkit-{}-0", process.id()));
    std::fs::remove_dir_all(left).unwrap();
}

#[test]
fn it_speaks_tls() {
    let dir = std::env::temp_dir().join(format!("tidegate-testkit-tls-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    let made = Command::new("openssl")
        .args("req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout".split(' '))
        .args([key.as_os_str(), "-out".as_ref(), cert.as_os_str()])
        .output();
    if made.is_ok_and(|made| made.status.success()) {
        let redis = Redis::builder().tls(&cert, &key, &cert).start();
        let port = redis.tls_port().unwrap().to_string();
        let mut cli = Command::new("redis-cli");
        cli.args(["--tls", "--cacert"]).arg(&cert).args(["-h", "127.0.0.1", "-p", &port, "PING"]);
        assert_eq!(cli.output().unwrap().stdout, b"PONG\n");
        assert_eq!(redis.tls_url().unwrap(), format!("rediss://127.0.0.1:{port}"));
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Whether a process is running. One that is dead and not yet reaped is not.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z ") && stat.contains("(redis-server)"))
}
