//! Configures and starts a server.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Redis;
use crate::process::{Process, free_port};
use crate::resp::Connection;
use crate::scratch::Scratch;
use crate::wait::{PATIENCE, happens, sleep};

/// Builds a [`Redis`].
///
/// ```
/// use tidegate_testkit::Redis;
///
/// let redis = Redis::builder().arg("maxmemory", "64mb").password("secret").start();
/// assert_eq!(redis.url(), format!("redis://:secret@127.0.0.1:{}", redis.port()));
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RedisBuilder {
    pub(crate) kind: Kind,
    lines: Vec<String>,
    port: Option<u16>,
    pub(crate) password: Option<String>,
    pub(crate) unix_socket: bool,
    tls: Option<[PathBuf; 3]>,
    /// Commands to run after every start, for what a configuration file cannot express.
    after: Vec<Vec<String>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Standalone,
    Cluster,
    Sentinel,
}

/// Where a server can be reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) main: u16,
    pub(crate) tls: Option<u16>,
    pub(crate) bus: Option<u16>,
}

impl RedisBuilder {
    /// Adds a line to `redis.conf`. The value is written as it is, so it may be several words; an
    /// empty one is written as `""`.
    pub fn arg(self, name: &str, value: &str) -> Self {
        let value = if value.is_empty() { "\"\"" } else { value };
        self.line(format!("{name} {value}"))
    }

    /// Adds a user, in ACL syntax: `alice on >secret ~* &* +@all`.
    pub fn user(self, rules: &str) -> Self {
        self.arg("user", rules)
    }

    /// The password of the default user, which replicas also use with their primary.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.arg("requirepass", password).arg("masterauth", password)
    }

    /// Also listens on a socket in its directory. See [`Redis::unix_socket`].
    pub fn unix_socket(self) -> Self {
        Self { unix_socket: true, ..self }
    }

    /// Listens on this port, rather than on one that happens to be free.
    pub fn port(self, port: u16) -> Self {
        Self { port: Some(port), ..self }
    }

    /// Listens for TLS on a second port. Clients need no certificate. See [`Redis::tls_url`].
    pub fn tls(self, cert: impl AsRef<Path>, key: impl AsRef<Path>, ca: impl AsRef<Path>) -> Self {
        let files = [cert.as_ref(), key.as_ref(), ca.as_ref()].map(Path::to_path_buf);
        Self { tls: Some(files), ..self }
    }

    pub(crate) fn kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    pub(crate) fn after(mut self, words: &[&str]) -> Self {
        self.after.push(words.iter().map(|&word| word.to_owned()).collect());
        self
    }

    fn line(mut self, line: String) -> Self {
        assert!(!line.contains('\n'), "one line, please: {line:?}");
        self.lines.push(line);
        self
    }

    /// Starts it, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not, with its log.
    pub fn start(self) -> Redis {
        let (dir, ports, process) = retry(|| {
            let (dir, ports) = (Scratch::new(), self.ports());
            fs::write(dir.file(CONFIG), self.config(&dir, ports)).expect("a configuration file");
            self.launch(&dir, ports).map(|process| (dir, ports, process))
        });
        Redis::new(self, dir, ports, process)
    }

    /// Starts it where it was before.
    pub(crate) fn start_again(&self, dir: &Scratch, ports: Ports) -> Process {
        retry(|| self.launch(dir, ports))
    }

    /// Starts the process in its directory; returns the log if it does not get far.
    fn launch(&self, dir: &Scratch, ports: Ports) -> Result<Process, String> {
        let mut args = vec![dir.file(CONFIG).display().to_string()];
        args.extend((self.kind == Kind::Sentinel).then(|| "--sentinel".to_owned()));
        let mut process = Process::spawn(&args, &dir.file(LOG));
        let mut up = false;
        happens(PATIENCE, || {
            let ended = process.has_ended();
            up = !ended && self.answers(ports, process.pid());
            up || ended
        });
        if up { Ok(process) } else { Err(read_log(dir)) }
    }

    /// Whether the server is up, and is the one with this process id: another may have been faster
    /// at the port.
    fn answers(&self, ports: Ports, pid: u32) -> bool {
        let Ok(mut connection) = self.connect(ports, Duration::from_secs(1)) else { return false };
        let Ok(info) = connection.call(&["INFO", "server"]) else { return false };
        // A server whose rules keep us out is up.
        let ours = info.is_error() || info.text().contains(&format!("process_id:{pid}\r"));
        let pong = connection.call(&["PING"]);
        let loading = pong.map_or(true, |pong| pong.text().starts_with("LOADING"));
        ours && !loading && self.after.iter().all(|words| connection.call(words).is_ok())
    }

    pub(crate) fn connect(&self, ports: Ports, limit: Duration) -> std::io::Result<Connection> {
        let mut connection = Connection::open(crate::process::local(ports.main), limit)?;
        if let Some(password) = &self.password {
            connection.call(&["AUTH", password])?;
        }
        Ok(connection)
    }

    fn ports(&self) -> Ports {
        Ports {
            main: self.port.unwrap_or_else(free_port),
            tls: self.tls.is_some().then(free_port),
            bus: (self.kind == Kind::Cluster).then(free_port),
        }
    }

    fn config(&self, dir: &Scratch, ports: Ports) -> String {
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("port {}", ports.main),
            format!("dir {}", dir.path().display()),
        ];
        if self.kind != Kind::Sentinel {
            lines.extend(DEFAULTS.map(str::to_owned));
        }
        if self.unix_socket {
            lines.push(format!("unixsocket {}", dir.file(SOCKET).display()));
        }
        if let Some(bus) = ports.bus {
            lines.extend(["cluster-enabled yes".to_owned(), format!("cluster-port {bus}")]);
        }
        if let (Some(port), Some([cert, key, ca])) = (ports.tls, &self.tls) {
            lines.extend([format!("tls-port {port}"), "tls-auth-clients no".to_owned()]);
            lines.push(format!("tls-cert-file {}", cert.display()));
            lines.push(format!("tls-key-file {}", key.display()));
            lines.push(format!("tls-ca-cert-file {}", ca.display()));
        }
        lines.extend(self.lines.iter().cloned());
        lines.join("\n") + "\n"
    }
}

pub(crate) fn read_log(dir: &Scratch) -> String {
    let log = fs::read(dir.file(LOG)).unwrap_or_default();
    String::from_utf8_lossy(&log).into_owned()
}

/// Tries again if the port was taken, even if only while another test checked whether it is free.
fn retry<T>(start: impl Fn() -> Result<T, String>) -> T {
    const TRIES: u32 = 5;
    for _ in 0..TRIES {
        match start() {
            Ok(started) => return started,
            Err(log) if is_lost_race(&log) => sleep(Duration::from_millis(50)),
            Err(log) => panic!("redis-server did not start:\n{log}"),
        }
    }
    panic!("redis-server found its port taken {TRIES} times");
}

/// Whether another process took the port after we found it free.
fn is_lost_race(log: &str) -> bool {
    log.contains("Address already in use")
}

const DEFAULTS: [&str; 4] = [
    "save \"\"",
    "appendonly no",
    "enable-debug-command yes",
    // With diskless sync, a replica may report its link up a second before any write reaches it.
    "repl-diskless-sync no",
];

const CONFIG: &str = "redis.conf";
const LOG: &str = "redis.log";
pub(crate) const SOCKET: &str = "redis.sock";
