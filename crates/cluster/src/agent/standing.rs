//! How a replica becomes primary: it stands, offers what it has, and the best offer claims the shard.

use super::commits::{Due, Purpose};
use super::machine::{Agent, Role};
use super::{Action, AskId, CLOCK_MARGIN_US, FailoverKind, PROMISE_US};
use crate::ids::{Member, NodeId, ShardId};
use crate::records::{Key, OfferRecord, Promise, Record, ShardRecord};

/// So long a replica goes on following a primary that it hears, but whose live record is gone: it may come back to
/// etcd.
const GRACE_US: u64 = 3_000_000;

/// Who was heard so lately is heard.
const HEARD_US: u64 = 500_000;

/// So long the others have time to offer; and then, the best, the second best and so on, to claim the shard.
const OFFERS_US: u64 = 400_000;

/// The same where all that the set names have crashed, and some may be back soon.
const RETURNS_US: u64 = 2_000_000;

const _: () =
    assert!(RETURNS_US >= PROMISE_US + CLOCK_MARGIN_US, "what an earlier life promised is over by then");

/// A failover that was asked for is tried for so long.
const FAILOVER_US: u64 = 5_000_000;

/// A node that follows nobody, so as to become primary.
#[derive(Debug)]
pub(super) struct Standing {
    /// The server has said since when it last acknowledged something, and where its log ends.
    has_ticked: bool,
    /// Its offer stands since.
    offered_since_us: Option<u64>,
    /// What a claim compares whose end is not known: the shard's record, and the offer's.
    claimed: Option<(u64, u64)>,
    /// The primary's live record is gone since.
    gone_since_us: u64,
    /// It follows still.
    follows: bool,
}

impl Standing {
    /// The server says how things are. What it says while it follows may be otherwise by the time that it stands.
    pub fn ticked(&mut self) {
        self.has_ticked |= !self.follows;
    }
}

/// CLUSTER FAILOVER, to this node.
pub(super) struct Failover {
    kind: FailoverKind,
    since_us: u64,
    /// Of this shard, as long as it is in this epoch.
    shard: ShardId,
    epoch: u64,
}

/// By which right a node would become primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// It is in the set.
    Member,
    /// Nobody of the set is there, and nothing was promised: any life of its nodes will do.
    AnyLife,
    /// Every life of the set is gone, and every node of it is back: none can have more than they.
    AllCrashed,
    /// An administrator says so.
    Takeover,
}

impl Agent {
    /// What to do where somebody else is primary, or nobody.
    pub(super) fn follow_or_stand(&mut self) -> Role {
        let Some((_, record, revision)) = self.own_shard() else {
            self.standing = None;
            return Role::Stand;
        };
        let (record, revision) = (record.clone(), revision);
        let wants =
            !self.records.is_live(&record.primary) && self.right(&record).is_some() && self.ending.is_none();
        if wants && self.is_there() {
            let gone_since_us = self.now_us;
            let standing = self.standing.get_or_insert(Standing {
                has_ticked: false,
                offered_since_us: None,
                claimed: None,
                gone_since_us,
                follows: true,
            });
            let is_heard = self.server.promised_us.is_some_and(|at_us| self.now_us < at_us + HEARD_US);
            let is_patient = is_heard && self.now_us < standing.gone_since_us + GRACE_US;
            let is_forced = self.failover.is_some();
            if standing.follows && (!is_patient || is_forced) {
                standing.follows = false;
            }
        } else if !wants && self.can_follow_again(revision) {
            self.standing = None;
        }
        let follows = self.standing.as_ref().is_none_or(|standing| standing.follows);
        if follows && record.primary.node != self.me.node {
            Role::Follow { primary: record.primary.clone(), epoch: record.epoch }
        } else {
            Role::Stand
        }
    }

    /// Who follows promises not to become primary. So no claim of this node may be carried out any more, whatever
    /// became of it: each compares the shard's record, and this node's offer.
    fn can_follow_again(&self, revision: u64) -> bool {
        let claimed = self.standing.as_ref().and_then(|standing| standing.claimed);
        claimed.is_none_or(|(shard_revision, offer_revision)| {
            shard_revision != revision
                || self.own_offer().is_none_or(|(_, written)| written != offer_revision)
        })
    }

    fn own_offer(&self) -> Option<(&OfferRecord, u64)> {
        let (shard, ..) = self.own_shard()?;
        let offer = self.records.offers.get(&(shard.clone(), self.me.node.clone()))?;
        Some((offer, self.records.written_at(&Key::Offer(shard.clone(), self.me.node.clone()))))
    }

    fn right(&self, record: &ShardRecord) -> Option<Right> {
        if record.in_sync.contains(&self.me) {
            return Some(Right::Member);
        }
        let is_named = record.in_sync.iter().any(|member| member.node == self.me.node);
        let is_back =
            |member: &Member| self.records.live.get(&member.node).is_some_and(|life| *life != member.life);
        if is_named && record.in_sync.iter().all(is_back) {
            return Some(Right::AllCrashed);
        }
        let is_any_there = record.in_sync.iter().any(|member| self.records.is_live(member));
        if is_named && record.promise == Promise::Nothing && !is_any_there {
            return Some(Right::AnyLife);
        }
        let takes_over = matches!(&self.failover, Some(Failover { kind: FailoverKind::Takeover, .. }));
        takes_over.then_some(Right::Takeover)
    }

    /// The transaction that brings this node nearer to being primary, or away from it.
    pub(super) fn claiming(&mut self) -> Option<Due> {
        let (shard, record, revision) = self.own_shard()?;
        let (shard, record) = (shard.clone(), record.clone());
        let has_offer = self.own_offer().map(|(offer, written)| (offer.clone(), written));
        let is_standing = self.standing.as_ref().is_some_and(|standing| !standing.follows);
        let wants = is_standing && !self.records.is_live(&record.primary);
        if !wants {
            return self.asking_or_withdrawing(&shard, &record, has_offer);
        }
        let right = self.right(&record)?;
        if !self.is_there() || !self.is_free_of_promises() {
            return None;
        }
        match has_offer {
            Some((offer, written)) if self.is_own_offer_of_now(&offer, written, revision) => {
                self.claim_with(&shard, &record, revision, right, &offer, written)
            }
            other => {
                let offer = OfferRecord {
                    life: self.me.life,
                    epoch: self.server.log_epoch,
                    offset: self.server.log_end,
                    asks: false,
                };
                let written = other.map_or(0, |(_, written)| written);
                Some(self.offer(&shard, revision, written, offer))
            }
        }
    }

    /// The last acknowledgement of this life is long enough ago. What an earlier one may have promised counts no more:
    /// where every life of the set is gone, so is the primary that it was promised to; and [`Right::AnyLife`] waits
    /// longer than that.
    fn is_free_of_promises(&self) -> bool {
        let Some(standing) = &self.standing else { return false };
        let is_over = |at_us: u64| self.now_us >= at_us + PROMISE_US + CLOCK_MARGIN_US;
        standing.has_ticked && self.server.promised_us.is_none_or(is_over)
    }

    fn is_own_offer_of_now(&self, offer: &OfferRecord, written: u64, revision: u64) -> bool {
        let server = &self.server;
        let is_equal =
            offer.life == self.me.life && offer.offset == server.log_end && offer.epoch == server.log_epoch;
        is_equal && !offer.asks && written > revision
    }

    fn offer(&self, shard: &ShardId, revision: u64, written: u64, offer: OfferRecord) -> Due {
        let own = Key::Offer(shard.clone(), self.me.node.clone());
        let compares = vec![(Key::Shard(shard.clone()), revision), (own.clone(), written)];
        Due { purpose: Purpose::Offer, compares, writes: vec![(own, Some(Record::Offer(offer)))] }
    }

    /// Claims the shard, if this node's offer is the best, or those with better ones have not claimed it in their time.
    fn claim_with(
        &mut self,
        shard: &ShardId,
        record: &ShardRecord,
        revision: u64,
        right: Right,
        own: &OfferRecord,
        written: u64,
    ) -> Option<Due> {
        let now_us = self.now_us;
        let candidates = self.candidates(record, right);
        let mut offers: Vec<(u64, u64, std::cmp::Reverse<NodeId>)> = Vec::new();
        for member in &candidates {
            let offer = self.records.offers.get(&(shard.clone(), member.node.clone()));
            let offered_at = self.records.written_at(&Key::Offer(shard.clone(), member.node.clone()));
            if let Some(offer) =
                offer.filter(|offer| offer.life == member.life && !offer.asks && offered_at > revision)
            {
                offers.push((offer.epoch, offer.offset, std::cmp::Reverse(member.node.clone())));
            }
        }
        let mine = (own.epoch, own.offset, std::cmp::Reverse(self.me.node.clone()));
        let better = offers.iter().filter(|offer| **offer > mine).count() as u64;
        let have_all_offered = offers.len() == candidates.len();
        let step_us = if right == Right::AnyLife { RETURNS_US } else { OFFERS_US };
        let standing = self.standing.as_mut()?;
        let offered_since_us = *standing.offered_since_us.get_or_insert(now_us);
        let is_time = now_us >= offered_since_us + step_us * (better + 1);
        let is_turn = match right {
            Right::Takeover => true,
            Right::AllCrashed => better == 0 && have_all_offered,
            Right::Member => (better == 0 && have_all_offered) || is_time,
            Right::AnyLife => is_time,
        };
        if !is_turn {
            return None;
        }
        standing.claimed = Some((revision, written));
        let node = Key::Node(self.me.node.clone());
        // What others offer is as it was, as long as they live and the shard's record is the same. Where this node's offer is
        // there, so is its lease, and this life's live record under it.
        let mut compares = vec![
            (Key::Shard(shard.clone()), revision),
            (Key::Offer(shard.clone(), self.me.node.clone()), written),
            (node.clone(), self.records.written_at(&node)),
        ];
        for member in record.in_sync.iter().filter(|member| member.node != self.me.node) {
            let is_judged = *member == record.primary || matches!(right, Right::AnyLife | Right::AllCrashed);
            if is_judged {
                let key = Key::Live(member.node.clone());
                compares.push((key.clone(), self.records.written_at(&key)));
            }
        }
        compares.sort();
        compares.dedup();
        Some(self.claim(shard, record, right, own, compares))
    }

    /// Who would become primary by this right too, this node among them.
    fn candidates(&self, record: &ShardRecord, right: Right) -> Vec<Member> {
        match right {
            Right::Takeover => vec![self.me.clone()],
            Right::Member => {
                record.in_sync.iter().filter(|member| self.records.is_live(member)).cloned().collect()
            }
            Right::AnyLife | Right::AllCrashed => {
                let in_life = |member: &Member| {
                    let life = *self.records.live.get(&member.node)?;
                    Some(Member { node: member.node.clone(), life })
                };
                record.in_sync.iter().filter_map(in_life).collect()
            }
        }
    }

    fn claim(
        &self,
        shard: &ShardId,
        record: &ShardRecord,
        right: Right,
        own: &OfferRecord,
        compares: Vec<(Key, u64)>,
    ) -> Due {
        let stays = |member: &&Member| {
            let is_of_use = record.promise == Promise::Quorum || self.records.is_live(member);
            **member != record.primary && right == Right::Member && is_of_use
        };
        let mut in_sync: Vec<Member> = record.in_sync.iter().filter(stays).cloned().collect();
        if !in_sync.contains(&self.me) {
            in_sync.push(self.me.clone());
        }
        in_sync.sort();
        let record = ShardRecord {
            epoch: record.epoch.max(own.epoch) + 1,
            primary: self.me.clone(),
            in_sync,
            promise: record.promise,
            began_at: own.offset,
        };
        let writes = vec![
            (Key::Shard(shard.clone()), Some(Record::Shard(record))),
            (Key::Offer(shard.clone(), self.me.node.clone()), None),
        ];
        Due { purpose: Purpose::Claim, compares, writes }
    }

    /// An offer that asks the primary for the shard, where somebody wants that; no offer, where nobody does.
    fn asking_or_withdrawing(
        &self,
        shard: &ShardId,
        record: &ShardRecord,
        own: Option<(OfferRecord, u64)>,
    ) -> Option<Due> {
        let (_, _, revision) = self.own_shard()?;
        let asks = self.failover.is_some() && record.in_sync.contains(&self.me) && record.primary != self.me;
        match own {
            None if asks && self.is_there() => {
                let offer = OfferRecord {
                    life: self.me.life,
                    epoch: self.server.log_epoch,
                    offset: self.server.log_end,
                    asks: true,
                };
                Some(self.offer(shard, revision, 0, offer))
            }
            Some((offer, written)) if !(asks && offer.asks) => {
                let key = Key::Offer(shard.clone(), self.me.node.clone());
                let compares = vec![(key.clone(), written)];
                Some(Due { purpose: Purpose::Withdraw, compares, writes: vec![(key, None)] })
            }
            _ => None,
        }
    }

    /// CLUSTER FAILOVER: is answered at once, and tried for a while.
    pub(super) fn fail_over(&mut self, ask: AskId, kind: FailoverKind, out: &mut Vec<Action>) {
        let answer = match self.own_shard() {
            None => Err("ERR I'm a replica but my master is unknown to me".to_owned()),
            Some((_, record, _)) if record.primary.node == self.me.node => {
                Err("ERR You should send CLUSTER FAILOVER to a replica".to_owned())
            }
            Some((_, record, _))
                if kind == FailoverKind::Ordered && !self.records.is_live(&record.primary) =>
            {
                Err("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE".to_owned())
            }
            Some((_, record, _))
                if !record.in_sync.contains(&self.me)
                    && (kind != FailoverKind::Takeover || self.records.is_live(&record.primary)) =>
            {
                Err("ERR This replica is not in sync with its master".to_owned())
            }
            Some((shard, record, _)) => {
                let (shard, epoch) = (shard.clone(), record.epoch);
                self.failover = Some(Failover { kind, since_us: self.now_us, shard, epoch });
                Ok(())
            }
        };
        out.push(Action::Answer(ask, answer));
    }

    /// Ends a failover that has been done, overtaken, or was tried long enough.
    pub(super) fn watch_failover(&mut self, out: &mut Vec<Action>) {
        let Some(failover) = &self.failover else { return };
        let is_it = |shard: &ShardId, epoch: u64| *shard == failover.shard && epoch == failover.epoch;
        let is_over = self.own_shard().is_none_or(|(shard, record, _)| !is_it(shard, record.epoch));
        let is_late = self.now_us >= failover.since_us + FAILOVER_US;
        if is_late && !is_over {
            out.push(Action::Tell("The failover that was asked for did not come about in time".to_owned()));
        }
        if is_over || is_late {
            self.failover = None;
        }
    }
}
