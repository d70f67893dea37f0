//! A snapshot of the keyspace as records of a file.

use store::{Keyspace, Locked, Snapshot, SnapshotBatch, ValueRef, Walk, access};

use crate::encode::{Compression, ValueEncoder};
use crate::file::{KeyFacts, RecordEncoder};

/// What a file tells of a key's use: what the eviction policy goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accesses {
    /// Nothing.
    Untold,
    /// Seconds since it was used.
    Idle,
    /// How often it is used; the counter loses one in so many minutes.
    Frequency {
        /// As `lfu-decay-time`.
        decay_min: u64,
    },
}

/// What [`SnapshotEncoder::fill`] has appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Whole records, up to here.
    Whole,
    /// The last record goes on in this encoder's next piece: in the file, nothing may come between.
    Torn,
    /// The last record, of all that this encoder had.
    Last,
}

/// Walks a snapshot and encodes what it meets. Several of these may share a snapshot, each on a thread of its own: every key
/// is in the pieces of exactly one.
pub struct SnapshotEncoder<'a> {
    space: &'a Keyspace,
    snapshot: &'a Snapshot,
    walk: Walk,
    batch: SnapshotBatch,
    /// The next entry of the batch.
    at: usize,
    /// The value of the last key, of which more is to come.
    value: Option<ValueEncoder>,
    /// The database of the last key.
    db: Option<usize>,
    records: RecordEncoder,
    compression: Compression,
    accesses: Accesses,
    now_ms: i64,
}

impl<'a> SnapshotEncoder<'a> {
    /// An encoder that has met nothing yet; `now_ms` is the snapshot's instant.
    pub fn new(
        space: &'a Keyspace,
        snapshot: &'a Snapshot,
        compression: Compression,
        accesses: Accesses,
        now_ms: i64,
    ) -> SnapshotEncoder<'a> {
        SnapshotEncoder {
            space,
            snapshot,
            walk: Walk::default(),
            batch: SnapshotBatch::default(),
            at: 0,
            value: None,
            db: None,
            records: RecordEncoder::new(compression),
            compression,
            accesses,
            now_ms,
        }
    }

    /// Appends records until `out` has about `bytes_max` bytes.
    pub fn fill(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Piece {
        self.fill_from(out, bytes_max, |this| this.snapshot.next(this.space, &mut this.walk, &mut this.batch))
    }

    /// As [`SnapshotEncoder::fill`], for a caller that holds every stripe meanwhile.
    pub fn fill_held(&mut self, held: &mut Locked<'_>, out: &mut Vec<u8>, bytes_max: usize) -> Piece {
        self.fill_from(out, bytes_max, |this| {
            this.snapshot.next_held(this.space, held, &mut this.walk, &mut this.batch)
        })
    }

    fn fill_from(
        &mut self,
        out: &mut Vec<u8>,
        bytes_max: usize,
        mut next: impl FnMut(&mut Self) -> bool,
    ) -> Piece {
        if self.value.is_none() {
            // Another encoder's piece may come before this one in the file.
            self.db = None;
        }
        while out.len() < bytes_max {
            if let Some(value) = &mut self.value {
                if !value.fill(out) {
                    self.value = None;
                }
            } else if !self.key(out) {
                if !next(self) {
                    return Piece::Last;
                }
                self.at = 0;
            }
        }
        if self.value.is_some() { Piece::Torn } else { Piece::Whole }
    }

    /// Encodes the next entry of the batch, up to the value if that is no short string; false if there is none.
    fn key(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(entry) = self.batch.get(self.at) else { return false };
        self.at += 1;
        if self.db != Some(entry.db) {
            self.db = Some(entry.db);
            RecordEncoder::select(out, entry.db as u64);
        }
        let mut facts = KeyFacts { expire_at_ms: entry.expire_at_ms, ..KeyFacts::default() };
        match self.accesses {
            Accesses::Untold => {}
            Accesses::Idle => facts.idle_s = Some(u64::from(access::idle_s(entry.clock, self.now_ms))),
            Accesses::Frequency { decay_min } => {
                facts.frequency = Some(access::count(entry.clock, self.now_ms, decay_min));
            }
        }
        match entry.value {
            ValueRef::Inline(text) => self.records.string(out, entry.key, text, facts),
            ValueRef::Object(value) => {
                let value = ValueEncoder::of_object(value, self.compression);
                self.records.key(out, entry.key, value.code(), facts);
                self.value = Some(value);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use store::entry::{Form, Payload};
    use store::{Expiry, Instant, List, OwnedValue, Placement, Thresholds, Typed};

    use super::*;
    use crate::cursor::Cursor;
    use crate::file::{Event, FileDecoder, end};
    use crate::{VERSION_WRITTEN, crc64};

    const AT: Instant = Instant { now_ms: 1_000_000, touch: None };

    #[test]
    fn two_encoders_write_one_file() {
        let space = Keyspace::new(2, Placement::Hash, 0);
        for number in 0..5_000 {
            let (db, key) = (number % 2, format!("key:{number}"));
            let position = space.position(key.as_bytes());
            let mut list = List::new();
            (0..number % 40).for_each(|n| list.push_back(format!("{n}").as_bytes(), &Thresholds::default()));
            let payload = match number % 3 {
                0 if number % 40 > 0 => Payload::Object(list.into_value()),
                _ => Payload::Inline { bytes: key.as_bytes(), form: Form::Plain },
            };
            space.lock(position).put(db, position, key.as_bytes(), payload, Expiry::At(2_000_000), AT);
        }
        let snapshot = space.begin_snapshot(&space.lock_all()).expect("the first");
        let encoder =
            || SnapshotEncoder::new(&space, &snapshot, Compression::On, Accesses::Idle, AT.now_ms + 5_000);
        let (mut encoders, mut is_last) = ([encoder(), encoder()], [false; 2]);
        let mut file = Vec::new();
        RecordEncoder::begin(&mut file, VERSION_WRITTEN);
        while is_last.contains(&false) {
            for (encoder, is_last) in encoders.iter_mut().zip(&mut is_last) {
                loop {
                    let bytes_max = file.len() + 100;
                    let piece = encoder.fill(&mut file, bytes_max);
                    *is_last = piece == Piece::Last;
                    if piece != Piece::Torn {
                        break;
                    }
                }
            }
        }
        end(&mut file);
        let crc = crc64::update(0, &file);
        file.extend_from_slice(&crc.to_le_bytes());

        let (mut decoder, mut input) = (FileDecoder::new(Thresholds::default()), Cursor::new(&file));
        let (mut db, mut read) = (0, BTreeMap::new());
        loop {
            match decoder.read(&mut input).expect("a file that was just written") {
                Event::Select(selected) => db = selected,
                Event::Key(key, value, facts) => {
                    assert_eq!((facts.expire_at_ms, facts.idle_s), (Some(2_000_000), Some(5)));
                    let len = match value {
                        OwnedValue::Inline(text, _) => text.len(),
                        OwnedValue::Object(value) => value.len(),
                    };
                    assert_eq!(read.insert(key, (db, len)), None, "a key is written once");
                }
                Event::End => break,
                _ => {}
            }
        }
        assert_eq!(read.len(), 5_000);
        assert_eq!(read[&b"key:39"[..]], (1, 39));
        assert_eq!(read[&b"key:1000"[..]], (0, 8));
    }
}
