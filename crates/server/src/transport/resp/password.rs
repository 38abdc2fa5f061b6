//! The password that a RESP listener requires of its clients.

use std::fmt;

/// The password that clients must send. It is never shown.
///
/// ```
/// use tidegate_server::resp::Password;
///
/// let password = Password::new("open sesame");
/// assert!(password.is(b"open sesame"));
/// assert_eq!(format!("{password:?}"), "Password");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Box<[u8]>);

impl Password {
    /// Creates a password from its text.
    pub fn new(password: impl AsRef<[u8]>) -> Self {
        Self(password.as_ref().into())
    }

    /// Whether a guess is correct. Takes the same time for every guess of the correct length.
    pub fn is(&self, guess: &[u8]) -> bool {
        let differences = self.0.iter().zip(guess).fold(0, |all, (a, b)| all | (a ^ b));
        self.0.len() == guess.len() && std::hint::black_box(differences) == 0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_password_matches() {
        let password = Password::new("secret");
        assert!(password.is(b"secret"));
        for guess in [&b""[..], b"secre", b"secrets", b"Secret", b"secreT"] {
            assert!(!password.is(guess));
        }
    }
}
