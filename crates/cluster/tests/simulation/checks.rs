//! What must hold at every step.

use std::collections::{BTreeMap, BTreeSet};

use cluster::ids::{Member, NodeId, ShardId};
use cluster::records::{MoveRecord, MoveState, Promise, ShardRecord};
use cluster::topology::Records;

use crate::moving;
use crate::node::{Log, Node, Role, SLOTS_SAMPLED};

#[derive(Default)]
pub struct Checks {
    /// What was acknowledged under quorum, by shard: the end of the log that it needs, and the entry there.
    acknowledged: BTreeMap<ShardId, Vec<(usize, u64)>>,
    primaries: BTreeMap<(ShardId, u64), Member>,
    /// Epochs that began with another primary than the one before had.
    begun: BTreeMap<(ShardId, u64), Member>,
    /// The newest entry that was acknowledged under quorum, by the place of its slot.
    of_slots: BTreeMap<usize, u64>,
    /// What was written to a slot, up to here, before an administrator gave it away without what is in it.
    void_to: BTreeMap<usize, u64>,
    pub moved: u64,
    /// Shards that an administrator took over: what only others have is lost.
    pub taken_over: BTreeSet<ShardId>,
    pub promotions: u64,
    pub reads: u64,
    pub acknowledgements: u64,
}

fn has(log: &Log, (end, entry): (usize, u64)) -> bool {
    end == 0 || log.entries.get(end - 1) == Some(&entry)
}

fn in_life<'a>(nodes: &'a [Node], member: &Member) -> Option<&'a Node> {
    nodes.iter().find(|node| node.id == member.node && node.is_up && node.life == member.life.0)
}

impl Checks {
    /// Two primaries never serve one shard, nor one slot, at the same instant.
    pub fn serving(&self, at: usize, nodes: &[Node], now_us: u64) -> Result<(), String> {
        let Some(shard) = nodes[at].served_shard(now_us) else { return Ok(()) };
        for (other, node) in nodes.iter().enumerate().filter(|(other, _)| *other != at) {
            let Some(other_shard) = node.served_shard(now_us) else { continue };
            if other_shard == shard && !self.taken_over.contains(shard) {
                return Err(format!("ONE SERVES: n{at} and n{other} both serve shard {shard}"));
            }
            let doubled =
                SLOTS_SAMPLED.iter().find(|slot| nodes[at].serves_slot(**slot) && node.serves_slot(**slot));
            let is_taken = self.taken_over.contains(shard) || self.taken_over.contains(other_shard);
            if let Some(slot) = doubled
                && other_shard != shard
                && !is_taken
            {
                return Err(format!("ONE OWNER: n{at} and n{other} both serve slot {slot}"));
            }
        }
        Ok(())
    }

    /// An epoch begins where its primary's log ends: what an earlier one has beyond that is void.
    pub fn began(&self, node: &Node, records: &Records) -> Result<(), String> {
        let (Some(shard), Some(epoch)) = (&node.led, node.led_epoch()) else { return Ok(()) };
        let Some((record, _)) = records.shards.get(shard) else { return Ok(()) };
        // An administrator may have raised it since.
        let is_own = self.begun.get(&(shard.clone(), epoch)) == Some(&node.member());
        // What a primary notes of slots that are not its own, no client was told of: it goes on with that while it refuses
        // commands, since nobody knows yet whether it has handed the shard over.
        let is_own_note =
            |entry: &u64| moving::slot_of(*entry).is_some_and(|slot| !node.owns_slot(SLOTS_SAMPLED[slot]));
        let beyond = node.log.entries.get(record.began_at as usize..);
        let is_end = beyond.is_some_and(|beyond| beyond.iter().all(is_own_note));
        if is_own && record.epoch == epoch && !is_end {
            let end = node.log.entries.len();
            return Err(format!("BEGAN AT: {record:?} begins where its primary's log ends, at {end}"));
        }
        Ok(())
    }

    /// What a replica acknowledges is what its primary has.
    pub fn same_log(&self, replica: &Node, primary: &Node) -> Result<(), String> {
        let Role::Follow { primary: followed, epoch } = &replica.role else { return Ok(()) };
        let end = replica.log.entries.len();
        let leads = primary.is_up && primary.member() == *followed && primary.led_epoch() == Some(*epoch);
        if leads && end > 0 && primary.log.entries.get(end - 1) != replica.log.entries.last() {
            return Err(format!(
                "SAME LOG: {:?} acknowledges {end} to {followed:?}, which is not the same",
                replica.id
            ));
        }
        Ok(())
    }

    /// Who reads sees all that was acknowledged.
    pub fn read(&mut self, at: usize, shard: &ShardId, node: &Node) -> Result<(), String> {
        self.reads += 1;
        let last = self.acknowledged.get(shard).and_then(|entries| entries.last()).copied().unwrap_or((0, 0));
        if !has(&node.log, last) && !self.taken_over.contains(shard) {
            return Err(format!(
                "FRESH READS: n{at} serves shard {shard} without entry {last:?}, acknowledged before"
            ));
        }
        Ok(())
    }

    /// A slot holds all that was acknowledged, whoever owned it then. Who still answers for a shard that was taken over
    /// may not know yet that its slots, and what is in them, are another's.
    pub fn read_slot(&self, at: usize, shard: &ShardId, slot: usize, node: &Node) -> Result<(), String> {
        match self.of_slots.get(&slot).filter(|_| !self.taken_over.contains(shard)) {
            Some(entry) if !moving::holds(&node.log, slot, *entry) => Err(format!(
                "ALL MOVED: n{at} serves slot {} without {entry:#x}, acknowledged before",
                SLOTS_SAMPLED[slot]
            )),
            _ => Ok(()),
        }
    }

    /// Replies have left that tell of what lies between these offsets. Who answers for a shard that was taken over may be
    /// the one that it was taken from: nobody has what it goes on acknowledging until it hears of that.
    pub fn acknowledged_slots(&mut self, node: &Node, from: usize, to: usize, records: &Records) {
        let led = node.led.as_ref().filter(|shard| !self.taken_over.contains(*shard));
        let record = led.and_then(|shard| records.shards.get(shard));
        let is_promised = record.is_some_and(|(record, _)| record.promise == Promise::Quorum);
        for entry in node.log.entries.get(from..to).filter(|_| is_promised).unwrap_or_default() {
            if let Some(slot) = moving::slot_written(*entry)
                && node.owns_slot(SLOTS_SAMPLED[slot])
                // What came by a try that was given up was let go of, and told to nobody.
                && moving::holds(&node.log, slot, *entry)
                && self.void_to.get(&slot).is_none_or(|end| moving::number_of(*entry) > *end)
            {
                let newest = self.of_slots.entry(slot).or_default();
                if moving::number_of(*entry) > moving::number_of(*newest) {
                    *newest = *entry;
                }
            }
        }
    }

    /// What was acknowledged of this shard's slots may be lost.
    fn forget_slots(&mut self, shard: &ShardId, records: &Records) {
        if let Some(slots) = records.slots.0.of(shard) {
            self.of_slots.retain(|slot, _| !slots.has(SLOTS_SAMPLED[*slot]));
        }
    }

    /// Slots that change hands by a move bring along what is in them; by other ways administrators see to that.
    fn slots_changed(&mut self, before: &Records, after: &Records, nodes: &[Node]) -> Result<(), String> {
        if before.slots.1 == after.slots.1 && self.taken_over.is_empty() {
            return Ok(());
        }
        let (Ok(old), Ok(new)) = (before.slots.0.owners(), after.slots.0.owners()) else {
            return Err("ONE OWNER: a slot has two in the records".to_owned());
        };
        let has_flipped = |record: &MoveRecord, written: u64, slot: u16| {
            written == after.revision && record.state == MoveState::Done && record.slots.has(slot)
        };
        for (place, slot) in SLOTS_SAMPLED.iter().enumerate() {
            let (was, is) = (old[usize::from(*slot)], new[usize::from(*slot)]);
            let flip = after.moves.iter().find(|(_, (record, written))| has_flipped(record, *written, *slot));
            if let Some(((from, _), (record, _))) = flip {
                if (was, is) != (Some(from), Some(&record.to)) {
                    return Err(format!("FLIP: slot {slot} goes from {was:?} to {is:?} by {record:?}"));
                }
                self.moved += 1;
            }
            let is_taken =
                |owner: Option<&ShardId>| owner.is_some_and(|owner| self.taken_over.contains(owner));
            if was != is && flip.is_none() {
                let entries = nodes.iter().flat_map(|node| &node.log.entries);
                let of_slot = entries.filter(|entry| moving::slot_written(**entry) == Some(place));
                let end = of_slot.map(|entry| moving::number_of(*entry)).max();
                self.void_to.insert(place, end.unwrap_or(0));
            }
            if was != is && flip.is_none() || is_taken(was) || is_taken(is) {
                self.of_slots.remove(&place);
            }
        }
        Ok(())
    }

    /// Whom a set names, who may become primary, is of the shard.
    fn sets(records: &Records) -> Result<(), String> {
        for (shard, (record, _)) in &records.shards {
            let is_of_shard =
                |member: &&Member| records.nodes.get(&member.node).is_some_and(|node| node.shard == *shard);
            if let Some(other) = record.in_sync.iter().find(|member| !is_of_shard(member)) {
                return Err(format!("SET OF THE SHARD: {other:?} of {record:?} is none of {shard}'s nodes"));
            }
        }
        Ok(())
    }

    /// What is acknowledged is in every member of the set that is there.
    pub fn acknowledged(
        &mut self,
        at: usize,
        nodes: &[Node],
        end: usize,
        records: &Records,
    ) -> Result<(), String> {
        let Some(shard) = nodes[at].led.as_ref() else { return Ok(()) };
        let Some((record, _)) = records.shards.get(shard) else { return Ok(()) };
        if record.promise != Promise::Quorum || end == 0 || self.taken_over.contains(shard) {
            return Ok(());
        }
        let entry = (end, nodes[at].log.entries[end - 1]);
        self.acknowledgements += 1;
        let all = self.acknowledged.entry(shard.clone()).or_default();
        if all.last().is_none_or(|(last, _)| *last < end) {
            all.push(entry);
        }
        has_all(record, nodes, entry).map_err(|why| format!("ACKNOWLEDGED BY ALL, by n{at}: {why}"))
    }

    /// A transaction was carried out, by this process.
    pub fn committed(
        &mut self,
        before: &Records,
        after: &Records,
        who: &Member,
        nodes: &[Node],
        min_in_sync: usize,
    ) -> Result<(), String> {
        self.note_taken(before, after);
        self.slots_changed(before, after, nodes)?;
        Checks::sets(after)?;
        // A shard that went with its last node is another one when it comes back under its name.
        self.acknowledged.retain(|shard, _| after.shards.contains_key(shard));
        self.primaries.retain(|(shard, _), _| after.shards.contains_key(shard));
        self.begun.retain(|(shard, _), _| after.shards.contains_key(shard));
        for (shard, (record, written)) in &after.shards {
            if *written != after.revision {
                continue;
            }
            let same =
                self.primaries.entry((shard.clone(), record.epoch)).or_insert_with(|| record.primary.clone());
            if *same != record.primary {
                return Err(format!("ONE PRIMARY AN EPOCH: {shard} has two in epoch {}", record.epoch));
            }
            if !record.in_sync.contains(&record.primary) {
                return Err(format!("PRIMARY IN SYNC: {shard}'s is not in {record:?}"));
            }
            let Some((old, _)) = before.shards.get(shard) else {
                self.begun.insert((shard.clone(), record.epoch), record.primary.clone());
                continue;
            };
            if record.epoch < old.epoch || (record.primary != old.primary && record.epoch == old.epoch) {
                return Err(format!("EPOCHS RISE: from {old:?} to {record:?}"));
            }
            if record.promise == Promise::Nothing
                || old.promise == Promise::Nothing
                || (record.primary != old.primary && !old.in_sync.contains(&record.primary))
            {
                self.forget_slots(shard, after);
            }
            if record.primary != old.primary {
                self.begun.insert((shard.clone(), record.epoch), record.primary.clone());
                self.promotions += 1;
                self.promoted(before, shard, old, record, who, nodes)?;
            }
            self.set_changed(before, after, shard, old, record, nodes, min_in_sync)?;
        }
        Ok(())
    }

    /// Slots of a shard of which no node is there can be taken, at the administrator's risk.
    fn note_taken(&mut self, before: &Records, after: &Records) {
        for (shard, slots) in
            before.slots.0.shards().filter(|(shard, slots)| after.slots.0.of(shard) != Some(slots))
        {
            let is_lost = |slot: u16| after.slots.0.of(shard).is_none_or(|kept| !kept.has(slot));
            let lost = slots.slots().any(is_lost);
            let is_any_there = before.nodes_of(shard).any(|node| before.live.contains_key(node));
            if lost && !is_any_there {
                self.taken_over.insert(shard.clone());
            }
        }
    }

    fn promoted(
        &mut self,
        before: &Records,
        shard: &ShardId,
        old: &ShardRecord,
        record: &ShardRecord,
        who: &Member,
        nodes: &[Node],
    ) -> Result<(), String> {
        if self.taken_over.contains(shard) {
            return Ok(());
        }
        let is_handed_over = *who == old.primary;
        if is_handed_over && !before.is_live(&record.primary) {
            return Err(format!("HANDED TO WHO IS THERE: {:?} is not", record.primary));
        }
        if before.is_live(&old.primary) && !is_handed_over {
            return Err(format!(
                "PRIMARY GONE: {:?} was promoted while {:?} was there",
                record.primary, old.primary
            ));
        }
        if old.in_sync.contains(&record.primary) {
            return Ok(());
        }
        let back = |node: &NodeId, old: &Member| before.live.get(node).is_some_and(|life| *life != old.life);
        let is_named = old.in_sync.iter().any(|member| member.node == record.primary.node);
        let all_back = old.in_sync.iter().all(|member| back(&member.node, member));
        let none_there = !old.in_sync.iter().any(|member| before.is_live(member));
        let is_allowed = is_named && (all_back || (old.promise == Promise::Nothing && none_there));
        if !is_allowed {
            return Err(format!(
                "FROM THE SET: {:?} was promoted, which {old:?} does not name",
                record.primary
            ));
        }
        self.all_crashed(shard, old, record, nodes)
    }

    /// What every node of the set has lost is lost; what one of them has, the new primary has.
    fn all_crashed(
        &mut self,
        shard: &ShardId,
        old: &ShardRecord,
        record: &ShardRecord,
        nodes: &[Node],
    ) -> Result<(), String> {
        let Some(entries) = self.acknowledged.get_mut(shard) else { return Ok(()) };
        if record.promise == Promise::Nothing {
            entries.clear();
            return Ok(());
        }
        let of_set: Vec<&Node> =
            nodes.iter().filter(|node| old.in_sync.iter().any(|member| member.node == node.id)).collect();
        while entries.last().is_some_and(|entry| !of_set.iter().any(|node| has(&node.log, *entry))) {
            entries.pop();
        }
        let new = in_life(nodes, &record.primary);
        match (new, entries.last()) {
            (Some(node), Some(entry)) if !has(&node.log, *entry) => {
                Err(format!("BEST OF ALL: {:?} lacks {entry:?}, which another node of the set has", node.id))
            }
            _ => Ok(()),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what was and what is")]
    fn set_changed(
        &mut self,
        before: &Records,
        after: &Records,
        shard: &ShardId,
        old: &ShardRecord,
        record: &ShardRecord,
        nodes: &[Node],
        min_in_sync: usize,
    ) -> Result<(), String> {
        if record.promise == Promise::Nothing || old.promise == Promise::Nothing {
            self.acknowledged.remove(shard);
            return Ok(());
        }
        let is_edit = old.in_sync.iter().any(|member| {
            let shard_in = |records: &Records| records.nodes.get(&member.node).map(|node| node.shard.clone());
            shard_in(before) != shard_in(after)
        });
        let shrinks = record.in_sync.len() < old.in_sync.len() && record.in_sync.len() < min_in_sync;
        if shrinks && record.primary == old.primary && !is_edit {
            return Err(format!("ENOUGH IN SYNC: the set shrank from {old:?} to {record:?}"));
        }
        let last = self.acknowledged.get(shard).and_then(|entries| entries.last()).copied().unwrap_or((0, 0));
        if self.taken_over.contains(shard) {
            return Ok(());
        }
        has_all(record, nodes, last).map_err(|why| format!("SET HAS ALL: {why}"))
    }
}

fn has_all(record: &ShardRecord, nodes: &[Node], entry: (usize, u64)) -> Result<(), String> {
    for member in &record.in_sync {
        if in_life(nodes, member).is_some_and(|node| !has(&node.log, entry)) {
            return Err(format!("{:?} of {record:?} lacks {entry:?}, which was acknowledged", member));
        }
    }
    Ok(())
}
