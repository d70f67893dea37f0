//! Listening sockets. Each worker has its own for every address (SO_REUSEPORT), so that accepting is
//! spread by the kernel and no thread hands new connections around, unless loads differ.
//!
//! [`Listeners`] holds them all. CONFIG SET of a port or an address closes what is no longer asked for at once, opens the
//! rest, and leaves the workers a letter to look again.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::config::Config;
use mio::net::{TcpListener, UnixListener};
use parking_lot::Mutex;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::placement::Threads;
use crate::shared::{Mailbox, Message};

/// A listening socket.
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// TLS over TCP.
    Tls(TcpListener),
    /// TCP, for clients of Redis Sentinel.
    Sentinel(TcpListener),
    /// The unix socket and its path.
    Unix(UnixListener, Arc<str>),
}

impl Listener {
    /// The socket's number, for the poll.
    pub fn fd(&self) -> RawFd {
        match self {
            Listener::Tcp(listener) | Listener::Tls(listener) | Listener::Sentinel(listener) => {
                listener.as_raw_fd()
            }
            Listener::Unix(listener, _) => listener.as_raw_fd(),
        }
    }
}

/// What is spoken on a port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protection {
    Plain,
    Tls,
    /// Plainly, SENTINEL too.
    Sentinel,
}

impl Protection {
    fn directive(self) -> &'static str {
        match self {
            Protection::Plain => "port",
            Protection::Tls => "tls-port",
            Protection::Sentinel => "sentinel-port",
        }
    }

    fn listener(self, socket: TcpListener) -> Listener {
        match self {
            Protection::Plain => Listener::Tcp(socket),
            Protection::Tls => Listener::Tls(socket),
            Protection::Sentinel => Listener::Sentinel(socket),
        }
    }

    /// The TCP socket in `listener`, if this is spoken there.
    fn of(self, listener: &Listener) -> Option<&TcpListener> {
        match (self, listener) {
            (Protection::Plain, Listener::Tcp(socket))
            | (Protection::Tls, Listener::Tls(socket))
            | (Protection::Sentinel, Listener::Sentinel(socket)) => Some(socket),
            _ => None,
        }
    }
}

const PROTECTIONS: [Protection; 3] = [Protection::Plain, Protection::Tls, Protection::Sentinel];

/// An address to listen on; `optional` ones (written `-addr`) may fail.
struct Address {
    socket: SocketAddr,
    optional: bool,
}

/// One worker's sockets.
type Set = Vec<Arc<Listener>>;

/// The listening sockets of all workers.
pub struct Listeners {
    sets: Mutex<Vec<Set>>,
    mailboxes: Arc<[Mailbox]>,
    /// For each worker the CPU whose connections it is to get, where that is known.
    incoming_cpus: Vec<Option<usize>>,
}

impl Listeners {
    /// Opens them for the workers with these letter boxes, each for what its incoming CPU receives, if it has one. The first
    /// error is a line for the user.
    pub fn open(
        config: &Config,
        mailboxes: Arc<[Mailbox]>,
        incoming_cpus: Vec<Option<usize>>,
    ) -> Result<Listeners, String> {
        let mut sets: Vec<Set> = mailboxes.iter().map(|_| Set::new()).collect();
        for protection in PROTECTIONS {
            open_port(config, protection, &incoming_cpus, &mut sets)?;
        }
        if let Some(listener) = open_unix(config)? {
            sets[0].push(Arc::new(listener));
        }
        if sets[0].is_empty() {
            return Err(
                "Configured to not listen anywhere: set a port, a tls-port or a unixsocket".to_owned()
            );
        }
        Ok(Listeners { sets: Mutex::new(sets), mailboxes, incoming_cpus })
    }

    /// The sockets of one worker.
    pub fn of(&self, worker: usize) -> Set {
        self.sets.lock()[worker].clone()
    }

    /// Listens as changed directives say now. The error names the one at fault; some sockets may then be closed, which
    /// a call with the old values opens again.
    pub fn follow(&self, config: &Config, changed: &[&'static str]) -> Result<(), (&'static str, String)> {
        if changed.contains(&"tcp-keepalive") {
            self.follow_keepalive(config);
        }
        let mut outcome = Ok(());
        for protection in PROTECTIONS {
            let directive = protection.directive();
            if outcome.is_err() || !changed.iter().any(|name| *name == directive || *name == "bind") {
                continue;
            }
            outcome = self.reopen(config, protection).map_err(|reason| {
                tracing::warn!("{reason}");
                match changed.contains(&directive) {
                    true => (directive, "Unable to listen on this port. Check server logs.".to_owned()),
                    false => ("bind", "Failed to bind to specified addresses.".to_owned()),
                }
            });
        }
        outcome
    }

    fn reopen(&self, config: &Config, protection: Protection) -> Result<(), String> {
        let mut sets = self.sets.lock();
        for socket in sets.iter().flatten().filter_map(|listener| protection.of(listener)) {
            // Takes effect now, not when the last worker has let go of it. What fails was not listening any more.
            let _ = SockRef::from(socket).shutdown(Shutdown::Both);
        }
        sets.iter_mut().for_each(|set| set.retain(|listener| protection.of(listener).is_none()));
        let opened = open_port(config, protection, &self.incoming_cpus, &mut sets);
        self.mailboxes.iter().for_each(|mailbox| mailbox.send(Message::Listen));
        opened
    }

    /// Connections accepted from now on are probed as `tcp-keepalive` says.
    fn follow_keepalive(&self, config: &Config) {
        for listener in self.sets.lock().iter().flatten() {
            if let Listener::Tcp(socket) | Listener::Tls(socket) | Listener::Sentinel(socket) = &**listener {
                apply_keepalive(&SockRef::from(socket), config.hot().tcp_keepalive_s());
            }
        }
    }
}

/// Gives every worker its sockets on one port, if it is set.
fn open_port(
    config: &Config,
    protection: Protection,
    incoming_cpus: &[Option<usize>],
    sets: &mut [Set],
) -> Result<(), String> {
    let port = config.int(protection.directive()) as u16;
    if port == 0 {
        return Ok(());
    }
    for address in addresses(config, port)? {
        match listen(config, &address.socket, incoming_cpus) {
            Ok(sockets) => {
                let listeners = sockets.into_iter().map(|socket| Arc::new(protection.listener(socket)));
                sets.iter_mut().zip(listeners).for_each(|(set, listener)| set.push(listener));
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
fn listen(
    config: &Config,
    address: &SocketAddr,
    incoming_cpus: &[Option<usize>],
) -> io::Result<Vec<TcpListener>> {
    refuse_taken(address)?;
    incoming_cpus.iter().map(|cpu| listen_once(config, address, *cpu)).collect()
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

fn listen_once(
    config: &Config,
    address: &SocketAddr,
    incoming_cpu: Option<usize>,
) -> io::Result<TcpListener> {
    let socket = socket(address)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    Threads::steer(&SockRef::from(&socket), incoming_cpu);
    // Accepted sockets inherit these, which saves a handful of system calls a connection.
    socket.set_tcp_nodelay(true)?;
    apply_keepalive(&socket, config.hot().tcp_keepalive_s());
    mark(&socket, config.int("socket-mark-id") as u32);
    socket.set_nonblocking(true)?;
    socket.bind(&(*address).into())?;
    socket.listen(config.int("tcp-backlog") as i32)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// As Redis: probes after the interval, then every third of it, three times; where the machine takes no such interval, as
/// it probes by itself.
fn apply_keepalive(socket: &Socket, interval_s: u64) {
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(interval_s))
        .with_interval(Duration::from_secs((interval_s / 3).max(1)))
        .with_retries(3);
    let applied =
        if interval_s == 0 { socket.set_keepalive(false) } else { socket.set_tcp_keepalive(&keepalive) };
    if let Err(error) = applied {
        tracing::warn!("Can't probe connections every {interval_s} s: {error}");
    }
}

/// Marks the packets of a socket for the machine's packet filter. As Redis: where that is not allowed, they go without.
#[cfg(target_os = "linux")]
fn mark(socket: &Socket, mark: u32) {
    if mark != 0
        && let Err(error) = socket.set_mark(mark)
    {
        tracing::warn!("Can't set the socket mark {mark}: {error}");
    }
}

#[cfg(not(target_os = "linux"))]
fn mark(_: &Socket, _: u32) {}

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
