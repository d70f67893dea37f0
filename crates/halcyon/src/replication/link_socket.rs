//! The link's socket: plain, or TLS where `tls-replication` says so.

use std::net::TcpStream;
use std::time::Duration;

use engine::outgoing::Target;
use engine::replication::replica::Primary;

pub(super) use crate::outgoing::Socket;
use crate::outgoing::{Unconnected, Wanted};
use crate::shared::Shared;

/// A reading waits so long for bytes.
pub(super) const READ_WAIT: Duration = Duration::from_millis(200);

/// Connects to a primary within this time. The second answer is the same socket, to be closed by others.
pub(super) fn connect(
    shared: &Shared,
    primary: &Primary,
    patience: Duration,
) -> Result<(Socket, TcpStream), String> {
    let config = &shared.server.config;
    let wanted = Wanted {
        patience,
        read_wait: READ_WAIT,
        is_undelayed: !config.bool("repl-disable-tcp-nodelay"),
        is_over_tls: config.bool("tls-replication"),
    };
    let target = Target { host: primary.host.clone(), port: primary.port };
    Socket::connect(config, &shared.tls, &target, &wanted).map_err(|reason| match reason {
        Unconnected::Name(error) => format!("Unable to resolve its name: {error}"),
        Unconnected::Address(error) => format!("Unable to connect to MASTER: {error}"),
        Unconnected::Handshake(error) => format!("TLS handshake with MASTER failed: {error}"),
        Unconnected::Other(reason) => reason,
    })
}
