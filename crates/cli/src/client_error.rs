//! Explains to users why a request to a server failed, and what to change.

use std::io;

use anyhow::anyhow;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error};

/// Explains a connection that could not be made.
pub(crate) fn connect_error(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        return anyhow!("{error}. Is `tidegate serve` running and listening there?");
    }
    error.into()
}

/// Explains a TLS handshake that failed.
pub(crate) fn tls_error(host: &str, error: io::Error) -> anyhow::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(why)) => {
            anyhow!("its certificate {}", certificate(host, why))
        }
        Some(Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure,
        )) => anyhow!("it requires a client certificate that it trusts, or other TLS parameters"),
        Some(Error::AlertReceived(alert)) => anyhow!("it refused the handshake: {}", words(alert)),
        Some(Error::InvalidMessage(_)) => {
            anyhow!("it does not speak TLS on this port: expected http://, or a port with TLS")
        }
        _ => error.into(),
    }
}

/// Explains a connection on which no HTTP came back.
pub(crate) fn http_error(error: hyper::Error) -> anyhow::Error {
    if error.is_parse() || error.is_incomplete_message() || error.is_canceled() {
        return anyhow!(
            "the peer does not speak HTTP/1: expected https:// if the port has TLS, and not the port \
             for gRPC or Redis clients"
        );
    }
    error.into()
}

fn certificate(host: &str, why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => {
            "is not from an authority that this system trusts: expected it in SSL_CERT_FILE".into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired".into(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet: is the clock of this machine right?".into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("is not for {host:?}: expected a name in the certificate")
        }
        CertificateError::Revoked => "was revoked".into(),
        CertificateError::BadSignature => "has an invalid signature".into(),
        CertificateError::Other(inner) if inner.to_string().contains("CaUsedAsEndEntity") => {
            "belongs to an authority: expected a server certificate issued by the authority".into()
        }
        CertificateError::Other(inner) => format!("is refused: {}", words(&inner.0)),
        other => format!("is refused: {}", words(other)),
    }
}

/// A programmatic name as words: `BadEncoding` becomes "bad encoding".
fn words(name: &impl std::fmt::Debug) -> String {
    let mut text = String::new();
    for char in format!("{name:?}").chars() {
        if char.is_uppercase() && text.ends_with(char::is_lowercase) {
            text.push(' ');
        }
        text.extend(char.to_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_rustls::rustls::OtherError;

    use super::*;

    /// Has the same name as the verifier's error, whose `Display` is only that name.
    #[derive(Debug)]
    struct CaUsedAsEndEntity;

    impl std::fmt::Display for CaUsedAsEndEntity {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{self:?}")
        }
    }

    impl std::error::Error for CaUsedAsEndEntity {}

    #[test]
    fn certificates_are_refused_in_words() {
        let ca = CertificateError::Other(OtherError(Arc::new(CaUsedAsEndEntity)));
        for (why, expected) in [
            (ca, "its certificate belongs to an authority: expected a server"),
            (CertificateError::UnknownIssuer, "its certificate is not from an authority"),
            (CertificateError::NotValidForName, "its certificate is not for \"limits\""),
            (CertificateError::BadEncoding, "its certificate is refused: bad encoding"),
        ] {
            let error = io::Error::other(Error::InvalidCertificate(why));
            let message = tls_error("limits", error).to_string();
            assert!(message.starts_with(expected), "{message}");
        }
        let alert = io::Error::other(Error::AlertReceived(AlertDescription::AccessDenied));
        let message = tls_error("limits", alert).to_string();
        assert_eq!(message, "it refused the handshake: access denied");
    }
}
