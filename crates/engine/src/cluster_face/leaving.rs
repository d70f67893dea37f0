//! Who waits or listens here for what has left: clients that wait for keys are told where these are now, subscribers of shard
//! channels that their subscription has ended.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::standing::{Elsewhere, Standing};
use crate::blocking::Waiter;
use crate::commands::sentinel;
use crate::letter::Letter;
use crate::pubsub::Space;
use crate::server::Server;
use crate::table::Flags;

/// Looks after each change: commands that were admitted before it may begin to wait after it.
const LOOKS: u64 = 10;

/// Between other looks, which find those that wait where the cluster is down.
const IDLE_SAMPLES: u64 = 10;

/// How far looking is.
#[derive(Default)]
pub(super) struct Looks {
    samples: AtomicU64,
    /// The change that was seen last, plus one.
    seen: AtomicU64,
    /// Looks that it still has.
    left: AtomicU64,
}

impl Server {
    /// Looks for clients that wait or listen here for what has left; call it about every 100 ms.
    pub(crate) fn tend_cluster(&self) {
        if !self.cluster.enabled {
            return;
        }
        self.cluster.redirects.forget_idle(self.clock.mono_us());
        let (looks, changes) = (&self.cluster.looks, self.cluster.changes.load(SeqCst) + 1);
        if looks.seen.swap(changes, SeqCst) != changes {
            looks.left.store(LOOKS, SeqCst);
            sentinel::tell_switches(self);
        }
        let is_changed = looks.left.load(SeqCst) > 0;
        looks.left.store(looks.left.load(SeqCst).saturating_sub(1), SeqCst);
        let is_due = looks.samples.fetch_add(1, SeqCst).is_multiple_of(IDLE_SAMPLES);
        if (is_changed || is_due) && self.waiters.any() {
            self.redirect_waiting();
        }
        if is_changed && self.channels.used(Space::Shard) > 0 {
            for worker in 0..self.process.workers {
                self.host.post(worker, Letter::ShardsChanged);
            }
        }
    }

    /// Tells those where to go who wait for keys that are not this node's.
    fn redirect_waiting(&self) {
        let standing = self.cluster.standing();
        for waiter in self.waiters.all() {
            if let Some(text) = self.redirection_of(&standing, &waiter)
                && let Some(output) = self.waiters.fail(&waiter, &text)
            {
                self.post(&waiter.client, |token, client_id| Letter::Reply { token, client_id, output });
            }
        }
    }

    /// Where a waiting client is to go, if not on waiting here.
    pub(crate) fn waiting_elsewhere(&self, waiter: &Waiter) -> Option<String> {
        if !self.cluster.enabled {
            return None;
        }
        self.redirection_of(&self.cluster.standing(), waiter)
    }

    fn redirection_of(&self, standing: &Standing, waiter: &Waiter) -> Option<String> {
        let key = waiter.first_key()?;
        let slot = self.keyspace.position(key).slot();
        let is_cut_off = standing.is_primary() && !self.cluster.may_serve(self.clock.mono_us());
        if self.cluster.is_served(slot) && !is_cut_off {
            return None;
        }
        let reads = !self.registry.get(waiter.command()).spec.flags.contains(Flags::WRITE);
        let elsewhere = match standing.redirection(slot) {
            Some(Elsewhere::Refused(why)) => Elsewhere::Refused(why),
            _ if !standing.is_up() || is_cut_off => Elsewhere::Down,
            None => return None,
            // It may read here, or its keys are coming.
            Some(_) if standing.owns(slot) && waiter.is_readonly() && reads => return None,
            Some(_) if standing.opened.importing.contains_key(&slot) => return None,
            Some(elsewhere) => elsewhere,
        };
        let fault = self.cluster.fault(elsewhere, &waiter.client.peer);
        Some(String::from_utf8_lossy(fault.bytes()).into_owned())
    }
}
