//! TLS: what the `tls-*` directives ask for, as one value that every new connection is made from.
//!
//! [`Tls`] holds that value and replaces it when CONFIG SET changes a directive: connections that exist keep theirs,
//! later ones get the new. A value that cannot be made (a file that is missing, a key of another certificate) changes
//! nothing.

mod aes;
mod client;
mod files;
mod keys;
mod sessions;
mod stream;
mod suites;

use std::sync::Arc;
use std::time::Duration;

use engine::config::Config;
use mio::net::TcpStream;
use parking_lot::RwLock;
use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

pub use stream::{Shake, TlsStream};

/// TLS 1.3 tickets that a client is given at once, as OpenSSL does.
const TICKETS: usize = 2;

/// TLS as configured: shared by all workers.
pub struct Tls {
    current: RwLock<Option<Both>>,
}

/// How others connect to this server, and this server to others.
#[derive(Clone)]
struct Both {
    server: Arc<ServerConfig>,
    client: Option<Arc<ClientConfig>>,
}

impl Tls {
    /// What the directives ask for at start. The error is a line for the user.
    pub fn load(config: &Config) -> Result<Tls, String> {
        let current = make(config).map_err(|reason| format!("Failed to configure TLS: {reason}"))?;
        Ok(Tls { current: RwLock::new(current) })
    }

    /// Takes over changed directives and files; on an error, all stays as it was.
    pub fn reload(&self, config: &Config) -> Result<(), String> {
        let new = make(config).map_err(|reason| format!("Unable to update TLS configuration. {reason}"))?;
        *self.current.write() = new;
        Ok(())
    }

    /// The server's end of a new connection, its handshake still to be done.
    pub fn accept(&self, socket: TcpStream) -> Result<TlsStream, String> {
        let both = self.current.read().clone().ok_or("TLS is not configured")?;
        TlsStream::new(socket, both.server).map_err(|error| error.to_string())
    }

    /// This server's end of a connection to another one, its handshake still to be done.
    pub fn connect(&self, host: &str) -> Result<ClientConnection, String> {
        let both = self.current.read().clone().ok_or("TLS is not configured")?;
        let config = both.client.ok_or("No tls-ca-cert-file or tls-ca-cert-dir configured!")?;
        client::connection(config, host)
    }
}

/// True for directives that change what [`Tls`] holds.
pub fn is_tls_directive(name: &str) -> bool {
    name.starts_with("tls-")
}

/// As Redis: without a use for TLS, nothing is looked at.
fn make(config: &Config) -> Result<Option<Both>, String> {
    if config.int("tls-port") == 0 && !config.bool("tls-replication") && !config.bool("tls-cluster") {
        return Ok(None);
    }
    let versions = suites::versions(&config.string("tls-protocols"))?;
    let provider = Arc::new(provider(config)?);
    let certified =
        files::certified_key(config, &provider, "tls-cert-file", "tls-key-file", "tls-key-file-pass")?
            .ok_or("No tls-cert-file configured!")?;
    let authority = authority(config)?;
    // For links to other servers: what is wrong with it shall be told now, not when the first link is made.
    let own = files::certified_key(
        config,
        &provider,
        "tls-client-cert-file",
        "tls-client-key-file",
        "tls-client-key-file-pass",
    )?;
    let client = authority.clone().map(|roots| {
        client::config(provider.clone(), &versions, roots, own.unwrap_or_else(|| certified.clone()))
    });
    let client = client.transpose().map_err(|_| no_common_suite(&versions))?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)
        .map_err(|_| no_common_suite(&versions))?;
    let builder = match client_verifier(config, provider, authority)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut server = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    server.ignore_client_order = config.bool("tls-prefer-server-ciphers");
    if config.bool("tls-session-caching") {
        let timeout = Duration::from_secs(config.int("tls-session-cache-timeout") as u64);
        server.session_storage =
            Arc::new(sessions::SessionCache::new(config.int("tls-session-cache-size") as usize, timeout));
        server.send_tls13_tickets = TICKETS;
    } else {
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
    }
    Ok(Some(Both { server: Arc::new(server), client }))
}

fn provider(config: &Config) -> Result<CryptoProvider, String> {
    let mut provider = rustls::crypto::ring::default_provider();
    let tls13 = suites::tls13(&config.string("tls-ciphersuites"))?;
    let tls12 = suites::tls12(&config.string("tls-ciphers"))?;
    provider.cipher_suites = [tls13, tls12].concat();
    Ok(provider)
}

fn no_common_suite(versions: &[&SupportedProtocolVersion]) -> String {
    let names: Vec<&str> = versions.iter().map(|version| suites::version_name(version)).collect();
    format!("No cipher suite is left for {} (see tls-ciphers and tls-ciphersuites)", names.join(" and "))
}

/// Who may sign the certificates of others; `None` if nobody is named.
fn authority(config: &Config) -> Result<Option<Arc<RootCertStore>>, String> {
    let (file, directory) = (config.string("tls-ca-cert-file"), config.string("tls-ca-cert-dir"));
    if !file.is_empty() || !directory.is_empty() {
        return files::authorities(&file, &directory).map(|roots| Some(Arc::new(roots)));
    }
    let is_needed = config.bool("tls-cluster")
        || config.bool("tls-replication")
        || config.string("tls-auth-clients") != "no";
    if is_needed {
        return Err("Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, \
                    tls-replication or tls-auth-clients are enabled!"
            .to_owned());
    }
    Ok(None)
}

fn client_verifier(
    config: &Config,
    provider: Arc<CryptoProvider>,
    authority: Option<Arc<RootCertStore>>,
) -> Result<Option<Arc<dyn rustls::server::danger::ClientCertVerifier>>, String> {
    let wanted = config.string("tls-auth-clients");
    let Some(roots) = authority.filter(|_| wanted != "no") else { return Ok(None) };
    // As Redis, clients are not told whose certificates are accepted: the list may be longer than they take.
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider).clear_root_hint_subjects();
    let builder = if wanted == "optional" { builder.allow_unauthenticated() } else { builder };
    builder.build().map(Some).map_err(|error| format!("Failed to use the CA certificates: {error}"))
}
