//! etcd as the nodes know it: one history of revisions, leases that end, transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cluster::agent::{LEASE_S, Outcome};
use cluster::records::{Key, Record};
use cluster::topology::Records;

use crate::random::Random;

pub type Writes = Vec<(Key, Option<Record>)>;

#[derive(Clone)]
struct Lease {
    ends_us: u64,
    keys: BTreeSet<Key>,
}

#[derive(Clone, Default)]
pub struct Etcd {
    pub records: Records,
    /// What each revision has changed, in order.
    pub history: Vec<(u64, Rc<Writes>)>,
    leases: BTreeMap<u64, Lease>,
    last_lease: u64,
    pub is_down: bool,
}

impl Etcd {
    fn end_us(now_us: u64, random: &mut Random) -> u64 {
        let late_us_max = if random.one_in(20) { 1_500_000 } else { 200_000 };
        now_us + LEASE_S * 1_000_000 + random.below(late_us_max)
    }

    pub fn grant(&mut self, now_us: u64, random: &mut Random) -> u64 {
        self.last_lease += 1;
        let lease = Lease { ends_us: Etcd::end_us(now_us, random), keys: BTreeSet::new() };
        self.leases.insert(self.last_lease, lease);
        self.last_lease
    }

    pub fn renew(&mut self, now_us: u64, lease: u64, random: &mut Random) -> bool {
        let ends_us = Etcd::end_us(now_us, random);
        self.leases.get_mut(&lease).map(|lease| lease.ends_us = ends_us).is_some()
    }

    pub fn revoke(&mut self, lease: u64) {
        if let Some(lease) = self.leases.remove(&lease) {
            let writes: Writes = lease.keys.into_iter().map(|key| (key, None)).collect();
            self.write(writes);
        }
    }

    /// Ends the leases whose time has come.
    pub fn expire(&mut self, now_us: u64) {
        let over: Vec<u64> =
            self.leases.iter().filter(|(_, lease)| now_us >= lease.ends_us).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|lease| self.revoke(lease));
    }

    /// A new leader gives each lease its whole time again.
    pub fn recover(&mut self, now_us: u64, random: &mut Random) {
        self.is_down = false;
        for lease in self.leases.values_mut() {
            lease.ends_us = Etcd::end_us(now_us, random);
        }
    }

    pub fn commit(&mut self, lease: Option<u64>, compares: &[(Key, u64)], writes: &Writes) -> Outcome {
        let needs_lease = writes.iter().any(|(key, record)| key.is_leased() && record.is_some());
        let lease = lease.filter(|lease| self.leases.contains_key(lease));
        if (needs_lease && lease.is_none())
            || compares.iter().any(|(key, written)| self.records.written_at(key) != *written)
        {
            return Outcome::Refused;
        }
        for (key, record) in writes.iter().filter(|(key, _)| key.is_leased()) {
            for held in self.leases.values_mut() {
                held.keys.remove(key);
            }
            if let (Some(_), Some(lease)) = (record, lease.and_then(|lease| self.leases.get_mut(&lease))) {
                lease.keys.insert(key.clone());
            }
        }
        self.write(writes.clone());
        Outcome::Committed(self.records.revision)
    }

    fn write(&mut self, writes: Writes) {
        if writes.is_empty() {
            return;
        }
        let revision = self.records.revision + 1;
        self.records.revision = revision;
        for (key, record) in &writes {
            match record {
                Some(record) => self.records.put(key.clone(), record.clone(), revision),
                None => self.records.remove(key, revision),
            }
        }
        self.history.push((revision, Rc::new(writes)));
    }
}
