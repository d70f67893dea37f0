//! Connections that come, from outside or from another worker, and go.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use base::limits::ACCEPTS_PER_TURN;
use engine::clients::Peer;
use engine::session::Session;
use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Interest, Token};

use super::{LISTENERS, Worker};
use crate::connection::{Connection, Stream};
use crate::listeners::Listener;

/// What a client from elsewhere is told while the server is open to this machine only.
const PROTECTED_MODE: &str = "-DENIED Halcyon is running in protected mode because protected mode is enabled and no \
password is set for the default user. In this mode connections are only accepted from the loopback interface. To \
connect from other computers, set a password (CONFIG SET requirepass ...), or turn protected mode off (CONFIG SET \
protected-mode no from this machine) if the network is trusted.\r\n";

impl Worker {
    /// Listens on the sockets that are this worker's now.
    pub(super) fn listen(&mut self) {
        let wanted = self.shared.listeners.of(self.index);
        let is_one_of =
            |set: &[Arc<Listener>], one: &Arc<Listener>| set.iter().any(|other| Arc::ptr_eq(one, other));
        let registry = self.poll.registry();
        self.listeners.retain(|_, listener| {
            let stays = is_one_of(&wanted, listener);
            if !stays {
                // What fails is not in the poll, which is what is wanted.
                let _ = registry.deregister(&mut SourceFd(&listener.fd()));
            }
            stays
        });
        for listener in wanted {
            if self.listeners.iter().any(|(_, known)| Arc::ptr_eq(known, &listener)) {
                continue;
            }
            let place = self.listeners.vacant_entry();
            let token = Token(LISTENERS + place.key());
            match registry.register(&mut SourceFd(&listener.fd()), token, Interest::READABLE) {
                Ok(()) => drop(place.insert(listener)),
                Err(error) => tracing::warn!("Listening failed: {error}"),
            }
        }
    }

    pub(super) fn accept(&mut self, number: usize) {
        // A listener that was closed may still have been in line.
        let Some(listener) = self.listeners.get(number).cloned() else { return };
        for _ in 0..ACCEPTS_PER_TURN {
            let accepted = match &*listener {
                Listener::Tcp(listener) | Listener::Sentinel(listener) => {
                    listener.accept().map(|(stream, peer)| {
                        self.shared.threads.note_accepted(self.index, &stream);
                        let local = stream.local_addr().unwrap_or(peer);
                        (Stream::Tcp(stream), Peer::tcp(peer, local))
                    })
                }
                Listener::Tls(listener) => match listener.accept() {
                    Ok((socket, peer)) => match self.greet(socket, peer) {
                        Some(greeted) => Ok(greeted),
                        None => continue,
                    },
                    Err(error) => Err(error),
                },
                Listener::Unix(listener, path) => {
                    listener.accept().map(|(stream, _)| (Stream::Unix(stream), Peer::Unix(path.clone())))
                }
            };
            match accepted {
                Ok((stream, peer)) => self.welcome(stream, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client gave up before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // It was closed by CONFIG SET, and the letter that says so is on its way.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
                Err(error) => {
                    tracing::warn!("Accepting a client connection failed: {error}");
                    // Out of descriptors, most likely: those that wait are looked at again in a while.
                    self.accept_later.push(number);
                    return;
                }
            }
        }
        // The poll reports a listener once: what is left is for the next turn.
        self.accept_again.push(number);
    }

    pub(super) fn welcome(&mut self, mut stream: Stream, peer: Peer) {
        let server = &self.shared.server;
        let is_full = server.clients.connected() >= server.config.hot().maxclients();
        let is_protected =
            !peer.is_local() && server.config.hot().protected_mode() && !server.requires_auth();
        let is_told_later = is_protected && stream.is_shaking_hands();
        if is_full || (is_protected && !is_told_later) {
            let text = if is_full { "-ERR max number of clients reached\r\n" } else { PROTECTED_MODE };
            // Whether the client gets to read it is its own business.
            let _ = stream.refuse(text.as_bytes());
            self.engine.stats.rejected_connections.add(1);
            return;
        }
        self.engine.stats.connections.add(1);
        let client = server.clients.open(peer, self.index as u16, self.engine.now.unix_ms);
        let session = Session::new(client, server.acl.default_user());
        let mut connection = Box::new(Connection::new(stream, session));
        if is_told_later {
            connection.out.tail().extend_from_slice(PROTECTED_MODE.as_bytes());
            connection.closing = true;
            self.engine.stats.rejected_connections.add(1);
        }
        self.adopt(connection);
    }

    /// Makes an accepted socket one that is to shake hands.
    fn greet(&self, socket: TcpStream, peer: SocketAddr) -> Option<(Stream, Peer)> {
        self.shared.threads.note_accepted(self.index, &socket);
        let local = socket.local_addr().unwrap_or(peer);
        match self.shared.tls.accept(socket) {
            Ok(stream) => Some((Stream::Tls(Box::new(stream)), Peer::tcp(peer, local))),
            Err(reason) => {
                tracing::warn!("Accepting a TLS connection from {peer} failed: {reason}");
                None
            }
        }
    }

    /// Takes a connection in, new or from another worker.
    pub(super) fn adopt(&mut self, mut connection: Box<Connection>) {
        let token = self.connections.vacant_key();
        if let Err(error) = connection.stream.register(self.poll.registry(), Token(token)) {
            tracing::warn!("Registering a client connection failed: {error}");
            self.shared.server.disconnect(&mut self.engine, &mut connection.session);
            return;
        }
        let client = &connection.session.client;
        client.fd.store(connection.stream.fd(), Relaxed);
        client.token.store(token as u32, SeqCst);
        client.worker.store(self.index as u16, SeqCst);
        // Whoever kills it sets the flag first and reads the worker after: one of the two sees the other.
        if client.kill.load(SeqCst) {
            connection.closing = true;
        }
        if connection.stream.is_shaking_hands() {
            self.handshakes.begin(token, client.id, self.engine.now.mono_us);
        }
        self.connections.insert(Some(connection));
        self.shared.threads.load(self.index).fetch_add(1, Relaxed);
        self.turn(token);
    }

    /// Closes a connection that is out of its place.
    pub(super) fn forget(&mut self, token: usize, mut connection: Box<Connection>) {
        connection.stream.farewell();
        self.connections.remove(token);
        self.feeds.forget(token);
        self.shared.threads.load(self.index).fetch_sub(1, Relaxed);
        self.shared.server.disconnect(&mut self.engine, &mut connection.session);
        if let Some(deadline_us) = connection.waiter.take().and_then(|waiter| waiter.deadline_us) {
            self.deadlines.remove(&(deadline_us, token, connection.session.client.id));
        }
        self.engine.stats.released_replies.add(connection.out.gated_replies());
        self.keep_buffer(connection.out.reclaim());
        if connection.out.is_streaming() {
            self.shared.server.keyspace.discard_elsewhere(Box::new(std::mem::take(&mut connection.out)));
        }
        // Closing the socket takes it out of the poll.
    }
}
