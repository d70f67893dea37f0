//! Requests that came too late: their slot has left this node, and the new owner is asked on the client's behalf.
//!
//! ```text
//! client -> run_batch -> Forwarding::take (in the client's order) -> Relay::push -> queue -> out -> the new owner
//!        <- its output                             <- Answer <- Relay::receive <- replies, as bytes <-
//! ```
//!
//! A [`Relay`] is a connection to another node without its socket. Each worker has its own, one for each node and protocol,
//! and looks after them in its own poll; nothing here waits.
//!
//! - **Order**: what a connection has in one batch goes through one relay, and nothing else of that connection runs until all of
//!   it is answered. A relay's answers come in the order of its requests.
//! - **Once**: a request that was sent is not sent again. If its answer is lost, so is the client's connection. One that was not
//!   sent is told where to go instead.
//! - **No loop**: a relay says first that it wants to be told of owners plainly (CLUSTER REDIRECTS PLAIN), so what it brings is
//!   not forwarded again. It sends nothing before the other node knows of the change by which the request has come late.

mod answers;
mod relay;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use base::limits::{RELAY_REST_US, RELAYS_MAX};
use resp::{Proto, write_command};

pub use answers::{Answer, Answers, Origin};
pub use relay::Relay;

use crate::config::Config;

/// Where a relay leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Door {
    /// The other node's address.
    pub address: SocketAddr,
    /// It is to be spoken to over TLS.
    pub over_tls: bool,
    /// Replies are to be RESP3.
    pub is_resp3: bool,
}

impl Door {
    /// The relay to this address for clients that speak this protocol.
    pub fn new(address: SocketAddr, over_tls: bool, proto: Proto) -> Door {
        Door { address, over_tls, is_resp3: proto == Proto::V3 }
    }
}

/// A request that is to be forwarded.
#[derive(Debug)]
pub struct Forward {
    /// As it is sent.
    pub bytes: Vec<u8>,
    /// The slot of its keys.
    pub slot: u16,
    /// Replies before the one that the client is waiting for.
    pub replies_before: usize,
    /// The client wants no reply.
    pub is_silent: bool,
    /// The topology by which the slot has left: the other node has to know this one or a later one.
    pub revision: u64,
}

/// What a worker forwards.
#[derive(Default)]
pub struct Forwarding {
    /// The batch that runs has these to forward, all to one door.
    taken: Vec<Forward>,
    door: Option<Door>,
    /// The relays.
    pub relays: BTreeMap<Door, Relay>,
    /// Until when nothing is forwarded to these.
    resting: BTreeMap<SocketAddr, u64>,
}

impl Forwarding {
    /// Requests of the batch that runs which are to be forwarded.
    #[inline]
    pub(crate) fn taken(&self) -> usize {
        self.taken.len()
    }

    /// Whether a request of so many bytes can be forwarded after those that were taken already. If these go elsewhere, it comes
    /// again when they are answered: that is no answer yet.
    pub(crate) fn has_room(&self, door: Door, bytes: usize, now_us: u64) -> Room {
        if self.resting.get(&door.address).is_some_and(|until_us| now_us < *until_us) {
            return Room::None;
        }
        if self.door.is_some_and(|taken| taken != door) {
            return Room::Later;
        }
        let taken_bytes: usize = self.taken.iter().map(|forward| forward.bytes.len()).sum();
        let has_room = match self.relays.get(&door) {
            Some(relay) => relay.has_room(self.taken.len() + 1, taken_bytes + bytes),
            None => self.relays.len() < RELAYS_MAX,
        };
        if has_room { Room::Now } else { Room::None }
    }

    /// Takes a request of the batch that runs.
    pub(crate) fn take(&mut self, door: Door, forward: Forward) {
        debug_assert!(self.door.is_none_or(|taken| taken == door), "one-door: a batch goes to one node");
        self.door = Some(door);
        self.taken.push(forward);
    }

    /// What the batch that just ran has to forward, given to nobody.
    pub(crate) fn give_taken(&mut self) -> Vec<(Door, Forward)> {
        let door = self.door.take();
        self.taken.drain(..).filter_map(|forward| Some((door?, forward))).collect()
    }

    /// The request that was taken last.
    pub(crate) fn last_taken(&mut self) -> Option<&mut Forward> {
        self.taken.last_mut()
    }

    /// Puts what the batch that just ran has to forward into its relay. Its answers are for this connection.
    pub fn push_taken(&mut self, config: &Config, token: usize, client_id: u64, now_us: u64) {
        let door = self.door.take().expect("forwarded: the dispatcher reported some");
        let relay = self.relays.entry(door).or_insert_with(|| Relay::new(&greeting(config, door), now_us));
        let last = self.taken.len() - 1;
        for (at, forward) in self.taken.drain(..).enumerate() {
            let Forward { slot, is_silent, .. } = forward;
            relay.push(Origin { token, client_id, slot, is_silent, is_last: at == last }, forward, now_us);
        }
    }

    /// Nothing is forwarded to this node for a while.
    pub fn rest(&mut self, address: SocketAddr, now_us: u64) {
        self.resting.retain(|_, until_us| *until_us > now_us);
        self.resting.insert(address, now_us + RELAY_REST_US);
    }

    /// Requests and bytes that wait in the relays.
    pub fn waiting(&self) -> (usize, usize) {
        let waiting = self.relays.values().map(Relay::waiting);
        waiting.fold((0, 0), |(requests, bytes), relay| (requests + relay.0, bytes + relay.1))
    }
}

/// Whether a request can be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It can.
    Now,
    /// Not before those are answered that were taken before it.
    Later,
    /// It cannot.
    None,
}

/// What a relay says first. Each of these is answered with something that is no error.
fn greeting(config: &Config, door: Door) -> Vec<Vec<u8>> {
    let command = |words: &[&[u8]]| {
        let mut bytes = Vec::new();
        write_command(&mut bytes, words);
        bytes
    };
    let (user, password) = (config.bytes("masteruser"), config.bytes("masterauth"));
    let mut greeting = Vec::new();
    match (password.is_empty(), user.is_empty()) {
        (true, _) => {}
        (false, true) => greeting.push(command(&[b"AUTH", &password])),
        (false, false) => greeting.push(command(&[b"AUTH", &user, &password])),
    }
    if door.is_resp3 {
        greeting.push(command(&[b"HELLO", b"3"]));
    }
    greeting
}

#[cfg(test)]
mod tests;
