//! What packages are made of: manual pages, completions, the schema, the version, and the health check of an image.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests panic")]

mod support;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use support::{output, output_of, serve, tidegate};

/// Standard output of a command that succeeds.
fn printed(args: &[&str]) -> String {
    let Output { status, stdout, stderr } = output(args);
    assert!(status.success(), "{args:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// The names of the commands that `--help` lists.
fn commands() -> Vec<String> {
    commands_below(&["--help"])
}

fn commands_below(help: &[&str]) -> Vec<String> {
    let help = printed(help);
    let (_, list) = help.split_once("\nCommands:\n").unwrap();
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    // A description that is too long goes on further to the right.
    let lines = lines.filter(|line| !line.starts_with("   "));
    let names = lines.map(|line| line.split_whitespace().next().unwrap().to_owned());
    names.filter(|name| name != "help").collect()
}

/// The long flags that the help of a command lists.
fn flags(command: &str) -> Vec<String> {
    flags_of(&[command, "--help"])
}

fn flags_of(help: &[&str]) -> Vec<String> {
    let help = printed(help);
    let words = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let flags =
        words.flat_map(|line| line.split([' ', ',', '='])).filter(|it| it.starts_with("--"));
    flags.map(str::to_owned).collect()
}

#[test]
fn every_command_and_flag_is_completed_in_every_shell() {
    let (commands, flags) = (commands(), flags("serve"));
    assert!(commands.len() > 12 && flags.len() > 40, "{commands:?} {flags:?}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["completions", shell]);
        for word in commands.iter().map(String::as_str) {
            assert!(script.contains(word), "{shell}: no {word}");
        }
        for flag in &flags {
            // fish writes `-l http` for `--http`.
            let bare = flag.trim_start_matches('-');
            let is_there = script.contains(flag) || script.contains(&format!("-l {bare}"));
            assert!(is_there, "{shell}: no {flag}");
        }
    }
    let refused = output(&["completions", "command.com"]);
    assert_eq!(refused.status.code(), Some(2));
}

/// The shell that everybody has can read its script.
#[test]
fn bash_reads_its_completions() {
    let mut bash = std::process::Command::new("bash");
    let said = output_of(bash.args(["-n", "-c", &printed(&["completions", "bash"])]));
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn there_is_a_manual_page_for_every_command_with_every_flag() {
    let pages = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man1");
    let _ = fs::remove_dir_all(&pages);
    // A secret in the environment must not reach a page.
    let mut man = tidegate();
    man.arg("man").arg(&pages).env("TIDEGATE_STORE", "redis://:hush@redis");
    let said = output_of(&mut man);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let read = |name: &str| {
        let path = pages.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let commands = commands();
    let first = read("tidegate.1");
    for command in &commands {
        assert!(first.contains(&format!("tidegate\\-{command}(1)")), "{command} is not in {first}");
        let page = read(&format!("tidegate-{command}.1"));
        assert!(page.starts_with(".ie") || page.contains(".TH tidegate-"), "{page}");
        assert!(page.contains("Exit codes:"), "{command}: no exit codes");
        for flag in flags(command) {
            assert!(page.contains(&flag.replace('-', "\\-")), "{command}: no {flag} in {page}");
        }
    }
    let below = commands_below(&["admin", "--help"]);
    assert!(below.len() > 6, "{below:?}");
    for action in &below {
        let page = read(&format!("tidegate-admin-{action}.1"));
        for flag in flags_of(&["admin", action, "--help"]) {
            assert!(page.contains(&flag.replace('-', "\\-")), "{action}: no {flag} in {page}");
        }
    }
    assert_eq!(fs::read_dir(&pages).unwrap().count(), commands.len() + below.len() + 1);
    let serve = read("tidegate-serve.1").replace("\\-", "-");
    let help = printed(&["serve", "--help"]);
    // In one line: a long description breaks anywhere.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let variables = help.split("[env: ").skip(1).map(|rest| rest.split(['=', ']']).next().unwrap());
    let variables: Vec<_> = variables.collect();
    assert!(variables.len() > 30, "{variables:?}");
    for variable in variables {
        let sentence = format!("\\fB{variable}\\fR environment variable");
        assert!(serve.contains(&sentence), "no {sentence} in {serve}");
    }
    assert!(!serve.contains("hush"), "{serve}");
}

#[test]
fn the_schema_is_the_one_that_is_checked_in() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/policies.schema.json");
    assert!(printed(&["schema"]) == fs::read_to_string(path).unwrap());
}

#[test]
fn the_version_says_what_it_was_built_from() {
    let text = printed(&["version"]);
    let lines: Vec<_> = text.lines().collect();
    let [name, commit, date, target, profile] = lines[..] else { panic!("{text}") };
    assert_eq!(name, printed(&["--version"]).trim_end());
    assert!(commit.starts_with("commit:  ") && date.starts_with("date:    "), "{text}");
    assert!(target.contains(std::env::consts::ARCH) && profile.starts_with("profile: "), "{text}");
}

#[test]
fn health_is_an_exit_code() {
    let server = serve(&[]);
    let url = format!("http://{}", server.address());
    let ask = |args: &[&str]| {
        let said = output_of(tidegate().arg("health").args(args).env("TIDEGATE_SERVER", &url));
        let text = [said.stdout, said.stderr].concat();
        (said.status.code(), String::from_utf8(text).unwrap())
    };
    assert_eq!(ask(&[]), (Some(0), "ok\n".to_owned()));
    assert_eq!(ask(&["--ready"]), (Some(0), "ok\n".to_owned()));
    let (code, said) = ask(&["--server", "nonsense"]);
    assert!(code == Some(2) && said.contains("expected http://host:port"), "{said}");
    drop(server);
    let (code, said) = ask(&[]);
    assert!(code == Some(1) && said.starts_with(&format!("tidegate: {url}: ")), "{said}");
}

#[test]
fn an_answer_other_than_200_is_not_health() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1024];
        let length = stream.read(&mut head).unwrap();
        let reply = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 9\r\n\r\nstop\x1b[1m\n";
        stream.write_all(reply.as_bytes()).unwrap();
        String::from_utf8_lossy(&head[..length]).into_owned()
    });
    let said = output(&["health", "--ready", "--server", &url]);
    assert!(answering.join().unwrap().starts_with("GET /readyz "));
    assert_eq!(said.status.code(), Some(1));
    let text = String::from_utf8(said.stderr).unwrap();
    let expected = format!("tidegate: {url}: /readyz answers 503 Service Unavailable: stop[1m\n");
    assert_eq!(text, expected);
}
