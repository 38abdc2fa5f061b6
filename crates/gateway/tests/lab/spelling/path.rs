//! Other spellings of a path.

use fastrand::Rng;

use super::{escaped, other_case, pick, place, replace};
use crate::request::Request;

pub(super) fn respell(dice: &mut Rng, request: &mut Request) {
    let end = request.target.iter().position(|byte| *byte == b'?');
    let query = request.target.split_off(end.unwrap_or(request.target.len()));
    respell_path(dice, &mut request.target);
    request.target.extend(query);
}

fn respell_path(dice: &mut Rng, path: &mut Vec<u8>) {
    let at = place(dice, path);
    let Some(byte) = path.get(at).copied() else { return };
    match dice.u8(..12) {
        0..4 => replace(path, at..at + 1, &escaped(dice, byte)),
        4 => replace(path, at..at + 1, &[other_case(byte)]),
        5 => path.make_ascii_uppercase(),
        6 => {
            // Escaped twice.
            let escaped = escaped(dice, byte);
            replace(path, at..at + 1, &[b"%25", &escaped[1..]].concat());
        }
        7 => replace(path, at..at, pick(dice, ANYWHERE)),
        8 => path.extend_from_slice(pick(dice, AT_THE_END)),
        9 | 10 => {
            let slashes: Vec<_> = (0..path.len()).filter(|at| path[*at] == b'/').collect();
            if !slashes.is_empty() {
                let slash = pick(dice, &slashes);
                replace(path, slash..slash + 1, pick(dice, SLASHES));
            }
        }
        _ => {
            let lookalike = LOOKALIKES.iter().find(|(plain, _)| *plain == byte);
            let by = lookalike.map_or(&b"%EF%BC%A0"[..], |(_, other)| other);
            replace(path, at..at + 1, by);
        }
    }
}

/// Bytes that some programs read as one slash.
const SLASHES: &[&[u8]] = &[
    b"//",
    b"/./",
    b"/x/../",
    b"/%2e/",
    b"/x/%2E%2e/",
    b"/..;/",
    b"/x/..;/",
    b"/x/..;a=b/",
    b"/;/",
    b"/;a/",
    b"/;a=b/",
    b"/.;/",
    b"%2f",
    b"%2F",
    b"/%2f",
    b"\\",
    b"%5c",
    b"/\\",
    b"\\/",
    b"%c0%af",
    b"%e0%80%af",
    b"%u002f",
    b"%252f",
    b"/../",
    b"/%20/../",
    b"/.%00/",
    b"/%3b/",
    b"/..%3b/",
    b"/.../",
];

const ANYWHERE: &[&[u8]] = &[
    b"%00",
    b"%09",
    b"%0a",
    b"%0d%0a",
    b"%20",
    b"%7f",
    b"%",
    b"%4",
    b"%zz",
    b"%u0061",
    b"\t",
    b";",
    b";x",
    b"%3b",
    b"%3Bx=y",
    b"#",
    b"%23",
    b"%3f",
    b"+",
    b"%2b",
    b"*",
    b"!",
    b"%ff",
    b"%c3",
    b"%e9",
    b"\xc3\xa9",
    b"\xe9",
    b"\x01",
    b"\"",
    b"<",
    b"|",
    b"^",
    b"`",
    b"{",
    b"[",
    b"~",
    b"%7e",
    b"%AD",
    b"%E2%80%8B",
    b"%EF%BB%BF",
    b"'",
    b"(",
    b"$",
    b"&",
    b",",
    b"=",
    b"@",
    b":",
    b"%cc%81",
];

const AT_THE_END: &[&[u8]] = &[
    b"/",
    b"//",
    b"/.",
    b"/..",
    b"/x/..",
    b".",
    b"..",
    b"%2e",
    b"%20",
    b"%20/",
    b"%00",
    b"%0a",
    b";",
    b";x",
    b";x=y",
    b"/;x",
    b";jsessionid=1",
    b";/",
    b"#",
    b"#x",
    b"%23x",
    b"%3f",
    b"%3fx",
    b".json",
    b".html",
    b"/index.html",
    b"\\",
    b"%5c",
    b"%2f",
    b"::$DATA",
    b"/.;",
    b"/..;",
    b"/..;/",
    b"&",
    b"%09",
    b"?",
];

/// Letters that some programs take for others.
const LOOKALIKES: &[(u8, &[u8])] = &[
    (b'@', b"%EF%BC%A0"),
    (b':', b"%EF%BC%9A"),
    (b'/', b"%EF%BC%8F"),
    (b's', b"%C5%BF"),
    (b'i', b"%C4%B1"),
    (b'n', b"%EF%BD%8E"),
    (b'l', b"%C1%AC"),
    (b'o', b"%C0%EF"),
    (b'e', b"%E2%84%AF"),
];
