//! What administrators change in the records. An edit is made from the newest records: where others were faster, again.

use crate::ids::{NodeId, ShardId};
use crate::records::{MoveState, NodeRecord};
use crate::slots::SlotRanges;

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// CLUSTER ADDSLOTS, ADDSLOTSRANGE: slots that nobody owns are this shard's.
    AddSlots(ShardId, SlotRanges),
    /// CLUSTER DELSLOTS, DELSLOTSRANGE, FLUSHSLOTS: slots that are this shard's are nobody's.
    DeleteSlots(ShardId, SlotRanges),
    /// CLUSTER SETSLOT NODE: slots are this shard's, whoever had them.
    SetSlots(ShardId, SlotRanges),
    /// CLUSTER REPLICATE: the node leaves its shard, which owns nothing if it is alone in it, for this one.
    Join(NodeId, ShardId),
    /// CLUSTER RESET of a replica: the node leaves its shard for one of its own.
    Leave(NodeId, ShardId),
    /// CLUSTER FORGET: the node, which is not there, is no part of the cluster.
    Forget(NodeId),
    /// A node's facts.
    Facts(NodeId, NodeRecord),
    /// CLUSTER SET-CONFIG-EPOCH, BUMPEPOCH: the shard's epoch, which must be higher than it was; None: higher than all.
    Epoch(ShardId, Option<u64>),
    /// Slots are to move from one shard to another.
    Move(ShardId, SlotRanges, ShardId),
    /// What is known of a move.
    MoveState(ShardId, u64, MoveState),
}
