//! Private keys in PEM: PKCS#1, SEC1 and PKCS#8, the last also encrypted under a password.
//!
//! Encrypted ones are those that OpenSSL has written since version 1.1: PBES2 (RFC 8018) with PBKDF2 and AES in CBC
//! mode. Older forms are refused with the command that converts them.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use ring::pbkdf2;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::aes;

const ENCRYPTED_LABEL: &str = "ENCRYPTED PRIVATE KEY";
/// What keeps a key file from holding the process up: OpenSSL's default is 2,048.
const ITERATIONS_MAX: u32 = 10_000_000;
const OLD_FORM: &str = "it is encrypted in a form that is not supported: convert it with \
                        'openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW'";

// Object identifiers, as they are encoded.
const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
/// What the functions of PBKDF2 have in common, and what follows for each.
const HMAC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02];
/// What AES in CBC mode has in common for all sizes, and what follows for each.
const AES: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01];

/// The key in a file; `password` is looked at only if the key is encrypted. Errors do not name the file.
pub(super) fn read(path: &Path, password: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(OLD_FORM.to_owned());
    }
    if text.contains(ENCRYPTED_LABEL) {
        let text = text.replace(ENCRYPTED_LABEL, "PRIVATE KEY");
        let wrapped =
            PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|error| error.to_string())?;
        let key = decrypt(wrapped.secret_pkcs8_der(), password)?;
        return Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)));
    }
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => "there is no private key in it".to_owned(),
        other => other.to_string(),
    })
}

/// The PKCS#8 key in an EncryptedPrivateKeyInfo.
fn decrypt(wrapped: &[u8], password: &[u8]) -> Result<Vec<u8>, String> {
    if password.is_empty() {
        return Err("it is encrypted, and no password is set (tls-key-file-pass)".to_owned());
    }
    let parameters = Parameters::parse(wrapped).ok_or(OLD_FORM)?;
    if parameters.iterations.get() > ITERATIONS_MAX {
        return Err(format!("it asks for {} iterations of PBKDF2", parameters.iterations));
    }
    let mut key = vec![0; parameters.key_bytes];
    pbkdf2::derive(parameters.function, parameters.iterations, parameters.salt, password, &mut key);
    let plain = aes::decrypt_cbc(&key, parameters.start, parameters.data);
    // A wrong password shows as padding that is none, or as what is no sequence.
    plain.filter(|plain| plain.first() == Some(&0x30)).ok_or_else(|| "the password is wrong".to_owned())
}

/// What an EncryptedPrivateKeyInfo says.
struct Parameters<'a> {
    function: pbkdf2::Algorithm,
    iterations: NonZeroU32,
    salt: &'a [u8],
    key_bytes: usize,
    start: &'a [u8; 16],
    data: &'a [u8],
}

impl<'a> Parameters<'a> {
    /// `{{PBES2, {{PBKDF2, {salt, iterations, [bytes], [{function, null}]}}, {cipher, start}}}, data}`
    fn parse(wrapped: &'a [u8]) -> Option<Parameters<'a>> {
        const SEQUENCE: u8 = 0x30;
        let mut whole = Der(Der(wrapped).take(SEQUENCE)?);
        let mut algorithm = Der(whole.take(SEQUENCE)?);
        let data = whole.take(0x04)?;
        if algorithm.take(0x06)? != PBES2 {
            return None;
        }
        let mut scheme = Der(algorithm.take(SEQUENCE)?);
        let mut derivation = Der(scheme.take(SEQUENCE)?);
        let mut cipher = Der(scheme.take(SEQUENCE)?);
        if derivation.take(0x06)? != PBKDF2 {
            return None;
        }
        let mut derivation = Der(derivation.take(SEQUENCE)?);
        let salt = derivation.take(0x04)?;
        let iterations = NonZeroU32::new(derivation.integer()?)?;
        if derivation.0.first() == Some(&0x02) {
            derivation.integer()?;
        }
        let function = match derivation.take(SEQUENCE) {
            // The default of the standard.
            None => pbkdf2::PBKDF2_HMAC_SHA1,
            Some(named) => match Der(named).take(0x06)?.strip_prefix(HMAC)? {
                [7] => pbkdf2::PBKDF2_HMAC_SHA1,
                [9] => pbkdf2::PBKDF2_HMAC_SHA256,
                [10] => pbkdf2::PBKDF2_HMAC_SHA384,
                [11] => pbkdf2::PBKDF2_HMAC_SHA512,
                _ => return None,
            },
        };
        let key_bytes = match cipher.take(0x06)?.strip_prefix(AES)? {
            [2] => 16,
            [22] => 24,
            [42] => 32,
            _ => return None,
        };
        let start = cipher.take(0x04)?.try_into().ok()?;
        Some(Parameters { function, iterations, salt, key_bytes, start, data })
    }
}

/// What is left of some DER.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next element, if it has this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            0x81 => (usize::from(*rest.first()?), &rest[1..]),
            0x82 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), &rest[2..]),
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        (*found == tag).then(|| {
            self.0 = rest;
            content
        })
    }

    fn integer(&mut self) -> Option<u32> {
        let bytes = self.take(0x02)?;
        let bytes = bytes.strip_prefix(&[0]).unwrap_or(bytes);
        (bytes.len() <= 4).then(|| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn der_is_read_or_refused() {
        let mut der = Der(&[0x04, 2, 7, 8, 0x02, 3, 0, 1, 2, 0x04, 0x81, 1, 9, 0x04, 5, 1]);
        assert_eq!(der.take(0x02), None);
        assert_eq!(der.take(0x04), Some(&[7, 8][..]));
        assert_eq!(der.integer(), Some(258));
        assert_eq!(der.take(0x04), Some(&[9][..]));
        assert_eq!(der.take(0x04), None, "longer than what is there");
        for cut in [&[][..], &[0x04], &[0x04, 0x81], &[0x04, 0x82, 1], &[0x04, 0x84, 0, 0, 0, 1]] {
            assert_eq!(Der(cut).take(0x04), None, "{cut:?}");
        }
    }
}
