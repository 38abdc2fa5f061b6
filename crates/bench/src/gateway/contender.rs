//! Proxies that limit, and the service behind them.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use tidegate_testkit::{Daemon, free_port, peer};

use super::{OF_OTHERS, OF_PROXIES};
use crate::running;

/// A proxy, and how it is started.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// Whether it should deny everything.
    pub(crate) is_denied: bool,
    start: Box<dyn Fn() -> Option<Running>>,
}

/// A process that listens.
pub(crate) struct Running {
    pub(crate) port: u16,
    daemon: Daemon,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.daemon.pid()
    }
}

impl Contender {
    /// nginx first: it is the baseline for the others.
    pub(crate) fn all(service: u16, redis: &str) -> Vec<Self> {
        let redis = redis.to_owned();
        let named =
            |name, start: Box<dyn Fn() -> Option<Running>>| Self { name, is_denied: false, start };
        vec![
            named("nginx, limit_req", Box::new(move || nginx(service))),
            named("HAProxy, stick-table", Box::new(move || haproxy(service))),
            named("Tidegate", Box::new(move || ours(service, "memory", MANY))),
            named("Tidegate, Redis", Box::new(move || ours(service, &redis, MANY))),
            Self {
                is_denied: true,
                ..named("Tidegate, denied", Box::new(move || ours(service, "memory", "1/day")))
            },
        ]
    }

    pub(crate) fn start(&self) -> anyhow::Result<Running> {
        (self.start)().with_context(|| format!("{} is not installed", self.name))
    }
}

/// Runs a program on one core, in its own directory.
fn pinned(
    program: &Path,
    core: &str,
    prepare: impl FnOnce(&Path, &mut Command, u16),
) -> Option<Running> {
    let (taskset, port) = (peer("taskset")?, free_port());
    let daemon = Daemon::start(&taskset, |directory, command| {
        command.args(["-c", core]).arg(program);
        prepare(directory, command, port);
    });
    Some(Running { port, daemon: daemon.listening_on(port) })
}

/// The service behind the proxies: nginx with a fixed answer.
pub(crate) fn service() -> Option<Running> {
    let server = "access_log off; keepalive_requests 1000000000; server { listen 127.0.0.1:PORT \
                  backlog=4096; location / { return 200 'hello, this is the service'; } }";
    nginx_with(server, OF_OTHERS)
}

fn nginx(service: u16) -> Option<Running> {
    let server = format!(
        "access_log off; keepalive_requests 1000000000; upstream up {{ server 127.0.0.1:{service}; \
         keepalive 128; keepalive_requests 1000000000; }} \
         limit_req_zone $binary_remote_addr zone=a:10m rate=1000000r/s; \
         server {{ listen 127.0.0.1:PORT backlog=4096; location / {{ limit_req zone=a burst=100000 nodelay; \
         proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header Host $host; \
         proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme; \
         proxy_pass http://up; }} }}"
    );
    nginx_with(&server, OF_PROXIES)
}

fn nginx_with(server: &str, core: &str) -> Option<Running> {
    let program = peer("nginx")?;
    pinned(&program, core, |directory, command, port| {
        let at = directory.display();
        let server = server.replace("PORT", &port.to_string());
        let text = format!(
            "daemon off; master_process off; pid nginx.pid; events {{ worker_connections 4096; }}\n\
             http {{ client_body_temp_path {at}/b; proxy_temp_path {at}/p; \
             fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s; {server} }}\n"
        );
        let _ = std::fs::write(directory.join("nginx.conf"), text);
        command.arg("-p").arg(directory).args(["-c", "nginx.conf", "-e", "error.log"]);
    })
}

fn haproxy(service: u16) -> Option<Running> {
    let program = peer("haproxy")?;
    pinned(&program, OF_PROXIES, |directory, command, port| {
        let text = format!(
            "global\n  nbthread 1\n  maxconn 4096\ndefaults\n  mode http\n  timeout client 60s\n  \
             timeout server 60s\n  timeout connect 5s\n  option http-keep-alive\n  \
             http-reuse always\nfrontend f\n  bind 127.0.0.1:{port}\n  \
             stick-table type ip size 100k expire 60s store http_req_rate(60s)\n  \
             http-request track-sc0 src\n  \
             http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000000000 }}\n  \
             option forwardfor\n  default_backend b\nbackend b\n  server s 127.0.0.1:{service}\n"
        );
        let _ = std::fs::write(directory.join("haproxy.cfg"), text);
        command.args(["-db", "-f", "haproxy.cfg"]);
    })
}

/// The Tidegate gateway.
fn ours(service: u16, store: &str, limit: &str) -> Option<Running> {
    let program = running::servers().ok()?;
    pinned(program.get_program().as_ref(), OF_PROXIES, |_, command, port| {
        command.args(["gateway", &format!("127.0.0.1:{port}")]);
        command.args([&format!("http://127.0.0.1:{service}"), store, limit]);
    })
}

/// Moves a process to a core.
pub(crate) fn pin(pid: u32, core: &str) -> anyhow::Result<()> {
    let pid = pid.to_string();
    let output = Command::new("taskset").args(["-a", "-p", "-c", core, &pid]).output()?;
    anyhow::ensure!(output.status.success(), "taskset: {output:?}");
    Ok(())
}

/// The processor time of a process so far.
pub(crate) fn cpu_micros(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name, which may contain anything.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|it| it.parse::<u64>().ok()).sum();
    ticks * 10_000
}

const MANY: &str = "1000000000/second";
