//! Mails per day, by an attribute on the function that sends them.
//!
//! ```console
//! $ cargo run -p tidegate --features macros --example mails
//! ```

use std::fmt;

use tidegate::{Denied, rate_limit};

#[derive(Debug)]
pub(crate) enum MailError {
    NoSuchAddress,
    TooMany(Denied),
}

impl From<Denied> for MailError {
    fn from(denied: Denied) -> Self {
        Self::TooMany(denied)
    }
}

impl fmt::Display for MailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchAddress => f.write_str("no such address"),
            Self::TooMany(denied) => denied.fmt(f),
        }
    }
}

/// Three a day for each sender, and five a day for all of them.
#[rate_limit(name = "mails of a sender", quota = "3/day", key = |from| from)]
#[rate_limit(name = "mails", quota = "5/day")]
pub(crate) async fn send(from: &str, to: &str) -> Result<String, MailError> {
    if to.is_empty() {
        return Err(MailError::NoSuchAddress);
    }
    Ok(format!("{from} has written to {to}"))
}

#[tokio::main]
async fn main() {
    for from in ["alice", "alice", "alice", "alice", "bob", "bob", "bob"] {
        match send(from, "carol").await {
            Ok(sent) => println!("{sent}"),
            Err(error) => println!("{from} may not: {error}"),
        }
    }
}
