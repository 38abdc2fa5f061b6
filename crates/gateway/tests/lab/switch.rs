//! A port that leads to one witness after the other, so that a proxy is started once for all of them.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) struct Switch {
    pub(crate) port: u16,
    target: watch::Sender<Option<SocketAddr>>,
}

impl Switch {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (target, follow) = watch::channel(None);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(join(stream, follow.clone()));
            }
        });
        Self { port, target }
    }

    /// Directs new connections to `target`, and closes the others.
    pub(crate) fn lead_to(&self, target: SocketAddr) {
        self.target.send_replace(Some(target));
    }
}

async fn join(mut client: TcpStream, mut target: watch::Receiver<Option<SocketAddr>>) {
    let Some(address) = *target.borrow_and_update() else { return };
    let Ok(mut service) = TcpStream::connect(address).await else { return };
    let _ = (client.set_nodelay(true), service.set_nodelay(true));
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut service) => {}
        _ = target.changed() => {}
    }
}
