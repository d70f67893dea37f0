//! Bytes from streams; `decode/stream.rs` has the format.

use base::num::write_i64;
use store::stream::{Consumer, Consumers, Entry, Group, Groups, PendingIter, StreamIter};
use store::{Stream, StreamId};

use crate::listpack::ListpackWriter;
use crate::wire::{StringWriter, put_length};

const FLAG_NONE: i64 = 0;
const FLAG_SAME_FIELDS: i64 = 2;

/// Writes a stream: a node, a pending entry or what else comes next at a time.
pub(crate) struct StreamEncoder {
    stream: Stream,
    phase: Phase,
}

enum Phase {
    Nodes(Nodes),
    Ids,
    Groups(Groups),
    Pending(PendingIter, Group, Groups),
    Consumers(Consumers, Groups),
    /// The next of its pending entries has this rank.
    Owned(usize, Consumer, Consumers, Groups),
    Whole,
}

impl StreamEncoder {
    pub(crate) fn new(stream: &Stream) -> StreamEncoder {
        StreamEncoder { stream: stream.clone(), phase: Phase::Nodes(Nodes::new(stream)) }
    }

    /// How many nodes there are, which comes first.
    pub(crate) fn head(&self, out: &mut Vec<u8>) {
        put_length(out, self.stream.node_count() as u64);
    }

    /// Appends what comes next; false at the end.
    pub(crate) fn fill(&mut self, out: &mut Vec<u8>, strings: &mut StringWriter) -> bool {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Whole) {
            Phase::Nodes(mut nodes) => {
                if nodes.put_next(out, strings) {
                    Phase::Nodes(nodes)
                } else {
                    Phase::Ids
                }
            }
            Phase::Ids => {
                self.put_ids(out);
                Phase::Groups(self.stream.groups())
            }
            Phase::Groups(mut groups) => match next_group(&mut groups, out, strings) {
                Some(group) => Phase::Pending(group.pending_from(StreamId::MIN), group, groups),
                None => Phase::Whole,
            },
            Phase::Pending(mut pending, group, groups) => match pending.next() {
                Some((id, entry)) => {
                    put_raw_id(out, id);
                    out.extend_from_slice(&entry.delivered_ms.to_le_bytes());
                    put_length(out, entry.deliveries);
                    Phase::Pending(pending, group, groups)
                }
                None => {
                    put_length(out, group.consumer_count() as u64);
                    Phase::Consumers(group.consumers(), groups)
                }
            },
            Phase::Consumers(mut consumers, groups) => match next_consumer(&mut consumers, out, strings) {
                Some(consumer) => Phase::Owned(0, consumer, consumers, groups),
                None => Phase::Groups(groups),
            },
            Phase::Owned(rank, consumer, consumers, groups) => match consumer.pending_at(rank) {
                Some(id) => {
                    put_raw_id(out, id);
                    Phase::Owned(rank + 1, consumer, consumers, groups)
                }
                None => Phase::Consumers(consumers, groups),
            },
            Phase::Whole => Phase::Whole,
        };
        !matches!(self.phase, Phase::Whole)
    }

    fn put_ids(&self, out: &mut Vec<u8>) {
        let stream = &self.stream;
        put_length(out, stream.len() as u64);
        put_id(out, stream.last_id());
        put_id(out, stream.first_entry_id().unwrap_or(StreamId::MIN));
        put_id(out, stream.max_deleted_id());
        put_length(out, stream.entries_added());
        put_length(out, stream.group_count() as u64);
    }
}

fn next_group(groups: &mut Groups, out: &mut Vec<u8>, strings: &mut StringWriter) -> Option<Group> {
    let (name, group) = groups.next()?;
    strings.put(out, name);
    put_id(out, group.last_id());
    put_length(out, group.entries_read().unwrap_or(u64::MAX));
    put_length(out, group.pending_len() as u64);
    Some(group.clone())
}

fn next_consumer(
    consumers: &mut Consumers,
    out: &mut Vec<u8>,
    strings: &mut StringWriter,
) -> Option<Consumer> {
    let (name, consumer) = consumers.next()?;
    strings.put(out, name);
    out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
    put_length(out, consumer.pending_len() as u64);
    Some(consumer.clone())
}

fn put_id(out: &mut Vec<u8>, id: StreamId) {
    put_length(out, id.ms);
    put_length(out, id.seq);
}

fn put_raw_id(out: &mut Vec<u8>, id: StreamId) {
    out.extend_from_slice(&id.ms.to_be_bytes());
    out.extend_from_slice(&id.seq.to_be_bytes());
}

/// The nodes of a stream, each as a listpack.
struct Nodes {
    entries: StreamIter,
    /// The entry that begins the next node.
    next: Option<OwnedEntry>,
}

struct OwnedEntry {
    id: StreamId,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    begins_node: bool,
}

impl Nodes {
    fn new(stream: &Stream) -> Nodes {
        let mut nodes = Nodes { entries: stream.iter(), next: None };
        nodes.next = nodes.entry();
        nodes
    }

    fn entry(&mut self) -> Option<OwnedEntry> {
        let (at, Entry { id, fields }) = self.entries.next_in_node()?;
        let fields = fields.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        Some(OwnedEntry { id, fields, begins_node: at == 0 })
    }

    /// Appends the next node; false if there is none.
    fn put_next(&mut self, out: &mut Vec<u8>, strings: &mut StringWriter) -> bool {
        let Some(first) = self.next.take() else { return false };
        let (base, mut entries) = (first.id, vec![first]);
        loop {
            match self.entry() {
                Some(entry) if !entry.begins_node => entries.push(entry),
                next => {
                    self.next = next;
                    break;
                }
            }
        }
        let mut id = Vec::with_capacity(16);
        put_raw_id(&mut id, base);
        put_length(out, id.len() as u64);
        out.extend_from_slice(&id);
        strings.put(out, &listpack_of(base, &entries));
        true
    }
}

fn listpack_of(base: StreamId, entries: &[OwnedEntry]) -> Vec<u8> {
    let mut packed = ListpackWriter::new();
    let mut text = Vec::new();
    let mut put_integer = |packed: &mut ListpackWriter, number: i64| {
        text.clear();
        write_i64(&mut text, number);
        packed.push(&text);
    };
    let names = || entries[0].fields.iter().map(|(name, _)| name);
    put_integer(&mut packed, entries.len() as i64);
    put_integer(&mut packed, 0);
    put_integer(&mut packed, entries[0].fields.len() as i64);
    names().for_each(|name| packed.push(name));
    put_integer(&mut packed, 0);
    for OwnedEntry { id, fields, .. } in entries {
        let is_alike = names().eq(fields.iter().map(|(name, _)| name));
        put_integer(&mut packed, if is_alike { FLAG_SAME_FIELDS } else { FLAG_NONE });
        put_integer(&mut packed, id.ms.wrapping_sub(base.ms) as i64);
        put_integer(&mut packed, id.seq.wrapping_sub(base.seq) as i64);
        if !is_alike {
            put_integer(&mut packed, fields.len() as i64);
        }
        for (name, value) in fields {
            if !is_alike {
                packed.push(name);
            }
            packed.push(value);
        }
        let elements = if is_alike { 3 + fields.len() } else { 4 + 2 * fields.len() };
        put_integer(&mut packed, elements as i64);
    }
    packed.finish()
}
