//! Other spellings of fields: their names, their values, how often they come, and where.

use fastrand::Rng;

use super::{other_case, pick, place, replace};
use crate::request::{Field, Request, field};

/// One of the fields that identify the caller.
fn one<'r>(dice: &mut Rng, request: &'r mut Request) -> Option<&'r mut Field> {
    let is_host = |(name, _): &Field| name.eq_ignore_ascii_case(b"host");
    let mut fields: Vec<_> = request.fields.iter_mut().filter(|it| !is_host(it)).collect();
    let at = place(dice, &vec![0; fields.len()]);
    (at < fields.len()).then(|| fields.swap_remove(at))
}

pub(super) fn respell_name(dice: &mut Rng, request: &mut Request) {
    let Some((name, _)) = one(dice, request) else { return };
    match dice.u8(..6) {
        0 | 1 => name.iter_mut().filter(|it| **it == b'-').for_each(|it| *it = b'_'),
        2 => name.make_ascii_uppercase(),
        3 => {
            let at = place(dice, name);
            let other = other_case(name[at]);
            replace(name, at..at + 1, &[other]);
        }
        4 => name.extend_from_slice(pick(
            dice,
            &[&b" "[..], b"\t", b"\0", b"\x0b", b"%20", b"\r", b"_"],
        )),
        _ => {
            let at = place(dice, name);
            replace(name, at..at, pick(dice, &[&b"_"[..], b"-", b" ", b".", b"\xff", b"\x00"]));
        }
    }
}

pub(super) fn respell_value(dice: &mut Rng, request: &mut Request) {
    let Some((_, value)) = one(dice, request) else { return };
    match dice.u8(..6) {
        0 => replace(value, 0..1, pick(dice, BEFORE)),
        1 => value.extend_from_slice(pick(dice, BEHIND)),
        2 => value.clear(),
        3 => {
            let at = place(dice, value);
            replace(value, at..at, pick(dice, INSIDE));
        }
        4 => {
            let quoted = [b" \"", value.trim_ascii(), b"\""].concat();
            *value = quoted;
        }
        _ => {
            let at = place(dice, value);
            let other = other_case(
                value[at.min(value.len().saturating_sub(1))..].first().copied().unwrap_or(b'x'),
            );
            replace(value, at..at + 1, &[other]);
        }
    }
}

const BEFORE: &[&[u8]] = &[
    b"",
    b"  ",
    b"\t",
    b"\t ",
    b"\r\n ",
    b"\r\n\t",
    b"\x0b",
    b"\x0c",
    b"\xa0",
    b"\xc2\xa0",
    b"\x85",
];
const BEHIND: &[&[u8]] =
    &[b" ", b"  ", b"\t", b"\r\n ", b"\x0c", b"\0", b"\xa0", b",", b", ", b";", b"\x85", b"\x1f"];
const INSIDE: &[&[u8]] =
    &[b"\0", b"\xff", b"\xc3\xa9", b"\x7f", b"\x01", b"\r\n ", b"\t", b"%20", b"\xe9"];

/// Sends a field twice.
pub(super) fn repeat(dice: &mut Rng, request: &mut Request) {
    let Some((name, value)) = one(dice, request).map(|it| it.clone()) else { return };
    let other = [&b" "[..], pick(dice, &[&b"bob"[..], b"alice", b"", b"sid=xyz"])].concat();
    let value = if dice.bool() { value } else { other };
    let at = dice.usize(..=request.fields.len());
    request.fields.insert(at, (name, value));
}

/// Names a field in `Connection`, so that a proxy may drop it.
pub(super) fn name_in_connection(dice: &mut Rng, request: &mut Request) {
    let name = pick(
        dice,
        &["x-api-key", "X-Api-Key", "cookie", "authorization", "host", "x-api-key, close"],
    );
    let field_name = pick(dice, &["Connection", "connection", "Proxy-Connection", "Keep-Alive"]);
    request.fields.push(field(field_name, name));
}

/// Sends a field as a trailer.
pub(super) fn move_behind_the_body(dice: &mut Rng, request: &mut Request) {
    let is_moved = dice.bool();
    let Some(moved) = one(dice, request).map(|it| it.clone()) else { return };
    if is_moved {
        request.fields.retain(|it| *it != moved);
    }
    let other = field("x-api-key", pick(dice, &["alice", "bob"]));
    request.trailers.push(if dice.bool() { moved } else { other });
    if dice.bool() {
        request.fields.push(field("trailer", "x-api-key"));
    }
}
