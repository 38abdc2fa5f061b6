//! Secured connections.

use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_store::StoreErrorKind;
use tidegate_testkit::Redis;

use super::*;

/// A directory with certificates, gone when dropped.
struct Certificates(PathBuf);

impl Certificates {
    /// `ca.crt`, `server.crt` and `server.key` for 127.0.0.1, and `other.crt`, which signed
    /// nothing.
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("tidegate-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let new = Self(dir);
        for authority in ["ca", "other"] {
            new.openssl(&format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
                 -keyout {authority}.key -out {authority}.crt -subj /CN={authority}"
            ));
        }
        new.openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout server.key \
             -out server.csr -subj /CN=server",
        );
        std::fs::write(new.path("names"), "subjectAltName=IP:127.0.0.1,DNS:localhost").unwrap();
        new.openssl(
            "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \
             -out server.crt -extfile names",
        );
        new
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    fn openssl(&self, args: &str) {
        let output =
            Command::new("openssl").args(args.split_whitespace()).current_dir(&self.0).output();
        let output = output.expect("openssl");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn redis(&self) -> Redis {
        let [cert, key, ca] = ["server.crt", "server.key", "ca.crt"].map(|file| self.path(file));
        Redis::builder().tls(cert, key, ca).start()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn trusting(url: &str, ca: &Path) -> RedisLink {
    link_of(config(url).ca_file(ca).connect_timeout(std::time::Duration::from_secs(5)))
}

#[tokio::test]
async fn a_server_is_trusted_if_its_authority_is() {
    let certificates = Certificates::new("trust");
    let redis = certificates.redis();
    let url = redis.tls_url().unwrap();
    let misconfigured = StoreErrorKind::Misconfigured;

    let link = trusting(&url, &certificates.path("ca.crt"));
    assert_eq!(count(&link, "k").await.unwrap(), 1);
    let by_name = trusting(&url.replace("127.0.0.1", "localhost"), &certificates.path("ca.crt"));
    assert_eq!(count(&by_name, "k").await.unwrap(), 2);
    let with_client = link_of(
        config(&url)
            .ca_file(certificates.path("ca.crt"))
            .client_cert(certificates.path("server.crt"), certificates.path("server.key")),
    );
    assert_eq!(count(&with_client, "k").await.unwrap(), 3);

    let stranger = trusting(&url, &certificates.path("other.crt"));
    assert_failed(count(&stranger, "k").await, misconfigured, CallOutcome::NotRun);
    let system = link_of(config(&url).connect_timeout(PATIENCE));
    assert_failed(count(&system, "k").await, misconfigured, CallOutcome::NotRun);
    let wrong_name =
        trusting(&url.replace("127.0.0.1", "[::ffff:127.0.0.1]"), &certificates.path("ca.crt"));
    assert_failed(count(&wrong_name, "k").await, misconfigured, CallOutcome::NotRun);
    for file in ["missing.crt", "names"] {
        let unreadable = trusting(&url, &certificates.path(file));
        assert_failed(count(&unreadable, "k").await, misconfigured, CallOutcome::NotRun);
    }
    let plain = trusting(&redis.url().replace("redis:", "rediss:"), &certificates.path("ca.crt"));
    let failure = count(&plain, "k").await.unwrap_err();
    assert_eq!(failure.outcome, CallOutcome::NotRun, "{failure}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_authority_is_noticed() {
    let certificates = Certificates::new("change");
    let redis = certificates.redis();
    let trusted = certificates.path("trusted.crt");
    std::fs::copy(certificates.path("other.crt"), &trusted).unwrap();
    let link = trusting(&redis.tls_url().unwrap(), &trusted);
    assert_failed(count(&link, "k").await, StoreErrorKind::Misconfigured, CallOutcome::NotRun);
    std::fs::copy(certificates.path("ca.crt"), &trusted).unwrap();
    assert_eq!(count_soon(&link, "k", std::time::Duration::from_secs(3)).await, 1);
}
