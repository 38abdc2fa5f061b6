//! Other spellings of the method and the host, and fields that override them.

use fastrand::Rng;

use super::{other_case, pick, place, replace};
use crate::request::{Request, field};

pub(super) fn respell_method(dice: &mut Rng, request: &mut Request) {
    let method = &mut request.method;
    match dice.u8(..8) {
        0 | 1 => method.make_ascii_lowercase(),
        2 | 3 => {
            let at = place(dice, method);
            let other = other_case(method[at]);
            replace(method, at..at + 1, &[other]);
        }
        4 => *method = pick(dice, METHODS).to_vec(),
        _ => {
            let name = pick(dice, OVERRIDES);
            let value = pick(dice, &["GET", "POST", "post", "PUT", "HEAD"]);
            request.fields.push(field(name, value));
        }
    }
}

const METHODS: &[&[u8]] = &[
    b"HEAD",
    b"OPTIONS",
    b"TRACE",
    b"PROPFIND",
    b"PATCH",
    b"DELETE",
    b"PUT",
    b"GET_",
    b"P.OST",
    b"get'",
    b"QUERY",
];

const OVERRIDES: &[&str] = &[
    "x-http-method-override",
    "X-HTTP-Method",
    "X-Method-Override",
    "x_http_method_override",
    "_method",
];

pub(super) fn respell_host(dice: &mut Rng, request: &mut Request) {
    let host = request.fields.iter().position(|(name, _)| name.eq_ignore_ascii_case(b"host"));
    let Some(host) = host else { return };
    let value = String::from_utf8_lossy(&request.fields[host].1).trim().to_owned();
    let mut set = |value: String| request.fields[host] = field("Host", &value);
    match dice.u8(..12) {
        0 => set(value.to_ascii_uppercase()),
        1 => set(format!("{value}{}", pick(dice, BEHIND))),
        2 | 3 => set(format!("{value}{}", pick(dice, BEHIND))),
        4 => set(format!("{}{value}", pick(dice, BEFORE))),
        5 => set(format!("[{value}]")),
        6 => set(value.replacen('.', pick(dice, &["%2e", "..", "\u{3002}", ".\t", "_"]), 1)),
        7 => {
            request.fields.remove(host);
        }
        8 => {
            request.fields.remove(host);
            request.version = b"HTTP/1.0".to_vec();
        }
        9 => request.version = b"HTTP/1.0".to_vec(),
        10 => {
            let mut url =
                pick(dice, &["http://", "HTTP://", "https://", "x://", "//"]).as_bytes().to_vec();
            let other = pick(dice, &[&value[..], "www.test", "API.TEST", "api.test:80"]);
            url.extend_from_slice(other.as_bytes());
            replace(&mut request.target, 0..0, &url);
        }
        _ => {
            let second = pick(dice, &[&value[..], "www.test", ""]);
            request.fields.push(field("host", second));
        }
    }
}

const BEHIND: &[&str] = &[
    ".",
    "..",
    ":80",
    ":8080",
    ":",
    ":080",
    ":80:80",
    ".:80",
    ":x",
    ":99999",
    ":+80",
    "%00",
    "/",
    "/x",
    "?",
    "#",
    "@evil.test",
    ", www.test",
    " ",
    "\t",
    "\\",
    ";",
    "%2e",
    ":80.",
];

const BEFORE: &[&str] =
    &["x@", "@", ".", "http://", " ", "\t", "%61", "*.", "www.test,", "\u{ff41}"];

/// Fields by which some programs let a proxy override the target of a request.
pub(super) fn add_hint(dice: &mut Rng, request: &mut Request) {
    let (name, values) = pick(dice, HINTS);
    let value = pick(dice, values);
    request.fields.push(field(name, value));
}

const PATHS: &[&str] = &["/login", "/users/@me", "/admin/reports/all"];
const HINTS: &[(&str, &[&str])] = &[
    ("X-Original-URL", PATHS),
    ("X-Rewrite-URL", PATHS),
    ("X-Original-URI", PATHS),
    ("X-Forwarded-Uri", PATHS),
    ("X-Forwarded-Path", PATHS),
    ("X-Forwarded-Prefix", &["/admin", "/users"]),
    ("X-Script-Name", &["/login", "/admin"]),
    ("X-Original-Method", &["GET", "POST"]),
    ("X-Forwarded-Method", &["GET", "POST"]),
    ("X-Forwarded-Host", &["www.test", "api.test"]),
    ("X-Host", &["www.test", "api.test"]),
    ("X-Original-Host", &["www.test", "api.test"]),
    ("Forwarded", &["host=www.test", "for=1.2.3.4;host=api.test"]),
    ("Upgrade", &["websocket", "h2c"]),
    ("Expect", &["100-continue"]),
    ("Transfer-Encoding", &["identity"]),
    ("Content-Length", &["0"]),
    ("TE", &["trailers"]),
];
