//! Letters: what other threads, and the worker's own connections, want of its connections; and waits that end.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::limits::OUTPUT_BUFFER_BYTES;
use engine::letter::Letter;
use engine::output::Output;
use engine::pubsub::{leave_shard, left_shards};

use super::Worker;
use crate::connection::Wait;
use crate::shared::Message;

impl Worker {
    pub(super) fn read_mail(&mut self) {
        let shared = self.shared.clone();
        for message in shared.mailboxes[self.index].take() {
            match message {
                Message::Adopt(connection) => self.adopt(connection),
                Message::Letter(letter) => self.deliver(letter),
                Message::Listen => self.listen(),
                Message::Kill { token, client_id } => {
                    if self.is_client(token, client_id)
                        && let Some(connection) = self.connections[token].take()
                    {
                        self.forget(token, connection);
                    }
                }
            }
        }
    }

    pub(super) fn is_client(&self, token: usize, client_id: u64) -> bool {
        let connection = self.connections.get(token).and_then(Option::as_ref);
        connection.is_some_and(|connection| connection.session.client.id == client_id)
    }

    pub(super) fn deliver(&mut self, letter: Letter) {
        match letter {
            Letter::Gated { offset, letter } => self.deliver_at(*letter, offset),
            letter => self.deliver_at(letter, 0),
        }
    }

    /// Delivers a letter that tells of what is safe when the log is so up to `offset`.
    fn deliver_at(&mut self, letter: Letter, offset: u64) {
        match letter {
            // Nobody wraps a letter twice; if so, what is inside knows better.
            Letter::Gated { offset, letter } => self.deliver_at(*letter, offset),
            Letter::Push { token, client_id, bytes } => {
                if self.is_client(token, client_id) {
                    self.push(token, bytes, offset);
                } else if let Some(client) = self.shared.server.clients.get(client_id)
                    && usize::from(client.worker.load(Relaxed)) != self.index
                {
                    // It moved while the letter was on its way.
                    self.shared.server.post(&client, |token, client_id| Letter::Push {
                        token,
                        client_id,
                        bytes,
                    });
                }
            }
            Letter::Publish(publication) => {
                let mut receivers = Vec::new();
                self.engine.subscribers.deliver(&publication, |token, of| {
                    if let Some(Some(connection)) = self.connections.get(token) {
                        receivers.push((token, of(connection.session.proto)));
                    }
                });
                receivers.into_iter().for_each(|(token, bytes)| self.push(token, bytes, offset));
            }
            Letter::CheckChannels { token, client_id } => {
                if self.is_client(token, client_id)
                    && let Some(connection) =
                        self.connections[token].take_if(|connection| connection.session.listens_unduly())
                {
                    self.forget(token, connection);
                }
            }
            Letter::ShardsChanged => self.leave_shards(),
            // Replicas are looked at after the turn.
            Letter::Replicas => {}
            Letter::Fetched { token, client_id, fetched } => {
                if self.is_client(token, client_id) {
                    self.take_fetched(token, *fetched);
                }
            }
            Letter::Reply { token, client_id, output } => {
                if self.is_client(token, client_id) {
                    self.end_wait(token, output, offset);
                }
            }
        }
    }

    /// Ends subscriptions to shard channels of slots that are not here any more.
    fn leave_shards(&mut self) {
        let shared = self.shared.clone();
        for (token, name) in left_shards(&shared.server, &self.engine) {
            let Some(Some(connection)) = self.connections.get_mut(token) else { continue };
            let told = leave_shard(&shared.server, &mut self.engine, &mut connection.session, &name);
            self.push(token, told, 0);
        }
    }

    /// Adds bytes that a client did not ask for now to what it is sent, in its next turn. They tell of what is safe when the
    /// log is so up to `offset`.
    pub(super) fn push(&mut self, token: usize, bytes: Arc<[u8]>, offset: u64) {
        let Some(Some(connection)) = self.connections.get_mut(token) else { return };
        if connection.is_replica {
            // It would get into the stream.
            return;
        }
        let spare = &mut self.spare_buffers;
        connection.out.lend(|| spare.pop().unwrap_or_else(|| Vec::with_capacity(OUTPUT_BUFFER_BYTES)));
        let mark = connection.out.mark();
        connection.out.push_shared(bytes);
        if offset > 0 {
            let (server, session) = (&self.shared.server, &connection.session);
            self.engine.gate(server, session, mark, offset, &mut connection.out);
        }
        if !connection.queued {
            connection.queued = true;
            self.ready.push(token);
        }
    }

    /// Delivers what this worker's connections have sent each other.
    pub(super) fn deliver_own(&mut self) {
        for letter in std::mem::take(&mut self.engine.outbox) {
            self.deliver(letter);
        }
    }

    /// Gives a waiting connection what it waited for, which tells of what is safe when the log is so up to `offset`.
    pub(super) fn end_wait(&mut self, token: usize, mut output: Output, offset: u64) {
        if let Some(connection) = &mut self.connections[token] {
            if offset > 0 || output.has_gates() {
                self.engine.gate_output(&self.shared.server, &connection.session, offset, &mut output);
            }
            connection.out.append(output);
            connection.wait = Wait::None;
            let client = &connection.session.client;
            self.shared.server.clients.set_blocked(client, false);
            if let Some(deadline_us) = connection.waiter.take().and_then(|waiter| waiter.deadline_us) {
                self.deadlines.remove(&(deadline_us, token, client.id));
            }
        }
        self.turn(token);
    }

    /// Answers the connections whose time to wait is over.
    pub(super) fn end_waits(&mut self) {
        while let Some((deadline_us, token, client_id)) = self.deadlines.first().copied()
            && deadline_us <= self.engine.now.mono_us
        {
            self.deadlines.pop_first();
            if !self.is_client(token, client_id) {
                continue;
            }
            let waiter = self.connections[token].as_ref().and_then(|connection| connection.waiter.clone());
            // Where it was answered just now, the letter is on its way.
            if let Some(output) = waiter.and_then(|waiter| self.shared.server.waiters.time_out(&waiter)) {
                // That nothing came is said of the keys as they were left by whoever wrote last.
                self.end_wait(token, output, self.shared.server.offset_told());
            }
        }
    }

    pub(super) fn end_pauses(&mut self) {
        if self.paused.is_empty() || self.shared.server.pause.mode(self.engine.now.unix_ms).is_some() {
            return;
        }
        for token in std::mem::take(&mut self.paused) {
            if let Some(Some(connection)) = self.connections.get_mut(token)
                && connection.wait == Wait::Pause
            {
                connection.wait = Wait::None;
                self.shared.server.clients.set_blocked(&connection.session.client, false);
                self.turn(token);
            }
        }
    }

    /// Lets the connections try again whose command needs a stripe that was held for long.
    pub(super) fn retry_held_up(&mut self) {
        for token in std::mem::take(&mut self.held_up) {
            if let Some(Some(connection)) = self.connections.get_mut(token)
                && connection.wait == Wait::Stripe
            {
                connection.wait = Wait::None;
                self.turn(token);
            }
        }
    }
}
