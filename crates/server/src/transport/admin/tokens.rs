//! Admin tokens: their scopes, their file format, and their comparison in constant time.

use std::fmt;
use std::path::Path;

use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::BoundAddress;

/// The scope of a token. Each scope includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdminScope {
    /// Read access.
    Read,
    /// Actions on individual keys: resets, refunds, overrides.
    Write,
    /// Actions that affect everybody: modes, reloads.
    Admin,
}

impl AdminScope {
    /// All scopes, smallest first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// The name in a tokens file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

/// Tokens and their scopes. Tokens are never shown.
///
/// ```
/// use tidegate_server::admin::AdminTokens;
///
/// let tokens = AdminTokens::parse("read  0123456789abcdef0123456789abcdef  name=dashboard")?;
/// assert_eq!(format!("{tokens:?}"), "AdminTokens([Read])");
///
/// let refused = AdminTokens::parse("read hunter2").unwrap_err();
/// assert_eq!(refused.to_string(), "line 1: a token of 7 bytes: expected 24 to 128");
/// # Ok::<(), tidegate_server::admin::AdminTokensError>(())
/// ```
#[derive(Clone, Default)]
pub struct AdminTokens(Vec<AdminToken>);

#[derive(Clone, PartialEq)]
struct AdminToken {
    scope: AdminScope,
    /// What the log calls its holder.
    name: String,
    text: PaddedToken,
}

/// A token that is padded, so that all tokens take equally long to compare.
type PaddedToken = [u8; LONGEST];

impl AdminTokens {
    /// Parses a list of tokens. Each line has a scope, a token and optionally a name: `write TOKEN
    /// name=support`. Anything after a `#` is a comment.
    pub fn parse(text: &str) -> Result<Self, AdminTokensError> {
        let mut tokens = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let (scope, token, name) = match words[..] {
                [] => continue,
                [scope, token] => (scope, token, format!("line {number}")),
                [scope, token, name] => (scope, token, name_of(name, number)?),
                _ => return Err(AdminTokensError::at(number, EXPECTED)),
            };
            let Some(scope) = AdminScope::ALL.into_iter().find(|known| known.name() == scope)
            else {
                let problem = "unknown scope: expected read, write or admin";
                return Err(AdminTokensError::at(number, problem));
            };
            if !(SHORTEST..=LONGEST).contains(&token.len()) {
                let (length, range) = (token.len(), format!("{SHORTEST} to {LONGEST}"));
                let problem = format!("a token of {length} bytes: expected {range}");
                return Err(AdminTokensError::at(number, problem));
            }
            if tokens.len() >= MOST {
                return Err(AdminTokensError::at(
                    number,
                    format!("expected at most {MOST} tokens"),
                ));
            }
            tokens.push(AdminToken { scope, name, text: padded(token.as_bytes()) });
        }
        Ok(Self(tokens))
    }

    /// Reads a file, which other users should not be able to read.
    pub fn read(path: &Path) -> Result<Self, AdminTokensError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text),
            Err(error) => Err(AdminTokensError(format!("cannot be read: {error}"))),
        }
    }

    /// Whether these are the same tokens, scopes and names. Not in constant time: both are ours.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The scope of a token, and the name of its holder. Compares with all tokens, so that timing reveals
    /// nothing about any of them.
    pub(super) fn find(&self, given: &[u8]) -> Option<(AdminScope, &str)> {
        let fits = given.len() <= LONGEST;
        let given = padded(given);
        let (mut found, mut place) = (0_u8, 0_u8);
        // At most 64 tokens, so a byte can count them.
        for (index, token) in (1_u8..).zip(&self.0) {
            let number = token.scope as u8 + 1;
            let is_more = u8::from(number > found);
            let is_match = token.text.ct_eq(&given) & subtle::Choice::from(is_more);
            found.conditional_assign(&number, is_match);
            place.conditional_assign(&index, is_match);
        }
        let token = self.0.get(usize::from(place).checked_sub(1)?).filter(|_| fits)?;
        Some((token.scope, &token.name))
    }
}

impl fmt::Debug for AdminTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scopes: Vec<AdminScope> = self.0.iter().map(|token| token.scope).collect();
        f.debug_tuple("AdminTokens").field(&scopes).finish()
    }
}

/// What is wrong with a list of tokens, without showing any.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AdminTokensError(String);

impl AdminTokensError {
    fn at(line: usize, problem: impl fmt::Display) -> Self {
        Self(format!("line {line}: {problem}"))
    }

    /// The file had tokens before, and has none now.
    pub(super) fn no_tokens() -> Self {
        Self("no tokens in the file".to_owned())
    }
}

/// Why an admin listener does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the admin listener on {0} would be open to everybody who can reach it: expected a token \
     (--admin-tokens-file), certificates of operators (--admin-client-ca), or a loopback address \
     such as 127.0.0.1:9090"
)]
pub struct AdminExposedError(pub(super) BoundAddress);

/// Parses `name=NAME`. The prefix keeps a token in the wrong place from being logged as a name.
fn name_of(word: &str, line: usize) -> Result<String, AdminTokensError> {
    let Some(name) = word.strip_prefix("name=") else {
        return Err(AdminTokensError::at(line, EXPECTED));
    };
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_fit) {
        let range = format!("1 to {LONGEST_NAME} letters, digits, or one of . _ - @");
        return Err(AdminTokensError::at(line, format!("invalid name: expected {range}")));
    }
    Ok(name.to_owned())
}

/// Pads a token with zeros, which no token contains.
fn padded(token: &[u8]) -> PaddedToken {
    let mut padded = [0; LONGEST];
    padded.iter_mut().zip(token).for_each(|(to, from)| *to = *from);
    padded
}

/// 128 bits are 32 hexadecimal digits, or 22 of base 64.
const SHORTEST: usize = 24;
const LONGEST: usize = 128;
const LONGEST_NAME: usize = 32;
const MOST: usize = 64;
const EXPECTED: &str = "expected a scope, a token, and optionally name=NAME";

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
# for the dashboard
read  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
write bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb  name=support  # at the desk
admin cccccccccccccccccccccccccccccccc
read  cccccccccccccccccccccccccccccccc
";

    #[test]
    fn a_token_has_its_scope_and_nothing_else_has() {
        let tokens = AdminTokens::parse(FILE).unwrap();
        let scope = |token: &str| tokens.find(token.as_bytes()).map(|(scope, _)| scope);
        assert_eq!(scope(&"a".repeat(32)), Some(AdminScope::Read));
        assert_eq!(scope(&"b".repeat(32)), Some(AdminScope::Write));
        assert_eq!(scope(&"c".repeat(32)), Some(AdminScope::Admin), "the larger of two");
        let wrong = ["", "a", &"a".repeat(31), &"a".repeat(33), &"a".repeat(500), &"d".repeat(32)];
        assert!(wrong.iter().all(|token| scope(token).is_none()));
        assert_eq!(tokens.find(&[0; 200]), None);
        assert_eq!(AdminTokens::default().find(b""), None);
        let name = |token: &str| tokens.find(token.repeat(32).as_bytes()).unwrap().1.to_owned();
        assert_eq!([name("a"), name("b"), name("c")], ["line 3", "support", "line 5"]);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_without_its_tokens() {
        let secret = "x".repeat(40);
        for (text, expected) in [
            (format!("root {secret}"), "line 1: unknown scope: expected read, write or admin"),
            (
                format!("\nread {secret} {secret}"),
                "line 2: expected a scope, a token, and optionally name=NAME",
            ),
            (
                format!("read {secret} name=a/b"),
                "line 1: invalid name: expected 1 to 32 letters, digits, or one of . _ - @",
            ),
            (
                format!("read {}", "x".repeat(129)),
                "line 1: a token of 129 bytes: expected 24 to 128",
            ),
            (format!("read {secret}\n").repeat(65), "line 65: expected at most 64 tokens"),
        ] {
            let refused = AdminTokens::parse(&text).unwrap_err().to_string();
            assert_eq!(refused, expected);
            assert!(!refused.contains(&secret));
        }
        assert!(!format!("{:?}", AdminTokens::parse(FILE)).contains("aaa"));
    }
}
