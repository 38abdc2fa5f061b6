//! Binds one TCP port with a socket for each worker.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

use crate::net::{ListenAddress, ListenError};

/// Binds as many sockets as there are workers, all on one port.
///
/// The first socket binds the port exclusively and only then sets SO_REUSEPORT for the others. With
/// SO_REUSEPORT from the beginning, a second server on the same port would go unnoticed and get half
/// of the connections.
pub(super) fn bind(
    address: &ListenAddress,
    workers: usize,
) -> Result<(Vec<TcpListener>, SocketAddr), ListenError> {
    let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for candidate in address.lookup()? {
        match bind_all(candidate, workers) {
            Ok(sockets) => return Ok(sockets),
            Err(error) => refused = error,
        }
    }
    Err(address.unavailable(refused))
}

fn bind_all(address: SocketAddr, workers: usize) -> io::Result<(Vec<TcpListener>, SocketAddr)> {
    let first = socket(address)?;
    first.bind(&address.into())?;
    first.listen(BACKLOG)?;
    first.set_reuse_port(true)?;
    let first = TcpListener::from(first);
    // Port 0 is now an actual port.
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..workers {
        let another = socket(address)?;
        another.set_reuse_port(true)?;
        another.bind(&address.into())?;
        another.listen(BACKLOG)?;
        sockets.push(another.into());
    }
    Ok((sockets, address))
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Allows a restart while old connections are still in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// How many connections can wait to be accepted; the system may allow fewer.
const BACKLOG: i32 = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_a_port_that_nobody_else_gets() {
        let any: ListenAddress = "127.0.0.1:0".parse().unwrap();
        let (sockets, place) = bind(&any, 3).unwrap();
        assert_eq!(sockets.len(), 3);
        assert!(sockets.iter().all(|socket| socket.local_addr().unwrap() == place));
        let taken: ListenAddress = place.to_string().parse().unwrap();
        let error = bind(&taken, 3).unwrap_err().to_string();
        assert!(error.contains(&format!("cannot listen on \"{place}\"")), "{error}");
        assert!(error.contains("in use"), "{error}");
        drop(sockets);
        assert!(bind(&taken, 3).is_ok());
    }

    #[test]
    fn every_worker_gets_connections() {
        let (sockets, place) = bind(&"127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let clients: Vec<_> =
            (0..64).map(|_| std::net::TcpStream::connect(place).unwrap()).collect();
        for socket in &sockets {
            assert!(socket.accept().is_ok(), "none of {} connections", clients.len());
        }
    }
}
