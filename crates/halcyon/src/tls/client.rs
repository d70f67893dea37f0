//! This server's end of connections to other servers: replication.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};

/// What connections to other servers are made from: they are known by `roots`, and this one by `own`.
pub(super) fn config(
    provider: Arc<CryptoProvider>,
    versions: &[&'static SupportedProtocolVersion],
    roots: Arc<RootCertStore>,
    own: Arc<CertifiedKey>,
) -> Result<Arc<ClientConfig>, Error> {
    let verifier = Arc::new(KnownAuthority { roots, provider: provider.clone() });
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)));
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// A connection to a server by its name or address.
pub(super) fn connection(config: Arc<ClientConfig>, host: &str) -> Result<ClientConnection, String> {
    // A name that TLS cannot tell a server is not told; nothing depends on it.
    let fallback = || ServerName::try_from("replication.invalid").expect("a name");
    let name = ServerName::try_from(host.to_owned()).unwrap_or_else(|_| fallback());
    ClientConnection::new(config, name).map_err(|error| error.to_string())
}

/// As Redis: a server is who it says if one of the authorities signed its certificate, whatever name that has. Replicas
/// name primaries by addresses.
struct KnownAuthority {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for KnownAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownAuthority")
    }
}

impl ServerCertVerifier for KnownAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        let roots = &self.roots;
        verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
