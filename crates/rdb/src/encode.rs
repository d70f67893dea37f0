//! Bytes from values.

mod stream;

use base::num::write_f64;
use store::{
    Chunks, Encoding, Hash, HashIter, List, ListIter, OwnedValue, Set, SetIter, Value, ZIter, ZSet,
    canonical_integer,
};

use crate::listpack::ListpackWriter;
use crate::wire::{StringWriter, put_length};
use crate::{VERSION_WITH_ENDS, VERSION_WRITTEN, code, intset};
use stream::StreamEncoder;

/// Whether longer strings are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Compression {
    Off,
    On,
}

/// Writes one value, of which it holds a clone (O(1)). The same value always gives the same bytes.
pub struct ValueEncoder {
    code: u8,
    strings: StringWriter,
    /// What comes before the elements.
    head: Vec<u8>,
    rest: Rest,
}

enum Rest {
    Nothing,
    /// A string in one piece.
    Text(Box<[u8]>),
    Chunks(Chunks),
    List(ListIter),
    Set(SetIter),
    ZSet(ZIter),
    Hash(HashIter),
    /// With the soonest end.
    HashEnds(HashIter, i64),
    Stream(Box<StreamEncoder>),
}

impl ValueEncoder {
    /// For `value`.
    pub fn new(value: &OwnedValue, compression: Compression) -> ValueEncoder {
        match value {
            OwnedValue::Inline(bytes, _) => ValueEncoder {
                code: code::STRING,
                strings: StringWriter::new(compression == Compression::On),
                head: Vec::new(),
                rest: Rest::Text(bytes.clone()),
            },
            OwnedValue::Object(value) => ValueEncoder::of_object(value, compression),
        }
    }

    /// For a value that is no short string.
    pub fn of_object(value: &Value, compression: Compression) -> ValueEncoder {
        let mut encoder = ValueEncoder {
            code: code::STRING,
            strings: StringWriter::new(compression == Compression::On),
            head: Vec::new(),
            rest: Rest::Nothing,
        };
        match value {
            Value::Str(long) => {
                put_length(&mut encoder.head, long.len() as u64);
                encoder.rest = Rest::Chunks(long.chunks(0));
            }
            Value::List(list) => encoder.list(list),
            Value::Set(set) => encoder.set(set),
            Value::ZSet(zset) => encoder.zset(zset),
            Value::Hash(hash) => encoder.hash(hash),
            Value::Stream(stream) => {
                let stream = StreamEncoder::new(stream);
                encoder.code = code::STREAM_2;
                stream.head(&mut encoder.head);
                encoder.rest = Rest::Stream(Box::new(stream));
            }
        }
        encoder
    }

    /// The type's code, which stands before the value (and, in a file, before its key).
    pub fn code(&self) -> u8 {
        self.code
    }

    /// The version that a reader must know.
    pub fn version(&self) -> u16 {
        if self.code == code::HASH_ENDS { VERSION_WITH_ENDS } else { VERSION_WRITTEN }
    }

    /// Appends the next piece; false if that was the last one.
    pub fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.head.is_empty() {
            out.append(&mut self.head);
            return !matches!(self.rest, Rest::Nothing);
        }
        let strings = &mut self.strings;
        let wrote = match &mut self.rest {
            Rest::Nothing => false,
            Rest::Text(text) => {
                strings.put(out, text);
                false
            }
            Rest::Chunks(chunks) => {
                chunks.next().map(|chunk| out.extend_from_slice(chunk.as_ref())).is_some()
            }
            Rest::List(list) => list.next().map(|element| strings.put(out, element)).is_some(),
            Rest::Set(set) => set.next().map(|member| strings.put(out, member)).is_some(),
            Rest::ZSet(zset) => match zset.next() {
                Some((member, score)) => {
                    strings.put(out, member);
                    out.extend_from_slice(&score.to_le_bytes());
                    true
                }
                None => false,
            },
            Rest::Hash(hash) => match hash.next() {
                Some((field, value)) => {
                    strings.put(out, field);
                    strings.put(out, value);
                    true
                }
                None => false,
            },
            Rest::HashEnds(hash, soonest_ms) => match hash.next_with_end() {
                Some((field, value, end_ms)) => {
                    // Counted from one before the soonest, as 0 is for none.
                    let after_ms = end_ms.map_or(0, |end_ms| end_ms.abs_diff(*soonest_ms) + 1);
                    put_length(out, after_ms);
                    strings.put(out, field);
                    strings.put(out, value);
                    true
                }
                None => false,
            },
            Rest::Stream(stream) => stream.fill(out, strings),
        };
        if !wrote {
            self.rest = Rest::Nothing;
        }
        wrote
    }

    /// A small list is one node, a listpack; in a large one each element stands by itself, as the number of nodes
    /// would have to be known first.
    fn list(&mut self, list: &List) {
        let mut elements = list.iter(0, false);
        if list.encoding() != Encoding::Listpack {
            return self.counted(code::LIST, list.len(), Rest::List(elements));
        }
        let mut node = ListpackWriter::new();
        while let Some(element) = elements.next() {
            node.push(element);
        }
        self.code = code::LIST_OF_LISTPACKS;
        self.head.extend_from_slice(&[1, 2]);
        self.strings.put(&mut self.head, &node.finish());
    }

    /// A listpack of members is unknown to readers of version 10.
    fn set(&mut self, set: &Set) {
        let mut members = set.iter();
        if set.encoding() != Encoding::Intset {
            return self.counted(code::SET, set.len(), Rest::Set(members));
        }
        let mut numbers = Vec::with_capacity(set.len());
        while let Some(member) = members.next() {
            numbers.extend(canonical_integer(member));
        }
        self.packed(code::SET_INTSET, &intset::intset_of(&numbers));
    }

    fn zset(&mut self, zset: &ZSet) {
        if zset.encoding() != Encoding::Listpack {
            // From the highest score down, as Redis does: its reader then inserts at the front.
            let members = zset.range(usize::MAX, true);
            return self.counted(code::ZSET, zset.len(), Rest::ZSet(members));
        }
        let (mut members, mut packed, mut text) = (zset.iter(), ListpackWriter::new(), Vec::new());
        while let Some((member, score)) = members.next() {
            text.clear();
            write_f64(&mut text, score);
            packed.push(member);
            packed.push(&text);
        }
        self.packed(code::ZSET_LISTPACK, &packed.finish());
    }

    fn hash(&mut self, hash: &Hash) {
        let mut fields = hash.iter();
        if let Some(soonest_ms) = hash.soonest_end_ms() {
            self.head.extend_from_slice(&soonest_ms.to_le_bytes());
            return self.counted(code::HASH_ENDS, hash.len(), Rest::HashEnds(fields, soonest_ms));
        }
        if hash.encoding() == Encoding::Hashtable {
            return self.counted(code::HASH, hash.len(), Rest::Hash(fields));
        }
        let mut packed = ListpackWriter::new();
        while let Some((field, value)) = fields.next() {
            packed.push(field);
            packed.push(value);
        }
        self.packed(code::HASH_LISTPACK, &packed.finish());
    }

    fn packed(&mut self, code: u8, bytes: &[u8]) {
        self.code = code;
        self.strings.put(&mut self.head, bytes);
    }

    fn counted(&mut self, code: u8, count: usize, rest: Rest) {
        self.code = code;
        put_length(&mut self.head, count as u64);
        self.rest = rest;
    }
}
