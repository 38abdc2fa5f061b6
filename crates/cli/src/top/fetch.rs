//! Asks the admin listener.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tidegate_wire::admin::Status;

/// A server's admin listener.
pub(super) struct Server {
    /// `host:port`.
    host: String,
    token: Option<String>,
}

impl Server {
    /// By its URL.
    pub(super) fn new(url: &str, token: Option<String>) -> anyhow::Result<Self> {
        let Some(host) = url.strip_prefix("http://") else {
            bail!("{url:?}: expected http://host:port");
        };
        let host = host.trim_end_matches('/');
        if host.is_empty() || host.contains('/') {
            bail!("{url:?}: expected http://host:port");
        }
        if token.as_ref().is_some_and(|token| token.contains(char::is_control)) {
            bail!("TIDEGATE_ADMIN_TOKEN: expected a token without control characters");
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let host = if has_port { host.to_owned() } else { format!("{host}:{DEFAULT_PORT}") };
        Ok(Self { host, token })
    }

    /// How it stands.
    pub(super) fn status(&self) -> anyhow::Result<Status> {
        let answer = self.get("/admin/v1/status").with_context(|| self.host.clone())?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer that is no HTTP")?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        match status {
            "200" => serde_json::from_str(body).context("an answer of another version"),
            "401" => Err(anyhow!("{}: expected a token in TIDEGATE_ADMIN_TOKEN", self.host)),
            _ => Err(anyhow!("{}: answers {status:?}; is this its admin address?", self.host)),
        }
    }

    fn get(&self, path: &str) -> anyhow::Result<String> {
        let address = self.host.to_socket_addrs()?.next().context("no such host")?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let host = &self.host;
        let mut request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
        if let Some(token) = &self.token {
            request += &format!("authorization: Bearer {token}\r\n");
        }
        request += "\r\n";
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.take(LARGEST).read_to_string(&mut answer)?;
        Ok(answer)
    }
}

const DEFAULT_PORT: u16 = 9090;
const PATIENCE: Duration = Duration::from_secs(3);
const LARGEST: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_hosts_with_ports() {
        for (url, host) in [
            ("http://127.0.0.1:9090", Some("127.0.0.1:9090")),
            ("http://box/", Some("box:9090")),
            ("http://[::1]:1", Some("[::1]:1")),
            ("https://box", None),
            ("box:9090", None),
            ("http://box/admin", None),
            ("http://", None),
        ] {
            assert_eq!(Server::new(url, None).ok().map(|it| it.host).as_deref(), host, "{url}");
        }
        assert!(Server::new("http://box", Some("a\r\nb".to_owned())).is_err());
    }
}
