//! `Stream` against `BTreeMap`s.

mod model_support;

use std::collections::BTreeMap;

use fastrand::Rng;
use model_support::{element, is_growing, thresholds, with_seeds};
use store::stream::{Entry, Group, Name, Pending, Trim};
use store::{Stream, StreamId, Thresholds};

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Clone, Default)]
struct Model {
    entries: BTreeMap<StreamId, Fields>,
    last_id: StreamId,
    max_deleted_id: StreamId,
    added: u64,
}

fn fields_of(entry: &Entry<'_>) -> Fields {
    assert_eq!(entry.fields.len(), entry.fields.clone().count());
    entry.fields.clone().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}

fn assert_same(stream: &Stream, model: &Model, rng: &mut Rng) {
    let all: Vec<(&StreamId, &Fields)> = model.entries.iter().collect();
    assert_eq!((stream.len(), stream.is_empty()), (all.len(), all.is_empty()));
    assert_eq!(stream.last_id(), model.last_id);
    assert_eq!(stream.max_deleted_id(), model.max_deleted_id);
    assert_eq!(stream.entries_added(), model.added);
    assert_eq!(stream.first_entry_id(), all.first().map(|(id, _)| **id));
    assert_eq!(stream.last_entry_id(), all.last().map(|(id, _)| **id));
    assert!(stream.node_count() <= stream.len());
    let mut iter = stream.iter();
    for (rank, (id, fields)) in all.iter().enumerate() {
        let entry = iter.next().expect("as many entries");
        assert_eq!((&entry.id, &fields_of(&entry)), (*id, *fields));
        assert_eq!(stream.id_at(rank), Some(**id));
        assert_eq!(stream.rank(**id), rank);
    }
    assert!(iter.next().is_none());
    let start = rng.usize(..=all.len());
    let mut backward = stream.range(start, true);
    for (id, fields) in all.iter().take(start + 1).rev() {
        let entry = backward.next().expect("as many entries");
        assert_eq!((&entry.id, &fields_of(&entry)), (*id, *fields));
    }
    assert!(backward.next().is_none());
}

fn fields(rng: &mut Rng) -> Fields {
    let names: &[&[u8]] = match rng.u32(..6) {
        0..=3 => &[b"temperature", b"17"],
        4 => &[b"temperature"],
        _ => &[b"17", b"temperature", b"", b"name"],
    };
    names.iter().map(|name| (name.to_vec(), element(rng, 3000))).collect()
}

fn append(stream: &mut Stream, id: StreamId, fields: &Fields, t: &Thresholds) {
    stream.append(id, fields.iter().map(|(name, value)| (&name[..], &value[..])), t);
}

/// An id after `id`: in the same millisecond, soon, or much later.
fn later(rng: &mut Rng, id: StreamId) -> StreamId {
    match rng.u32(..8) {
        0..=3 => (0..rng.usize(1..4)).fold(id, |id, _| id.next().expect("not the last")),
        4..=6 => StreamId::new(id.ms + rng.u64(1..2000), rng.u64(..3)),
        _ => StreamId::new(id.ms + 1, u64::MAX - rng.u64(5..9)).next().expect("not the last"),
    }
}

/// An id near one of the entries, or one of them.
fn some_id(rng: &mut Rng, stream: &Stream) -> StreamId {
    let id = stream.id_at(rng.usize(..=stream.len())).unwrap_or(stream.last_id());
    match rng.u32(..4) {
        0 => id.next().unwrap_or(id),
        1 => id.prev().unwrap_or(id),
        _ => id,
    }
}

fn trim(rng: &mut Rng, stream: &mut Stream, model: &mut Model) {
    let len = stream.len();
    let trim = match rng.bool() {
        true => Trim::MaxLen(len.saturating_sub(rng.usize(..len / 4 + 3))),
        false => Trim::MinId(stream.id_at(rng.usize(..len / 4 + 1)).unwrap_or(StreamId::MAX)),
    };
    let exact = stream.trimmed_len(trim);
    let count = if rng.bool() { exact } else { stream.trimmed_nodes_len(trim, rng.usize(1..300)) };
    assert!(count <= exact);
    stream.remove_first(count);
    for _ in 0..count {
        let (id, _) = model.entries.pop_first().expect("no more than there are");
        assert!(!matches!(trim, Trim::MinId(min) if id >= min));
    }
    if let Trim::MinId(min) = trim {
        let left = model.entries.first_key_value();
        assert!(count < exact || left.is_none_or(|(id, _)| *id >= min));
    }
}

#[test]
fn random_operations_match_a_map() {
    with_seeds(6000, |rng, steps| {
        let t = thresholds(rng);
        let (mut stream, mut model) = (Stream::new(), Model::default());
        let mut clones: Vec<(Stream, Model)> = Vec::new();
        for step in 0..steps {
            let operation = if is_growing(step, steps) { rng.u32(..24) } else { rng.u32(10..40) };
            match operation {
                0..=18 => {
                    let (id, fields) = (later(rng, model.last_id), fields(rng));
                    append(&mut stream, id, &fields, &t);
                    model.entries.insert(id, fields);
                    (model.last_id, model.added) = (id, model.added + 1);
                }
                19..=34 => {
                    let id = some_id(rng, &stream);
                    let removed = model.entries.remove(&id).is_some();
                    assert_eq!(stream.remove(id), removed);
                    if removed {
                        model.max_deleted_id = model.max_deleted_id.max(id);
                    }
                }
                35 => trim(rng, &mut stream, &mut model),
                _ => clones.push((stream.clone(), model.clone())),
            }
            let probe = some_id(rng, &stream);
            assert_eq!(stream.rank(probe), model.entries.range(..probe).count());
            assert_eq!(stream.get(probe).map(|entry| fields_of(&entry)).as_ref(), model.entries.get(&probe));
            if step % 256 == 0 {
                assert_same(&stream, &model, rng);
            }
            if clones.len() > 4 {
                let (clone, frozen) = clones.swap_remove(rng.usize(..clones.len()));
                assert_same(&clone, &frozen, rng);
            }
        }
        clones.push((stream, model));
        clones.iter().for_each(|(clone, frozen)| assert_same(clone, frozen, rng));
    });
}

#[derive(Clone, Default)]
struct GroupModel {
    pending: BTreeMap<StreamId, Pending>,
    consumers: BTreeMap<Name, (i64, Option<i64>)>,
}

impl GroupModel {
    fn pending_of(&self, name: &Name) -> Vec<StreamId> {
        self.pending.iter().filter(|(_, pending)| pending.consumer == *name).map(|(id, _)| *id).collect()
    }
}

fn assert_same_group(group: &Group, model: &GroupModel) {
    assert_eq!(group.pending_len(), model.pending.len());
    let mut iter = group.pending_from(StreamId::MIN);
    for (rank, (id, pending)) in model.pending.iter().enumerate() {
        assert_eq!(iter.next(), Some((*id, pending)));
        assert_eq!(group.pending_at(rank), Some((*id, pending)));
        assert_eq!(group.pending_rank(*id), rank);
    }
    assert!(iter.next().is_none());
    assert_eq!(group.consumer_count(), model.consumers.len());
    let mut consumers = group.consumers();
    for (name, (seen_ms, active_ms)) in &model.consumers {
        let (found, consumer) = consumers.next().expect("as many consumers");
        assert_eq!((found, consumer.seen_ms, consumer.active_ms), (&**name, *seen_ms, *active_ms));
        let ids = model.pending_of(name);
        assert_eq!(consumer.pending_len(), ids.len());
        for (rank, id) in ids.iter().enumerate() {
            assert_eq!((consumer.pending_at(rank), consumer.pending_rank(*id)), (Some(*id), rank));
        }
    }
    assert!(consumers.next().is_none());
}

fn change_group(rng: &mut Rng, group: &mut Group, model: &mut GroupModel, is_growing: bool) {
    let name = Name::from(format!("consumer:{}", rng.u32(..60)).into_bytes());
    let id = StreamId::new(rng.u64(..1500), rng.u64(..2));
    let now_ms = rng.i64(..1_000_000);
    match if is_growing { rng.u32(..12) } else { rng.u32(4..32) } {
        0..=9 => {
            let created = group.create_consumer(&name, now_ms, None);
            assert_eq!(created, !model.consumers.contains_key(&name));
            model.consumers.entry(name.clone()).or_insert((now_ms, None));
            assert_eq!(group.consumer_name(&name).as_ref(), Some(&name));
            let pending = Pending { consumer: name, delivered_ms: now_ms, deliveries: rng.u64(..5) };
            group.assign(id, pending.clone());
            model.pending.insert(id, pending);
        }
        10 => {
            let is_active = rng.bool();
            group.touch_consumer(&name, now_ms, is_active);
            if let Some((seen_ms, active_ms)) = model.consumers.get_mut(&name) {
                *seen_ms = now_ms;
                *active_ms = if is_active { Some(now_ms) } else { *active_ms };
            }
        }
        11 => {
            let ids = model.pending_of(&name);
            let known = model.consumers.remove(&name).map(|_| ids.len());
            assert_eq!(group.remove_consumer(&name), known);
            ids.iter().for_each(|id| _ = model.pending.remove(id));
        }
        _ => {
            let id = group.pending_at(rng.usize(..=group.pending_len())).map_or(id, |(id, _)| id);
            assert_eq!(group.acknowledge(id), model.pending.remove(&id).is_some());
        }
    }
}

#[test]
fn groups_match_maps() {
    with_seeds(6000, |rng, steps| {
        let mut stream = Stream::new();
        let names: Vec<Vec<u8>> = (0..40).map(|n| format!("group:{n}").into_bytes()).collect();
        let mut models: BTreeMap<Vec<u8>, GroupModel> = BTreeMap::new();
        let mut clones: Vec<(Stream, BTreeMap<Vec<u8>, GroupModel>)> = Vec::new();
        for step in 0..steps {
            // Half of what happens does so in one group, which becomes large.
            let name = if rng.bool() { &names[7] } else { &names[rng.usize(..names.len())] };
            match rng.u32(..40) {
                0 if *name != names[7] => {
                    let removed = stream.remove_group(name);
                    assert_eq!(removed.is_some(), models.remove(name).is_some());
                }
                1 => clones.push((stream.clone(), models.clone())),
                _ => {
                    let created = stream.create_group(name, Group::new(StreamId::new(3, 4), Some(7)));
                    assert_eq!(created, !models.contains_key(name));
                    let model = models.entry(name.clone()).or_default();
                    let growing = is_growing(step, steps);
                    stream.edit_group(name, |group| change_group(rng, group, model, growing));
                }
            }
            if clones.len() > 3 || step + 1 == steps {
                clones.push((stream.clone(), models.clone()));
                let (clone, frozen) = clones.swap_remove(rng.usize(..clones.len()));
                assert_eq!(clone.group_count(), frozen.len());
                let mut groups = clone.groups();
                for (name, model) in &frozen {
                    let (found, group) = groups.next().expect("as many groups");
                    assert_eq!(
                        (found, group.last_id(), group.entries_read()),
                        (&name[..], StreamId::new(3, 4), Some(7))
                    );
                    assert_same_group(group, model);
                }
                assert!(groups.next().is_none());
            }
        }
    });
}

#[test]
fn nodes_are_filled_as_configured_and_go_whole() {
    let t = Thresholds { stream_node_max_entries: 10, ..Thresholds::default() };
    let mut stream = Stream::new();
    for ms in 1..=100 {
        stream.append(StreamId::new(ms, 0), [(&b"field"[..], &b"value"[..])].into_iter(), &t);
    }
    assert_eq!((stream.len(), stream.node_count()), (100, 10));
    assert_eq!(stream.trimmed_nodes_len(Trim::MaxLen(55), usize::MAX), 40);
    assert_eq!(stream.trimmed_nodes_len(Trim::MaxLen(55), 39), 30);
    assert_eq!(stream.trimmed_nodes_len(Trim::MinId(StreamId::new(31, 0)), usize::MAX), 30);
    assert_eq!(stream.trimmed_nodes_len(Trim::MinId(StreamId::new(30, 0)), usize::MAX), 20);
    assert_eq!(stream.trimmed_nodes_len(Trim::MinId(StreamId::MAX), usize::MAX), 100);

    // A removed entry keeps its place: its node is as full as before, and ends where it did.
    assert!((91..=95).all(|ms| stream.remove(StreamId::new(ms, 0))) && stream.remove(StreamId::new(30, 0)));
    stream.append(StreamId::new(101, 0), [(&b"field"[..], &b"value"[..])].into_iter(), &t);
    assert_eq!((stream.len(), stream.node_count()), (95, 11));
    assert_eq!(stream.trimmed_nodes_len(Trim::MinId(StreamId::new(30, 0)), usize::MAX), 20);
    stream.remove_first(94);
    assert_eq!((stream.node_count(), stream.first_entry_id()), (1, Some(StreamId::new(101, 0))));
    assert!(stream.remove(StreamId::new(101, 0)));
    assert_eq!((stream.node_count(), stream.inner_node_count()), (0, 0));
    assert_eq!((stream.entries_added(), stream.max_deleted_id()), (101, StreamId::new(101, 0)));
}

#[test]
fn an_entry_takes_no_more_memory_than_in_a_listpack() {
    let mut stream = Stream::new();
    let entries = 100_000;
    for n in 0..entries {
        let value = format!("{:.3}", n as f64 / 7.0);
        let fields = [(&b"temperature"[..], value.as_bytes()), (&b"station"[..], &b"17"[..])];
        let id = StreamId::new(1_700_000_000_000 + n, 0);
        stream.append(id, fields.into_iter(), &Thresholds::default());
    }
    // There: flags 2, milliseconds 3, sequence 2, a text of 9 bytes and its two, a number 2, the count 2.
    let listpack_bytes = entries as usize * 22;
    assert!(stream.memory_bytes() < listpack_bytes, "{}", stream.memory_bytes());
}
