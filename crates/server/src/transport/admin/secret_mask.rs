//! Masks passwords in a configuration before it is shown.

/// Masks everything that looks like a password in a URL: `redis://user:***@host`. Masks too much rather
/// than too little.
pub(super) fn mask_secrets(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, address) = rest.split_at(at + 3);
        let end = address.find(char::is_whitespace).unwrap_or(address.len());
        let (address, after) = address.split_at(end);
        shown.push_str(before);
        shown.push_str(&without_login(address));
        rest = after;
    }
    shown.push_str(rest);
    shown
}

fn without_login(address: &str) -> String {
    let (login, host) = match address.rsplit_once('@') {
        Some((login, host)) => (Some(login), host),
        None => (None, address),
    };
    let user = login.map(|login| login.split(':').next().unwrap_or_default());
    let user = user.map_or_else(String::new, |user| format!("{user}:{MASK}@"));
    user + &without_parameters(host)
}

/// Masks the values of parameters whose names contain `pass`.
fn without_parameters(address: &str) -> String {
    let shown = |piece: &str| {
        let name = piece.to_ascii_lowercase().find("pass")?;
        let value = name + piece.get(name..)?.find('=')? + 1;
        Some(format!("{}{MASK}", piece.get(..value)?))
    };
    let pieces = address.split('&').map(|piece| shown(piece).unwrap_or_else(|| piece.to_owned()));
    pieces.collect::<Vec<_>>().join("&")
}

const MASK: &str = "***";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_hidden_wherever_they_stand() {
        for (text, expected) in [
            (
                "store: redis://u:hunter2@h:1/0\npolicies: []",
                "store: redis://u:***@h:1/0\npolicies: []",
            ),
            ("# was rediss://:hunter2@h", "# was rediss://:***@h"),
            ("a: \"redis://:hun'ter2@h\"", "a: \"redis://:***@h\""),
            ("redis://:a@hunter2@h", "redis://:***@h"),
            (
                "redis+sentinel://h/s?sentinel_password=hunter2&x=1",
                "redis+sentinel://h/s?sentinel_password=***&x=1",
            ),
            ("{store: redis://u:hunter2@h} # http://x", "{store: redis://u:***@h} # http://x"),
            ("match: { path: /a }", "match: { path: /a }"),
        ] {
            assert_eq!(mask_secrets(text), expected);
            assert!(!mask_secrets(text).contains("hunter2"));
        }
    }
}
