//! Lines for developers and operators: events of `tracing`, or lines on standard error.

/// Says something that nobody asked for and somebody should know.
///
/// With the feature `tracing` it is an event, if a subscriber is there to see it. Otherwise it is a line on
/// standard error, so that a forgotten subscriber does not hide it.
#[doc(hidden)]
pub fn notice(text: &str) {
    #[cfg(feature = "tracing")]
    if tracing::dispatcher::get_default(|current| {
        !current.is::<tracing::subscriber::NoSubscriber>()
    }) {
        tracing::warn!("{text}");
        return;
    }
    use std::io::Write as _;

    // A closed standard error is not a reason to fail.
    let _ = writeln!(std::io::stderr(), "tidegate: {text}");
}
