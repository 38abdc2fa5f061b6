//! Other spellings of a query.

use fastrand::Rng;

use super::{escaped, other_case, pick, place, replace};
use crate::request::Request;

pub(super) fn respell(dice: &mut Rng, request: &mut Request) {
    let mark = request.target.iter().position(|byte| *byte == b'?');
    let mut query = match mark {
        Some(mark) => request.target.split_off(mark + 1),
        None => {
            request.target.push(b'?');
            b"user=alice".to_vec()
        }
    };
    respell_query(dice, &mut query);
    request.target.extend(query);
}

fn respell_query(dice: &mut Rng, query: &mut Vec<u8>) {
    let at = place(dice, query);
    let Some(byte) = query.get(at).copied() else { return };
    let value = query.iter().position(|byte| *byte == b'=').map_or(query.len(), |at| at + 1);
    match dice.u8(..9) {
        0..3 => replace(query, at..at + 1, &escaped(dice, byte)),
        3 => replace(query, at..at + 1, &[other_case(byte)]),
        4 => query.extend_from_slice(pick(dice, AT_THE_END)),
        5 => replace(query, 0..0, pick(dice, AT_THE_BEGINNING)),
        6 => replace(query, 0..value.saturating_sub(1), pick(dice, NAMES)),
        7 => replace(query, value..value, pick(dice, INSIDE)),
        _ => query.truncate(at),
    }
}

const AT_THE_END: &[&[u8]] = &[
    b"&",
    b"&user=bob",
    b"&user=",
    b"&user",
    b";user=bob",
    b";",
    b"&USER=bob",
    b"&user[]=bob",
    b"&%75ser=bob",
    b"#",
    b"#x",
    b"&amp;user=bob",
    b"&x=1",
    b"%00",
    b"%20",
    b"+",
    b"\t",
    b"&user[a]=b",
    b"&user%5b%5d=bob",
    b"%26x",
    b"&_method=POST",
    b"&=x",
    b"&x=%",
    b"&x=%ff",
    b"%",
    b"\xe9",
    b"&user.x=bob",
];

const AT_THE_BEGINNING: &[&[u8]] = &[
    b"?",
    b"&",
    b"x=1&",
    b"x=1;",
    b";",
    b"&&",
    b"user=&",
    b"user=bob&",
    b"+",
    b"%20",
    b"%00",
    b"x&",
    b"/",
    b"=&",
];

const NAMES: &[&[u8]] = &[
    b"user",
    b"User",
    b"user[]",
    b"user%5B%5D",
    b"user[0]",
    b"[user]",
    b"user ",
    b"user+",
    b"user%20",
    b"+user",
    b"user%00",
    b"%00user",
    b"us%65r",
    b"user[",
    b".user",
    b"user]",
    b"u%C3%A9ser",
    b"%EF%BC%B5ser",
    b"user.",
];

const INSIDE: &[&[u8]] = &[
    b"+",
    b"%20",
    b"%2B",
    b"%00",
    b"%",
    b"%ff",
    b"%c3",
    b"%zz",
    b"=",
    b"%3d",
    b"\"",
    b"%0a",
    b"%u0061",
    b"\xff",
    b"%e9",
    b"%EF%BB%BF",
    b"%c0%a1",
    b"?",
    b"[",
    b"%2561",
];
