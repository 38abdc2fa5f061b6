//! Other spellings of tokens and cookies.

use fastrand::Rng;

use super::{escaped, pick, place, replace};
use crate::request::{Field, Request, field};

pub(super) fn respell_bearer(dice: &mut Rng, request: &mut Request) {
    let is_it = |(name, _): &&mut Field| name.eq_ignore_ascii_case(b"authorization");
    let Some((_, value)) = request.fields.iter_mut().find(is_it) else { return };
    let token = value.rsplit(|byte| *byte == b' ').next().unwrap_or_default().to_vec();
    let (before, behind) = (pick(dice, BEFORE), pick(dice, BEHIND));
    *value = [before, &token[..], behind].concat();
}

const BEFORE: &[&[u8]] = &[
    b" Bearer ",
    b" Bearer ",
    b" bearer ",
    b" BEARER ",
    b" Bearer\t",
    b" Bearer  ",
    b" Bearer \t",
    b" Bearer\t\t",
    b"\tBearer ",
    b" Bearer",
    b" Bearer: ",
    b" Bearer=",
    b" Token ",
    b" JWT ",
    b" Basic ",
    b" Bearer,",
    b" Bearer\xa0",
    b" Bearer\x0b",
    b" Bearer\x0c",
    b" Bearer \xc2\xa0",
    b" Bearer\r\n ",
    b" ",
    b" Bearer \"",
    b" Bearer token=",
    b" Bearer Bearer ",
    b" Basic x, Bearer ",
    b" Bearer\x1f",
    b" Bearer\x85",
    b" \"Bearer\" ",
];

const BEHIND: &[&[u8]] = &[
    b"", b"", b"", b"", b" ", b"\t", b"\"", b",", b", x", b" x", b"=", b"==", b"\xa0", b"\x0c",
    b";", b"\r\n ", b"\x00",
];

pub(super) fn respell_cookie(dice: &mut Rng, request: &mut Request) {
    let position = request.fields.iter().position(|(name, _)| name.eq_ignore_ascii_case(b"cookie"));
    let Some(position) = position else {
        request.fields.push(field("cookie", pick(dice, &["sid=abc", "sid=xyz"])));
        return;
    };
    let session = pick(dice, &[&b"abc"[..], b"xyz"]);
    let pair = match dice.u8(..9) {
        0 => {
            let at = place(dice, session);
            let mut value = session.to_vec();
            replace(&mut value, at..at + 1, &escaped(dice, session[at]));
            [b"sid=", &value[..]].concat()
        }
        1 => {
            let at = place(dice, session);
            let mut value = session.to_vec();
            let octal = format!("\\{:03o}", session[at]);
            replace(&mut value, at..at + 1, octal.as_bytes());
            [b"sid=\"", &value[..], b"\""].concat()
        }
        2 => [b"sid=\"", session, b"\""].concat(),
        3 => [pick(dice, NAMES), session].concat(),
        4 => [&b"sid="[..], session, pick(dice, BEHIND_A_VALUE)].concat(),
        5 => [&b"sid="[..], pick(dice, BEFORE_A_VALUE), session].concat(),
        6 => {
            // Two `Cookie` fields.
            request.fields.push(field(
                "Cookie",
                pick(dice, &["lang=en", "theme=dark", "sid=xyz", "$Path=/", "x"]),
            ));
            [b"sid=", session].concat()
        }
        7 => [&b"sid="[..], session, pick(dice, SEPARATORS), b"sid=xyz"].concat(),
        _ => [&b"theme=dark"[..], pick(dice, SEPARATORS), b"sid=", session].concat(),
    };
    request.fields[position].1 = [b" ", &pair[..]].concat();
}

const NAMES: &[&[u8]] = &[
    b"sid =",
    b" sid=",
    b"\tsid=",
    b"sid\t=",
    b"SID=",
    b"sid= ",
    b"sid=\t",
    b"s%69d=",
    b"\"sid\"=",
    b"sid==",
    b"=sid=",
    b"$sid=",
    b"sid[]=",
    b"sid[0]=",
    b"$Version=1; sid=",
    b"sid",
    b"sid;",
    b"sid:",
    b"x sid=",
    b"sid\xa0=",
    b"sid\x0b=",
    b"__Host-sid=",
    b"x=\"; sid=",
    b"x=\";\"; sid=",
    b"x=\\\"; sid=",
];

const BEHIND_A_VALUE: &[&[u8]] = &[
    b" ",
    b"\t",
    b"\"",
    b"\\",
    b",",
    b",x",
    b" x",
    b"=",
    b"%",
    b"%20",
    b"+",
    b";",
    b"\xa0",
    b"\xe9",
    b"\x7f",
    b"\x0c",
    b"; $Path=/",
    b"; sid",
    b";;",
    b"; =",
    b"\"\"",
    b"(",
    b"{",
    b"@",
    b":",
    b"/",
    b"?",
    b"<",
    b"[",
    b"'",
];

const BEFORE_A_VALUE: &[&[u8]] = &[
    b" ", b"\t", b"\"", b"j:", b"s:", b"%", b"+", b"=", b",", b"\\", b"\xa0", b"\xe9", b"'", b"`",
    b"(", b"\x0b", b"%20",
];

const SEPARATORS: &[&[u8]] = &[
    b";", b"; ", b";  ", b",", b", ", b" ;", b";\t", b"&", b"; ; ", b" ", b"\r\n ", b"\t", b";\x0b",
];
