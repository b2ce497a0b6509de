//! TLS to a database: whose server it is, is proved in full (name, chain and dates), or there is no session.

use super::fault::ViaFault;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use sha2::{Digest, Sha256, Sha384, Sha512};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a session with TLS needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    /// Whose signatures count; without it the public authorities.
    pub(crate) root_cert: Option<PathBuf>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

/// A client side for the server called `name`.
///
/// # Errors
/// Files that cannot be read, or hold nothing usable.
pub(crate) fn connection(files: &TlsFiles, name: &str) -> Result<ClientConnection, ViaFault> {
    let mut roots = RootCertStore::empty();
    match &files.root_cert {
        Some(path) => {
            for cert in certificates(path)? {
                roots.add(cert).map_err(|error| bad(path, &error.to_string()))?;
            }
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ViaFault::setting(error.to_string(), "this is a bug: please report it"))?
        .with_root_certificates(roots);
    let config = match (&files.cert, &files.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(certificates(cert)?, private_key(key)?)
            .map_err(|error| bad(cert, &error.to_string()))?,
        _ => return Err(ViaFault::setting("sslcert and sslkey belong together", "give both, or neither")),
    };
    let name = ServerName::try_from(name.to_owned()).map_err(|_| {
        ViaFault::setting(format!("'{name}' cannot be the name in a certificate"), "name the host")
    })?;
    ClientConnection::new(Arc::new(config), name)
        .map_err(|error| ViaFault::setting(error.to_string(), "see man orion-via"))
}

fn bad(path: &Path, why: &str) -> ViaFault {
    ViaFault::setting(format!("{}: {why}", path.display()), "it must be a PEM file")
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ViaFault> {
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| bad(path, &error.to_string()))?.collect();
    match certificates {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(bad(path, "there is no certificate in it")),
        Err(error) => Err(bad(path, &error.to_string())),
    }
}

/// A key that others can read is a key no more.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ViaFault> {
    let mut file = File::open(path).map_err(|error| bad(path, &crate::error::reason(&error)))?;
    let stat = file.metadata().map_err(|error| bad(path, &crate::error::reason(&error)))?;
    let allowed = if stat.uid() == 0 { 0o640 } else { 0o600 };
    if stat.mode() & 0o777 & !allowed != 0 {
        return Err(ViaFault::setting(
            format!("{}: others can read this key", path.display()),
            format!("chmod 600 {}", path.display()),
        ));
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(|error| bad(path, &crate::error::reason(&error)))?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| bad(path, "there is no private key in it"))
}

/// What a failed handshake means: a server that is not proved to be the right one is a setting, not an outage.
pub(crate) fn fault(error: &std::io::Error) -> ViaFault {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(why)) => ViaFault::setting(
            format!("its certificate is not accepted: {}", certificate(why)),
            "sslrootcert=FILE names the authority; the certificate must name the host of the URL",
        ),
        Some(rustls::Error::AlertReceived(alert)) => ViaFault::setting(
            format!("the server ended the TLS handshake ({alert:?})"),
            "does it ask for a client certificate? sslcert=FILE&sslkey=FILE",
        ),
        Some(other) => ViaFault::setting(format!("TLS: {other}"), "see man orion-via"),
        None => std::io::Error::from(error.kind()).into(),
    }
}

fn certificate(why: &rustls::CertificateError) -> String {
    use rustls::CertificateError as C;
    match why {
        C::Expired | C::ExpiredContext { .. } => "it has expired".into(),
        C::NotValidYet | C::NotValidYetContext { .. } => "it is not valid yet".into(),
        C::UnknownIssuer | C::BadSignature => "no known authority has signed it".into(),
        C::NotValidForName | C::NotValidForNameContext { .. } => "it is for another name".into(),
        other => other.to_string(),
    }
}

/// The hash of the server's certificate for `tls-server-end-point` (RFC 5929 4.1): with the hash of its
/// signature, where MD5 and SHA-1 stand for SHA-256. `None`: a signature without one hash (Ed25519).
pub(crate) fn end_point(tls: &ClientConnection) -> Option<Vec<u8>> {
    let certificate = tls.peer_certificates()?.first()?;
    hash_for(certificate)
}

fn hash_for(der: &[u8]) -> Option<Vec<u8>> {
    let oid = signature_oid(der)?;
    Some(match oid {
        // sha256WithRSA, sha1WithRSA, md5WithRSA; ecdsa-with-SHA256, ecdsa-with-SHA1.
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b | 0x05 | 0x04]
        | [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]
        | [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01] => Sha256::digest(der).to_vec(),
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c]
        | [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03] => Sha384::digest(der).to_vec(),
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d]
        | [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04] => Sha512::digest(der).to_vec(),
        _ => return None,
    })
}

/// Certificate ::= SEQUENCE { tbsCertificate SEQUENCE, signatureAlgorithm SEQUENCE { OID … }, … } (RFC 5280 4.1).
fn signature_oid(der: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(der, 0x30)?;
    let (_, rest) = element(certificate, 0x30)?;
    let (algorithm, _) = element(rest, 0x30)?;
    Some(element(algorithm, 0x06)?.0)
}

/// The content of the first element, which must have this tag, and what is behind it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (head, rest) = der.split_first_chunk::<2>()?;
    if head[0] != tag {
        return None;
    }
    let (length, rest) = match head[1] {
        short @ 0..=0x7f => (usize::from(short), rest),
        long => {
            let count = usize::from(long & 0x7f);
            let bytes = rest.get(..count).filter(|_| (1..=4).contains(&count))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), &rest[count..])
        }
    };
    Some((rest.get(..length)?, rest.get(length..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn no_certificate_crashes_the_reader(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            drop(hash_for(&bytes));
            let mut nested = vec![0x30, 0x82, 0, bytes.len() as u8];
            nested.extend(&bytes);
            drop(hash_for(&nested));
        }
    }
}
