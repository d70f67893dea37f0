//! A worker's TLS handshakes. A step of one may cost a thousand times what a command does, so steps wait in line until
//! every other connection has had its turn, and a turn takes a bounded number of them: a storm of handshakes makes
//! handshakes slow, and nothing else.

use std::collections::VecDeque;

use base::limits::{TLS_HANDSHAKE_STEPS_PER_TURN, TLS_HANDSHAKE_TIMEOUT_US, TLS_HANDSHAKE_TURN_US};

use super::Worker;
use crate::connection::{Connection, Stream};
use crate::tls::Shake;

/// Handshakes that are late are closed at most so many at a time.
const ENDS_PER_TICK: usize = 1024;

/// What a worker keeps of its handshakes.
#[derive(Default)]
pub(super) struct Handshakes {
    /// Connections whose next step is due; each has its `queued` flag raised.
    due: VecDeque<usize>,
    /// The end of each handshake's time, done or not: in order, since all are given the same.
    ends: VecDeque<End>,
}

struct End {
    at_us: u64,
    token: usize,
    client_id: u64,
}

impl Handshakes {
    /// True if there is something to do at once.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Puts a connection in line for a step.
    pub(super) fn push(&mut self, token: usize) {
        self.due.push_back(token);
    }

    /// A handshake begins.
    pub(super) fn begin(&mut self, token: usize, client_id: u64, now_us: u64) {
        self.ends.push_back(End { at_us: now_us + TLS_HANDSHAKE_TIMEOUT_US, token, client_id });
    }

    /// The next handshake whose time is over.
    fn next_late(&mut self, now_us: u64) -> Option<End> {
        self.ends.pop_front_if(|end| end.at_us <= now_us)
    }
}

impl Worker {
    /// Takes the steps of one turn.
    pub(super) fn shake_hands(&mut self) {
        let mut begun_us = None;
        for _ in 0..TLS_HANDSHAKE_STEPS_PER_TURN {
            let Some(token) = self.handshakes.due.pop_front() else { return };
            let now_us = self.shared.server.clock.mono_us();
            let is_over = now_us - *begun_us.get_or_insert(now_us) >= TLS_HANDSHAKE_TURN_US;
            if is_over {
                self.handshakes.due.push_front(token);
                return;
            }
            self.step(token);
        }
    }

    fn step(&mut self, token: usize) {
        let Some(Some(connection)) = self.connections.get_mut(token) else { return };
        connection.queued = false;
        let Stream::Tls(stream) = &mut connection.stream else { return self.turn(token) };
        if !stream.is_shaking_hands() {
            // The place belongs to another connection by now.
            return self.turn(token);
        }
        match stream.shake_hands(connection.hung_up) {
            Ok(Shake::Waits) => {}
            Ok(Shake::Again | Shake::Done) => self.turn(token),
            Err(error) => {
                let peer = &connection.session.client.peer;
                tracing::warn!(
                    "Error accepting a client connection: {error} (addr={} laddr={})",
                    peer.address(),
                    peer.local_address()
                );
                self.close(token);
            }
        }
    }

    /// Closes those whose time is over.
    pub(super) fn end_late_handshakes(&mut self) {
        for _ in 0..ENDS_PER_TICK {
            let Some(late) = self.handshakes.next_late(self.engine.now.mono_us) else { return };
            let is_shaking = |connection: &Connection| {
                connection.session.client.id == late.client_id && connection.stream.is_shaking_hands()
            };
            if self.connections.get(late.token).and_then(Option::as_deref).is_some_and(is_shaking) {
                tracing::debug!("Closing client {}: its TLS handshake takes too long", late.client_id);
                self.close(late.token);
            }
        }
    }

    fn close(&mut self, token: usize) {
        if let Some(connection) = self.connections[token].take() {
            self.forget(token, connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_end_in_the_order_they_began() {
        let mut handshakes = Handshakes::default();
        (0..3).for_each(|number| handshakes.begin(number, 100 + number as u64, 10 * number as u64));
        let late_at =
            |handshakes: &mut Handshakes, now_us| handshakes.next_late(now_us).map(|end| end.client_id);
        assert_eq!(late_at(&mut handshakes, TLS_HANDSHAKE_TIMEOUT_US - 1), None);
        assert_eq!(late_at(&mut handshakes, TLS_HANDSHAKE_TIMEOUT_US + 10), Some(100));
        assert_eq!(late_at(&mut handshakes, TLS_HANDSHAKE_TIMEOUT_US + 10), Some(101));
        assert_eq!(late_at(&mut handshakes, TLS_HANDSHAKE_TIMEOUT_US + 10), None);
        assert!(!handshakes.is_due());
    }
}
