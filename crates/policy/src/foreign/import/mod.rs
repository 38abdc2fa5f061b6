//! Translations into our own format.
