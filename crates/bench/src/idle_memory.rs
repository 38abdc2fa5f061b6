//! Measures the memory of idle connections: resident bytes before and after clients that have sent one
//! request and stay connected.
//!
//! A connection has buffers until it has been silent for a moment. Clients that all come within that
//! moment have buffers at the same time, and the allocator keeps that memory for the next burst. So
//! there are two figures: clients that come in small groups, which is what an idle connection costs, and
//! clients that come all at once, which includes what the burst leaves behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::figures::Figures;
use crate::server_memory::resident;
use crate::table;

pub(crate) fn measure(
    program: &Path,
    connections: usize,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let check = r#"{"policy":"demo","key":"alice"}"#;
    let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length:";
    let check = format!("{head} {}\r\n\r\n{check}", check.len());
    let get = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let throttle = "*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$2\r\n99\r\n$1\r\n1\r\n$2\r\n60\r\n";
    let http = ["--http", "127.0.0.1:0"];
    let service = Server::start(program, &http, "listening on http://", connections)?;
    let upstream = format!("http://{}", service.address);
    let gateway = ["--http", "off", "--gateway", "127.0.0.1:0", "--upstream", &upstream];
    let resp = ["--http", "off", "--resp", "127.0.0.1:0"];
    let mut rows = Vec::new();
    for (name, arguments, place, request) in [
        ("HTTP/1, a check", &http[..], "listening on http://", check.as_str()),
        ("HTTP/1, something else", &http, "listening on http://", get),
        ("the Redis protocol", &resp, "listening on redis://", throttle),
        ("gateway, HTTP/1", &gateway, "gateway on http://", get),
    ] {
        let mut row = vec![name.to_owned()];
        for (group, id) in
            [(GROUP, format!("idle, {name}")), (connections, format!("idle, {name}, all at once"))]
        {
            let server = Server::start(program, arguments, place, connections)?;
            // The first connections allocate what all of them share.
            let first = clients(&server, request, connections / 20, group)?;
            let before = resident(&server.child)?;
            let others = clients(&server, request, connections, group)?;
            let after = resident(&server.child)?;
            let each = after.saturating_sub(before) as f64 / connections as f64;
            figures.add(id, "kB", each / 1e3, []);
            row.push(format!("{each:.0}"));
            drop((first, others));
        }
        rows.push(row);
    }
    let header = ["has asked once and is silent", "bytes each", "came all at once"];
    let header = header.map(str::to_owned);
    table::print(&format!("Memory of {connections} connections"), &header, &rows);
    Ok(())
}

/// Clients that got an answer and have been idle since. Each group of them rests before the next comes.
#[allow(clippy::disallowed_methods, reason = "silence is what is measured")]
fn clients(
    server: &Server,
    request: &str,
    count: usize,
    group: usize,
) -> anyhow::Result<Vec<TcpStream>> {
    let mut clients = Vec::with_capacity(count);
    for number in 0..count {
        let mut client = TcpStream::connect(&server.address)
            .with_context(|| format!("client {number}: `ulimit -n` has to be above {count}"))?;
        client.write_all(request.as_bytes())?;
        if client.read(&mut [0; 4_096])? == 0 {
            bail!("client {number} got no answer");
        }
        clients.push(client);
        if clients.len().is_multiple_of(group) {
            sleep(REST);
        }
    }
    sleep(SILENCE);
    Ok(clients)
}

/// Clients that are busy at the same time when they come in groups.
const GROUP: usize = 100;
/// Longer than the pause after which a connection gives its buffers back.
const REST: Duration = Duration::from_millis(200);
/// Longer than the pause after which a client counts as idle, and than an allocator waits before it
/// returns memory.
const SILENCE: Duration = Duration::from_secs(2);

/// A server that ends when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(
        program: &Path,
        arguments: &[&str],
        place: &str,
        seats: usize,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args(["serve", "--grpc", "off", "--admin", "off", "--workers", "2"]);
        if !arguments.contains(&"--resp") {
            command.args(["--resp", "off"]);
        }
        command.args(arguments).arg("--max-connections").arg((seats * 2).to_string());
        let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| {
            format!("{}: expected the server, built for release", program.display())
        })?;
        let output = BufReader::new(child.stdout.take().context("its output")?);
        for line in output.lines() {
            let line = line?;
            if let Some(address) = line.strip_prefix(place) {
                let address = address.to_owned();
                return Ok(Self { child, address });
            }
        }
        let _ = child.kill();
        bail!("the server did not print {place:?}")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
