//! Clients that wait until replicas, or the disk, have what they wrote: WAIT and WAITAOF.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use resp::Encoder;

use crate::blocking::Waiter;
use crate::letter::Letter;
use crate::server::Server;

/// What a client is told that waits for append-only files that are not written.
pub(crate) const NO_FILES: &str =
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

/// What a client waits for: up to `offset`, so many copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The offset after the last thing it wrote.
    pub(crate) offset: u64,
    /// Replicas that are to have it.
    pub(crate) replicas: usize,
    /// For WAITAOF: on disks; and whether on this server's, too.
    pub(crate) on_disks: Option<bool>,
}

/// What is reached of that: what the client is answered when its patience ends.
#[derive(Debug, Default)]
pub struct Tally {
    /// This server has it on its disk; -1: it was not asked.
    local: AtomicI64,
    replicas: AtomicI64,
}

impl Tally {
    /// Writes it as the reply.
    pub fn write(&self, out: &mut Encoder<'_>) {
        let local = self.local.load(Relaxed);
        if local >= 0 {
            out.array(2);
            out.int(local);
        }
        out.int(self.replicas.load(Relaxed));
    }
}

struct Wait {
    wanted: Wanted,
    tally: Arc<Tally>,
    waiter: Arc<Waiter>,
}

/// All who wait.
#[derive(Default)]
pub struct Waits {
    list: Mutex<Vec<Wait>>,
    /// So that acknowledgements cost nothing while nobody waits.
    count: AtomicUsize,
}

impl Waits {
    /// True if anybody waits.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Enters a client.
    pub(crate) fn add(&self, server: &Server, wanted: Wanted, tally: Arc<Tally>, waiter: Arc<Waiter>) {
        let mut list = self.list.lock();
        list.push(Wait { wanted, tally, waiter });
        self.count.store(list.len(), Relaxed);
        drop(list);
        // What was acknowledged meanwhile was not told to it.
        self.check(server);
    }

    /// Answers those who have what they wait for, or will never have it. To be called when something was acknowledged or
    /// synced, or the files are given up.
    pub(crate) fn check(&self, server: &Server) {
        if !self.any() {
            return;
        }
        let mut list = self.list.lock();
        list.retain(|wait| {
            let is_reached = server.tally(wait.wanted, &wait.tally);
            // Who gave up, or left, is gone already.
            let is_over = wait.waiter.is_answered();
            let is_hopeless = wait.wanted.on_disks == Some(true) && !server.persistence.files.are_kept();
            if is_over || !(is_reached || is_hopeless) {
                return !is_over;
            }
            let output = match is_hopeless {
                true => server.waiters.fail(&wait.waiter, NO_FILES),
                false => server.waiters.time_out(&wait.waiter),
            };
            if let Some(output) = output {
                let letter = |token, client_id| Letter::Reply { token, client_id, output };
                server.post(&wait.waiter.client, letter);
            }
            false
        });
        self.count.store(list.len(), Relaxed);
    }
}

impl Server {
    /// Counts what is reached; true if that is all.
    pub(crate) fn tally(&self, wanted: Wanted, tally: &Tally) -> bool {
        let (acked, synced) = self.replication.replicas.count_acked(wanted.offset);
        let Some(needs_local) = wanted.on_disks else {
            tally.local.store(-1, Relaxed);
            tally.replicas.store(acked as i64, Relaxed);
            return acked >= wanted.replicas;
        };
        let is_local = self.synced_to().is_some_and(|synced_to| synced_to >= wanted.offset);
        tally.local.store(i64::from(is_local), Relaxed);
        tally.replicas.store(synced as i64, Relaxed);
        synced >= wanted.replicas && (is_local || !needs_local)
    }

    /// The offset up to which the append-only files are safe on the disk, if they are written.
    pub fn synced_to(&self) -> Option<u64> {
        let files = &self.persistence.files;
        // Files that have no base yet are worth nothing.
        let synced_to = || files.watermarks().map_or(0, |watermarks| watermarks.synced_to());
        files.are_kept().then(synced_to)
    }
}
