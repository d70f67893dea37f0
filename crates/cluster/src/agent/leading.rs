//! What a primary decides: whom its replies await, who is in sync, how long it may serve.

use std::collections::{BTreeMap, BTreeSet};

use super::commits::{Due, Purpose};
use super::handing::Parked;
use super::machine::{Agent, Role};
use super::{CLOCK_MARGIN_US, PROMISE_US, SILENT_US};
use crate::ids::{Member, ShardId};
use crate::records::{Key, Promise, Record, ShardRecord};

/// A replica that was caught up so lately can join the in-sync set.
const CAUGHT_UP_US: u64 = 500_000;

/// Under [`Promise::Nothing`] a replica stays in the set, however far behind, until it has not been there for so long.
const GONE_US: u64 = 10_000_000;

/// What a primary remembers, of its epoch.
#[derive(Default)]
pub(super) struct Leading {
    epoch: u64,
    /// Replicas that are about to join. Replies wait for them; each joins when it has all that the log held once
    /// they did: what was acknowledged before is not known to be in it.
    joining: BTreeMap<Member, Option<u64>>,
    proposed: Vec<Proposal>,
    /// When each member of the set was last heard, and caught up.
    reached_us: BTreeMap<Member, u64>,
    gone_since_us: BTreeMap<Member, u64>,
}

/// A set, and what is promised of it, that was asked for. While all that its transaction compares is the newest, it may come to
/// be.
#[derive(PartialEq)]
struct Proposal {
    compares: Vec<(Key, u64)>,
    set: Vec<Member>,
    promise: Promise,
}

impl Leading {
    /// The server says where its log ends, after it was told to await all that are joining.
    pub fn ticked(&mut self, log_end: u64) {
        for mark in self.joining.values_mut() {
            mark.get_or_insert(log_end);
        }
    }

    /// A transaction was asked for that would make this the set.
    fn proposes(&mut self, proposal: Proposal) {
        if !self.proposed.contains(&proposal) {
            self.proposed.push(proposal);
        }
    }

    /// True if others may take it by now that every member of the set has what was acknowledged.
    fn may_promise(&self, record: &ShardRecord) -> bool {
        let proposed = self.proposed.iter().map(|proposal| proposal.promise);
        proposed.chain([record.promise]).any(|promise| promise == Promise::Quorum)
    }

    fn is_silent(&self, member: &Member, now_us: u64) -> bool {
        now_us >= self.reached_us.get(member).map_or(0, |reached_us| reached_us + SILENT_US)
    }
}

impl Agent {
    /// Leads: looks who is in sync.
    pub(super) fn lead(&mut self) -> Role {
        let now_us = self.now_us;
        let Some((shard, record, _)) = self.led_shard() else { return Role::Stand };
        let (shard, record) = (shard.clone(), record.clone());
        if self.leading.epoch != record.epoch {
            self.leading = Leading { epoch: record.epoch, ..Leading::default() };
        }
        let is_open = |(key, compared): &(Key, u64)| self.records.written_at(key) == *compared;
        self.leading.proposed.retain(|proposal| proposal.compares.iter().all(is_open));
        self.look_at_set(now_us, &record);
        self.look_at_joining(now_us, &shard, &record);
        let mut awaited = self.could_be_primary(&record);
        if !self.leading.may_promise(&record) && self.identity.promise == Promise::Nothing {
            awaited.retain(|member| !self.leading.is_silent(member, now_us));
        }
        awaited.extend(self.leading.joining.keys().cloned());
        Role::Lead {
            epoch: record.epoch,
            awaited: awaited.into_iter().collect(),
            refuses_writes: record.promise == Promise::Quorum && !self.has_enough(now_us, &record),
        }
    }

    /// Everybody else who is in the set, or will be if a transaction was carried out whose end is not known.
    fn could_be_primary(&self, record: &ShardRecord) -> BTreeSet<Member> {
        let proposed = self.leading.proposed.iter().flat_map(|proposal| &proposal.set);
        record.in_sync.iter().chain(proposed).filter(|member| **member != self.me).cloned().collect()
    }

    fn look_at_set(&mut self, now_us: u64, record: &ShardRecord) {
        for member in &record.in_sync {
            let reached_us = self.leading.reached_us.entry(member.clone()).or_insert(now_us);
            if *member == self.me {
                *reached_us = now_us;
            }
            if let Some(follower) = self.server.followers.iter().find(|follower| follower.member == *member) {
                *reached_us = follower.heard_us.min(follower.caught_up_us).max(*reached_us);
            }
            if *member == self.me || self.records.is_live(member) {
                self.leading.gone_since_us.remove(member);
            } else {
                self.leading.gone_since_us.entry(member.clone()).or_insert(now_us);
            }
        }
        self.leading.reached_us.retain(|member, _| record.in_sync.contains(member));
        self.leading.gone_since_us.retain(|member, _| record.in_sync.contains(member));
    }

    fn look_at_joining(&mut self, now_us: u64, shard: &ShardId, record: &ShardRecord) {
        let mut joining = std::mem::take(&mut self.leading.joining);
        let is_of_shard = |member: &Member| {
            self.records.is_live(member)
                && self.records.nodes.get(&member.node).is_some_and(|record| record.shard == *shard)
        };
        joining.retain(|member, _| {
            !record.in_sync.contains(member)
                && is_of_shard(member)
                && self.server.followers.iter().any(|follower| {
                    follower.member == *member
                        && now_us < follower.caught_up_us.min(follower.heard_us) + SILENT_US
                })
        });
        if self.hand_over.is_none() {
            for follower in &self.server.followers {
                let member = &follower.member;
                let is_caught_up = now_us < follower.caught_up_us.min(follower.heard_us) + CAUGHT_UP_US;
                if is_caught_up && is_of_shard(member) && !record.in_sync.contains(member) {
                    joining.entry(member.clone()).or_insert(None);
                }
            }
        }
        self.leading.joining = joining;
    }

    /// Writes are refused where fewer than `cluster-min-in-sync` would have them.
    fn has_enough(&self, now_us: u64, record: &ShardRecord) -> bool {
        let heard = record.in_sync.iter().filter(|member| !self.leading.is_silent(member, now_us)).count();
        heard >= self.identity.min_in_sync
    }

    /// Until then nobody else can be primary: until the lease can have ended, or the promises of all who could be have.
    pub(super) fn primary_until_us(&self) -> u64 {
        let Some((_, record, _)) = self.led_shard() else { return 0 };
        if self.parked.as_ref().is_some_and(Parked::is_refusing) {
            return 0;
        }
        let lease_us = self.lease.until_us(&self.records).unwrap_or(0);
        let promise_us = |member: &Member| {
            let follower = self.server.followers.iter().find(|follower| follower.member == *member);
            follower.map_or(0, |follower| follower.heard_us + PROMISE_US - CLOCK_MARGIN_US)
        };
        let promised_us = self.could_be_primary(record).iter().map(promise_us).min().unwrap_or(u64::MAX);
        lease_us.max(promised_us)
    }

    /// The transaction that brings the set, or what is promised, up to date.
    pub(super) fn changing_set(&mut self) -> Option<Due> {
        let (shard, record, revision) = self.led_shard()?;
        if self.hand_over.is_some() || self.parked.is_some() {
            return None;
        }
        let (shard, record) = (shard.clone(), record.clone());
        let mut compares = vec![(Key::Shard(shard.clone()), revision)];
        let mut set: Vec<Member> = record.in_sync.clone();
        for member in self.ready_to_join() {
            let key = Key::Node(member.node.clone());
            compares.push((key.clone(), self.records.written_at(&key)));
            set.retain(|other| other.node != member.node);
            set.push(member);
        }
        let promise = self.identity.promise;
        match record.promise {
            Promise::Quorum => self.take_out_silent(&mut set),
            Promise::Nothing => self.take_out_gone(&shard, &mut set),
        }
        if promise == Promise::Quorum && record.promise == Promise::Nothing {
            let is_heard = |member: &Member| !self.leading.is_silent(member, self.now_us);
            set.retain(|member| *member == self.me || is_heard(member));
        }
        set.sort();
        if set == record.in_sync && promise == record.promise {
            return None;
        }
        self.leading.proposes(Proposal { compares: compares.clone(), set: set.clone(), promise });
        let key = Key::Shard(shard);
        let record = ShardRecord { in_sync: set, promise, ..record };
        Some(Due { purpose: Purpose::Set, compares, writes: vec![(key, Some(Record::Shard(record)))] })
    }

    /// Who has all that was acknowledged, since replies wait for it and it has all that the log held before.
    fn ready_to_join(&self) -> Vec<Member> {
        let has_all = |(member, mark): (&Member, &Option<u64>)| {
            let follower = self.server.followers.iter().find(|follower| follower.member == *member)?;
            mark.is_some_and(|mark| follower.acked_to >= mark).then(|| member.clone())
        };
        self.leading.joining.iter().filter_map(has_all).collect()
    }

    /// Those that were silent longest first, while enough stay.
    fn take_out_silent(&self, set: &mut Vec<Member>) {
        let now_us = self.now_us;
        let mut silent: Vec<(u64, Member)> = set
            .iter()
            .filter(|member| **member != self.me && self.leading.reached_us.contains_key(member))
            .filter(|member| self.leading.is_silent(member, now_us))
            .map(|member| (self.leading.reached_us[member], member.clone()))
            .collect();
        silent.sort();
        for (_, member) in silent {
            if set.len() > self.identity.min_in_sync.max(1) {
                set.retain(|other| *other != member);
            }
        }
    }

    fn take_out_gone(&self, shard: &ShardId, set: &mut Vec<Member>) {
        let now_us = self.now_us;
        set.retain(|member| {
            let is_of_shard =
                self.records.nodes.get(&member.node).is_some_and(|record| record.shard == *shard);
            let gone_since_us = self.leading.gone_since_us.get(member);
            *member == self.me
                || (is_of_shard && gone_since_us.is_none_or(|since_us| now_us < since_us + GONE_US))
        });
    }
}
