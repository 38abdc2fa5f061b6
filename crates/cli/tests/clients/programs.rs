//! The programs of docs/clients.md print what the page says.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Tidegate, page, peers, said};

/// Runs a program until it prints what the page says. On a busy machine it may miss its own deadline, so
/// it has three tries, each with a new server.
#[track_caller]
fn prints_what_the_page_says(command: impl Fn(&Tidegate) -> Command) {
    let expected = format!("{}\n", page::snippet("expected"));
    let mut failures = String::new();
    for _ in 0..3 {
        let tidegate = Tidegate::start();
        let output = tidegate.output(&mut command(&tidegate));
        if String::from_utf8_lossy(&output.stdout) == expected && output.status.success() {
            return;
        }
        failures += &said(&output);
    }
    panic!("{failures}");
}

/// Runs a program that is one file.
#[track_caller]
fn run(program: Option<PathBuf>, arguments: &[&str], snippet: &str) {
    let Some(program) = program else { return };
    prints_what_the_page_says(|tidegate| {
        // Not under its own name: `redis.py` would hide the package.
        let extension = Path::new(snippet).extension().unwrap().to_str().unwrap();
        let file = tidegate.write(snippet, &format!("Check.{extension}"));
        let mut command = Command::new(&program);
        command.args(arguments).arg(file);
        command
    });
}

#[test]
fn redis_py() {
    run(peers::python("redis"), &[], "redis.py");
}

#[test]
fn httpx() {
    run(peers::python("httpx"), &[], "httpx.py");
}

#[test]
fn ioredis() {
    run(peers::node("ioredis"), &[], "ioredis.js");
}

#[test]
fn node_redis() {
    run(peers::node("redis"), &[], "node-redis.js");
}

#[test]
fn fetch() {
    run(tidegate_testkit::peer("node"), &[], "fetch.js");
}

#[test]
fn go_redis() {
    let Some((go, library)) = peers::library("go", "go-redis") else { return };
    prints_what_the_page_says(|tidegate| {
        let file = tidegate.write("go-redis.go", "main.go");
        // Within the module that has the library, where its packages are compiled once.
        let mut command = go_in(&go, &library);
        command.args(["run", "-mod=vendor"]).arg(file);
        command
    });
}

#[test]
fn net_http() {
    let Some(go) = tidegate_testkit::peer("go") else { return };
    prints_what_the_page_says(|tidegate| {
        let file = tidegate.write("net-http.go", "main.go");
        let mut command = go_in(&go, tidegate.scratch.path());
        command.arg("run").arg(file);
        command
    });
}

fn go_in(go: &Path, directory: &Path) -> Command {
    let mut command = Command::new(go);
    command.env("GOTOOLCHAIN", "local").env_remove("GOFLAGS").arg("-C").arg(directory);
    command
}

#[test]
fn jedis() {
    java("jedis");
}

#[test]
fn lettuce() {
    java("lettuce");
}

/// Runs a program with a library.
#[track_caller]
fn java(library: &str) {
    let Some((java, directory)) = peers::library("java", library) else { return };
    let classes = format!("{}/*", directory.display());
    run(Some(java), &["-cp", &classes], &format!("{library}.java"));
}

#[test]
fn java_s_own_http() {
    run(tidegate_testkit::peer("java"), &[], "http.java");
}

#[test]
fn phpredis() {
    let php = peers::php("php-redis", "exit(extension_loaded('redis') ? 0 : 1);");
    run(php, &[], "phpredis.php");
}

#[test]
fn predis() {
    let autoload = "Predis/autoload.php";
    let php = peers::php("predis", &format!("exit(@include('{autoload}') ? 0 : 1);"));
    let Some(php) = php else { return };
    prints_what_the_page_says(|tidegate| {
        // Where composer would put it.
        std::fs::create_dir(tidegate.scratch.file("vendor")).unwrap();
        tidegate.scratch.write("vendor/autoload.php", &format!("<?php require '{autoload}';"));
        let mut command = Command::new(&php);
        command.arg(tidegate.write("predis.php", "check.php"));
        command
    });
}
