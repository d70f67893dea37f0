//! Certificates and keys as they lie on disk, in PEM.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::config::Config;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, RootCertStore};

use super::keys;

/// A certificate chain and its key, by the directives that name their files; `None` if there is no certificate.
pub(super) fn certified_key(
    config: &Config,
    provider: &CryptoProvider,
    certificate_directive: &str,
    key_directive: &str,
    password_directive: &str,
) -> Result<Option<Arc<CertifiedKey>>, String> {
    let (chain_file, key_file) = (config.string(certificate_directive), config.string(key_directive));
    if chain_file.is_empty() {
        return Ok(None);
    }
    if key_file.is_empty() {
        return Err(format!("No {key_directive} configured!"));
    }
    let chain = certificates(Path::new(&chain_file))
        .map_err(|reason| format!("Failed to load certificate: {chain_file}: {reason}"))?;
    let failed = |reason: String| format!("Failed to load private key: {key_file}: {reason}");
    let key = keys::read(Path::new(&key_file), &config.bytes(password_directive)).map_err(failed)?;
    let key = provider.key_provider.load_private_key(key).map_err(|error| failed(error.to_string()))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(failed(format!("it is not the key of the certificate in {chain_file}")))
        }
        // What cannot be compared (a certificate of an old version, say) is the clients' to judge.
        _ => Ok(Some(Arc::new(certified))),
    }
}

/// The authorities in a file, and in every file of a directory; either may be empty.
pub(super) fn authorities(file: &str, directory: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if !file.is_empty() {
        let failed = |reason: String| format!("Failed to load CA certificate(s) file: {file}: {reason}");
        for certificate in certificates(Path::new(file)).map_err(failed)? {
            roots.add(certificate).map_err(|error| failed(error.to_string()))?;
        }
    }
    if !directory.is_empty() {
        let failed =
            |reason: String| format!("Failed to load CA certificate(s) directory: {directory}: {reason}");
        let mut found: Vec<CertificateDer<'_>> = Vec::new();
        for path in files_of(Path::new(directory)).map_err(|error| failed(error.to_string()))? {
            // Other files may lie there, and the same one under several names.
            found.extend(certificates(&path).unwrap_or_default());
        }
        found.sort_unstable_by(|a, b| a.as_ref().cmp(b.as_ref()));
        found.dedup();
        if roots.add_parsable_certificates(found).0 == 0 {
            return Err(failed("no file in it holds a certificate".to_owned()));
        }
    }
    Ok(roots)
}

fn files_of(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_file() {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// All certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = fs::read(path).map_err(|error| error.to_string())?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found.map_err(|error| error.to_string())? {
        none if none.is_empty() => Err("there is no certificate in it".to_owned()),
        found => Ok(found),
    }
}
