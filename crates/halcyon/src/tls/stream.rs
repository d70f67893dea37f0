//! One TLS connection over a socket that does not block.
//!
//! | state | left when |
//! |---|---|
//! | shaking hands | [`TlsStream::shake_hands`] says that it is done, or fails |
//! | open | the client says that it sends no more, or its socket ends: reads return 0 |
//! | half closed | the owner is through with sending and calls [`TlsStream::farewell`] |
//!
//! What is deciphered and enciphered passes through buffers of the thread, which its connections use in turn. A
//! connection keeps only what is left over: half a record that came in, and at most [`WRITE_BYTES`] that were
//! enciphered and that the socket did not take. So an idle one owns no buffer.
//!
//! What has been enciphered must be sent before anything else. Until the socket has taken all of it, a write reports
//! that it would block, and its caller keeps the plain bytes and offers them again: they count as unsent.

use std::cell::RefCell;
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use base::limits::{READ_BUFFER_BYTES, TLS_WRITE_BYTES};
use mio::net::TcpStream;
use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};

/// Most plain bytes in one record.
const RECORD_BYTES: usize = 16 * 1024;
/// What enciphering adds to a write at most: headers, tags and a change of keys.
const WRITE_OVERHEAD_BYTES: usize = 2 * 1024;

/// The server's end of a TLS connection.
pub struct TlsStream {
    socket: TcpStream,
    session: Box<UnbufferedServerConnection>,
    shaking: bool,
    /// Half a record, or half a message of the handshake. Has no capacity when empty.
    received: Vec<u8>,
    /// Deciphered, but there was no room for it. Has no capacity when empty.
    plain: Vec<u8>,
    /// To be sent before anything else. Has no capacity when empty.
    unsent: Vec<u8>,
    /// Plain bytes that `unsent` stands for, and that the owner still counts as its own.
    promised: usize,
    /// The last read did not come to the end of what is there.
    has_more: bool,
    /// The client said that it sends no more.
    peer_closed: bool,
    /// The session has broken, and has said so. It must not be asked again.
    failed: bool,
}

/// How a handshake goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shake {
    /// It waits for the socket.
    Waits,
    /// It goes on with what has come.
    Again,
    /// It is done.
    Done,
}

/// What the connections of a thread use in turn.
struct Buffers {
    incoming: Box<[u8]>,
    outgoing: Vec<u8>,
    /// Small parts of a reply become one record here.
    record: Box<[u8]>,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::new(Buffers {
        incoming: vec![0; READ_BUFFER_BYTES].into(),
        outgoing: vec![0; TLS_WRITE_BYTES + WRITE_OVERHEAD_BYTES],
        record: vec![0; RECORD_BYTES].into(),
    });
}

impl TlsStream {
    /// A connection whose client has not said anything yet.
    pub(super) fn new(socket: TcpStream, config: Arc<ServerConfig>) -> Result<TlsStream, rustls::Error> {
        Ok(TlsStream {
            socket,
            session: Box::new(UnbufferedServerConnection::new(config)?),
            shaking: true,
            received: Vec::new(),
            plain: Vec::new(),
            unsent: Vec::new(),
            promised: 0,
            has_more: true,
            peer_closed: false,
            failed: false,
        })
    }

    /// The socket below.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// The socket below, to look at.
    pub fn socket_ref(&self) -> &TcpStream {
        &self.socket
    }

    /// True until the handshake is done.
    pub fn is_shaking_hands(&self) -> bool {
        self.shaking
    }

    /// True if a read may find something before the poll reports anything.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// One step of the handshake: sends what is to be sent, reads once, answers. Of a client that `hung_up` the poll
    /// reports no more, so the end has to be read.
    pub fn shake_hands(&mut self, hung_up: bool) -> io::Result<Shake> {
        BUFFERS.with_borrow_mut(|buffers| {
            if !self.send_unsent()? {
                return if hung_up { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(Shake::Waits) };
            }
            let mut is_full = false;
            if self.session.is_handshaking() {
                let mut left_over = Vec::new();
                let read =
                    self.read_socket(&mut buffers.incoming, |plain| left_over.extend_from_slice(plain))?;
                self.plain = left_over;
                is_full = read == Came::Full;
                if read == Came::End {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            if !self.send_unsent()? {
                return Ok(Shake::Waits);
            }
            if self.session.is_handshaking() {
                return Ok(if is_full || hung_up { Shake::Again } else { Shake::Waits });
            }
            self.shaking = false;
            Ok(Shake::Done)
        })
    }

    /// Reads once and deciphers what came; 0 when the client sends no more.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.plain.is_empty() {
            let count = self.plain.len().min(buffer.len());
            buffer[..count].copy_from_slice(&self.plain[..count]);
            self.plain.drain(..count);
            if self.plain.is_empty() {
                self.plain = Vec::new();
            }
            self.has_more = true;
            return Ok(count);
        }
        if self.peer_closed {
            return Ok(0);
        }
        BUFFERS.with_borrow_mut(|buffers| {
            let (mut filled, mut left_over) = (0, Vec::new());
            let came = self.read_socket(&mut buffers.incoming, |plain| {
                let count = plain.len().min(buffer.len() - filled);
                buffer[filled..filled + count].copy_from_slice(&plain[..count]);
                filled += count;
                left_over.extend_from_slice(&plain[count..]);
            })?;
            self.plain = left_over;
            // An answer to a change of keys, at most; what the socket does not take goes before the next reply.
            self.send_unsent()?;
            self.has_more = came == Came::Full || self.peer_closed || !self.plain.is_empty();
            match came {
                _ if filled > 0 => Ok(filled),
                Came::End => Ok(0),
                _ if self.peer_closed => Ok(0),
                Came::Full => Err(io::ErrorKind::Interrupted.into()),
                Came::Some => Err(io::ErrorKind::WouldBlock.into()),
            }
        })
    }

    /// Enciphers and sends: returns how many of the plain bytes are sent. After `WouldBlock`, the same bytes, or more
    /// that begin with them, must be offered again.
    pub fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            if !self.send_unsent()? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if self.promised > 0 {
                return Ok(std::mem::take(&mut self.promised));
            }
            BUFFERS.with_borrow_mut(|buffers| self.encipher(slices, buffers))?;
            if self.promised == 0 && self.unsent.is_empty() {
                return Ok(0);
            }
        }
    }

    /// Tells the client that nothing more comes, if that can be done without waiting.
    pub fn farewell(&mut self) {
        if self.shaking || self.failed || !self.unsent.is_empty() {
            return;
        }
        let UnbufferedStatus { state, .. } = self.session.process_tls_records(&mut self.received);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            encode(&mut self.unsent, |room| match traffic.queue_close_notify(room) {
                Err(EncryptError::InsufficientSize(size)) => Err(size.required_size),
                // With its keys used up, the connection ends without a word.
                other => Ok(other.unwrap_or(0)),
            });
        }
        // Whoever closes its side anyway does not miss it.
        let _ = self.send_unsent();
    }

    /// Sends what must be sent first; true if all is sent.
    fn send_unsent(&mut self) -> io::Result<bool> {
        if self.unsent.is_empty() {
            return Ok(true);
        }
        let sent = write_some(&mut self.socket, &self.unsent)?;
        if sent == self.unsent.len() {
            self.unsent = Vec::new();
            return Ok(true);
        }
        self.unsent.drain(..sent);
        Ok(false)
    }

    /// Reads once from the socket into `incoming`, behind what was left over, and hands all that can be deciphered to
    /// `sink`.
    fn read_socket(&mut self, incoming: &mut [u8], sink: impl FnMut(&[u8])) -> io::Result<Came> {
        let held = self.received.len();
        let (before, room) =
            incoming.split_at_mut_checked(held).filter(|(_, room)| !room.is_empty()).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "a message of the handshake is too long")
            })?;
        let count = loop {
            match self.socket.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Came::Some),
                other => break other?,
            }
        };
        if count == 0 {
            return Ok(Came::End);
        }
        let is_full = count == room.len();
        before.copy_from_slice(&self.received);
        let arrived = &mut incoming[..held + count];
        let used = self.process(arrived, sink)?;
        self.received = arrived[used..].to_vec();
        Ok(if is_full { Came::Full } else { Came::Some })
    }

    /// Has the session take in `incoming`: plain bytes go to `sink`, answers to `unsent`. Returns the bytes that are
    /// done with. After an error the client is told why, as far as the socket takes it at once.
    fn process(&mut self, incoming: &mut [u8], mut sink: impl FnMut(&[u8])) -> io::Result<usize> {
        let mut used = 0;
        let error = loop {
            let UnbufferedStatus { mut discard, state } =
                self.session.process_tls_records(&mut incoming[used..]);
            let mut rests = false;
            let outcome = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    let mut outcome = Ok(());
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => {
                                discard += record.discard;
                                sink(record.payload);
                            }
                            Err(error) => outcome = Err(error),
                        }
                    }
                    outcome
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut self.unsent, |room| data.encode(room).map_err(too_small));
                    Ok(())
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    // It stands in `unsent`, before all that follows.
                    data.done();
                    Ok(())
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.peer_closed = true;
                    Ok(())
                }
                Ok(_) => {
                    rests = true;
                    Ok(())
                }
                Err(error) => Err(error),
            };
            used += discard;
            match outcome {
                Ok(()) if rests => return Ok(used),
                Ok(()) => {}
                Err(error) => break error,
            }
        };
        self.failed = true;
        self.collect_alerts();
        let _ = self.send_unsent();
        Err(io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Takes over messages that the session has made by itself.
    fn collect_alerts(&mut self) {
        while self.session.wants_write() {
            // Messages that wait come before anything that is read.
            let UnbufferedStatus { state, .. } = self.session.process_tls_records(&mut self.received);
            let Ok(ConnectionState::EncodeTlsData(mut data)) = state else { return };
            encode(&mut self.unsent, |room| data.encode(room).map_err(too_small));
        }
    }

    /// Enciphers what one write takes of `slices`, and sends what the socket takes of that.
    fn encipher(&mut self, slices: &[IoSlice<'_>], buffers: &mut Buffers) -> io::Result<()> {
        // Whatever else the session has to say or to hear comes first.
        let mut received = std::mem::take(&mut self.received);
        let mut plain = std::mem::take(&mut self.plain);
        let used = self.process(&mut received, |more| plain.extend_from_slice(more))?;
        self.has_more |= !plain.is_empty();
        self.plain = plain;
        received.drain(..used);
        self.received = received;
        if !self.unsent.is_empty() {
            return Ok(());
        }
        let UnbufferedStatus { state, .. } = self.session.process_tls_records(&mut self.received);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let mut end = 0;
        let (outgoing, record) = (&mut buffers.outgoing, &mut buffers.record);
        self.promised = in_records(slices, record, |plain| {
            loop {
                match traffic.encrypt(plain, &mut outgoing[end..]) {
                    Ok(count) => {
                        end += count;
                        return Ok(());
                    }
                    Err(EncryptError::InsufficientSize(size)) => outgoing.resize(end + size.required_size, 0),
                    Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
                }
            }
        })?;
        let sent = write_some(&mut self.socket, &outgoing[..end])?;
        self.unsent = outgoing[sent..end].to_vec();
        Ok(())
    }
}

/// What a read from the socket brought.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    /// As much as there was room for: there may be more.
    Full,
    /// All there is, which may be nothing.
    Some,
    /// The end.
    End,
}

/// Writes once; 0 if the socket takes nothing now.
fn write_some(socket: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match socket.write(bytes) {
            Ok(0) if !bytes.is_empty() => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            other => return other,
        }
    }
}

/// Has `encipher` called with at most [`TLS_WRITE_BYTES`] of `slices`, in records as full as can be: bytes are copied
/// only where a record is made of several slices. Returns how many there were.
fn in_records(
    slices: &[IoSlice<'_>],
    record: &mut [u8],
    mut encipher: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<usize> {
    let (mut taken, mut held) = (0, 0);
    let (last, others) = slices.split_last().map_or((&[][..], &[][..]), |(last, others)| (&**last, others));
    for slice in others.iter().map(|slice| &**slice).chain([last]) {
        let mut rest = &slice[..slice.len().min(TLS_WRITE_BYTES - taken)];
        taken += rest.len();
        if held > 0 {
            let (first, others) = rest.split_at(rest.len().min(RECORD_BYTES - held));
            record[held..held + first.len()].copy_from_slice(first);
            held += first.len();
            rest = others;
        }
        if held == RECORD_BYTES {
            encipher(record)?;
            held = 0;
        }
        if held > 0 || rest.is_empty() {
            continue;
        }
        let is_last = taken == TLS_WRITE_BYTES || std::ptr::eq(slice, last);
        let (whole, left) =
            if is_last { (rest, &[][..]) } else { rest.split_at(rest.len() - rest.len() % RECORD_BYTES) };
        if !whole.is_empty() {
            encipher(whole)?;
        }
        record[..left.len()].copy_from_slice(left);
        held = left.len();
    }
    if held > 0 {
        encipher(&record[..held])?;
    }
    Ok(taken)
}

/// Appends what `encode` writes into room of the size that it asks for.
fn encode(bytes: &mut Vec<u8>, mut encode: impl FnMut(&mut [u8]) -> Result<usize, usize>) {
    let start = bytes.len();
    loop {
        match encode(&mut bytes[start..]) {
            Ok(count) => return bytes.truncate(start + count),
            Err(wanted) => bytes.resize(start + wanted, 0),
        }
    }
}

/// The room that encoding asks for.
fn too_small(error: EncodeError) -> usize {
    match error {
        EncodeError::InsufficientSize(InsufficientSizeError { required_size }) => required_size,
        EncodeError::AlreadyEncoded => {
            unreachable!("encoded-once: a message is encoded until it fits, and then never again")
        }
    }
}
