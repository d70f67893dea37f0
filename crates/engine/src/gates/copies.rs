//! The copies that a cluster awaits: the in-sync set of the shard that this server leads, but for itself.
//!
//! What each has acknowledged is kept here, and the lowest of it is what replies wait for. A member counts in one life only:
//! what another process of its node has acknowledged is nothing that this one has. While this server does not lead, the
//! watermark stands still: what was executed before and was not acknowledged then is lost as far as anybody here can tell,
//! and whoever waits for it is cut off ([`Copies::is_lost`]).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Release, Ordering::SeqCst};

use cluster::ids::Member;
use parking_lot::Mutex;

use super::Awaits;

/// The copies, and how far they are.
#[derive(Debug)]
pub struct Copies {
    /// What all of them have; `u64::MAX`: nobody is awaited.
    to: AtomicU64,
    leads: AtomicBool,
    /// The end of the log when this server led last.
    led_to: AtomicU64,
    awaited: Mutex<Vec<Awaited>>,
}

#[derive(Clone, Debug)]
struct Awaited {
    member: Member,
    acked_to: u64,
}

impl Default for Copies {
    fn default() -> Copies {
        Copies {
            to: AtomicU64::new(u64::MAX),
            leads: AtomicBool::new(false),
            led_to: AtomicU64::new(0),
            awaited: Mutex::new(Vec::new()),
        }
    }
}

impl Copies {
    /// What all of them have.
    #[inline]
    pub fn to(&self) -> u64 {
        self.to.load(Acquire)
    }

    /// True while this server leads its shard.
    #[inline]
    pub fn leads(&self) -> bool {
        self.leads.load(Acquire)
    }

    /// Who is awaited, and what each has.
    pub fn list(&self) -> Vec<(Member, u64)> {
        self.awaited.lock().iter().map(|copy| (copy.member.clone(), copy.acked_to)).collect()
    }

    /// True if a node is awaited, in whatever life.
    pub(crate) fn has_node(&self, node: &cluster::ids::NodeId) -> bool {
        self.awaited.lock().iter().any(|copy| copy.member.node == *node)
    }

    /// This server leads, and awaits these. What `acked` says of those that are new is what they have; `is_new`: so are all.
    pub(crate) fn lead(&self, awaited: &[Member], is_new: bool, acked: impl Fn(&Member) -> u64) {
        let mut copies = self.awaited.lock();
        let known = |member: &Member| {
            let known = copies.iter().filter(|_| !is_new).find(|copy| copy.member == *member);
            known.map_or(0, |copy| copy.acked_to)
        };
        let acked_to = |member: &Member| acked(member).max(known(member));
        let entry = |member: &Member| Awaited { member: member.clone(), acked_to: acked_to(member) };
        *copies = awaited.iter().map(entry).collect();
        self.publish(&copies);
        self.leads.store(true, SeqCst);
    }

    /// This server leads no more; its log ends at `end`.
    pub(crate) fn leave(&self, end: u64) {
        let mut copies = self.awaited.lock();
        if self.leads.swap(false, SeqCst) {
            copies.clear();
            self.led_to.store(end, SeqCst);
        }
    }

    /// The log begins anew: what it held is nothing that anybody waits for.
    pub(super) fn restart(&self) {
        self.led_to.store(0, SeqCst);
    }

    /// A member has acknowledged this; true if more is safe than before.
    pub(crate) fn note(&self, member: &Member, acked_to: u64) -> bool {
        if !self.leads() {
            return false;
        }
        let mut copies = self.awaited.lock();
        let Some(copy) = copies.iter_mut().find(|copy| copy.member == *member) else { return false };
        if acked_to <= copy.acked_to {
            return false;
        }
        copy.acked_to = acked_to;
        self.publish(&copies)
    }

    fn publish(&self, copies: &[Awaited]) -> bool {
        let to = copies.iter().map(|copy| copy.acked_to).min().unwrap_or(u64::MAX);
        self.to.swap(to, Release) < to
    }

    /// True if a reply that tells of what ends at `offset` waits for copies: this server leads, or led then.
    #[inline]
    pub(super) fn concerns(&self, offset: u64) -> bool {
        self.leads() || offset <= self.led_to.load(SeqCst)
    }

    /// True if a reply waits for copies that nobody will tell of any more.
    pub fn is_lost(&self, awaits: Awaits) -> bool {
        awaits.has(Awaits::COPIES) && !self.leads()
    }
}

#[cfg(test)]
mod tests {
    use cluster::ids::{Life, NodeId};

    use super::*;

    fn member(digit: &str, life: u64) -> Member {
        Member { node: NodeId::new(&digit.repeat(40)).expect("40 digits"), life: Life(life) }
    }

    #[test]
    fn the_slowest_copy_decides() {
        let (one, two) = (member("1", 1), member("2", 1));
        let copies = Copies::default();
        assert_eq!(copies.to(), u64::MAX, "nobody is awaited");
        copies.lead(&[one.clone(), two.clone()], true, |_| 0);
        assert!(!copies.note(&one, 10), "the other has nothing");
        assert!(copies.note(&two, 7));
        assert_eq!(copies.to(), 7);
        assert!(!copies.note(&two, 6) && !copies.note(&member("2", 2), 99), "another life is somebody else");
        assert!(copies.note(&two, 12));
        assert_eq!(copies.to(), 10);
        // Who stays in the set keeps what it has; who joins begins with what it has acknowledged.
        copies.lead(&[two.clone(), member("3", 1)], false, |member| u64::from(*member != two) * 5);
        assert_eq!(copies.list(), [(two.clone(), 12), (member("3", 1), 5)]);
        assert_eq!(copies.to(), 5);
        copies.lead(&[], false, |_| 0);
        assert_eq!(copies.to(), u64::MAX);
        copies.lead(std::slice::from_ref(&two), true, |_| 0);
        assert_eq!(copies.to(), 0, "in another epoch nobody has anything yet");
    }

    #[test]
    fn who_leads_no_more_is_told_nothing_more() {
        let one = member("1", 1);
        let copies = Copies::default();
        assert!(!copies.concerns(1), "it has never led");
        copies.lead(std::slice::from_ref(&one), true, |_| 3);
        assert!(copies.concerns(100) && !copies.is_lost(Awaits::COPIES));
        copies.leave(20);
        assert!(!copies.note(&one, 20) && copies.to() == 3);
        assert!(copies.concerns(20) && !copies.concerns(21));
        assert!(copies.is_lost(Awaits::COPIES) && !copies.is_lost(Awaits::DISK));
    }
}
