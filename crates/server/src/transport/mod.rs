//! The transports. Each one serves a listener with an [`App`](crate::App) until a shutdown future resolves.

pub mod admin;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod resp;

use tidegate::text;

/// The beginning of a client's text, long enough to recognise it.
pub(crate) fn brief(text: &str) -> String {
    text::brief(text, MAX_BRIEF)
}

const MAX_BRIEF: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(brief(&"é".repeat(65)).chars().count(), 65);
        assert_eq!(brief("short"), "short");
    }
}
