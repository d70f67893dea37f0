//! What is done for replicas every now and then: PING, those that are silent for too long, the backlog's end.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use base::clock::Now;
use base::limits::LOG_RING_BYTES;

use crate::propagation::LogReader;
use crate::server::Server;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const GET_ACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

impl Server {
    /// To be called about every 100 ms.
    pub fn tend_replicas(&self) {
        self.tend_lead();
        if self.debug.pauses_cron.load(Relaxed) {
            return;
        }
        let now = self.clock.now();
        let replicas = &self.replication.replicas;
        let version = self.config.version();
        if replicas.limits_version.swap(version, Relaxed) != version {
            self.log.set_limits(LOG_RING_BYTES, self.backlog_bytes());
        }
        if replicas.count() > 0 {
            self.ping(now);
            self.close_silent(now);
            let kept_bytes = self.log.kept_bytes().saturating_sub(self.backlog_bytes());
            replicas.kept_bytes.store(kept_bytes, Relaxed);
        } else {
            replicas.kept_bytes.store(0, Relaxed);
            self.end_backlog(now);
        }
        replicas.count_good(self, now.unix_ms);
        replicas.waits.check(self);
    }

    /// `repl-backlog-size`.
    pub(crate) fn backlog_bytes(&self) -> u64 {
        self.config.int("repl-backlog-size").max(0) as u64
    }

    /// Appends a PING when it is time: replicas hear that their primary lives.
    fn ping(&self, now: Now) {
        let period_ms = self.config.int("repl-ping-replica-period") * 1000;
        let pinged_at_ms = &self.replication.replicas.pinged_at_ms;
        if now.unix_ms - pinged_at_ms.load(Relaxed) >= period_ms && self.sends_pings() {
            pinged_at_ms.store(now.unix_ms, Relaxed);
            self.append_ping();
        }
    }

    /// Appends a PING, if this server still may.
    pub(crate) fn append_ping(&self) {
        self.append_if_first(PING);
    }

    /// Appends a record that is of no database, if this server still may.
    pub(crate) fn append_if_first(&self, record: &[u8]) {
        // *gate-first*: the log must not become another server's stream in between.
        let _gate = self.replication.following.gate.lock();
        if self.sends_pings() {
            self.log.append_aside(record);
        }
    }

    /// Only the first server of a chain sends PINGs: the others pass them on. One that ends, or hands over, waits for its
    /// replicas to have all there is, and adds nothing.
    fn sends_pings(&self) -> bool {
        let following = &self.replication.following;
        let is_first = self.is_log_wanted(LogReader::Replicas) && !following.is_replica();
        is_first && !self.shutdown.is_going() && !following.holds_writes()
    }

    /// Has replicas asked how far they are, soon.
    pub(crate) fn want_acks(&self) {
        self.replication.replicas.acks_wanted.store(true, Relaxed);
    }

    /// Asks replicas how far they are, if anybody wants to know. A worker calls this after each turn.
    #[inline]
    pub fn ask_for_acks(&self) {
        let wanted = &self.replication.replicas.acks_wanted;
        let is_due = wanted.load(Relaxed) && wanted.swap(false, AcqRel) && self.sends_pings();
        if is_due && !self.try_append_aside(GET_ACK) {
            // In its next turn.
            wanted.store(true, Relaxed);
        }
    }

    /// As [`Server::append_if_first`]; false if that would have to be waited for.
    pub(crate) fn try_append_aside(&self, record: &[u8]) -> bool {
        // *gate-first*, but for a worker, which does not wait for it.
        let Some(_gate) = self.replication.following.gate.try_lock() else { return false };
        if self.sends_pings() {
            self.log.append_aside(record);
        }
        true
    }

    /// Closes replicas that were not heard of for `repl-timeout`.
    fn close_silent(&self, now: Now) {
        let timeout_s = self.config.int("repl-timeout");
        for replica in self.replication.replicas.list() {
            if replica.silent_for_s(now.unix_ms) > timeout_s && !replica.client.kill.load(Relaxed) {
                self.host.log(&format!("Disconnecting timedout replica: {}", replica.name()));
                self.host.kill(&replica.client);
            }
        }
    }

    /// Ends the backlog when nobody has followed for `repl-backlog-ttl`.
    fn end_backlog(&self, now: Now) {
        let (replicas, ttl_s) = (&self.replication.replicas, self.config.int("repl-backlog-ttl"));
        let alone_ms = now.unix_ms - replicas.alone_since_ms.load(Relaxed);
        let is_due = ttl_s > 0 && alone_ms / 1000 > ttl_s && self.sends_pings();
        if !is_due || replicas.syncs.is_awaited() || self.gates.copies.leads() {
            return;
        }
        let _long = self.keyspace.hold_long();
        let _held = self.keyspace.lock_all();
        self.want_log(LogReader::Replicas, false);
        if !self.log.is_active() {
            // What is written from now on is in no stream: the next one is another.
            self.change_stream_id();
        }
        self.notice(&format!("Replication backlog freed after {ttl_s} seconds without connected replicas."));
    }
}
