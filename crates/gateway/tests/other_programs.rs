//! The gateway between other programs: nginx and gRPC behind it, curl, wrk and h2load in front of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::path::Path;
use std::process::{Command, Output};

use support::echo::Echo;
use support::{Front, GENEROUS};
use tidegate_testkit::{Daemon, free_port, peer};

/// nginx with a page, a large file, a redirect and a location for uploads.
fn nginx() -> Option<(Daemon, u16)> {
    let program = peer("nginx")?;
    let port = free_port();
    let daemon = Daemon::start(&program, |directory, command| {
        std::fs::create_dir_all(directory.join("html/sub")).unwrap();
        std::fs::write(directory.join("html/index.html"), "hello from nginx\n").unwrap();
        std::fs::write(directory.join("html/sub/index.html"), "below\n").unwrap();
        let large: Vec<u8> = (0..3_000_000_u32).map(|it| (it % 253) as u8).collect();
        std::fs::write(directory.join("html/large"), large).unwrap();
        std::fs::write(directory.join("nginx.conf"), configuration(directory, port)).unwrap();
        command.arg("-p").arg(directory).args(["-c", "nginx.conf", "-e", "error.log"]);
    });
    Some((daemon.listening_on(port), port))
}

fn configuration(directory: &Path, port: u16) -> String {
    let at = directory.display();
    format!(
        "daemon off; master_process off; pid nginx.pid; events {{}}\n\
         http {{ access_log off; client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;\n\
         fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
         client_max_body_size 100m; default_type text/plain;\n\
         server {{ listen 127.0.0.1:{port}; root {at}/html;\n\
         location /seen {{ return 200 '$request_method $request_uri $host $http_x_forwarded_for'; }}\n\
         }} }}\n"
    )
}

async fn front(port: u16, policies: &str) -> Front {
    Front::start(&format!(
        "gateway: {{ upstreams: {{ up: 'http://127.0.0.1:{port}' }} }}\n{policies}"
    ))
    .await
}

async fn run(program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_sees_nginx_through_us() {
    let (Some((_nginx, port)), Some(curl)) = (nginx(), peer("curl")) else { return };
    let front = front(port, GENEROUS).await;
    let at = format!("http://{}", front.address);
    let get = async |arguments: &[&str]| {
        let output = run(&curl, &[&["-sS"], arguments].concat()).await;
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(get(&[&format!("{at}/")]).await, "hello from nginx\n");
    assert_eq!(
        get(&[&format!("{at}/%73een//x/../y/?q=1")]).await,
        "GET /seen/y/?q=1 127.0.0.1 127.0.0.1"
    );
    for protocol in ["--http1.0", "--http1.1", "--http2", "--http2-prior-knowledge"] {
        let body = get(&[protocol, "-H", "X-Forwarded-For: 6.6.6.6", &format!("{at}/seen")]).await;
        assert_eq!(body, "GET /seen 127.0.0.1 127.0.0.1", "{protocol}");
    }
    // The slash of a directory is up to nginx: the gateway neither removes nor adds it.
    assert!(get(&["-i", &format!("{at}/sub")]).await.contains("301 Moved"));
    assert_eq!(get(&[&format!("{at}/sub/")]).await, "below\n");
    // Ranges, conditions and heads are end to end.
    assert_eq!(get(&["-r", "0-4", &format!("{at}/")]).await, "hello");
    let head = get(&["-I", &format!("{at}/large")]).await;
    assert!(head.to_ascii_lowercase().contains("content-length: 3000000"), "{head}");
    let sum = run(&curl, &["-sS", &format!("{at}/large")]).await.stdout;
    assert!(sum.len() == 3_000_000 && sum[1_000_000] == (1_000_000_u32 % 253) as u8);
    let many = vec![format!("{at}/seen"); 20];
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(get(&many).await.matches("GET /seen").count(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_is_told_to_continue_and_to_wait() {
    let Some(curl) = peer("curl") else { return };
    let echo = Echo::start().await;
    let text = format!(
        "gateway: {{ upstreams: {{ up: http://{} }} }}\n\
         policies: [{{ name: p, key: [ip], limits: [1/minute] }}]",
        echo.address
    );
    let front = Front::start(&text).await;
    let target = format!("http://{}/echo", front.address);
    let upload =
        ["-sS", "-H", "Expect: 100-continue", "-d", "hello", "-w", "%{http_code}", &target];
    let first = run(&curl, &upload).await.stdout;
    assert_eq!(String::from_utf8(first).unwrap(), "hello200");
    let second = String::from_utf8(run(&curl, &upload).await.stdout).unwrap();
    assert!(second.ends_with("429") && second.contains("violated-policies"), "{second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrk_and_h2load_find_no_error() {
    let Some((_nginx, port)) = nginx() else { return };
    let front = front(port, GENEROUS).await;
    let target = format!("http://{}/", front.address);
    if let Some(wrk) = peer("wrk") {
        let output = run(&wrk, &["-t1", "-c32", "-d1s", &target]).await;
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("Requests/sec") && !text.contains("Non-2xx"), "{text}");
        assert!(!text.contains("Socket errors"), "{text}");
    }
    if let Some(h2load) = peer("h2load") {
        for protocol in [&[][..], &["--h1"]] {
            let arguments = [protocol, &["-n2000", "-c8", "-m16", &target]].concat();
            let text = String::from_utf8(run(&h2load, &arguments).await.stdout).unwrap();
            assert!(text.contains("2000 succeeded, 0 failed, 0 errored"), "{text}");
            assert!(text.contains("status codes: 2000 2xx"), "{text}");
        }
    }
}

/// The files of a certificate authority, and of a server with its certificate.
fn certificates(directory: &Path) {
    let openssl = |arguments: &str| {
        let words = arguments.split_whitespace();
        let output = Command::new("openssl").args(words).current_dir(directory).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    for authority in ["ca", "other"] {
        let names = format!("-keyout {authority}.key -out {authority}.crt -subj /CN={authority}");
        openssl(&format!("req -x509 {key} -days 2 {names}"));
    }
    openssl(&format!("req {key} -keyout server.key -out server.csr -subj /CN=server"));
    std::fs::write(directory.join("names"), "subjectAltName=DNS:localhost").unwrap();
    openssl(
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \
         -out server.crt -extfile names",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn services_are_verified_over_tls() {
    let (Some(program), Some(_)) = (peer("nginx"), peer("openssl")) else { return };
    for (http2, seen) in [("off", "HTTP/1.1"), ("on", "HTTP/2.0")] {
        let port = free_port();
        let nginx = Daemon::start(&program, |directory, command| {
            certificates(directory);
            let at = directory.display();
            let text = format!(
                "daemon off; master_process off; pid nginx.pid; events {{}}\n\
                 http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p;\n\
                 fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
                 server {{ listen 127.0.0.1:{port} ssl; http2 {http2}; ssl_certificate {at}/server.crt;\n\
                 ssl_certificate_key {at}/server.key;\n\
                 location / {{ return 200 '$server_protocol $ssl_protocol $request_uri'; }} }} }}\n"
            );
            std::fs::write(directory.join("nginx.conf"), text).unwrap();
            command.arg("-p").arg(directory).args(["-c", "nginx.conf", "-e", "error.log"]);
        });
        let nginx = nginx.listening_on(port);
        let through = async |host: &str, ca: &str| {
            let ca = nginx.directory().join(ca);
            let text = format!(
                "gateway: {{ upstreams: {{ up: {{ urls: 'https://{host}:{port}', ca: {} }} }} }}\n{GENEROUS}",
                ca.display()
            );
            Front::start(&text).await
        };
        let front = through("localhost", "ca.crt").await;
        for path in ["/one", "/two"] {
            assert_eq!(front.get(path).await.text(), format!("{seen} TLSv1.3 {path}"));
        }
        // Another authority, and a name that is not in the certificate.
        through("localhost", "other.crt").await.get("/").await.problem(502);
        through("127.0.0.1", "ca.crt").await.get("/").await.problem(502);
    }
}

/// A service with Google's gRPC library: a unary call, and a stream of responses.
const GRPC_SERVER: &str = r#"
import sys, grpc
from concurrent import futures

class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method == "/test.Echo/Once":
            def once(request, context):
                context.set_trailing_metadata((("x-length", str(len(request))),))
                return request
            return grpc.unary_unary_rpc_method_handler(once)
        if details.method == "/test.Echo/Many":
            def many(requests, context):
                for request in requests:
                    yield request * 2
            return grpc.stream_stream_rpc_method_handler(many)

server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((Handler(),))
server.add_insecure_port("127.0.0.1:" + sys.argv[1])
server.start()
server.wait_for_termination()
"#;

/// Any failure is an exception, which makes the exit status non-zero.
const GRPC_CLIENT: &str = r#"
import sys, grpc

channel = grpc.insecure_channel(sys.argv[1])
once = channel.unary_unary("/test.Echo/Once")
answer, call = once.with_call(b"x" * 100_000, timeout=20)
assert answer == b"x" * 100_000
assert ("x-length", "100000") in [tuple(pair) for pair in call.trailing_metadata()]
many = channel.stream_stream("/test.Echo/Many")
assert list(many(iter([b"a", b"b", b"c"]), timeout=20)) == [b"aa", b"bb", b"cc"]
try:
    channel.unary_unary("/test.Echo/Missing")(b"", timeout=20)
    raise SystemExit("a method that is not there")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
try:
    once(b"", timeout=20)
    raise SystemExit("past the limit")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
    assert "try again in" in error.details(), error
"#;

#[tokio::test(flavor = "multi_thread")]
async fn grpc_passes_and_its_limits_are_its_own_status() {
    let Some(python) = peer("python") else { return };
    let port = free_port();
    let server = Daemon::start(&python, |_, command| {
        command.args(["-c", GRPC_SERVER, &port.to_string()]);
    });
    let _server = server.listening_on(port);
    let text = format!(
        "gateway: {{ upstreams: {{ up: 'h2c://127.0.0.1:{port}' }} }}\n\
         policies: [{{ name: calls, key: [ip], limits: [3/minute] }}]"
    );
    let front = Front::start(&text).await;
    run(&python, &["-c", GRPC_CLIENT, &front.address.to_string()]).await;
}
