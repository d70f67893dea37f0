//! The socket of a relay: plain, or over TLS. It never blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use base::limits::TLS_WRITE_BYTES;
use engine::config::Config;
use engine::forwarding::Door;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::ClientConnection;
use socket2::{Domain, Protocol, Socket, Type};

use crate::tls::Tls;

/// A socket, and what the poll has said of it.
pub(super) struct RelaySocket {
    tcp: TcpStream,
    tls: Option<Box<ClientConnection>>,
    is_connected: bool,
    /// It may have bytes.
    pub(super) readable: bool,
    /// It takes bytes, as far as is known.
    writable: bool,
    /// Why it cannot be connected.
    broken: Option<io::Error>,
    /// It is not read, since the client that is answered does not read.
    pub(super) is_held: bool,
}

impl RelaySocket {
    /// Begins to connect.
    pub(super) fn connect(config: &Config, tls: &Tls, door: Door) -> io::Result<RelaySocket> {
        let tls = match door.over_tls {
            true => {
                let session = tls.connect(&door.address.ip().to_string()).map_err(io::Error::other)?;
                Some(Box::new(session))
            }
            false => None,
        };
        let tcp = connect_to(door.address, &config.string("bind-source-addr"))?;
        // Not every system lets it be changed, and nothing depends on it.
        let _ = tcp.set_nodelay(true);
        let (is_connected, readable, writable, is_held) = (false, false, false, false);
        Ok(RelaySocket { tcp, tls, is_connected, readable, writable, broken: None, is_held })
    }

    /// Has the poll report on it.
    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.tcp, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Takes over what the poll has seen.
    pub(super) fn note(&mut self, event: &Event) {
        self.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.writable |= event.is_writable() || event.is_error();
        if !self.is_connected && (event.is_writable() || event.is_error()) {
            match self.tcp.take_error() {
                Ok(None) => self.is_connected = self.tcp.peer_addr().is_ok(),
                Ok(Some(error)) | Err(error) => self.broken = Some(error),
            }
        }
    }

    /// Sends what it takes of the bytes, and what TLS has to say: returns how many of the bytes. Those that TLS has taken count
    /// as sent.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        if !self.is_connected || !self.send_records()? {
            return Ok(0);
        }
        let Some(tls) = &mut self.tls else {
            return if bytes.is_empty() { Ok(0) } else { self.write_plain(bytes) };
        };
        if tls.is_handshaking() || bytes.is_empty() {
            return Ok(0);
        }
        let count = tls.writer().write(&bytes[..bytes.len().min(TLS_WRITE_BYTES)])?;
        self.send_records()?;
        Ok(count)
    }

    fn write_plain(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.tcp.write(bytes);
        Ok(self.or_later(written, false)?.unwrap_or(0))
    }

    /// Sends what TLS has enciphered; true if all is sent.
    fn send_records(&mut self) -> io::Result<bool> {
        while self.writable
            && let Some(tls) = &mut self.tls
            && tls.wants_write()
        {
            let written = tls.write_tls(&mut self.tcp);
            self.or_later(written, false)?;
        }
        Ok(self.writable && self.tls.as_ref().is_none_or(|tls| !tls.wants_write()))
    }

    /// Reads once; `None`: nothing has come, `Some(0)`: nothing will.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        if !self.is_connected {
            return Ok(None);
        }
        let Some(tls) = &mut self.tls else {
            let read = self.tcp.read(buffer);
            return self.or_later(read, true);
        };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other.map(Some),
            }
            match tls.read_tls(&mut self.tcp) {
                Ok(0) => return Ok(Some(0)),
                Ok(_) => {
                    tls.process_new_packets().map_err(io::Error::other)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(None);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A result of the socket; `None`: it is for later.
    fn or_later(&mut self, result: io::Result<usize>, is_read: bool) -> io::Result<Option<usize>> {
        match result {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                *(if is_read { &mut self.readable } else { &mut self.writable }) = false;
                Ok(None)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
            other => other.map(Some),
        }
    }
}

/// Begins to connect, from `source` if that is an address.
fn connect_to(address: SocketAddr, source: &str) -> io::Result<TcpStream> {
    let Ok(source) = source.parse() else { return TcpStream::connect(address) };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::new(source, 0).into())?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() == Some(nix::libc::EINPROGRESS) => {}
        other => other?,
    }
    Ok(TcpStream::from_std(std::net::TcpStream::from(socket)))
}
