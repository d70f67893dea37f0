//! The sockets of a worker's relays, and what they bring: replies for connections that wait for them
//! ([`engine::forwarding`]).
//!
//! A client that does not read its reply holds up those whose replies are behind it. So a relay is not read meanwhile, and
//! the client is cut off once others have waited for it for too long.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use base::limits::{OUTPUT_BUFFER_BYTES, OUTPUT_HIGH_WATER_BYTES, OUTPUT_LOW_WATER_BYTES, RELAY_HELD_US_MAX};
use engine::forwarding::{Answer, Answers, Door, Origin};
use mio::Token;
use mio::event::Event;
use slab::Slab;

use super::relay_socket::RelaySocket;
use super::{RELAYS, Worker};
use crate::connection::{Connection, Wait};

/// Reads of a relay before connections have their turn.
const READS_PER_TURN: usize = 4;

/// The sockets of a worker's relays.
pub(super) struct Relays {
    sockets: Slab<(Door, RelaySocket)>,
    by_door: BTreeMap<Door, usize>,
    /// Scratch for what they bring.
    answers: Answers,
    /// Time until they are to be looked at again, whatever comes.
    wait_us: u64,
}

impl Default for Relays {
    fn default() -> Relays {
        Relays {
            sockets: Slab::new(),
            by_door: BTreeMap::new(),
            answers: Answers::default(),
            wait_us: u64::MAX,
        }
    }
}

impl Relays {
    /// Time that the worker may sleep.
    pub(super) fn wait_us(&self) -> u64 {
        self.wait_us
    }

    fn numbers(&self) -> Vec<usize> {
        self.by_door.values().copied().collect()
    }
}

impl Worker {
    /// Other nodes run what this connection's batch has asked for.
    #[cold]
    pub(super) fn forward(&mut self, token: usize, connection: &mut Connection) {
        let (config, client_id) = (&self.shared.server.config, connection.session.client.id);
        connection.wait = Wait::Relay;
        self.engine.forwarding.push_taken(config, token, client_id, self.engine.now.mono_us);
    }

    pub(super) fn relay_event(&mut self, number: usize, event: &Event) {
        if let Some((_, socket)) = self.relays.sockets.get_mut(number) {
            socket.note(event);
        }
    }

    /// Brings relays on: what has come, what is to be sent, and what has waited for too long.
    #[inline]
    pub(super) fn tend_relays(&mut self) {
        if !self.engine.forwarding.relays.is_empty() {
            self.tend_relays_slowly();
        }
    }

    #[cold]
    fn tend_relays_slowly(&mut self) {
        self.relays.wait_us = u64::MAX;
        self.open_relays();
        self.relays.numbers().into_iter().for_each(|number| self.read_relay(number));
        // Who was answered may have asked for more.
        self.open_relays();
        self.relays.numbers().into_iter().for_each(|number| self.write_relay(number));
        let (now_us, forwarding) = (self.engine.now.mono_us, &self.engine.forwarding);
        // One that is not read is looked at when its client has read, and now and then.
        let is_read = |number: &usize| !self.relays.sockets[*number].1.is_held;
        let read = self.relays.by_door.iter().filter(|(_, number)| is_read(number));
        let due_us = read.filter_map(|(door, _)| Some(forwarding.relays.get(door)?.due_us())).min();
        let wait_us = due_us.map_or(u64::MAX, |due_us| due_us.saturating_sub(now_us));
        self.relays.wait_us = self.relays.wait_us.min(wait_us);
        let (requests, bytes) = forwarding.waiting();
        let stats = &self.engine.stats;
        stats.relays.set(forwarding.relays.len() as u64);
        stats.relays_waiting_requests.set(requests as u64);
        stats.relays_waiting_bytes.set(bytes as u64);
    }

    /// Makes sockets for relays that have none.
    fn open_relays(&mut self) {
        let forwarding = &self.engine.forwarding;
        if forwarding.relays.len() == self.relays.by_door.len() {
            return;
        }
        let is_new = |door: &&Door| !self.relays.by_door.contains_key(*door);
        let new: Vec<Door> = forwarding.relays.keys().filter(is_new).copied().collect();
        for door in new {
            let number = self.relays.sockets.vacant_key();
            let connected = RelaySocket::connect(&self.shared.server.config, &self.shared.tls, door)
                .and_then(|mut socket| {
                    socket.register(self.poll.registry(), Token(RELAYS + number)).map(|()| socket)
                });
            match connected {
                Ok(socket) => {
                    self.relays.sockets.insert((door, socket));
                    self.relays.by_door.insert(door, number);
                }
                Err(error) => self.end_relay(door, &error.to_string()),
            }
        }
    }

    fn read_relay(&mut self, number: usize) {
        for _ in 0..READS_PER_TURN {
            let Some((door, socket)) = self.relays.sockets.get_mut(number) else { return };
            let door = *door;
            if socket.is_held && !self.is_released(number, door) {
                return;
            }
            match self.read_relay_once(number, door) {
                Ok(true) => {}
                Ok(false) => return,
                Err(reason) => return self.end_relay(door, &reason),
            }
            self.deliver_answers();
            self.hold_relay(number, door);
        }
        self.relays.wait_us = 0;
    }

    /// True if something came.
    fn read_relay_once(&mut self, number: usize, door: Door) -> Result<bool, String> {
        let Some((_, socket)) = self.relays.sockets.get_mut(number) else { return Ok(false) };
        if !socket.readable {
            return Ok(false);
        }
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let read = socket.read(&mut buffer).map_err(|error| error.to_string());
        let relay = self.engine.forwarding.relays.get_mut(&door).expect("one-relay: each socket has its own");
        let came = read.and_then(|count| match count {
            None => Ok(false),
            Some(0) => Err("it has closed the connection".to_owned()),
            Some(count) => {
                let (now_us, answers) = (self.engine.now.mono_us, &mut self.relays.answers);
                relay.receive(&buffer[..count], now_us, answers).map(|()| true)
            }
        });
        self.read_buffer = buffer;
        came
    }

    /// Stops reading a relay if the client that is answered does not read.
    fn hold_relay(&mut self, number: usize, door: Door) {
        let front = self.engine.forwarding.relays.get(&door).and_then(|relay| relay.front());
        let unsent_bytes = front.and_then(|origin| self.unsent_bytes(origin)).unwrap_or(0);
        if let Some((_, socket)) = self.relays.sockets.get_mut(number) {
            socket.is_held = unsent_bytes > OUTPUT_HIGH_WATER_BYTES;
        }
    }

    /// Whether a relay may be read again. A client that has held up others for too long is cut off.
    fn is_released(&mut self, number: usize, door: Door) -> bool {
        let Some(relay) = self.engine.forwarding.relays.get(&door) else { return true };
        if let Some(origin) = relay.front()
            && self.unsent_bytes(origin).is_some_and(|bytes| bytes > OUTPUT_LOW_WATER_BYTES)
        {
            let late_us = self.engine.now.mono_us.saturating_sub(RELAY_HELD_US_MAX);
            if !relay.has_others_waiting_since(origin.client_id, late_us) {
                return false;
            }
            if let Some(connection) = self.connections[origin.token].take() {
                let client = &connection.session.client;
                tracing::warn!(
                    "Client {} from {} closed: others wait while it does not read what was forwarded for it",
                    client.id,
                    client.peer.address()
                );
                self.forget(origin.token, connection);
            }
        }
        if let Some((_, socket)) = self.relays.sockets.get_mut(number) {
            socket.is_held = false;
        }
        true
    }

    /// Replies that a client has not taken; `None`: it waits for nothing that a relay brings.
    fn unsent_bytes(&self, origin: Origin) -> Option<usize> {
        let connection = self.connections.get(origin.token)?.as_ref()?;
        let is_it = connection.session.client.id == origin.client_id && connection.wait == Wait::Relay;
        is_it.then(|| connection.out.pending_bytes())
    }

    fn write_relay(&mut self, number: usize) {
        let Some((door, _)) = self.relays.sockets.get(number) else { return };
        let (door, now_us) = (*door, self.engine.now.mono_us);
        let relay = self.engine.forwarding.relays.get_mut(&door).expect("one-relay: each socket has its own");
        relay.give_up(now_us, &mut self.relays.answers);
        let (_, socket) = &mut self.relays.sockets[number];
        if relay.is_idle(now_us) {
            return self.drop_relay(door);
        }
        let late = relay.is_late(now_us).filter(|_| !socket.is_held);
        relay.pump(now_us);
        let result = loop {
            match socket.write(relay.unsent()) {
                Ok(0) => break late.map_or(Ok(()), |reason| Err(reason.to_owned())),
                Ok(count) => relay.advance(count),
                Err(error) => break Err(error.to_string()),
            }
        };
        if let Err(reason) = result {
            self.end_relay(door, &reason);
        }
        if !self.relays.answers.is_empty() {
            self.deliver_answers();
            // They may have asked for more.
            self.relays.wait_us = 0;
        }
    }

    /// A relay has failed.
    fn end_relay(&mut self, door: Door, reason: &str) {
        let Some(relay) = self.drop_relay_of(door) else { return };
        if relay.is_empty() {
            tracing::debug!("A connection to {} has ended: {reason}", door.address);
        } else {
            tracing::warn!("Forwarding requests to {} has failed: {reason}", door.address);
            self.engine.forwarding.rest(door.address, self.engine.now.mono_us);
        }
        relay.fail(&mut self.relays.answers);
        self.deliver_answers();
        self.relays.wait_us = 0;
    }

    fn drop_relay(&mut self, door: Door) {
        drop(self.drop_relay_of(door));
    }

    /// Closes its socket.
    fn drop_relay_of(&mut self, door: Door) -> Option<engine::forwarding::Relay> {
        if let Some(number) = self.relays.by_door.remove(&door) {
            self.relays.sockets.remove(number);
        }
        self.engine.forwarding.relays.remove(&door)
    }

    fn deliver_answers(&mut self) {
        let mut answers = std::mem::take(&mut self.relays.answers);
        for (origin, answer) in answers.iter() {
            self.answer(origin, answer);
        }
        answers.clear();
        // What came meanwhile, if a turn has ended a relay, was delivered there.
        self.relays.answers = answers;
    }

    /// Gives a connection what a relay has brought for it.
    fn answer(&mut self, origin: Origin, answer: Answer<'_>) {
        let Origin { token, client_id, .. } = origin;
        let Some(Some(connection)) = self.connections.get_mut(token) else { return };
        if connection.session.client.id != client_id || connection.wait != Wait::Relay {
            return;
        }
        let spare = &mut self.spare_buffers;
        connection.out.lend(|| spare.pop().unwrap_or_else(|| Vec::with_capacity(OUTPUT_BUFFER_BYTES)));
        let (server, client) = (&self.shared.server, &connection.session.client);
        let is_whole = !matches!(answer, Answer::Piece(_));
        let tail = connection.out.tail();
        match answer {
            Answer::Piece(bytes) => tail.extend_from_slice(bytes),
            Answer::End(bytes) => match server.passed_on(bytes, &client.peer) {
                Some(told) => tail.extend_from_slice(&told),
                None => tail.extend_from_slice(bytes),
            },
            Answer::NotRun if origin.is_silent => {}
            Answer::NotRun => {
                tail.extend_from_slice(&server.not_forwarded(origin.slot, client, self.engine.now.mono_us));
            }
            Answer::Lost => {
                server.cluster.redirects.lost.fetch_add(1, Relaxed);
                connection.closing = true;
            }
        }
        connection.out.seal_if_long();
        let is_answered = connection.closing || (is_whole && origin.is_last);
        if is_answered {
            connection.wait = Wait::None;
        }
        if is_answered || !is_whole {
            self.turn(token);
        }
    }
}
