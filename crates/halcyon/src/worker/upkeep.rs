//! What a worker does between events: slices of expiry and eviction, clients that are silent or hold too much, an even
//! share of the connections.

use std::sync::atomic::Ordering::Relaxed;

use base::clock::Now;
use base::limits::{EXPIRE_SLICE_KEYS, EXPIRE_SLICE_US, REPLICA_KEPT_BYTES_MAX};
use engine::client_memory::clients_bytes_max;
use engine::eviction;

use super::Worker;
use crate::connection::{Connection, Wait};
use crate::shared::Message;

/// Time between rounds of background work.
const TICK_US: u64 = 100_000;
/// Connections that one tick hands to another worker.
const MOVES_PER_TICK: usize = 64;
/// Connections that are looked at for that.
const MOVE_CHECKS_PER_TICK: usize = 1024;
/// Connections that a worker may have more than twice as many as another one, where they are steered to its CPU.
const STEERED_CONNECTIONS: usize = 16;
/// Connections whose idle time is looked at in one tick.
const TIMEOUT_CHECKS_PER_TICK: usize = 256;

impl Worker {
    pub(super) fn tick(&mut self) {
        if self.expiring {
            self.expire();
        }
        if self.evicting {
            self.evict();
        }
        self.end_pauses();
        self.end_waits();
        self.retry_held_up();
        if self.engine.now.mono_us < self.next_tick_us {
            return;
        }
        self.next_tick_us = self.engine.now.mono_us + TICK_US;
        self.accept_again.append(&mut self.accept_later);
        self.expire();
        self.end_late_handshakes();
        self.evict();
        self.evict_clients();
        self.close_some();
        self.balance();
    }

    /// A slice of eviction, if memory is above its limit.
    fn evict(&mut self) {
        let server = &self.shared.server;
        self.evicting = !server.persistence.is_loading() && eviction::tick(server, &mut self.engine);
    }

    /// A slice of active expiry over this worker's share of the stripes.
    pub(super) fn expire(&mut self) {
        let shared = self.shared.clone();
        let server = &shared.server;
        // What is loaded may be written again before it ends.
        let is_held_back = server.debug.pauses_cron.load(Relaxed) || server.persistence.is_loading();
        if !server.active_expire.load(Relaxed) || is_held_back {
            self.expiring = false;
            return;
        }
        let workers = shared.mailboxes.len();
        let started: Now = server.clock.now();
        let mut idle_stripes = 0;
        let own_stripes = (store::STRIPES - self.index).div_ceil(workers);
        while idle_stripes < own_stripes {
            let stripe = self.index + self.expire_at_stripe * workers;
            let (removed, more) = server.expire_slice(stripe, started.unix_ms, EXPIRE_SLICE_KEYS);
            if !more {
                self.expire_at_stripe = (self.expire_at_stripe + 1) % own_stripes;
                idle_stripes += 1;
            }
            let elapsed_us = if removed > 0 { server.clock.mono_us() - started.mono_us } else { 0 };
            if elapsed_us > EXPIRE_SLICE_US {
                server.keyspace.note_time_cap();
                server.latency.record_above(server, "expire-cycle", elapsed_us, started.unix_ms / 1000);
                self.expiring = true;
                return;
            }
        }
        self.expiring = false;
    }

    /// Closes clients that were silent for `timeout`, or have not read their replies for too long; looks at a bounded
    /// number of them a tick.
    fn close_some(&mut self) {
        let timeout_ms = self.shared.server.config.hot().timeout_s() as i64 * 1000;
        for _ in 0..TIMEOUT_CHECKS_PER_TICK.min(self.connections.capacity()) {
            self.timeout_at = (self.timeout_at + 1) % self.connections.capacity();
            let place = self.connections.get_mut(self.timeout_at);
            let Some(mut connection) = place.and_then(Option::take) else { continue };
            let client = &connection.session.client;
            let silent_ms = self.engine.now.unix_ms - client.last_active_ms.load(Relaxed);
            let listens = client.is_pushed_to() || connection.wait != Wait::None;
            if timeout_ms > 0 && silent_ms > timeout_ms && !listens {
                tracing::debug!("Closing idle client {}", client.id);
                self.forget(self.timeout_at, connection);
            } else if !connection.out.is_empty() && self.is_over_output_limit(&mut connection) {
                self.forget(self.timeout_at, connection);
            } else {
                self.connections[self.timeout_at] = Some(connection);
            }
        }
    }

    /// Closes connections while all of them together hold more than `maxmemory-clients`.
    #[inline]
    pub(super) fn evict_clients(&mut self) {
        let server = &self.shared.server;
        let limit = clients_bytes_max(&server.config);
        if limit == 0 || server.clients.memory_bytes() <= limit {
            return;
        }
        while let Some(victim) = server.clients.choose_victim(limit) {
            tracing::info!("Evicting client {} from {}", victim.id, victim.peer.address());
            self.engine.stats.evicted_clients.add(1);
            server.host.kill(&victim);
        }
    }

    /// True if a connection with unsent replies has more of them than its class may have.
    #[cold]
    pub(super) fn is_over_output_limit(&mut self, connection: &mut Connection) -> bool {
        let config = &self.shared.server.config;
        if self.output_limits.0 != config.version() {
            self.output_limits = (config.version(), config.output_buffer_limits());
        }
        let kept_bytes = self.feeds.kept_bytes(&self.shared.server, connection);
        let limits = &self.output_limits.1;
        let is_over = connection.is_over_output_limit(limits, kept_bytes, self.engine.now.mono_us)
            || kept_bytes > REPLICA_KEPT_BYTES_MAX;
        if is_over {
            let client = &connection.session.client;
            tracing::warn!(
                "Client {} from {} closed for overcoming of output buffer limits, with {} bytes unsent",
                client.id,
                client.peer.address(),
                connection.out.pending_bytes() as u64 + kept_bytes
            );
            self.engine.stats.output_limit_disconnections.add(1);
        }
        is_over
    }

    /// Gives long-lived idle connections to the least loaded worker when this one has many more.
    pub(super) fn balance(&mut self) {
        let threads = &self.shared.threads;
        let mine = threads.load(self.index).load(Relaxed);
        let loads = (0..threads.workers()).map(|worker| (threads.load(worker).load(Relaxed), worker));
        let Some((least, target)) = loads.min() else { return };
        // A connection that was steered here belongs here, unless the steering leaves others with little to do.
        let (share, few) = if threads.are_steered() { (1, STEERED_CONNECTIONS) } else { (8, 1) };
        if mine <= least + least / share + few {
            return;
        }
        let surplus = (mine - least) / 2;
        let old_enough_s = self.engine.now.unix_ms / 1000 - 1;
        let movable = |connection: &Connection| {
            connection.is_idle()
                && !connection.queued
                && !connection.session.is_bound()
                && connection.session.client.created_s < old_enough_s
        };
        let mut tokens = Vec::new();
        for _ in 0..MOVE_CHECKS_PER_TICK.min(self.connections.capacity()) {
            if tokens.len() == surplus.min(MOVES_PER_TICK) {
                break;
            }
            self.balance_at = (self.balance_at + 1) % self.connections.capacity();
            let connection = self.connections.get(self.balance_at).and_then(Option::as_deref);
            if connection.is_some_and(movable) {
                tokens.push(self.balance_at);
            }
        }
        for token in tokens {
            let Some(mut connection) = self.connections.remove(token) else { continue };
            self.shared.threads.load(self.index).fetch_sub(1, Relaxed);
            if connection.stream.deregister(self.poll.registry()).is_ok() {
                connection.readable = true;
                connection.writable = true;
                self.shared.mailboxes[target].send(Message::Adopt(connection));
            } else {
                self.shared.server.disconnect(&mut self.engine, &mut connection.session);
            }
        }
    }
}
