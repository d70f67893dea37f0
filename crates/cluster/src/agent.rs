//! One node's part in the cluster: what it sees comes in as events, with the time; what it decides comes out as
//! actions.
//!
//! Rules, which the simulation asserts:
//!
//! 1. A shard's record changes only by a transaction that compares the revision at which it was written. So epochs
//!    have one primary each, and the in-sync set one history.
//! 2. A node leads only in the life that the record names. Who comes back in another life follows.
//! 3. Only a member of the in-sync set, in the life that the set names, becomes primary, and only when the primary's
//!    live record is gone, or the primary itself hands over. If no life that the set names is there, but every node
//!    that it names is, in another life, then the one with the highest epoch and offset. (`Promise::Nothing`: if no
//!    life that the set names is there, any node that it names. One that it does not name the primary may not know
//!    of, and so needs no promise of.)
//! 4. Who could become primary offers its offset first ([`crate::records::OfferRecord`]). From then on it follows
//!    nobody. The best offer becomes primary: the highest epoch, then the highest offset, then the lowest name. The
//!    claim compares the offer: who gives up and follows again first removes its offer, so that no claim of unknown
//!    outcome comes true later.
//! 5. Each acknowledgement that a replica sends is a promise: for [`PROMISE_US`] it will neither offer nor become
//!    primary. What an earlier life of the node promised it does not know, and need not: it counts again only where the
//!    primary's life is over too, or ([`Promise::Nothing`]) after a longer time than that.
//! 6. A primary serves until its lease, counted from when it asked for it, can have ended, or, when etcd does not
//!    answer, until the promises of all who are in the set have, or might be: those too that a transaction of unknown
//!    outcome adds or removes. A lease counts only once the live record is known to be under it, and what was
//!    committed before that has been seen. A replica serves what its bound on staleness allows.
//! 7. A replica joins the in-sync set when it has caught up: replies wait for it first, and it is asked for when the
//!    replica has all that the log held once they did. It leaves when it has been silent or behind for [`SILENT_US`],
//!    and replies wait for it until that is committed. The set never shrinks below `cluster-min-in-sync`: writes are
//!    refused instead. (`Promise::Nothing`: it leaves when its live record has long been gone; replies wait only for
//!    who is heard.)
//! 8. Nobody serves from records that are wrong: another cluster's id, a revision below what was seen before, a slot
//!    with two owners.
//! 9. Slots and shards are given away by who serves them, who stops before it asks for that, and serves again only
//!    when it is known that it will not happen: because the record was written since, if need be by itself. A primary
//!    may not have seen yet what is in etcd. (Slots of a shard of which no node is there can be taken: that is the
//!    administrator's risk, as is TAKEOVER.) The slots of a move are held by who asks for its flip, and nothing else is:
//!    that transaction ends the move's record as well, so that a move which has ended otherwise cannot flip any more.

mod asking;
mod commits;
mod entering;
mod handing;
mod leading;
mod lease;
mod machine;
mod standing;

use std::sync::Arc;

use crate::ids::{Life, Member, NodeId, ShardId};
use crate::records::{Key, Promise, Record};
use crate::topology::{Records, Topology};

pub use machine::Agent;

/// What an acknowledgement promises, from when the replica sends it.
pub const PROMISE_US: u64 = 1_000_000;

/// A member of the in-sync set that acknowledges nothing for so long, while there is something to acknowledge, is
/// taken out.
pub const SILENT_US: u64 = 1_000_000;

/// How long a node's lease lasts, in seconds: etcd's least, where its election timeout is the default.
pub const LEASE_S: u64 = 2;

/// How often a lease is renewed.
pub const RENEW_US: u64 = 700_000;

/// What is taken off a lease and a promise, for clocks that do not run equally fast.
pub const CLOCK_MARGIN_US: u64 = 100_000;

/// A transaction that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnId(pub u64);

/// Somebody who waits for an answer: an administrator's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// One time that writes are held for the shard to be handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(pub u64);

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out, in this revision.
    Committed(u64),
    /// What it compares was otherwise.
    Refused,
    /// etcd did not answer: either.
    Unknown,
}

/// A replica that follows this node, as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follower {
    /// Who it is.
    pub member: Member,
    /// What it has acknowledged.
    pub acked_to: u64,
    /// It became or stayed caught up at this instant: it had then acknowledged what the log had held shortly before.
    pub caught_up_us: u64,
    /// Its newest acknowledgement was sent after this instant: what it acknowledges was appended then.
    pub heard_us: u64,
}

/// What a node sees.
#[derive(Clone, Debug)]
pub enum Event {
    /// All records, as of one revision and by a linearizable read: at the start, and whenever changes were missed.
    Records(Records),
    /// What one revision has changed; None: removed.
    Changed {
        /// The revision.
        revision: u64,
        /// What it has changed.
        changes: Vec<(Key, Option<Record>)>,
    },
    /// etcd has granted or renewed the lease; it was asked at this instant. Only of the lease that was granted last.
    LeaseKept {
        /// When.
        asked_us: u64,
    },
    /// etcd knows the lease no more.
    LeaseGone,
    /// What became of a transaction.
    Ended(TxnId, Outcome),
    /// Time has passed; sent every 100 ms, and when followers come or go.
    Tick {
        /// The end of this node's log.
        log_end: u64,
        /// Who follows it.
        followers: Vec<Follower>,
        /// When this node last acknowledged something to its primary.
        promised_us: Option<u64>,
        /// The newest epoch whose primary wrote, or has seen to be equal, what this node's log holds.
        log_epoch: u64,
    },
    /// Somebody asks for something.
    Asked(AskId, Ask),
    /// All that the log held when writes were held is acknowledged by whom the shard is handed to; or it took too
    /// long. It may arrive after [`Action::Release`], and after the next [`Action::Hold`].
    HandedOver {
        /// Which time that was.
        hold: HoldId,
        /// It has all.
        has_all: bool,
        /// The end of the log, to which nothing is appended until writes run again, not even what tells replicas of
        /// time.
        log_end: u64,
    },
}

/// What an administrator can ask a node for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Change records as this says: the transaction is made from the newest ones, and made again where others were
    /// faster.
    Edit(crate::edits::Edit),
    /// CLUSTER FAILOVER, to this node, from its primary.
    Failover(FailoverKind),
    /// Hand the shard to this node, in order.
    HandTo(NodeId),
    /// CLUSTER MEET, of a node that was forgotten while it ran: it is part of the cluster again.
    Enter,
    /// The server ends: hand the shard over if somebody can have it, then let go of the lease.
    End,
}

/// The forms of CLUSTER FAILOVER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverKind {
    /// In order, with the primary.
    Ordered,
    /// The primary may be gone; the rules stay.
    Force,
    /// Whatever the in-sync set says: what only others have is lost.
    Takeover,
}

/// What a node does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Ask etcd for a lease.
    Grant,
    /// Renew it.
    Renew,
    /// Let go of it: the node ends in order.
    Revoke,
    /// Commit: if each key was written in this revision (0: it is not there), then write these (None: remove). Leased
    /// keys go with the lease that was granted last; if that is gone by then, it is refused.
    Commit {
        /// Which.
        txn: TxnId,
        /// What has to be so.
        compares: Vec<(Key, u64)>,
        /// What is then written.
        writes: Vec<(Key, Option<Record>)>,
    },
    /// Be the shard's primary; again when whom replies wait for has changed.
    Lead {
        /// Its epoch.
        epoch: u64,
        /// Whose acknowledgements a reply under `durability quorum` waits for, this node not among them.
        awaited: Vec<Member>,
        /// Writes are refused: too few are in sync.
        refuses_writes: bool,
    },
    /// Follow this primary; acknowledge to nobody else.
    Follow {
        /// Whom.
        primary: Member,
        /// In which epoch.
        epoch: u64,
    },
    /// Follow nobody and serve nothing: there is no primary yet, or this node offers.
    Stand,
    /// Commands on keys may be run until this instant.
    ServeUntil(u64),
    /// Hold writes until it is said to release them; tell by [`Event::HandedOver`] of this time when this member has
    /// acknowledged all.
    Hold(HoldId, Member),
    /// Let every command on keys wait that arrives from now on, as CLIENT PAUSE ALL does: somebody else may own them
    /// soon.
    Park,
    /// Run what was held or parked, by the newest topology.
    Release,
    /// Route and answer by this from now on.
    Install(Arc<Topology>),
    /// Answer who asked.
    Answer(AskId, Result<(), String>),
    /// Tell people, once.
    Tell(String),
    /// Serve nothing, and say why to everybody who asks.
    Refuse(String),
}

/// Who a node is, and what it is told to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub node: NodeId,
    /// Its process.
    pub life: Life,
    /// What the node kept beside its data of the cluster that it was part of: the cluster's id, the highest revision
    /// seen.
    pub kept: Option<(String, u64)>,
    /// The id of the cluster, should this node be its first: 40 hex digits, drawn.
    pub new_cluster: String,
    /// Where it goes, if the cluster does not know it yet.
    pub place: Place,
    /// What its replies promise, when it leads.
    pub promise: Promise,
    /// `cluster-min-in-sync`
    pub min_in_sync: usize,
    /// `cluster-replicas-wanted`
    pub replicas_wanted: usize,
}

/// Where a node goes that the cluster does not know yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// To a shard of its own, of this name, or, as its replica, to the one that has this name.
    In(ShardId),
    /// To the shard that lacks replicas most, the ones that stand in other zones first; if none lacks any, to one of
    /// its own.
    Auto(ShardId),
}
