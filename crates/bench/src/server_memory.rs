//! Measures the memory of the whole server: resident bytes before and after a million keys, which come
//! over HTTP as they would from clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, anyhow, bail};

use crate::figures::Figures;
use crate::table;

/// Requests that are sent before their answers are read.
const PIPELINED: u64 = 64;

/// One connection has one worker, which allocates all tables. Several workers allocate them in turn, and
/// each keeps the memory of tables that another worker has replaced.
const CONNECTIONS: [u64; 2] = [1, 8];

/// The server's binary: the given one, or the one beside this program, where cargo puts it.
pub(crate) fn program(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    Ok(match given {
        Some(program) => program,
        None => std::env::current_exe()?.with_file_name("tidegate"),
    })
}

pub(crate) fn measure(program: &Path, keys: u64, figures: &mut Figures) -> anyhow::Result<()> {
    let rows = CONNECTIONS.iter().map(|it| row(program, keys, *it, figures));
    let rows = rows.collect::<anyhow::Result<Vec<_>>>()?;
    let header =
        ["whole server", "empty", &format!("{keys} keys"), "bytes a key"].map(str::to_owned);
    table::print("Memory of the server, sliding-window", &header, &rows);
    Ok(())
}

/// Measures one server, whose keys come over this many connections.
fn row(
    program: &Path,
    keys: u64,
    connections: u64,
    figures: &mut Figures,
) -> anyhow::Result<Vec<String>> {
    let server = Server::start(program, keys)?;
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(Client::connect(&server.address)?);
    }
    // Allocates everything that a connection needs before the first new key.
    for client in &mut clients {
        client.check(0..PIPELINED * 100, |_| 0)?;
    }
    let empty = resident(&server.child)?;
    let each = keys / connections;
    std::thread::scope(|scope| {
        let ask = |(part, client): (u64, &mut Client)| {
            client.check(part * each + 1..(part + 1) * each + 1, |number| number)
        };
        let asking = |it| scope.spawn(move || ask(it));
        let all: Vec<_> = (0..).zip(&mut clients).map(asking).collect();
        all.into_iter().try_for_each(|it| it.join().map_err(|_| anyhow!("a client panicked"))?)
    })?;
    let full = resident(&server.child)?;
    let a_key = full.saturating_sub(empty) as f64 / keys as f64;
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let s = if connections == 1 { "" } else { "s" };
    let name = format!("{connections} connection{s}");
    figures.add(format!("{name}, bytes per key"), "bytes", a_key, []);
    Ok(vec![name, megabytes(empty), megabytes(full), format!("{a_key:.1}")])
}

/// A server that ends when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(program: &Path, keys: u64) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args([
            "serve",
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "off",
            "--resp",
            "off",
            "--max-keys",
        ]);
        command.arg((keys + keys / 2 + 1_000).to_string()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| {
            format!("{}: expected the server, built for release", program.display())
        })?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
        match line.trim().strip_prefix("listening on http://") {
            Some(address) => Ok(Self { child, address: address.to_owned() }),
            None => bail!("the server printed {line:?}"),
        }
    }
}

/// How much memory a process has.
pub(crate) fn resident(child: &Child) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).context("VmRSS")?;
    Ok(kilobytes.parse::<u64>()? * 1_024)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Checks the key of each number.
    fn check(
        &mut self,
        numbers: std::ops::Range<u64>,
        key: impl Fn(u64) -> u64,
    ) -> anyhow::Result<()> {
        let mut next = numbers.start;
        let mut batch = Vec::new();
        while next < numbers.end {
            let end = numbers.end.min(next + PIPELINED);
            batch.clear();
            for number in next..end {
                let body = format!(r#"{{"policy":"demo","key":"user:{:07}"}}"#, key(number));
                let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\n";
                write!(batch, "{head}content-length: {}\r\n\r\n{body}", body.len())?;
            }
            self.0.get_mut().write_all(&batch)?;
            for _ in next..end {
                self.answer()?;
            }
            next = end;
        }
        Ok(())
    }

    fn answer(&mut self) -> anyhow::Result<()> {
        let (mut line, mut length) = (String::new(), 0);
        while self.0.read_line(&mut line)? > 2 {
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse()?;
            }
            line.clear();
        }
        std::io::copy(&mut self.0.by_ref().take(length), &mut std::io::sink())?;
        Ok(())
    }
}
