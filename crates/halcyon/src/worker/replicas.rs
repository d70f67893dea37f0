//! What a worker sends its replicas. Each has a feed, which is asked for more as long as the socket takes it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Wake, Waker};

use engine::replication::primary::{Feed, Fetch, Fetched, Next};
use engine::server::Server;

use super::Worker;
use crate::connection::Connection;
use crate::shared::{Mailbox, Shared};

/// The feeds of a worker's replicas, by their connections' numbers.
pub(super) struct Feeds {
    by_token: BTreeMap<usize, Box<Feed>>,
    waker: Waker,
    /// Time until one of them is to be asked again, whatever happens.
    wait_us: u64,
}

/// Wakes a worker since the log goes on.
struct LogWaker {
    mailboxes: Arc<[Mailbox]>,
    index: usize,
}

impl Wake for LogWaker {
    fn wake(self: Arc<LogWaker>) {
        self.mailboxes[self.index].wake();
    }
}

impl Feeds {
    pub(super) fn new(shared: &Shared, index: usize) -> Feeds {
        let waker = Waker::from(Arc::new(LogWaker { mailboxes: shared.mailboxes.clone(), index }));
        Feeds { by_token: BTreeMap::new(), waker, wait_us: u64::MAX }
    }

    /// Time that the worker may sleep.
    pub(super) fn wait_us(&self) -> u64 {
        self.wait_us
    }

    /// A connection is gone.
    pub(super) fn forget(&mut self, token: usize) {
        if !self.by_token.is_empty() {
            self.by_token.remove(&token);
        }
    }

    /// Bytes of the log that are kept since this connection does not take them.
    pub(super) fn kept_bytes(&self, server: &Server, connection: &Connection) -> u64 {
        if !connection.is_replica {
            return 0;
        }
        let client_id = connection.session.client.id;
        let feed = self.by_token.values().find(|feed| feed.replica.client.id == client_id);
        feed.map_or(0, |feed| feed.kept_bytes(server))
    }
}

/// A replica has caused a reply, which must not get into the stream.
pub(super) fn refuse(connection: &mut Connection) {
    let client = &connection.session.client;
    tracing::warn!(
        "Replica {} (client {}) sent a command that is answered",
        client.peer.address(),
        client.id
    );
    connection.aborted = true;
}

impl Worker {
    /// The connection has become a replica.
    pub(super) fn attach(&mut self, token: usize, connection: &mut Connection) {
        let feed = self.engine.attached.take().expect("new-replica: the dispatcher reported one");
        connection.is_replica = true;
        if self.shared.server.config.bool("repl-disable-tcp-nodelay") {
            connection.stream.set_nodelay(false);
        }
        self.feeds.by_token.insert(token, feed);
    }

    /// A replica has sent something: it lives.
    #[cold]
    pub(super) fn hear(&self, connection: &Connection) {
        let replica = self.shared.server.replication.replicas.of_client(connection.session.client.id);
        if let Some(replica) = replica {
            replica.hear(self.engine.now.unix_ms);
        }
    }

    /// Sends replicas what there is for them.
    #[inline]
    pub(super) fn feed_replicas(&mut self) {
        self.shared.server.ask_for_acks();
        if !self.feeds.by_token.is_empty() || self.feeds.wait_us != u64::MAX {
            self.feeds.wait_us = u64::MAX;
            let tokens: Vec<usize> = self.feeds.by_token.keys().copied().collect();
            tokens.into_iter().for_each(|token| self.feed(token));
        }
    }

    fn feed(&mut self, token: usize) {
        let Some(feed) = self.feeds.by_token.get_mut(&token) else { return };
        let Some(Some(connection)) = self.connections.get_mut(token) else { return };
        let (shared, now) = (&self.shared, self.engine.now);
        let next = feed.fill(&shared.server, now, &self.feeds.waker, &mut connection.out);
        let has_room = matches!(next, Next::Room);
        match next {
            Next::Room | Next::Wake => {}
            Next::Later(wait_us) => self.feeds.wait_us = self.feeds.wait_us.min(wait_us),
            Next::Fetch(source) => {
                let client_id = connection.session.client.id;
                let fetch = Fetch { source, worker: self.index, token, client_id };
                shared.server.replication.replicas.fetches.push(fetch);
            }
            Next::Finish => connection.closing = true,
            Next::End(reason) => {
                tracing::warn!("Closing the connection with replica {}: {reason}", feed.replica.address());
                connection.aborted = true;
            }
        }
        if connection.aborted || connection.closing || (connection.writable && !connection.out.is_empty()) {
            self.turn(token);
        } else if !connection.out.is_empty() {
            self.close_if_over_limit(token);
        }
        let is_writable = |connection: &Connection| connection.writable;
        let place = self.connections.get(token).and_then(Option::as_deref);
        if has_room && place.is_some_and(is_writable) {
            self.feeds.wait_us = 0;
        }
    }

    fn close_if_over_limit(&mut self, token: usize) {
        let Some(mut connection) = self.connections[token].take() else { return };
        if self.is_over_output_limit(&mut connection) {
            self.forget(token, connection);
        } else {
            self.connections[token] = Some(connection);
        }
    }

    /// Takes what was read from a disk for a replica.
    pub(super) fn take_fetched(&mut self, token: usize, fetched: Fetched) {
        let Some(feed) = self.feeds.by_token.get_mut(&token) else { return };
        let Some(Some(connection)) = self.connections.get_mut(token) else { return };
        let (now, Fetched { source, bytes }) = (self.engine.now, fetched);
        if let Err(reason) = feed.take(&self.shared.server, now, source, bytes, &mut connection.out) {
            tracing::warn!("Closing the connection with replica {}: {reason}", feed.replica.address());
            connection.aborted = true;
            self.turn(token);
        }
    }
}
