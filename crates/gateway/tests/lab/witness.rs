//! The witnesses: programs that report which request they served.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use tidegate_testkit::{Daemon, free_port, peer, peers, skipped};

/// A framework behind a gateway or a proxy.
pub(crate) struct Witness {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    _process: Option<Daemon>,
}

impl Witness {
    /// The settings that the policy file needs for this framework.
    pub(crate) fn settings(&self) -> &'static str {
        // Its routes are the same in any letter case.
        if self.name == "Express" { "path_case: ignore\n" } else { "" }
    }
}

/// The report of a witness about a request: a JSON object with `route`, `method`, `key`, `bearer`, `user`,
/// `session` and `host`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Account(Value);

impl Account {
    /// The account in a response body, if the request was served, that is, if it had a route.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let account: Value = serde_json::from_slice(body).ok()?;
        account["route"].is_string().then_some(Self(account))
    }

    /// The values of these members.
    pub(crate) fn parts(&self, names: &[&str]) -> Vec<String> {
        names.iter().map(|name| format!("{name} {}", self.0[name])).collect()
    }
}

/// All witnesses that this machine can run, started once. A missing one is reported as skipped.
pub(crate) fn witnesses() -> &'static [Witness] {
    static WITNESSES: OnceLock<Vec<Witness>> = OnceLock::new();
    WITNESSES.get_or_init(|| {
        // Start all of them before waiting for any.
        let started: Vec<_> = PROGRAMS.iter().filter_map(Program::start).collect();
        let mut witnesses = vec![crate::axum_witness::start()];
        for (name, daemon, port) in started {
            let _process = Some(daemon.listening_on(port));
            witnesses.push(Witness { name, address: ([127, 0, 0, 1], port).into(), _process });
        }
        // The Go witness is running, so its file is no longer needed.
        let _ = std::fs::remove_file(go_program());
        witnesses
    })
}

impl Witness {
    /// A witness that runs in this process.
    pub(crate) fn here(name: &'static str, address: SocketAddr) -> Self {
        Self { name, address, _process: None }
    }
}

struct Program {
    name: &'static str,
    /// Adds the arguments that make it listen on this port.
    command: fn(&mut Command, u16),
    /// The executable, unless a dependency is missing.
    program: fn() -> Option<PathBuf>,
}

impl Program {
    fn start(&self) -> Option<(&'static str, Daemon, u16)> {
        let program = (self.program)()?;
        let port = free_port();
        let daemon = Daemon::start(&program, |_, command| {
            command.env("PYTHONPATH", folder()).env("PYTHONDONTWRITEBYTECODE", "1");
            command.env("NODE_PATH", peers().unwrap_or_default().join("node_modules"));
            (self.command)(command, port);
        });
        Some((self.name, daemon, port))
    }
}

const PROGRAMS: &[Program] = &[
    // The witnesses that start slowest come first.
    Program {
        name: "servlet in Tomcat",
        program: || java(&peers()?.join("tomcat")),
        command: |command, port| {
            let jars = peers().unwrap_or_default().join("tomcat/*");
            command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-cp"]);
            command.arg(jars).arg(folder().join("java/Witness.java")).arg(port.to_string());
        },
    },
    Program {
        name: "Go's net/http",
        program: built_by_go,
        command: |command, port| {
            command.arg(port.to_string());
        },
    },
    Program {
        name: "Django",
        program: || python("django"),
        command: |command, port| {
            command.arg(folder().join("django_app.py")).arg(port.to_string());
        },
    },
    Program {
        name: "Flask under gunicorn",
        program: || python("flask").and(python("gunicorn")),
        command: |command, port| {
            command.args(["-m", "gunicorn", "--log-level", "warning", "--threads", "4"]);
            command.args(["--header-map", "dangerous", "--bind", &format!("127.0.0.1:{port}")]);
            command.arg("flask_app:app");
        },
    },
    Program {
        name: "Starlette under uvicorn",
        program: || python("starlette").and(python("uvicorn")),
        command: |command, port| {
            command.args(["-m", "uvicorn", "--log-level", "warning", "--no-proxy-headers"]);
            command.args(["--port", &port.to_string(), "starlette_app:app"]);
        },
    },
    Program {
        name: "Node's http",
        program: || node("cookie"),
        command: |command, port| {
            command.arg(folder().join("node_http.js")).arg(port.to_string());
        },
    },
    Program {
        name: "Express",
        program: || node("express").and(node("cookie-parser")).and(node("method-override")),
        command: |command, port| {
            command.arg(folder().join("express.js")).arg(port.to_string());
        },
    },
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/witnesses")
}

/// Node, if it has this package.
fn node(package: &str) -> Option<PathBuf> {
    found(package, peers()?.join("node_modules").join(package).is_dir())?;
    peer("node")
}

/// Python, if it has this package.
fn python(package: &str) -> Option<PathBuf> {
    let python = peer("python")?;
    let import = Command::new(&python).args(["-c", &format!("import {package}")]).output();
    found(package, import.is_ok_and(|output| output.status.success()))?;
    Some(python)
}

fn java(jars: &Path) -> Option<PathBuf> {
    found("Tomcat", jars.join("installed").is_file())?;
    peer("java")
}

/// The witness in Go needs only the compiler.
fn built_by_go() -> Option<PathBuf> {
    let go = peer("go")?;
    let program = go_program();
    let mut build = Command::new(go);
    build.arg("build").arg("-o").arg(&program).arg(".").current_dir(folder().join("go"));
    let output = build.output().ok()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "go build: {errors}");
    Some(program)
}

fn go_program() -> PathBuf {
    std::env::temp_dir().join(format!("tidegate-go-witness-{}", std::process::id()))
}

fn found(what: &str, is_there: bool) -> Option<()> {
    if !is_there {
        skipped(what);
    }
    is_there.then_some(())
}
