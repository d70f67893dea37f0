//! Connections to other servers: plain, or over TLS. They block, but never for long.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use base::limits::READ_BUFFER_BYTES;
use engine::config::Config;
use engine::outgoing::{Link, Target};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustls::{ClientConnection, StreamOwned};
use socket2::{Domain, Protocol, SockRef, TcpKeepalive, Type};

use crate::tls::Tls;

/// What the sockets are to be like.
pub struct Wanted {
    /// How long connecting, and then a writing, may take; after so long without a sign, the other end is asked for one.
    pub patience: Duration,
    /// How long a reading waits.
    pub read_wait: Duration,
    /// What is written leaves at once.
    pub is_undelayed: bool,
    /// What is said is to be secret.
    pub is_over_tls: bool,
}

/// Why there is no connection.
pub enum Unconnected {
    /// The name has no address.
    Name(String),
    /// Nobody answered.
    Address(io::Error),
    /// Something else went wrong.
    Other(String),
    /// The other end could not be agreed with.
    Handshake(io::Error),
}

/// A connection to another server.
pub enum Socket {
    /// As it is.
    Plain(TcpStream),
    /// Over TLS.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Socket {
    /// Connects. The second answer is the same socket, to be closed by others.
    pub fn connect(
        config: &Config,
        tls: &Tls,
        target: &Target,
        wanted: &Wanted,
    ) -> Result<(Socket, TcpStream), Unconnected> {
        let source = config.string("bind-source-addr");
        let host = target.host.trim_matches(['[', ']']);
        let addresses = (host, target.port).to_socket_addrs();
        let addresses = addresses.map_err(|error| Unconnected::Name(error.to_string()))?;
        let mut reason = Unconnected::Other("its name has no address".to_owned());
        for address in addresses {
            match connect_to(address, &source, wanted.patience) {
                Ok(tcp) => return Socket::over(tls, tcp, target, wanted),
                Err(error) => reason = Unconnected::Address(error),
            }
        }
        Err(reason)
    }

    fn over(
        tls: &Tls,
        tcp: TcpStream,
        target: &Target,
        wanted: &Wanted,
    ) -> Result<(Socket, TcpStream), Unconnected> {
        let failed = |error: io::Error| Unconnected::Other(error.to_string());
        tcp.set_nodelay(wanted.is_undelayed).map_err(failed)?;
        tcp.set_read_timeout(Some(wanted.read_wait)).map_err(failed)?;
        tcp.set_write_timeout(Some(wanted.patience)).map_err(failed)?;
        let keepalive = TcpKeepalive::new().with_time(wanted.patience.max(Duration::from_secs(1)));
        SockRef::from(&tcp).set_tcp_keepalive(&keepalive).map_err(failed)?;
        let other = tcp.try_clone().map_err(failed)?;
        if !wanted.is_over_tls {
            return Ok((Socket::Plain(tcp), other));
        }
        let session = tls.connect(&target.host).map_err(Unconnected::Other)?;
        let mut stream = StreamOwned::new(session, tcp);
        let started = Instant::now();
        while stream.conn.is_handshaking() {
            match stream.conn.complete_io(&mut stream.sock) {
                Ok(_) => {}
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock && started.elapsed() < wanted.patience => {}
                Err(error) => return Err(Unconnected::Handshake(error)),
            }
        }
        Ok((Socket::Tls(Box::new(stream)), other))
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Socket::Plain(tcp) => tcp,
            Socket::Tls(stream) => &stream.sock,
        }
    }

    /// How long a reading waits from now on.
    pub fn set_read_wait(&self, wait: Duration) -> io::Result<()> {
        self.tcp().set_read_timeout(Some(wait))
    }

    /// Waits until a reading need not, or there is something in `bell`, for so long at most. True for the former.
    pub fn is_readable_within(&mut self, wait: Duration, bell: &UnixStream) -> io::Result<bool> {
        if let Socket::Tls(stream) = self
            && stream.conn.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
        {
            return Ok(true);
        }
        let fd = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = [fd(self.tcp().as_fd()), fd(bell.as_fd())];
        match poll(&mut fds, PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => Ok(fds[0].any().unwrap_or(false)),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Read::read`]; an error [`ErrorKind::WouldBlock`] or `TimedOut` where nothing comes for a moment.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Plain(socket) => socket.read(buffer),
            Socket::Tls(stream) => stream.read(buffer),
        }
    }

    /// As [`Write::write_all`].
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Plain(socket) => socket.write_all(bytes),
            Socket::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }
}

impl Link for Socket {
    fn set_patience(&mut self, patience: Duration) -> io::Result<()> {
        self.tcp().set_read_timeout(Some(patience))?;
        self.tcp().set_write_timeout(Some(patience))
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).map_err(as_timeout)
    }

    fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let before = bytes.len();
        bytes.resize(before + READ_BUFFER_BYTES, 0);
        let result = self.read(&mut bytes[before..]);
        bytes.truncate(before + *result.as_ref().unwrap_or(&0));
        match result {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error) => Err(as_timeout(error)),
        }
    }
}

/// A socket whose time is over says that it would block.
fn as_timeout(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { error }
}

/// Connects to one address, from `source` if that is one.
fn connect_to(address: SocketAddr, source: &str, patience: Duration) -> io::Result<TcpStream> {
    let Ok(source) = source.parse() else { return TcpStream::connect_timeout(&address, patience) };
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&SocketAddr::new(source, 0).into())?;
    socket.connect_timeout(&address.into(), patience)?;
    Ok(socket.into())
}
