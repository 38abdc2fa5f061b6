//! Why a server could not be asked, for people.

use std::io;

use anyhow::anyhow;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error};

/// For a connection that should have become a secure one.
pub(crate) fn tls_error(host: &str, error: io::Error) -> anyhow::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(why)) => {
            anyhow!("its certificate {}", certificate(host, why))
        }
        Some(Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure,
        )) => anyhow!("it asks for a certificate that it trusts, or wants another TLS"),
        Some(Error::AlertReceived(alert)) => anyhow!("it refuses: {}", words(alert)),
        Some(Error::InvalidMessage(_)) => {
            anyhow!("it does not speak TLS there: expected http://, or a port with TLS")
        }
        _ => error.into(),
    }
}

/// For a connection on which no HTTP came back.
pub(crate) fn http_error(error: hyper::Error) -> anyhow::Error {
    if error.is_parse() || error.is_incomplete_message() || error.is_canceled() {
        return anyhow!(
            "what answers there speaks no HTTP/1: expected the port of HTTP, and not that of gRPC \
             or of Redis clients"
        );
    }
    error.into()
}

fn certificate(host: &str, why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => {
            "is by nobody whom this system trusts: expected its authority in SSL_CERT_FILE".into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired".into(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet: is the clock of this machine right?".into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("is not for {host:?}: expected a name that it is for")
        }
        CertificateError::Revoked => "was revoked".into(),
        CertificateError::BadSignature => "has a signature that is wrong".into(),
        CertificateError::Other(inner) if inner.to_string().contains("CaUsedAsEndEntity") => {
            "is that of an authority itself: expected one that the authority has made for a server"
                .into()
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

    /// As the verifier names it, which has no words of its own.
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
            (ca, "its certificate is that of an authority itself: expected one"),
            (CertificateError::UnknownIssuer, "its certificate is by nobody whom this system"),
            (CertificateError::NotValidForName, "its certificate is not for \"limits\""),
            (CertificateError::BadEncoding, "its certificate is refused: bad encoding"),
        ] {
            let error = io::Error::other(Error::InvalidCertificate(why));
            let said = tls_error("limits", error).to_string();
            assert!(said.starts_with(expected), "{said}");
        }
        let alert = io::Error::other(Error::AlertReceived(AlertDescription::AccessDenied));
        assert_eq!(tls_error("limits", alert).to_string(), "it refuses: access denied");
    }
}
