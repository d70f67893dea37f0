//! Changes of roles, and of the data that this server has as a replica.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::{LinkState, Primary};
use crate::letter::Letter;
use crate::propagation::LogReader;
use crate::replication::group::Membership;
use crate::server::Server;
use crate::tracking;

/// What clients are told that wait while the server becomes a replica.
const UNBLOCKED: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

/// Whom to follow.
enum Target {
    Server(Primary),
    Member(Primary, Membership),
    Nobody,
}

impl Server {
    /// Becomes a replica of another server, or of yet another one. Off the workers: this waits for a batch of the stream.
    pub fn follow(&self, primary: Primary) {
        self.begin_following(Target::Server(primary), false);
        self.remember_primary();
        self.release_waiting();
        self.host.follow(self.replication.following.term());
    }

    /// As [`Server::follow`], of a replica that is asked to become the primary of this server.
    pub(super) fn hand_over_to(&self, primary: Primary) {
        self.begin_following(Target::Server(primary), true);
        self.remember_primary();
        self.release_waiting();
        self.host.follow(self.replication.following.term());
    }

    /// As [`Server::follow`], as a member of the primary's shard; with None, follows nobody, as one that waits for a primary.
    /// False if that is what it does already.
    pub(crate) fn follow_member(&self, to: Option<(Primary, Membership)>) -> bool {
        let following = &self.replication.following;
        let state = following.state.lock();
        let is_same = match &to {
            Some((_, membership)) => state.membership.as_ref() == Some(membership) && !state.stands,
            None => state.stands,
        };
        if is_same {
            return false;
        }
        drop(state);
        self.begin_following(
            to.map_or(Target::Nobody, |(to, membership)| Target::Member(to, membership)),
            false,
        );
        self.release_waiting();
        self.host.follow(following.term());
        self.replication.replicas.disconnect_all(self);
        self.persistence.files.tell_progress();
        true
    }

    fn begin_following(&self, to: Target, takes_over: bool) {
        let following = &self.replication.following;
        let _gate = following.gate.lock();
        let _long = self.keyspace.hold_long();
        let _held = self.keyspace.lock_all();
        if self.gates.copies.leads() {
            self.gates.change_copies(&self.log, |copies| copies.leave(self.log.end()));
        }
        let mut state = following.state.lock();
        if state.primary.is_none() {
            // All that was written is in the log, or else the log does not tell what the data are.
            state.is_exact = self.log.is_active();
            following.applied.store(self.log.end(), Relaxed);
            let db = self.log.db().unwrap_or(0);
            following.stream_db.store(u64::from(db), Relaxed);
            self.log.set_stream(Some(db));
        }
        state.stands = matches!(to, Target::Nobody);
        (state.primary, state.membership) = match to {
            Target::Server(primary) => (Some(primary), None),
            Target::Member(primary, membership) => (Some(primary), Some(membership)),
            Target::Nobody => (Some(Primary { host: String::new(), port: 0 }), None),
        };
        state.link = LinkState::Connect;
        state.down_since_ms = 0;
        state.takes_over = takes_over;
        following.term.fetch_add(1, SeqCst);
        following.publish(&state);
        self.keyspace.keep_expired(true);
        self.follow_log(true);
    }

    /// Becomes a primary; false if it is one. Its log goes on under another id, and may be asked for under the old one.
    pub fn stop_following(&self) -> bool {
        self.stop_following_with(|| {})
    }

    /// As [`Server::stop_following`]; `begin` is run under every stripe, before anybody can write.
    pub(crate) fn stop_following_with(&self, begin: impl FnOnce()) -> bool {
        let following = &self.replication.following;
        let gate = following.gate.lock();
        let long = self.keyspace.hold_long();
        let held = self.keyspace.lock_all();
        let mut state = following.state.lock();
        if state.primary.take().is_none() {
            return false;
        }
        self.shift_id();
        state.link = LinkState::Connect;
        (state.takes_over, state.stands, state.membership) = (false, false, None);
        following.term.fetch_add(1, SeqCst);
        following.publish(&state);
        self.keyspace.keep_expired(false);
        self.log.set_stream(None);
        // From here on the log has to have everything, for those who followed the same primary.
        self.follow_log(false);
        self.want_log(LogReader::Replicas, true);
        drop(state);
        begin();
        drop(held);
        drop(long);
        drop(gate);
        self.remember_primary();
        self.host.follow(self.replication.following.term());
        self.replication.replicas.disconnect_all(self);
        true
    }

    /// Gives the log another id, and remembers the one that it had up to here.
    fn shift_id(&self) {
        let mut ids = self.replication.ids.lock();
        let old = std::mem::replace(&mut ids.id, self.random_mark());
        (ids.id2, ids.second_offset) = (old, self.log.end() as i64 + 1);
    }

    /// Has the directive say whom this server follows.
    fn remember_primary(&self) {
        if self.cluster.enabled {
            // Whom to follow is not for the configuration to say.
            return;
        }
        let value = match self.replication.following.primary() {
            Some(Primary { host, port }) => format!("{host} {port}"),
            None => "no one".to_owned(),
        };
        self.config
            .override_value("replicaof", value.as_bytes())
            .expect("replicaof-value: a host and a port");
    }

    /// Clients that wait for keys would wait for writes that come no more: they are told where to go on waiting, if there is
    /// such a place; else that nothing comes, and are closed.
    fn release_waiting(&self) {
        for waiter in self.waiters.all() {
            if let Some(text) = self.waiting_elsewhere(&waiter) {
                if let Some(output) = self.waiters.fail(&waiter, &text) {
                    self.post(&waiter.client, |token, client_id| Letter::Reply { token, client_id, output });
                }
                continue;
            }
            if let Some(output) = self.waiters.fail(&waiter, UNBLOCKED) {
                self.post(&waiter.client, |token, client_id| Letter::Reply { token, client_id, output });
                self.host.kill(&waiter.client);
            }
        }
    }

    /// Takes over where the data that were loaded from this server's own files stand in a stream: of its primary, or of its
    /// own. At the start, before anybody writes.
    pub fn resume_at(&self, id: &str, offset: u64, db: usize) {
        let following = &self.replication.following;
        let mut state = following.state.lock();
        if self.log.end() != offset {
            self.log.restart_at(offset);
            self.gates.restart();
        }
        if state.primary.is_none() {
            drop(state);
            return self.go_on_as_primary(id, offset);
        }
        self.replication.ids.lock().id = id.to_owned();
        self.log.set_stream(Some(db as u32));
        following.applied.store(offset, Relaxed);
        following.received.store(offset, Relaxed);
        following.stream_db.store(db as u64, Relaxed);
        state.is_exact = true;
    }

    /// What is written from here on is another stream, which replicas may go on with that have the one before up to here:
    /// who stopped without order may have sent more of it than it kept.
    fn go_on_as_primary(&self, id: &str, offset: u64) {
        let mut ids = self.replication.ids.lock();
        (ids.id2, ids.second_offset) = (id.to_owned(), offset as i64 + 1);
        drop(ids);
        let _long = self.keyspace.hold_long();
        let _held = self.keyspace.lock_all();
        self.replication.replicas.await_return(self.clock.now().unix_ms);
        self.want_log(LogReader::Replicas, true);
        // Replicas still have what had expired.
        for (db, key) in std::mem::take(&mut *self.persistence.loading.expired_keys.lock()) {
            self.log_removal(db, &key, false);
        }
    }

    /// The primary goes on with the stream where this server has it; it may call it by another id. False if the link is
    /// not the present one.
    pub fn resume_stream(&self, term: u64, id: Option<&str>) -> bool {
        let following = &self.replication.following;
        let _gate = following.gate.lock();
        if following.term() != term {
            return false;
        }
        following.state.lock().takes_over = false;
        self.note_agreed(term);
        let end = self.log.end();
        following.received.store(end, Relaxed);
        let mut ids = self.replication.ids.lock();
        if let Some(id) = id.filter(|id| **id != ids.id) {
            let old = std::mem::replace(&mut ids.id, id.to_owned());
            (ids.id2, ids.second_offset) = (old, end as i64 + 1);
            drop(ids);
            // They have to hear of it.
            self.replication.replicas.disconnect_all(self);
        }
        true
    }

    /// Empties this server, since all of the primary's data come in place of its own. False if the link is not the present
    /// one.
    pub fn begin_sync_load(&self, term: u64, total_bytes: u64) -> bool {
        let following = &self.replication.following;
        let _gate = following.gate.lock();
        if following.term() != term {
            return false;
        }
        following.state.lock().is_exact = false;
        following.is_torn.store(true, SeqCst);
        // Before anything is thrown away: what was admitted to it is asked again under its stripes.
        self.cluster.note_data(false);
        self.begin_loading(total_bytes);
        self.replication.replicas.disconnect_all(self);
        self.replication.replicas.on_disk.forget_all();
        let _long = self.keyspace.hold_long();
        let mut held = self.keyspace.lock_all();
        for db in 0..self.keyspace.databases() {
            for key in self.watches.watched_in(db) {
                self.watches.touch(db, &key);
            }
        }
        held.flush(None);
        drop(held);
        self.scripting.functions.flush();
        if self.tracking.any() {
            tracking::invalidate_all(self, None);
        }
        true
    }

    /// The data are those of the primary at `offset` of the stream `id`.
    pub fn end_sync_load(&self, term: u64, id: &str, offset: u64, db: usize) -> bool {
        let following = &self.replication.following;
        let _gate = following.gate.lock();
        let is_present = following.term() == term;
        if is_present {
            let mut ids = self.replication.ids.lock();
            (ids.id, ids.id2, ids.second_offset) = (id.to_owned(), "0".repeat(40), -1);
            drop(ids);
            self.restart_log_at(offset, db as u32);
            self.replication.replicas.on_disk.forget_all();
            following.applied.store(offset, Relaxed);
            following.received.store(offset, Relaxed);
            following.stream_db.store(db as u64, Relaxed);
            let mut state = following.state.lock();
            (state.is_exact, state.takes_over) = (true, false);
            drop(state);
            following.is_torn.store(false, SeqCst);
            self.note_agreed(term);
        }
        self.end_loading();
        is_present
    }

    /// True for a replica whose data were thrown away for others that have not come: files keep what it had until they have.
    pub(crate) fn has_nothing_whole(&self) -> bool {
        let following = &self.replication.following;
        following.is_replica() && following.is_torn()
    }

    /// The data could not be loaded: what there is of them is thrown away.
    pub fn abandon_sync_load(&self) {
        let _gate = self.replication.following.gate.lock();
        let _long = self.keyspace.hold_long();
        self.keyspace.lock_all().flush(None);
        self.scripting.functions.flush();
        self.end_loading();
    }

    /// Puts records of the stream into the log and has `apply` do what they say. False, with nothing done, if the link is
    /// not the present one.
    pub fn take_batch(&self, term: u64, batch: &super::StreamBatch, apply: impl FnOnce()) -> bool {
        self.take_batch_told(term, batch, || {}, apply)
    }

    /// As [`Server::take_batch`]; `received` is run once the records are in the log, before they are applied.
    pub fn take_batch_told(
        &self,
        term: u64,
        batch: &super::StreamBatch,
        received: impl FnOnce(),
        apply: impl FnOnce(),
    ) -> bool {
        let following = &self.replication.following;
        let _gate = following.gate.lock();
        if following.term() != term {
            return false;
        }
        self.check_disk(batch);
        // The log first: whoever sees what a record did finds it below the log's end.
        let end = self.log.append_stream(batch.bytes(), batch.db_after() as u32);
        received();
        apply();
        following.applied.store(end, Relaxed);
        following.stream_db.store(batch.db_after() as u64, Relaxed);
        if let Some(stamp_us) = batch.stamp_us() {
            following.fresh_us.fetch_max(stamp_us, Relaxed);
        }
        true
    }
}
