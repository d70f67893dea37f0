//! Listening sockets. Each worker has its own for every address (SO_REUSEPORT), so that accepting is
//! spread by the kernel and no thread hands new connections around, unless loads differ.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::config::Config;
use mio::net::{TcpListener, UnixListener};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

/// A listening socket.
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// TLS over TCP.
    Tls(TcpListener),
    /// The unix socket and its path.
    Unix(UnixListener, Arc<str>),
}

/// An address to listen on; `optional` ones (written `-addr`) may fail.
struct Address {
    socket: SocketAddr,
    optional: bool,
}

/// Opens the listeners of every worker. The first error is a line for the user.
pub fn open(config: &Config, workers: usize) -> Result<Vec<Vec<Listener>>, String> {
    let mut sets: Vec<Vec<Listener>> = (0..workers).map(|_| Vec::new()).collect();
    open_port(config, "port", Listener::Tcp, &mut sets)?;
    open_port(config, "tls-port", Listener::Tls, &mut sets)?;
    if let Some(listener) = open_unix(config)? {
        sets[0].push(listener);
    }
    if sets[0].is_empty() {
        return Err("Configured to not listen anywhere: set a port, a tls-port or a unixsocket".to_owned());
    }
    Ok(sets)
}

/// Gives every worker its sockets on one port, if it is set.
fn open_port(
    config: &Config,
    directive: &str,
    listener: fn(TcpListener) -> Listener,
    sets: &mut [Vec<Listener>],
) -> Result<(), String> {
    let port = config.int(directive) as u16;
    if port == 0 {
        return Ok(());
    }
    for address in addresses(config, port)? {
        match listen(config, &address.socket, sets.len()) {
            Ok(sockets) => {
                sets.iter_mut().zip(sockets).for_each(|(set, socket)| set.push(listener(socket)));
            }
            // Redis: an address marked `-` may be absent, but not taken.
            Err(error) if address.optional && is_absent(&error) => {}
            Err(error) => return Err(format!("Could not listen on {}: {error}", address.socket)),
        }
    }
    Ok(())
}

fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, Unsupported};
    matches!(error.kind(), AddrNotAvailable | Unsupported)
        || error.raw_os_error() == Some(nix::errno::Errno::EAFNOSUPPORT as i32)
}

fn addresses(config: &Config, port: u16) -> Result<Vec<Address>, String> {
    let mut all = Vec::new();
    for word in config.list("bind") {
        let text = String::from_utf8_lossy(&word).into_owned();
        let (text, optional) = text.strip_prefix('-').map_or((text.as_str(), false), |rest| (rest, true));
        match text {
            "*" | "0.0.0.0" => all.push(Address { socket: (Ipv4Addr::UNSPECIFIED, port).into(), optional }),
            "::*" | "::" => all.push(Address { socket: (Ipv6Addr::UNSPECIFIED, port).into(), optional }),
            name => {
                let resolved = (name, port)
                    .to_socket_addrs()
                    .map_err(|error| format!("Could not resolve {name}: {error}"));
                match resolved {
                    Ok(sockets) => all.extend(sockets.take(1).map(|socket| Address { socket, optional })),
                    Err(_) if optional => {}
                    Err(text) => return Err(text),
                }
            }
        }
    }
    Ok(all)
}

/// One socket per worker on the same address.
fn listen(config: &Config, address: &SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    refuse_taken(address)?;
    (0..workers).map(|_| listen_once(config, address)).collect()
}

/// With SO_REUSEPORT a port taken by another such server would be shared with it, silently.
fn refuse_taken(address: &SocketAddr) -> io::Result<()> {
    let probe = socket(address)?;
    probe.set_reuse_address(true)?;
    probe.bind(&(*address).into())
}

fn socket(address: &SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(*address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

fn listen_once(config: &Config, address: &SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    // Accepted sockets inherit these, which saves a handful of system calls a connection.
    socket.set_tcp_nodelay(true)?;
    apply_keepalive(&socket, config.hot().tcp_keepalive_s())?;
    socket.set_nonblocking(true)?;
    socket.bind(&(*address).into())?;
    socket.listen(config.int("tcp-backlog") as i32)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// As Redis: probes after the interval, then every third of it, three times.
fn apply_keepalive(socket: &Socket, interval_s: u64) -> io::Result<()> {
    if interval_s == 0 {
        return Ok(());
    }
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(interval_s))
        .with_interval(Duration::from_secs((interval_s / 3).max(1)))
        .with_retries(3);
    socket.set_tcp_keepalive(&keepalive)
}

fn open_unix(config: &Config) -> Result<Option<Listener>, String> {
    let path = config.string("unixsocket");
    if path.is_empty() {
        return Ok(None);
    }
    let fail = |error: io::Error| format!("Could not open the unix socket {path}: {error}");
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&path).map_err(fail)?;
    let mode = config.int("unixsocketperm") as u32;
    if mode != 0 {
        std::fs::set_permissions(Path::new(&path), std::fs::Permissions::from_mode(mode)).map_err(fail)?;
    }
    Ok(Some(Listener::Unix(listener, Arc::from(path.as_str()))))
}
