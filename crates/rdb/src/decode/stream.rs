//! Streams from bytes.
//!
//! | part | is |
//! |---|---|
//! | nodes | their number; of each, 16 bytes of id (big-endian) as a string, and a listpack as a string |
//! | ids | entries, last id; from type 19 on: first id, greatest deleted id, entries ever added |
//! | groups | their number; of each: name, last id, entries read (from type 19 on), pending entries, consumers |
//! | pending entries | their number; of each: 16 bytes of id, time of delivery (8 bytes), deliveries |
//! | consumers | their number; of each: name, time seen, time active (from type 21 on), pending ids |
//!
//! Times take 8 bytes; a consumer that was never active has -1. A consumer's pending ids are their number and 16 bytes
//! each.
//!
//! A node's listpack begins with: number of entries, number of deleted ones, the number and names of the fields of its
//! first entry, 0. Then of each entry: flags (1: deleted, 2: fields as the first entry's), milliseconds and sequence
//! number as differences to the node's id, unless flag 2 the number of fields, values (unless flag 2, each after its
//! name), and the number of all these elements.

use std::collections::BTreeMap;

use base::num::I64_TEXT_BYTES_MAX;
use store::stream::{Group, Pending};
use store::{Stream, StreamId, Thresholds};

use crate::code;
use crate::cursor::{Cursor, ReadError};
use crate::listpack::{Item, Listpack};
use crate::wire::{length, string};

const FLAG_DELETED: i64 = 1;
const FLAG_SAME_FIELDS: i64 = 2;

const BROKEN: ReadError = ReadError::Corrupt("a stream's node that does not hold together");
const UNSORTED: ReadError = ReadError::Corrupt("a stream whose ids do not grow");
const UNKNOWN_PENDING: ReadError = ReadError::Corrupt("a pending entry that its group does not know");

/// Reads a stream, element by element.
pub(super) struct StreamDecoder {
    code: u8,
    stream: Stream,
    phase: Phase,
}

enum Phase {
    Begin,
    Nodes(u64),
    Ids,
    Groups(u64),
    Pending(u64, Box<OpenGroup>),
    Consumers(u64, Box<OpenGroup>),
    Owned(u64, Vec<u8>, u64, Box<OpenGroup>),
    /// Never seen between two steps.
    Moved,
}

/// A group that was not read wholly.
struct OpenGroup {
    name: Vec<u8>,
    group: Group,
    /// Delivery times and counts of what no consumer has claimed yet.
    unclaimed: BTreeMap<StreamId, (i64, u64)>,
    /// Groups that come after it.
    groups_left: u64,
}

impl StreamDecoder {
    pub(super) fn new(code: u8) -> StreamDecoder {
        StreamDecoder { code, stream: Stream::new(), phase: Phase::Begin }
    }

    /// Reads the next element; the stream when it is whole. Leaves everything as it is when it fails.
    pub(super) fn step(
        &mut self,
        input: &mut Cursor<'_>,
        thresholds: &Thresholds,
    ) -> Result<Option<Stream>, ReadError> {
        match &mut self.phase {
            Phase::Begin => self.phase = Phase::Nodes(length(input)?),
            Phase::Nodes(0) => self.phase = Phase::Ids,
            Phase::Nodes(left) => {
                let (id, node) = (string(input)?, string(input)?);
                read_node(&mut self.stream, &id, &node, thresholds)?;
                *left -= 1;
            }
            Phase::Ids => {
                self.read_ids(input)?;
                self.phase = Phase::Groups(length(input)?);
            }
            Phase::Groups(0) => return Ok(Some(std::mem::take(&mut self.stream))),
            Phase::Groups(left) => {
                let left = *left - 1;
                let open = self.open_group(input, left)?;
                self.phase = Phase::Pending(length(input)?, open);
            }
            Phase::Pending(1.., _) => self.read_pending(input)?,
            Phase::Consumers(1.., _) => self.open_consumer(input)?,
            Phase::Owned(_, _, 1.., _) => self.claim(input)?,
            Phase::Pending(0, _) | Phase::Consumers(0, _) | Phase::Owned(_, _, 0, _) => self.go_on(input)?,
            Phase::Moved => unreachable!("stream-phase: put back by whoever took it"),
        }
        Ok(None)
    }

    /// From a list that is at its end to what comes after it.
    fn go_on(&mut self, input: &mut Cursor<'_>) -> Result<(), ReadError> {
        let consumers = if let Phase::Pending(..) = self.phase { length(input)? } else { 0 };
        self.phase = match std::mem::replace(&mut self.phase, Phase::Moved) {
            Phase::Pending(_, open) => Phase::Consumers(consumers, open),
            Phase::Owned(consumers_left, _, _, open) => Phase::Consumers(consumers_left, open),
            Phase::Consumers(_, open) => {
                if !open.unclaimed.is_empty() {
                    return Err(ReadError::Corrupt("a pending entry without a consumer"));
                }
                if !self.stream.create_group(&open.name, open.group) {
                    return Err(ReadError::Corrupt("a consumer group that comes twice"));
                }
                Phase::Groups(open.groups_left)
            }
            other => other,
        };
        Ok(())
    }

    fn read_ids(&mut self, input: &mut Cursor<'_>) -> Result<(), ReadError> {
        let len = length(input)?;
        let last_id = read_id(input)?;
        let (mut max_deleted_id, mut entries_added) = (StreamId::MIN, len);
        if self.code != code::STREAM_1 {
            // The first id is what the entries say.
            read_id(input)?;
            (max_deleted_id, entries_added) = (read_id(input)?, length(input)?);
        }
        if len > 0 && self.stream.is_empty() {
            return Err(ReadError::Corrupt("a stream that lacks its entries"));
        }
        if self.stream.last_entry_id().is_some_and(|last| last > last_id) {
            return Err(UNSORTED);
        }
        self.stream.set_last_id(last_id);
        self.stream.set_max_deleted_id(max_deleted_id);
        self.stream.set_entries_added(entries_added);
        Ok(())
    }

    fn open_group(&self, input: &mut Cursor<'_>, groups_left: u64) -> Result<Box<OpenGroup>, ReadError> {
        let (name, last_id) = (string(input)?.into_owned(), read_id(input)?);
        let entries_read = if self.code == code::STREAM_1 {
            self.entries_up_to(last_id)
        } else {
            // -1 for what is not known.
            Some(length(input)?).filter(|count| i64::try_from(*count).is_ok())
        };
        let group = Group::new(last_id, entries_read);
        Ok(Box::new(OpenGroup { name, group, unclaimed: BTreeMap::new(), groups_left }))
    }

    /// How many entries were ever added up to an id, where that can be told.
    fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        let stream = &self.stream;
        match stream.first_entry_id() {
            _ if id == stream.last_id() => Some(stream.entries_added()),
            None if id < stream.last_id() => Some(stream.entries_added()),
            Some(first) if id < first => Some(stream.entries_added().saturating_sub(stream.len() as u64)),
            Some(first) if id == first => {
                Some(stream.entries_added().saturating_sub(stream.len() as u64) + 1)
            }
            _ => None,
        }
    }

    fn read_pending(&mut self, input: &mut Cursor<'_>) -> Result<(), ReadError> {
        let Phase::Pending(left, open) = &mut self.phase else { return Ok(()) };
        let id = raw_id(&input.array()?);
        let delivered_ms = i64::from_le_bytes(input.array()?);
        let deliveries = length(input)?;
        if open.unclaimed.insert(id, (delivered_ms, deliveries)).is_some() {
            return Err(ReadError::Corrupt("a pending entry that comes twice"));
        }
        *left -= 1;
        Ok(())
    }

    fn open_consumer(&mut self, input: &mut Cursor<'_>) -> Result<(), ReadError> {
        let Phase::Consumers(left, open) = &mut self.phase else { return Ok(()) };
        let name = string(input)?.into_owned();
        let seen_ms = i64::from_le_bytes(input.array()?);
        let active_ms =
            if self.code == code::STREAM_3 { i64::from_le_bytes(input.array()?) } else { seen_ms };
        let owned = length(input)?;
        if !open.group.create_consumer(&name, seen_ms, Some(active_ms).filter(|active_ms| *active_ms != -1)) {
            return Err(ReadError::Corrupt("a consumer that comes twice"));
        }
        let left = *left - 1;
        if let Phase::Consumers(_, open) = std::mem::replace(&mut self.phase, Phase::Moved) {
            self.phase = Phase::Owned(left, name, owned, open);
        }
        Ok(())
    }

    fn claim(&mut self, input: &mut Cursor<'_>) -> Result<(), ReadError> {
        let Phase::Owned(_, name, owned_left, open) = &mut self.phase else { return Ok(()) };
        let id = raw_id(&input.array()?);
        let (delivered_ms, deliveries) = open.unclaimed.remove(&id).ok_or(UNKNOWN_PENDING)?;
        let consumer = open.group.consumer_name(name).ok_or(UNKNOWN_PENDING)?;
        open.group.assign(id, Pending { consumer, delivered_ms, deliveries });
        *owned_left -= 1;
        Ok(())
    }
}

fn read_id(input: &mut Cursor<'_>) -> Result<StreamId, ReadError> {
    Ok(StreamId::new(length(input)?, length(input)?))
}

fn raw_id(bytes: &[u8; 16]) -> StreamId {
    let both = u128::from_be_bytes(*bytes);
    StreamId::new((both >> 64) as u64, both as u64)
}

/// Appends the entries of a node that are not deleted; they are a node again.
fn read_node(stream: &mut Stream, id: &[u8], listpack: &[u8], limits: &Thresholds) -> Result<(), ReadError> {
    let base = raw_id(id.try_into().map_err(|_| BROKEN)?);
    let mut elements = Elements(Listpack::new(listpack)?);
    let (count, deleted) = (elements.count()?, elements.count()?);
    let names = elements.texts()?;
    if elements.integer()? != 0 {
        return Err(BROKEN);
    }
    // The first entry begins a node, the others have room in it whatever is configured now.
    let begins = Thresholds { stream_node_max_entries: 1, ..*limits };
    let goes_on = Thresholds { stream_node_max_entries: 0, stream_node_max_bytes: 0, ..*limits };
    let (mut live, mut dead) = (0u64, 0u64);
    while live + dead < count.checked_add(deleted).ok_or(BROKEN)? {
        let flags = elements.integer()?;
        let ms = base.ms.wrapping_add(elements.integer()? as u64);
        let seq = base.seq.wrapping_add(elements.integer()? as u64);
        let mut heads = 3;
        let fields = if flags & FLAG_SAME_FIELDS != 0 {
            let values = elements.some_texts(names.len())?;
            heads += names.len();
            names.iter().cloned().zip(values).collect::<Vec<_>>()
        } else {
            let texts = elements.text_pairs()?;
            heads += 1 + 2 * texts.len();
            texts
        };
        if elements.integer()? != heads as i64 || fields.is_empty() {
            return Err(BROKEN);
        }
        if flags & FLAG_DELETED != 0 {
            dead += 1;
            continue;
        }
        let id = StreamId::new(ms, seq);
        if id <= stream.last_id() {
            return Err(UNSORTED);
        }
        let thresholds = if live == 0 { &begins } else { &goes_on };
        // The names that the node has are kept for it, though the entry that had them may be gone: each entry that refers
        // to them would cost them again.
        let names = names.iter().map(Vec::as_slice);
        let fields = fields.iter().map(|(name, value)| (&name[..], &value[..]));
        stream.append_to_named(id, names, fields, thresholds);
        live += 1;
    }
    if live != count || elements.0.next().is_some() {
        return Err(BROKEN);
    }
    Ok(())
}

/// A name and its value.
type Field = (Vec<u8>, Vec<u8>);

/// The elements of a node's listpack.
struct Elements<'a>(Listpack<'a>);

impl Elements<'_> {
    fn integer(&mut self) -> Result<i64, ReadError> {
        match self.0.next() {
            Some(Ok(Item::Integer(number))) => Ok(number),
            _ => Err(BROKEN),
        }
    }

    fn count(&mut self) -> Result<u64, ReadError> {
        u64::try_from(self.integer()?).map_err(|_| BROKEN)
    }

    fn text(&mut self) -> Result<Vec<u8>, ReadError> {
        let item = self.0.next().ok_or(BROKEN)??;
        Ok(item.text(&mut [0; I64_TEXT_BYTES_MAX]).to_vec())
    }

    fn some_texts(&mut self, count: usize) -> Result<Vec<Vec<u8>>, ReadError> {
        (0..count).map(|_| self.text()).collect()
    }

    /// A number, and so many texts.
    fn texts(&mut self) -> Result<Vec<Vec<u8>>, ReadError> {
        let count = self.count()?;
        let mut texts = Vec::new();
        for _ in 0..count {
            texts.push(self.text()?);
        }
        Ok(texts)
    }

    /// A number, and so many names with values.
    fn text_pairs(&mut self) -> Result<Vec<Field>, ReadError> {
        let count = self.count()?;
        let mut pairs = Vec::new();
        for _ in 0..count {
            pairs.push((self.text()?, self.text()?));
        }
        Ok(pairs)
    }
}
