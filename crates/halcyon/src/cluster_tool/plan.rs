//! Plans: who gets which slots, and which node goes to which shard. Nothing is asked of anybody here.

use std::collections::BTreeMap;

use base::slot::SLOT_COUNT;
use cluster::ids::{NodeId, ShardId};
use cluster::slots::SlotRanges;
use cluster::topology::Records;

/// Slots that go from one shard to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMove {
    /// Whose they are.
    pub from: ShardId,
    /// Whose they will be.
    pub to: ShardId,
    /// Which.
    pub slots: SlotRanges,
}

/// How a new cluster is to look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Nodes that become replicas, and of which shard.
    pub joins: Vec<(NodeId, ShardId)>,
    /// Slots that nobody owns, and whose they will be.
    pub gifts: Vec<(ShardId, SlotRanges)>,
}

/// The nodes that are there become shards of a primary and so many replicas, which stand in other zones where they can; slots that
/// nobody owns are shared out. What is so already stays: so a layout that was carried out in part is gone on with.
pub fn layout(records: &Records, replicas: usize) -> Result<Layout, String> {
    let mut lone: Vec<&NodeId> = Vec::new();
    let mut copies: BTreeMap<&ShardId, Vec<&NodeId>> = BTreeMap::new();
    for (shard, (record, _)) in &records.shards {
        let nodes: Vec<&NodeId> = records.nodes_of(shard).collect();
        let owns = records.slots.0.of(shard).is_some_and(|slots| !slots.is_empty());
        match nodes.len() {
            1 if !owns && records.live.contains_key(&record.primary.node) => lone.push(nodes[0]),
            _ => drop(copies.insert(shard, nodes)),
        }
    }
    let nodes = lone.len() + copies.values().map(Vec::len).sum::<usize>();
    let shards = nodes / (replicas + 1);
    if shards == 0 {
        return Err(format!(
            "{nodes} nodes are there, and a shard with {replicas} replicas needs {}",
            replicas + 1
        ));
    }
    let zone = |node: &NodeId| records.nodes.get(node).map_or("", |record| &record.zone);
    // Zone after zone in turn, so that primaries are spread.
    let mut by_zone: BTreeMap<&str, Vec<&NodeId>> = BTreeMap::new();
    lone.iter().for_each(|node| by_zone.entry(zone(node)).or_default().push(node));
    let mut queue: Vec<(usize, &NodeId)> =
        by_zone.values().flat_map(|nodes| nodes.iter().copied().enumerate()).collect();
    queue.sort_by_key(|(turn, _)| *turn);
    let mut queue: Vec<&NodeId> = queue.into_iter().map(|(_, node)| node).collect();
    while copies.len() < shards && !queue.is_empty() {
        let node = queue.remove(0);
        let shard = &records.nodes[node].shard;
        copies.insert(shard, vec![node]);
    }
    let mut layout = Layout::default();
    for node in queue {
        let wants = |(_, nodes): &(&&ShardId, &mut Vec<&NodeId>)| nodes.len() <= replicas;
        let cost = |nodes: &[&NodeId]| {
            let same =
                nodes.iter().filter(|other| !zone(node).is_empty() && zone(other) == zone(node)).count();
            (nodes.len().min(1), same, nodes.len())
        };
        let best =
            copies.iter_mut().filter(wants).min_by_key(|(shard, nodes)| (cost(nodes), (**shard).clone()));
        let Some((shard, nodes)) = best else { break };
        nodes.push(node);
        layout.joins.push((node.clone(), (*shard).clone()));
    }
    part_zones(&mut layout.joins, &copies, &zone);
    let owners: Vec<&ShardId> = copies.keys().copied().collect();
    layout.gifts = gifts(records, &owners)?;
    Ok(layout)
}

/// Exchanges the shards of two replicas as long as fewer of them then share their zone with another copy: who is placed last finds
/// only what is left.
fn part_zones<'a>(
    joins: &mut [(NodeId, ShardId)],
    copies: &BTreeMap<&ShardId, Vec<&NodeId>>,
    zone: &impl Fn(&NodeId) -> &'a str,
) {
    let mut by_shard: BTreeMap<ShardId, Vec<NodeId>> = BTreeMap::new();
    for (shard, nodes) in copies {
        by_shard.insert((*shard).clone(), nodes.iter().map(|node| (*node).clone()).collect());
    }
    let shared = |node: &NodeId, nodes: &[NodeId], but: &NodeId| {
        let others = nodes.iter().filter(|other| *other != node && *other != but);
        others.filter(|other| !zone(node).is_empty() && zone(other) == zone(node)).count()
    };
    let pairs: Vec<(usize, usize)> =
        (0..joins.len()).flat_map(|one| (one + 1..joins.len()).map(move |other| (one, other))).collect();
    let mut is_better = true;
    while std::mem::take(&mut is_better) {
        for &(one, other) in &pairs {
            let ((a, at_a), (b, at_b)) = (joins[one].clone(), joins[other].clone());
            if at_a == at_b {
                continue;
            }
            let before = shared(&a, &by_shard[&at_a], &a) + shared(&b, &by_shard[&at_b], &b);
            let after = shared(&a, &by_shard[&at_b], &b) + shared(&b, &by_shard[&at_a], &a);
            if after < before {
                by_shard.get_mut(&at_a).expect("a shard of the plan").retain(|node| *node != a);
                by_shard.get_mut(&at_b).expect("a shard of the plan").retain(|node| *node != b);
                by_shard.get_mut(&at_a).expect("a shard of the plan").push(b.clone());
                by_shard.get_mut(&at_b).expect("a shard of the plan").push(a.clone());
                (joins[one].1, joins[other].1) = (at_b, at_a);
                is_better = true;
            }
        }
    }
}

/// Shares what nobody owns out, so that each of these shards has as many in the end as the others, or nearly.
fn gifts(records: &Records, shards: &[&ShardId]) -> Result<Vec<(ShardId, SlotRanges)>, String> {
    let owners = records.slots.0.owners()?;
    let mut free = (0..SLOT_COUNT).filter(|slot| owners[usize::from(*slot)].is_none());
    let mut gifts = Vec::new();
    for (shard, share) in shards.iter().zip(shares(shards.len())) {
        let owned = records.slots.0.of(shard).map_or(0, SlotRanges::count);
        let given = SlotRanges::of(free.by_ref().take(share.saturating_sub(owned)));
        if !given.is_empty() {
            gifts.push(((*shard).clone(), given));
        }
    }
    Ok(gifts)
}

/// All slots in so many shares, as even as can be.
fn shares(count: usize) -> impl Iterator<Item = usize> {
    let all = usize::from(SLOT_COUNT);
    (0..count).map(move |at| (at + 1) * all / count - at * all / count)
}

/// What has to move so that these shards have the same number of slots, or nearly, and all others none. As little as possible.
pub fn balance(records: &Records, keep: &[ShardId]) -> Vec<SlotMove> {
    let total: usize = records.slots.0.shards().map(|(_, slots)| slots.count()).sum();
    // Who has most already gets the larger shares.
    let mut keep: Vec<&ShardId> = keep.iter().collect();
    let owned = |shard: &ShardId| records.slots.0.of(shard).map_or(0, SlotRanges::count);
    keep.sort_by_key(|shard| std::cmp::Reverse(owned(shard)));
    let share = |at: usize| total / keep.len().max(1) + usize::from(at < total % keep.len().max(1));
    let mut givers: Vec<(&ShardId, Vec<u16>)> = Vec::new();
    for (shard, slots) in records.slots.0.shards() {
        let kept = keep.iter().position(|kept| *kept == shard).map_or(0, share);
        let surplus: Vec<u16> = slots.slots().skip(kept).collect();
        if !surplus.is_empty() {
            givers.push((shard, surplus));
        }
    }
    let mut moves = Vec::new();
    for (at, shard) in keep.iter().enumerate() {
        let mut lacks = share(at).saturating_sub(owned(shard));
        while lacks > 0
            && let Some((from, surplus)) = givers.last_mut()
        {
            let taken = surplus.split_off(surplus.len() - lacks.min(surplus.len()));
            lacks -= taken.len();
            moves.push(SlotMove {
                from: (*from).clone(),
                to: (*shard).clone(),
                slots: SlotRanges::of(taken),
            });
            if surplus.is_empty() {
                givers.pop();
            }
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use cluster::ids::{Life, Member};
    use cluster::records::{Key, NodeRecord, Promise, Record, ShardRecord};

    use std::sync::Arc;

    use super::*;

    fn shard(number: u64) -> ShardId {
        ShardId::new(&format!("{number:040x}")).expect("40 digits")
    }

    fn node(number: u64) -> NodeId {
        NodeId::new(&format!("{number:040x}")).expect("40 digits")
    }

    /// Nodes that are each a shard of its own, in these zones.
    fn nodes(zones: &[&str]) -> Records {
        let mut records = Records::default();
        for (number, zone) in zones.iter().enumerate() {
            let number = number as u64;
            let record = NodeRecord {
                ip: "::1".to_owned(),
                port: 1,
                tls_port: 0,
                bus_port: 2,
                hostname: String::new(),
                zone: (*zone).to_owned(),
                shard: shard(number),
                version: String::new(),
            };
            let primary = Member { node: node(number), life: Life(1) };
            records.live.insert(node(number), Life(1));
            records.put(Key::Node(node(number)), Record::Node(record), 1);
            let in_sync = vec![primary.clone()];
            let record = ShardRecord { epoch: 1, primary, in_sync, promise: Promise::Nothing, began_at: 0 };
            records.put(Key::Shard(shard(number)), Record::Shard(record), 1);
        }
        records
    }

    #[test]
    fn replicas_stand_in_other_zones() {
        let records = nodes(&["a", "a", "b", "b", "c", "c"]);
        let layout = layout(&records, 1).expect("enough nodes");
        assert_eq!(layout.joins.len(), 3);
        for (joins, to) in &layout.joins {
            let primary = records.nodes_of(to).next().expect("a primary");
            assert_ne!(records.nodes[joins].zone, records.nodes[primary].zone);
        }
        let given: usize = layout.gifts.iter().map(|(_, slots)| slots.count()).sum();
        assert_eq!((given, layout.gifts.len()), (16_384, 3));
        assert!(super::layout(&records, 6).is_err());
    }

    #[test]
    fn a_layout_that_was_carried_out_in_part_is_gone_on_with() {
        let mut records = nodes(&["", "", "", ""]);
        let first = layout(&records, 1).expect("enough nodes");
        let (joins, to) = first.joins[0].clone();
        Arc::make_mut(records.nodes.get_mut(&joins).expect("it is there")).shard = to;
        records.shards.remove(&shard(u64::from_str_radix(joins.as_str(), 16).expect("digits")));
        let (owner, slots) = first.gifts[0].clone();
        records.slots.0.assign(slots.slots(), Some(&owner)).expect("nobody owns them");
        let rest = layout(&records, 1).expect("enough nodes");
        assert_eq!((rest.joins, rest.gifts), (first.joins[1..].to_vec(), first.gifts[1..].to_vec()));
    }

    #[test]
    fn balancing_moves_as_little_as_it_can() {
        let mut records = nodes(&["", "", ""]);
        records.slots.0.assign(0..8192, Some(&shard(0))).expect("nobody owns them");
        records.slots.0.assign(8192..16_384, Some(&shard(1))).expect("nobody owns them");
        let all = [shard(0), shard(1), shard(2)];
        let moves = balance(&records, &all);
        assert!(moves.iter().all(|it| it.to == shard(2)), "{moves:?}");
        assert_eq!(moves.iter().map(|it| it.slots.count()).sum::<usize>(), 5461);
        for it in &moves {
            records.slots.0.assign(it.slots.slots(), Some(&it.to)).expect("one owner each");
        }
        assert_eq!(balance(&records, &all), []);
        let away = balance(&records, &[shard(0), shard(1)]);
        assert!(away.iter().all(|it| it.from == shard(2)), "{away:?}");
        assert_eq!(away.iter().map(|it| it.slots.count()).sum::<usize>(), 5461);
    }
}
