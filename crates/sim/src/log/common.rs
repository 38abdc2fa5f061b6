//! Parses the common and the combined log format.

use super::block::{LogRowBuilder, LogValueOrigin};
use super::time;

/// `host ident user [time] "request" status bytes "referer" "user agent"`; the last two, or four,
/// may be missing, and more may follow.
pub(super) fn parse(line: &[u8], fill: &mut LogRowBuilder<'_>) -> Result<(), &'static str> {
    let names = fill.names;
    let (ip, rest) = word(line);
    let (_, rest) = word(rest);
    // The user may contain spaces, so it ends where the time begins.
    let open = memchr::memchr(b'[', rest).ok_or("it has no [time]")?;
    let (user, rest) = rest.split_at_checked(open).ok_or("it has no [time]")?;
    let close = memchr::memchr(b']', rest).ok_or("its [time] does not end")?;
    let at = rest.get(1..close).and_then(time::common).ok_or("its [time] cannot be read")?;
    let rest = rest.get(close + 1..).unwrap_or_default();
    let (request, rest) = quoted(rest).ok_or("it has no \"request\" after the time")?;
    fill.set_time(0, at);
    fill.put(names.columns("ip"), 0, ip, LogValueOrigin::InLine);
    fill.put(names.columns("user"), 0, user.trim_ascii(), LogValueOrigin::InLine);
    fill.put_request(request, LogValueOrigin::InLine);
    let (status, rest) = word(rest);
    fill.put(names.columns("status"), 0, status, LogValueOrigin::InLine);
    let (bytes, rest) = word(rest);
    fill.put(names.columns("bytes"), 0, bytes, LogValueOrigin::InLine);
    if let Some((referer, rest)) = quoted(rest) {
        fill.put(names.columns("referer"), 0, referer, LogValueOrigin::InLine);
        if let Some((agent, _)) = quoted(rest) {
            fill.put(names.columns("user_agent"), 0, agent, LogValueOrigin::InLine);
        }
    }
    Ok(())
}

/// The first word, and the rest.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let end = memchr::memchr(b' ', text).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, b""))
}

/// The text in quotes, and the rest. A quote inside is escaped with a backslash.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start().strip_prefix(b"\"")?;
    let mut from = 0;
    loop {
        let at = from + memchr::memchr(b'"', text.get(from..)?)?;
        let before = text.get(..at)?;
        let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes % 2 == 0 {
            return Some((before, text.get(at + 1..)?));
        }
        from = at + 1;
    }
}
