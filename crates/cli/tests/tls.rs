//! `tidegate serve` with certificates.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use support::{Server, failure, output, output_of, tidegate};
use tidegate_testkit::peer;

/// A directory with a certificate that is its own authority.
struct Certificates(PathBuf);

impl Certificates {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let certificates = Self(path);
        certificates.renew();
        certificates
    }

    fn renew(&self) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(self.file("key"), key.serialize_pem()).unwrap();
        std::fs::write(self.file("crt"), params.self_signed(&key).unwrap().pem()).unwrap();
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.0.join(format!("server.{extension}"))
    }

    fn serve(&self) -> Server {
        let mut command = tidegate();
        command.args(["serve", "--http", "127.0.0.1:0", "--tls-cert"]).arg(self.file("crt"));
        command.arg("--tls-key").arg(self.file("key")).stderr(Stdio::piped());
        Server::start(&mut command)
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether curl accepts the certificate in the file.
fn is_trusted(curl: &Path, server: &Server, certificates: &Certificates) -> bool {
    let port = server.said("listening on https://").rsplit(':').next().unwrap();
    let mut command = Command::new(curl);
    command.args(["-sf", "--max-time", "10", "--cacert"]).arg(certificates.file("crt"));
    command.arg(format!("https://localhost:{port}/healthz")).status().unwrap().success()
}

#[test]
fn a_renewed_certificate_is_in_use_after_sighup_and_a_bad_one_never() {
    let Some(curl) = peer("curl") else { return };
    let certificates = Certificates::new("renewed");
    let mut server = certificates.serve();
    assert!(server.said("try: curl ").contains("--cacert"));
    assert!(is_trusted(&curl, &server, &certificates));
    let mut log = server.log();

    certificates.renew();
    server.send("HUP");
    // The key may be seen first on its own, and refused.
    assert!(log.any(|line| line == "TLS: a new certificate is in use"));
    assert!(is_trusted(&curl, &server, &certificates));

    let good = std::fs::read(certificates.file("crt")).unwrap();
    std::fs::write(certificates.file("crt"), "nonsense").unwrap();
    server.send("HUP");
    assert!(log.any(|line| line.starts_with("TLS: refused")));
    std::fs::write(certificates.file("crt"), good).unwrap();
    assert!(is_trusted(&curl, &server, &certificates));
    assert_eq!(server.signal("TERM"), Some(0));
}

#[test]
fn certificates_that_cannot_be_used_are_refused() {
    let certificates = Certificates::new("refused");
    let (cert, key) = (certificates.file("crt"), certificates.file("key"));
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let serve =
        |args: &[&str]| failure(&output(&[&["serve", "--http", "127.0.0.1:0"], args].concat()));
    assert!(serve(&["--tls-cert", cert]).contains("expected --tls-key as well"));
    assert!(serve(&["--tls-key", key]).contains("expected --tls-cert as well"));
    assert!(serve(&["--tls-client-ca", cert]).contains("expected --tls-cert and --tls-key"));
    assert!(serve(&["--admin-client-ca", cert]).contains("expected --tls-cert and --tls-key"));
    let swapped = serve(&["--tls-cert", key, "--tls-key", cert]);
    assert!(swapped.contains(key) && swapped.contains("BEGIN CERTIFICATE"), "{swapped}");
    let absent = serve(&["--tls-cert", "/nowhere/x.crt", "--tls-key", key]);
    assert!(absent.contains("cannot read /nowhere/x.crt"), "{absent}");
}

#[test]
fn operators_who_show_a_certificate_need_no_token_and_others_get_nowhere() {
    let Some(curl) = peer("curl") else { return };
    let certificates = Certificates::new("operators");
    let (cert, key) = (certificates.file("crt"), certificates.file("key"));
    let mut command = tidegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--admin", "0.0.0.0:0"]);
    command.arg("--tls-cert").arg(&cert).arg("--tls-key").arg(&key);
    command.arg("--admin-client-ca").arg(&cert);
    let server = Server::start(&mut command);
    let port = server.said("admin on https://0.0.0.0:");
    let ask = |with: &[&Path]| {
        let mut command = Command::new(&curl);
        command.args(["-sf", "--max-time", "10", "--cacert"]).arg(&cert);
        for (flag, file) in ["--cert", "--key"].iter().zip(with) {
            command.arg(flag).arg(file);
        }
        let output = command.arg(format!("https://localhost:{port}/admin/v1/status")).output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (is_answered, status) = ask(&[&cert, &key]);
    assert!(is_answered && status.contains("\"policies\""), "{status}");
    assert_eq!(ask(&[]), (false, String::new()));

    let top = |with: &[&Path]| {
        let mut command = tidegate();
        command.args(["top", "--once", "--admin", &format!("https://localhost:{port}")]);
        for (flag, file) in ["--cert", "--key"].iter().zip(with) {
            command.arg(flag).arg(file);
        }
        let output = command.env("SSL_CERT_FILE", &cert).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, shown) = top(&[&cert, &key]);
    assert!(code == Some(0) && shown.contains("store: memory"), "{shown}");
    let (code, said) = top(&[]);
    assert!(code == Some(2) && said.contains("cannot reach https://localhost:"), "{said}");
    let (code, said) = top(&[&key, &cert]);
    assert!(code == Some(2) && said.contains("cannot use "), "{said}");
}

#[test]
fn a_certificate_of_ours_alone_opens_the_admin_listener_to_nobody() {
    let certificates = Certificates::new("alone");
    let (cert, key) = (certificates.file("crt"), certificates.file("key"));
    let mut command = tidegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--admin", "0.0.0.0:0"]);
    command.arg("--tls-cert").arg(&cert).arg("--tls-key").arg(&key);
    let said = failure(&output_of(&mut command));
    assert!(said.contains("would be open to everybody who can reach it"), "{said}");
    assert!(said.contains("expected a token (--admin-tokens-file), certificates"), "{said}");
}

#[test]
fn attack_09_a_certificate_of_a_client_is_not_that_of_an_operator() {
    let Some(curl) = peer("curl") else { return };
    let [clients, operators] = ["of-clients", "of-operators"].map(Certificates::new);
    let serve = || {
        let mut command = tidegate();
        command.args(["serve", "--http", "127.0.0.1:0", "--admin", "0.0.0.0:0", "--tls-cert"]);
        command.arg(clients.file("crt")).arg("--tls-key").arg(clients.file("key"));
        command.arg("--tls-client-ca").arg(clients.file("crt"));
        command
    };
    // Clients have certificates, but nothing identifies operators.
    let said = failure(&output_of(&mut serve()));
    assert!(said.contains("certificates of operators (--admin-client-ca)"), "{said}");

    let mut command = serve();
    command.arg("--admin-client-ca").arg(operators.file("crt")).stderr(Stdio::piped());
    let mut server = Server::start(&mut command);
    let admin = server.said("admin on https://0.0.0.0:").to_owned();
    let http = server.said("listening on https://").rsplit(':').next().unwrap().to_owned();
    let ask = |port: &str, path: &str, who: &Certificates, more: &[&str]| {
        let mut command = Command::new(&curl);
        command.args(["-s", "--max-time", "10", "-w", "%{http_code}", "-o", "/dev/null"]);
        command.args(more).arg("--cacert").arg(clients.file("crt"));
        command.arg("--cert").arg(who.file("crt")).arg("--key").arg(who.file("key"));
        let output = command.arg(format!("https://localhost:{port}{path}")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(ask(&http, "/readyz", &clients, &[]), "200");
    assert_eq!(ask(&admin, "/admin/v1/status", &clients, &[]), "000");
    assert_eq!(ask(&admin, "/admin/v1/status", &operators, &[]), "200");
    assert_eq!(ask(&http, "/readyz", &operators, &[]), "000");
    // Changes have a name in the log.
    let json = ["-H", "content-type: application/json", "-d", r#"{"policy": "demo", "key": "a"}"#];
    assert_eq!(ask(&admin, "/admin/v1/reset", &operators, &json), "200");
    let mut log = server.log();
    let is_told = |line: String| {
        line.contains("reset policy=demo")
            && line.contains(", by certificate ")
            && line.ends_with(" from 127.0.0.1")
    };
    assert!(log.any(is_told));
    let form = ["-d", r#"{"policy": "demo", "key": "a"}"#];
    assert_eq!(ask(&admin, "/admin/v1/reset", &operators, &form), "415");
}

#[test]
fn a_token_is_asked_for_over_tls_too_and_beside_a_certificate() {
    let Some(curl) = peer("curl") else { return };
    let certificates = Certificates::new("both");
    let (cert, key) = (certificates.file("crt"), certificates.file("key"));
    let token = "0123456789abcdef0123456789abcdef";
    for wants_certificate in [false, true] {
        let mut command = tidegate();
        command.args(["serve", "--http", "127.0.0.1:0", "--admin", "0.0.0.0:0"]);
        command.arg("--tls-cert").arg(&cert).arg("--tls-key").arg(&key);
        if wants_certificate {
            command.arg("--tls-client-ca").arg(&cert);
        }
        let server = Server::start(command.env("TIDEGATE_ADMIN_TOKENS", format!("read {token}")));
        let port = server.said("admin on https://0.0.0.0:");
        // curl prints the status, or 000 if there was no answer.
        let ask = |method: &str, path: &str, has_certificate: bool, token: &str| {
            let mut command = Command::new(&curl);
            command.args(["-s", "--max-time", "10", "-w", "%{http_code}", "-o", "/dev/null"]);
            command.args(["-X", method, "-H", &format!("authorization: Bearer {token}")]);
            if method == "POST" {
                command.args(["-H", "content-type: application/json", "-d", "{}"]);
            }
            command.arg("--cacert").arg(&cert);
            if has_certificate {
                command.arg("--cert").arg(&cert).arg("--key").arg(&key);
            }
            let url = format!("https://localhost:{port}/admin/v1{path}");
            String::from_utf8(command.arg(url).output().unwrap().stdout).unwrap()
        };
        assert_eq!(ask("GET", "/status", true, token), "200");
        assert_eq!(ask("GET", "/status", true, "wrong-wrong-wrong-wrong-wrong"), "401");
        let without = if wants_certificate { "000" } else { "200" };
        assert_eq!(ask("GET", "/status", false, token), without);
        // Read access is not enough. Several times, since an answer could overtake the body.
        for path in ["/reset", "/reload", "/reset", "/refund", "/overrides"] {
            assert_eq!(ask("POST", path, true, token), "403", "{path}");
        }
    }
}

#[test]
fn check_and_health_present_a_certificate_to_a_server_that_requires_one() {
    let certificates = Certificates::new("checked");
    let (cert, key) = (certificates.file("crt"), certificates.file("key"));
    let mut command = tidegate();
    command.args(["serve", "--http", "127.0.0.1:0"]).arg("--tls-client-ca").arg(&cert);
    let server = Server::start(command.arg("--tls-cert").arg(&cert).arg("--tls-key").arg(&key));
    let port = server.said("listening on https://").rsplit(':').next().unwrap();
    let ask = |args: &str, with: &[&Path]| {
        let mut command = tidegate();
        command.args(args.split(' ')).args(["--server", &format!("https://localhost:{port}")]);
        for (flag, file) in ["--cert", "--cert-key"].iter().zip(with) {
            command.arg(flag).arg(file);
        }
        command.env("SSL_CERT_FILE", &cert).output().unwrap().status.code()
    };
    for (args, refused) in [("check --policy demo --key a", 2), ("health", 1)] {
        assert_eq!((ask(args, &[&cert, &key]), ask(args, &[])), (Some(0), Some(refused)), "{args}");
    }
}

#[test]
fn a_certificate_that_check_refuses_is_refused_in_words() {
    let [mine, other] = ["of-authority", "of-others"].map(Certificates::new);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // A different name from the others, which it has not signed.
    params.distinguished_name.push(DnType::CommonName, "an authority");
    std::fs::write(mine.file("key"), key.serialize_pem()).unwrap();
    std::fs::write(mine.file("crt"), params.self_signed(&key).unwrap().pem()).unwrap();
    let check = |server: &Server| {
        let port = server.said("listening on https://").rsplit(':').next().unwrap();
        let mut command = tidegate();
        command.args(["check", "--policy", "demo", "--key", "a", "--server"]);
        command.arg(format!("https://localhost:{port}"));
        failure(&command.env("SSL_CERT_FILE", mine.file("crt")).output().unwrap())
    };
    let said = check(&mine.serve());
    assert!(said.contains("its certificate belongs to an authority: expected"), "{said}");
    let said = check(&other.serve());
    assert!(
        said.contains("its certificate is not from an authority that this system trusts"),
        "{said}"
    );
}
