//! What the directives say of etcd.

use std::time::Duration;

use engine::config::Config;
use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};

/// How long a connection to etcd may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Where the cluster's records stand, and how to get there.
#[derive(Clone)]
pub struct Options {
    /// etcd's members, in the order in which they are named.
    pub endpoints: Vec<String>,
    /// What each of the cluster's keys begins with: `/halcyon/NAME/`.
    pub prefix: String,
    /// Credentials, and certificates.
    pub connect: ConnectOptions,
}

impl Options {
    /// What the directives say; None without `cluster-etcd`. The error is a line for the user.
    pub fn of(config: &Config) -> Result<Option<Options>, String> {
        let etcd = config.string("cluster-etcd");
        if etcd.is_empty() {
            return Ok(None);
        }
        if !config.bool("cluster-enabled") {
            return Err("cluster-etcd is for a cluster: set 'cluster-enabled yes' as well".to_owned());
        }
        let endpoints = endpoints(&etcd)?;
        let is_secure = endpoints.iter().any(|endpoint| endpoint.starts_with("https://"));
        if is_secure && !endpoints.iter().all(|endpoint| endpoint.starts_with("https://")) {
            return Err(
                "cluster-etcd names some members by http and some by https: it has to be one".to_owned()
            );
        }
        let mut connect = ConnectOptions::new()
            .with_connect_timeout(CONNECT_TIMEOUT)
            // A member that has lost the others ends its watches, instead of telling nothing.
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        let user = config.string("cluster-etcd-username");
        if !user.is_empty() {
            connect = connect.with_user(user, config.string("cluster-etcd-password"));
        }
        if is_secure {
            connect = connect.with_tls(certificates(config)?);
        }
        Ok(Some(Options {
            endpoints,
            prefix: format!("/halcyon/{}/", config.string("cluster-name")),
            connect,
        }))
    }
}

/// The addresses of a list that commas or blanks part.
fn endpoints(text: &str) -> Result<Vec<String>, String> {
    let words = text.split([',', ' ', '\t']).filter(|word| !word.is_empty());
    words.map(|word| endpoint(word).ok_or_else(|| wrong(word))).collect()
}

fn wrong(word: &str) -> String {
    format!("cluster-etcd: '{word}' is no address of etcd, which looks like http://10.0.0.1:2379")
}

/// An address with its scheme and port, which are http and 2379 where it names none.
fn endpoint(word: &str) -> Option<String> {
    let (scheme, place) = word.split_once("://").unwrap_or(("http", word));
    let place = place.trim_end_matches('/');
    let has_port = place
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0));
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    let is_known = matches!(scheme, "http" | "https");
    if !is_known || place.is_empty() || !place.bytes().all(is_host) {
        return None;
    }
    match has_port {
        true => Some(format!("{scheme}://{place}")),
        false if !place.contains(':') || place.ends_with(']') => Some(format!("{scheme}://{place}:2379")),
        false => None,
    }
}

/// Who etcd is known by, and who this node says it is.
fn certificates(config: &Config) -> Result<TlsOptions, String> {
    let file = |directive: &str| {
        let path = config.string(directive);
        let read = |path: String| {
            std::fs::read(&path).map_err(|error| format!("{directive}: can't read {path}: {error}"))
        };
        (!path.is_empty()).then(|| read(path)).transpose()
    };
    let authority = file("cluster-etcd-ca-cert-file")?;
    let authority = authority.ok_or("cluster-etcd names https: set cluster-etcd-ca-cert-file as well")?;
    let tls = TlsOptions::new().ca_certificate(Certificate::from_pem(authority));
    match (file("cluster-etcd-cert-file")?, file("cluster-etcd-key-file")?) {
        (Some(certificate), Some(key)) => Ok(tls.identity(Identity::from_pem(certificate, key))),
        (None, None) => Ok(tls),
        _ => Err("cluster-etcd-cert-file and cluster-etcd-key-file go together: set both".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_nonsense() {
        for (text, expected) in [
            ("http://a:2379,http://b:2380", Some(vec!["http://a:2379", "http://b:2380"])),
            ("a", Some(vec!["http://a:2379"])),
            ("10.0.0.1:1 ,, https://c/", Some(vec!["http://10.0.0.1:1", "https://c:2379"])),
            ("[::1]:2379 [::1]", Some(vec!["http://[::1]:2379", "http://[::1]:2379"])),
            ("ftp://a:1", None),
            ("http://", None),
            ("a:0", None),
            ("a:x", None),
            ("a:70000", None),
            ("http://a/path", None),
            ("a b?c", None),
        ] {
            let found = endpoints(text).ok();
            let expected = expected.map(|words| words.into_iter().map(str::to_owned).collect());
            assert_eq!(found, expected, "{text}");
        }
    }
}
