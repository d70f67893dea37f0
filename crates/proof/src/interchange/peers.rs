//! The real servers that are here.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::state::Digests;
use crate::server::Binaries;

/// Newer servers, for who has them, below the home directory.
const NEWER_DIRECTORY: &str = ".cache/halcyon-peers/bin";
const NEWER: &[&str] = &["redis8-server", "valkey9-server"];

/// How a server writes ends of a hash's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldEnds {
    Unknown,
    Redis,
    /// In its own way: what Redis wrote is refused.
    Valkey,
}

/// A real server.
pub struct Peer {
    pub name: String,
    pub binary: PathBuf,
    pub field_ends: FieldEnds,
    is_7_0: bool,
}

/// The oracle, and those of the newer servers that are here.
pub fn found(binaries: &Binaries) -> Vec<Peer> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let newer = NEWER.iter().map(|name| home.join(NEWER_DIRECTORY).join(name));
    let mut peers = Vec::new();
    for binary in std::iter::once(binaries.oracle.clone()).chain(newer) {
        match Peer::new(binary.clone()) {
            Ok(peer) => peers.push(peer),
            Err(_) => println!("{} is not here: nothing is exchanged with it", binary.display()),
        }
    }
    peers
}

impl Peer {
    fn new(binary: PathBuf) -> io::Result<Peer> {
        let told = Command::new(&binary).arg("--version").output()?;
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let version = told.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("?");
        let is_valkey = told.starts_with("Valkey");
        let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        let field_ends = match major {
            9.. if is_valkey => FieldEnds::Valkey,
            8.. if !is_valkey => FieldEnds::Redis,
            _ => FieldEnds::Unknown,
        };
        let is_7_0 = version.starts_with("7.0.");
        let name = format!("{} {version}", if is_valkey { "valkey" } else { "redis" });
        Ok(Peer { name, binary, field_ends, is_7_0 })
    }

    /// The digests that it makes of values as Halcyon does. Later versions than 7.0 write scores with fewer digits, and
    /// Valkey mixes in the ends of fields in a way of its own.
    pub fn digests(&self, has_field_ends: bool) -> Digests {
        match self.field_ends {
            _ if self.is_7_0 => Digests::Whole,
            FieldEnds::Valkey if has_field_ends => Digests::But(&["+zset", "+hash"]),
            _ => Digests::But(&["+zset"]),
        }
    }
}

/// Has redis-check-rdb look at a file: it is the oracle, called by another name.
pub fn check_file(binaries: &Binaries, file: &Path) -> io::Result<()> {
    let checked = Command::new(&binaries.oracle).arg0("redis-check-rdb").arg(file).output()?;
    let told = String::from_utf8_lossy(&checked.stdout);
    if checked.status.success() && told.contains("RDB looks OK") {
        return Ok(());
    }
    let lines: Vec<&str> = told.lines().collect();
    Err(io::Error::other(lines[lines.len().saturating_sub(6)..].join("; ")))
}
