//! One connection: its socket, what came in and is not run, what is still to be sent.
//!
//! State of a connection and what moves it on:
//!
//! | state | left when |
//! |---|---|
//! | shaking hands | its TLS handshake is done (`worker/handshakes.rs`) |
//! | running | its output passes the high-water mark, the long lane takes a command, a pause holds one back |
//! | draining | the output falls below the low-water mark ([`Connection::may_run`]) |
//! | waiting | the lane's reply is there, or another node's, the pause ends, the log has room |
//! | closing | everything is sent, or cannot be |
//!
//! Whatever it does, replies may wait in its output until the log is safe ([`engine::gates`]): it runs on meanwhile, up to
//! the high-water mark, as with a client that does not read.
//!
//! While it is not running, its socket is not read: what a client pipelines stays in the kernel, and
//! the server's memory for it is bounded by one read buffer and the high-water mark.

use std::io::{self, IoSlice, Read, Write};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use base::limits::{OUTPUT_HIGH_WATER_BYTES, OUTPUT_LOW_WATER_BYTES};
use engine::blocking::Waiter;
use engine::clients::Client;
use engine::config::OutputBufferLimits;
use engine::output::Output;
use engine::session::Session;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use resp::Decoder;

use crate::tls::TlsStream;

/// Pieces of output that one system call sends.
const SLICES_MAX: usize = 64;

/// A connected socket.
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over the unix socket.
    Unix(UnixStream),
    /// Over TLS.
    Tls(Box<TlsStream>),
}

impl Stream {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
            Stream::Tls(stream) => stream.socket(),
        }
    }

    /// Has the system collect what is sent into larger packets, or not.
    pub fn set_nodelay(&self, nodelay: bool) {
        // Not every system lets it be changed, and nothing depends on it.
        let _ = match self {
            Stream::Tcp(stream) => stream.set_nodelay(nodelay),
            Stream::Tls(stream) => stream.socket_ref().set_nodelay(nodelay),
            Stream::Unix(_) => Ok(()),
        };
    }

    /// Has the poll report on this socket.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(self.source(), token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Its file descriptor.
    pub fn fd(&self) -> RawFd {
        match self {
            Stream::Tcp(stream) => stream.as_raw_fd(),
            Stream::Unix(stream) => stream.as_raw_fd(),
            Stream::Tls(stream) => stream.socket_ref().as_raw_fd(),
        }
    }

    /// Ends that.
    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        registry.deregister(self.source())
    }

    /// Reads what is there.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }

    /// True if the last read, which filled its buffer or did not, may have left something.
    #[inline]
    pub fn has_more(&self, is_full: bool) -> bool {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => is_full,
            Stream::Tls(stream) => stream.has_more(),
        }
    }

    /// True while its TLS handshake is under way: nothing can be read or written.
    #[inline]
    pub fn is_shaking_hands(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.is_shaking_hands())
    }

    /// Sends one line to a client that is not let in. Over TLS nothing can be said so early.
    pub fn refuse(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_shaking_hands() {
            return Ok(());
        }
        self.write(line).map(drop)
    }

    /// Says that nothing more comes, where the protocol has a way to.
    pub fn farewell(&mut self) {
        if let Stream::Tls(stream) = self {
            stream.farewell();
        }
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(&[IoSlice::new(bytes)]),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write_vectored(slices),
            Stream::Unix(stream) => stream.write_vectored(slices),
            Stream::Tls(stream) => stream.write(slices),
        }
    }
}

/// What a connection waits for besides its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing.
    None,
    /// The long lane's reply.
    Lane,
    /// The end of CLIENT PAUSE.
    Pause,
    /// A key, or the end of its patience: [`Connection::waiter`].
    Key,
    /// A stripe that somebody holds for long.
    Stripe,
    /// Room in the log.
    Room,
    /// What other nodes answer to what was forwarded.
    Relay,
}

/// One connection, owned by one worker at a time.
pub struct Connection {
    /// The socket.
    pub stream: Stream,
    /// The engine's side.
    pub session: Session,
    /// How far the command at the front of `input` is decoded.
    pub decoder: Decoder,
    /// Bytes read and not run. Has no capacity when empty.
    pub input: Vec<u8>,
    /// Replies to send.
    pub out: Output,
    /// What it waits for.
    pub wait: Wait,
    /// Its place in the queues of the keys it waits for.
    pub waiter: Option<Arc<Waiter>>,
    /// The socket may have bytes: an edge was seen and no read has come back empty since.
    pub readable: bool,
    /// The client closed its side, or the connection broke.
    pub hung_up: bool,
    /// The socket takes bytes, as far as is known.
    pub writable: bool,
    /// `input` holds whole commands that were not run yet.
    pub runnable: bool,
    /// The client sends no more.
    pub at_eof: bool,
    /// To be closed once everything is sent.
    pub closing: bool,
    /// To be closed at once.
    pub aborted: bool,
    /// In the worker's list of connections with more to do.
    pub queued: bool,
    /// The output passed the high-water mark and has not fallen below the low one.
    pub draining: bool,
    /// It is sent the stream of writes. What it sends is read however much it is sent.
    pub is_replica: bool,
    /// In the worker's list of connections whose replies wait for the log.
    pub gated: bool,
    /// Since when (`mono_us`) the output has been above its class's soft limit.
    above_soft_since_us: Option<NonZeroU64>,
}

// The allocator's class of 224 bytes.
const _: () = assert!(size_of::<Connection>() <= 224, "an idle connection is cheap");

/// How sending went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Everything is sent.
    Empty,
    /// The socket takes no more now.
    Blocked,
    /// What comes next waits for the log.
    Gated,
    /// The turn's share is sent, and there is more.
    Share,
    /// The connection is gone.
    Gone,
}

impl Connection {
    /// A connection that has just been accepted.
    pub fn new(stream: Stream, session: Session) -> Connection {
        Connection {
            stream,
            session,
            decoder: Decoder::new(),
            input: Vec::new(),
            out: Output::new(),
            wait: Wait::None,
            waiter: None,
            readable: true,
            hung_up: false,
            writable: true,
            runnable: false,
            at_eof: false,
            closing: false,
            aborted: false,
            queued: false,
            draining: false,
            is_replica: false,
            gated: false,
            above_soft_since_us: None,
        }
    }

    /// True if commands may run: nothing is waited for, and the client reads its replies.
    #[inline]
    pub fn may_run(&mut self) -> bool {
        let pending_bytes = self.out.pending_bytes();
        if self.out.is_streaming() || pending_bytes > OUTPUT_HIGH_WATER_BYTES {
            self.draining = true;
        } else if pending_bytes <= OUTPUT_LOW_WATER_BYTES {
            self.draining = false;
        }
        (!self.draining || self.is_replica) && self.wait == Wait::None && !self.closing
    }

    /// True if nothing is left to do until the socket reports something.
    #[inline]
    pub fn is_idle(&self) -> bool {
        !self.stream.is_shaking_hands()
            && self.out.is_empty()
            && self.input.is_empty()
            && self.wait == Wait::None
    }

    /// True if more is unsent than `client-output-buffer-limit` allows, or has been for too long. To be asked whenever
    /// something was appended, and now and then as long as something is unsent. `kept_bytes` wait for it elsewhere.
    pub fn is_over_output_limit(
        &mut self,
        limits: &OutputBufferLimits,
        kept_bytes: u64,
        now_us: u64,
    ) -> bool {
        let limit = match (self.is_replica, self.session.client.is_subscribed()) {
            (true, _) => limits.replica,
            (false, true) => limits.pubsub,
            (false, false) => limits.normal,
        };
        let unsent_bytes = self.out.pending_bytes() as u64 + kept_bytes;
        if limit.soft_bytes == 0 || unsent_bytes < limit.soft_bytes {
            self.above_soft_since_us = None;
        }
        let is_above_soft = limit.soft_bytes > 0 && unsent_bytes >= limit.soft_bytes && {
            let since_us =
                *self.above_soft_since_us.get_or_insert(NonZeroU64::new(now_us).unwrap_or(NonZeroU64::MIN));
            now_us.saturating_sub(since_us.get()) > limit.soft_s.saturating_mul(1_000_000)
        };
        is_above_soft || (limit.hard_bytes > 0 && unsent_bytes >= limit.hard_bytes)
    }

    /// Memory that the connection holds.
    pub fn memory_bytes(&self) -> usize {
        let queued = self.session.multi.as_ref().map_or(0, |multi| multi.memory_bytes());
        let buffers = self.input.capacity() + self.out.memory_bytes();
        size_of::<Connection>() + size_of::<Client>() + buffers + queued
    }

    /// Sends what the socket takes: at most about `share_bytes`, and of replies made piece by piece at least one piece,
    /// but none after `is_late`, which is asked once for each. Returns the bytes sent, too.
    pub fn flush(&mut self, share_bytes: usize, mut is_late: impl FnMut() -> bool) -> (Flush, usize) {
        let mut sent_bytes = 0;
        let mut late = false;
        loop {
            // Whatever else is queued: replies behind a stream cannot be sent before it.
            while !late && self.out.refill() {
                late = is_late();
            }
            if self.out.is_empty() {
                return (Flush::Empty, sent_bytes);
            }
            if self.out.waits_for().is_some() {
                return (Flush::Gated, sent_bytes);
            }
            if !self.writable {
                return (Flush::Blocked, sent_bytes);
            }
            if sent_bytes >= share_bytes || self.out.is_at_stream() {
                return (Flush::Share, sent_bytes);
            }
            match self.write_once() {
                Ok(0) => return (Flush::Gone, sent_bytes),
                Ok(count) => {
                    self.out.advance(count);
                    sent_bytes += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return (Flush::Gone, sent_bytes),
            }
        }
    }

    #[inline]
    fn write_once(&mut self) -> io::Result<usize> {
        if let Some(bytes) = self.out.plain() {
            return self.stream.write(bytes);
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = self.out.slices(&mut slices);
        self.stream.write_vectored(&slices[..count])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use base::limits::STREAM_PIECE_BYTES;
    use engine::acl::User;
    use engine::clients::{Clients, Peer};
    use engine::config::OutputBufferLimit;
    use resp::{Encoder, Proto};

    use super::*;

    /// A connection with a reply of `pieces` pieces to send, and the client's end.
    fn streaming(pieces: usize) -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let client = Clients::default().open(Peer::Unix("".into()), 0, 0);
        let mut connection = Connection::new(Stream::Unix(ours), Session::new(client, User::of_no_server()));
        let mut left = pieces;
        let stream = move |out: &mut Encoder<'_>| {
            out.bulk(&[b'x'; STREAM_PIECE_BYTES]);
            left -= 1;
            left > 0
        };
        connection.out.push_stream(Box::new(stream), Proto::V2);
        // Replies of later commands, more than a piece of them.
        connection.out.tail().extend_from_slice(&[b'y'; STREAM_PIECE_BYTES + 1]);
        (connection, theirs)
    }

    #[test]
    fn output_limits_are_hard_or_last() {
        let limit = |hard_bytes, soft_bytes, soft_s| OutputBufferLimit { hard_bytes, soft_bytes, soft_s };
        let limits = OutputBufferLimits {
            normal: limit(100, 0, 0),
            replica: limit(1, 0, 0),
            pubsub: limit(1000, 50, 2),
        };
        let (ours, _theirs) = UnixStream::pair().expect("a pair of sockets");
        let client = Clients::default().open(Peer::Unix("".into()), 0, 0);
        let mut connection = Connection::new(Stream::Unix(ours), Session::new(client, User::of_no_server()));
        // Whether it subscribes, what is unsent, the second, and whether it is too much.
        for (subscriber, unsent, at_s, expected) in [
            (false, 99, 0, false),
            (false, 100, 0, true),
            (true, 100, 1, false),
            (true, 100, 3, false),
            (true, 100, 4, true),
            (true, 49, 5, false),
            (true, 50, 6, false),
            (true, 50, 8, false),
            (true, 50, 9, true),
            (true, 999, 9, true),
            (true, 10, 9, false),
            (true, 1000, 9, true),
        ] {
            connection.session.client.channels.store(u32::from(subscriber), Relaxed);
            connection.out = Output::new();
            connection.out.tail().resize(unsent, b'x');
            let is_over = connection.is_over_output_limit(&limits, 0, at_s * 1_000_000);
            assert_eq!(is_over, expected, "{unsent} bytes at {at_s} s");
        }
    }

    #[test]
    fn a_late_turn_ends_after_the_piece_it_has_made() {
        let (mut connection, _client) = streaming(3);
        let (mut sent_bytes, mut asked) = (0, 0);
        for turn in 1..=3 {
            let (flush, sent) = connection.flush(usize::MAX, || {
                asked += 1;
                true
            });
            assert_eq!(flush, if turn < 3 { Flush::Share } else { Flush::Empty });
            assert!(sent > STREAM_PIECE_BYTES, "turn {turn} sent {sent} bytes");
            sent_bytes += sent;
        }
        assert_eq!(asked, 3);
        let (mut connection, _client) = streaming(3);
        assert_eq!(connection.flush(usize::MAX, || false), (Flush::Empty, sent_bytes));
    }
}
