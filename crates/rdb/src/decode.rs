//! Values from bytes.

mod stream;

use base::num::{I64_TEXT_BYTES_MAX, parse_f64};
use store::{Hash, List, OwnedValue, Set, Thresholds, Typed, Value, ZInsert, ZSet, courtesy};

use crate::cursor::{Cursor, ReadError};
use crate::foreign::{ModuleType, Unsupported};
use crate::intset;
use crate::listpack::{Item, Listpack};
use crate::wire::{length, string};
use crate::ziplist::Ziplist;
use crate::zipmap::Zipmap;
use crate::{VERSION_VALKEY, VERSION_WITH_ENDS, code};
use stream::StreamDecoder;

const DUPLICATE: ReadError = ReadError::Corrupt("an element that comes twice");
const ODD: ReadError = ReadError::Corrupt("a field or member without its value");
const NO_END: ReadError = ReadError::Corrupt("a field's end that is no time");
/// The latest end that a field may have: Redis keeps 48 bits, of which one value means none.
const END_MS_MAX: i64 = (1 << 48) - 2;
const NO_SCORE: ReadError = ReadError::Corrupt("a score that is no number");
const PATH_HASH: ReadError =
    ReadError::Unsupported(Unsupported::Feature("a hash of paths, a type that only Valkey from 9.2 on has"));
const EARLY_ENDS: ReadError = ReadError::Unsupported(Unsupported::Feature(
    "a hash with ends of fields as release candidates of Redis 7.4 wrote it: load and save it with a release",
));

/// What reading an element amounts to, as [`courtesy`] counts work.
const ELEMENT_UNITS: u32 = 10;

/// Reads one value. Holds what was read of it when the bytes end early.
pub struct ValueDecoder {
    thresholds: Thresholds,
    state: State,
}

enum State {
    /// A string.
    Text,
    /// A collection in one string.
    Packed(Packing),
    /// A collection whose number of elements has not been read yet.
    Counted(Elements),
    /// So many more elements follow.
    Elements(Elements, u64),
    Stream(Box<StreamDecoder>),
    /// The soonest end of a hash's fields.
    Soonest,
    /// That, and a hash with ends in one string.
    PackedEnds,
    /// What only a module can read, after its type.
    Module,
}

#[derive(Clone, Copy)]
enum Packing {
    ListZiplist,
    Intset,
    SetListpack,
    ZSetZiplist,
    ZSetListpack,
    HashZipmap,
    HashZiplist,
    HashListpack,
}

/// What was read of a collection, and how its elements are written.
enum Elements {
    List(List),
    /// A node is a ziplist.
    Ziplists(List),
    /// A node is a listpack or one big element.
    Listpacks(List),
    Set(Set),
    /// Scores are text.
    ZSetText(ZSet),
    ZSet(ZSet),
    Hash(Hash),
    /// Ends come before fields, counted from one before this time; 0 for none.
    HashEnds(Hash, u64),
    /// Ends come last, as they are; -1 for none.
    ValkeyEnds(Hash),
}

impl ValueDecoder {
    /// For a value of type `code` in a payload or file of that version. An error if there is no such type.
    pub fn new(code: u8, version: u16, thresholds: Thresholds) -> Result<ValueDecoder, ReadError> {
        let state = match code {
            code::STRING => State::Text,
            code::LIST => State::Counted(Elements::List(List::new())),
            code::SET => State::Counted(Elements::Set(Set::new())),
            code::ZSET_TEXT => State::Counted(Elements::ZSetText(ZSet::new())),
            code::HASH => State::Counted(Elements::Hash(Hash::new())),
            code::ZSET => State::Counted(Elements::ZSet(ZSet::new())),
            code::LIST_OF_ZIPLISTS => State::Counted(Elements::Ziplists(List::new())),
            code::LIST_OF_LISTPACKS => State::Counted(Elements::Listpacks(List::new())),
            code::HASH_ZIPMAP => State::Packed(Packing::HashZipmap),
            code::LIST_ZIPLIST => State::Packed(Packing::ListZiplist),
            code::SET_INTSET => State::Packed(Packing::Intset),
            code::ZSET_ZIPLIST => State::Packed(Packing::ZSetZiplist),
            code::HASH_ZIPLIST => State::Packed(Packing::HashZiplist),
            code::HASH_LISTPACK => State::Packed(Packing::HashListpack),
            code::ZSET_LISTPACK => State::Packed(Packing::ZSetListpack),
            code::SET_LISTPACK => State::Packed(Packing::SetListpack),
            code::HASH_ENDS if version < VERSION_VALKEY => State::Soonest,
            code::HASH_LISTPACK_ENDS if version < VERSION_VALKEY => State::PackedEnds,
            code::HASH_VALKEY_ENDS if version >= VERSION_VALKEY => {
                State::Counted(Elements::ValkeyEnds(Hash::new()))
            }
            code::STREAM_1 | code::STREAM_2 | code::STREAM_3 => {
                State::Stream(Box::new(StreamDecoder::new(code)))
            }
            code::MODULE_1 | code::MODULE_2 => State::Module,
            code::HASH_VALKEY_PATHS if version > VERSION_VALKEY => return Err(PATH_HASH),
            code::HASH_VALKEY_ENDS | code::HASH_VALKEY_PATHS if version == VERSION_WITH_ENDS => {
                return Err(EARLY_ENDS);
            }
            _ => return Err(ReadError::Corrupt("a type that is not known")),
        };
        Ok(ValueDecoder { thresholds, state })
    }

    /// Reads up to the value's end. It may be a collection without elements, which no key can hold. After
    /// [`ReadError::Short`], `input` stands where reading has to go on; after the value or another error, this decoder
    /// is done with.
    pub fn read(&mut self, input: &mut Cursor<'_>) -> Result<OwnedValue, ReadError> {
        loop {
            // What is cut off within an element is read again from the element's start.
            let mut ahead = *input;
            let read = self.step(&mut ahead)?;
            *input = ahead;
            if let Some(value) = read {
                return Ok(value);
            }
        }
    }

    /// Reads the next element, or a whole packed value.
    fn step(&mut self, input: &mut Cursor<'_>) -> Result<Option<OwnedValue>, ReadError> {
        let thresholds = &self.thresholds;
        match &mut self.state {
            State::Text => Ok(Some(OwnedValue::string(&string(input)?))),
            State::Packed(packing) => {
                Ok(Some(OwnedValue::Object(packing.unpack(&string(input)?, thresholds)?)))
            }
            State::Counted(elements) => {
                let count = length(input)?;
                let elements = std::mem::replace(elements, Elements::List(List::new()));
                self.state = State::Elements(elements, count);
                Ok(None)
            }
            State::Elements(elements, 0) => {
                let elements = std::mem::replace(elements, Elements::List(List::new()));
                Ok(Some(OwnedValue::Object(elements.into_value(thresholds))))
            }
            State::Elements(elements, remaining) => {
                elements.read_one(input, thresholds)?;
                courtesy::note_work(ELEMENT_UNITS);
                *remaining -= 1;
                Ok(None)
            }
            State::Soonest => {
                let soonest_ms = u64::from_le_bytes(input.array()?);
                let mut hash = Hash::new();
                hash.expect_ends();
                self.state = State::Counted(Elements::HashEnds(hash, soonest_ms));
                Ok(None)
            }
            State::PackedEnds => {
                // The soonest end is told by the ends.
                input.take(8)?;
                let hash = hash_with_ends(Listpack::new(&string(input)?)?, thresholds)?;
                Ok(Some(OwnedValue::Object(hash.into_value())))
            }
            State::Module => {
                let module = ModuleType(length(input)?);
                Err(ReadError::Unsupported(Unsupported::Module(module)))
            }
            State::Stream(stream) => {
                let read = stream.step(input, thresholds)?;
                Ok(read.map(|stream| OwnedValue::Object(stream.into_value())))
            }
        }
    }
}

impl Elements {
    fn read_one(&mut self, input: &mut Cursor<'_>, thresholds: &Thresholds) -> Result<(), ReadError> {
        match self {
            Elements::List(list) => list.push_back(&string(input)?, thresholds),
            Elements::Ziplists(list) => push_all(list, Ziplist::new(&string(input)?)?, thresholds)?,
            Elements::Listpacks(list) => match length(input)? {
                1 => list.push_back(&string(input)?, thresholds),
                2 => push_all(list, Listpack::new(&string(input)?)?, thresholds)?,
                _ => return Err(ReadError::Corrupt("a list node of an unknown kind")),
            },
            Elements::Set(set) => add(set, &string(input)?, thresholds)?,
            Elements::ZSetText(zset) => {
                let (member, score) = (string(input)?, score_text(input)?);
                score_member(zset, &member, score, &large(thresholds))?;
            }
            Elements::ZSet(zset) => {
                let (member, score) = (string(input)?, f64::from_le_bytes(input.array()?));
                score_member(zset, &member, score, &large(thresholds))?;
            }
            Elements::Hash(hash) => {
                let (field, value) = (string(input)?, string(input)?);
                set_field(hash, &field, &value, thresholds)?;
            }
            Elements::HashEnds(hash, soonest_ms) => {
                let after_ms = length(input)?;
                let (field, value) = (string(input)?, string(input)?);
                set_field(hash, &field, &value, thresholds)?;
                if after_ms > 0 {
                    end_field(hash, &field, soonest_ms.checked_add(after_ms - 1).ok_or(NO_END)?)?;
                }
            }
            Elements::ValkeyEnds(hash) => {
                let (field, value) = (string(input)?, string(input)?);
                let end_ms = i64::from_le_bytes(input.array()?);
                set_field(hash, &field, &value, thresholds)?;
                if end_ms != -1 {
                    end_field(hash, &field, u64::try_from(end_ms).map_err(|_| NO_END)?)?;
                }
            }
        }
        Ok(())
    }

    fn into_value(self, thresholds: &Thresholds) -> Value {
        match self {
            Elements::List(list) | Elements::Ziplists(list) | Elements::Listpacks(list) => list.into_value(),
            Elements::Set(set) => set.into_value(),
            Elements::ZSetText(zset) | Elements::ZSet(zset) => smallest_form(zset, thresholds).into_value(),
            Elements::Hash(hash) | Elements::HashEnds(hash, _) | Elements::ValkeyEnds(hash) => {
                hash.into_value()
            }
        }
    }
}

/// Limits under which a sorted set is large at once: the small form would not keep the sign of zero for the large one
/// that it may become.
fn large(thresholds: &Thresholds) -> Thresholds {
    Thresholds { zset_max_listpack_entries: 0, ..*thresholds }
}

/// The sorted set in its small form, if that may hold it.
fn smallest_form(zset: ZSet, thresholds: &Thresholds) -> ZSet {
    if zset.len() > thresholds.zset_max_listpack_entries {
        return zset;
    }
    let (mut small, mut members) = (ZSet::new(), zset.iter());
    while let Some((member, score)) = members.next() {
        if member.len() > thresholds.zset_max_listpack_value {
            return zset;
        }
        small.insert(member, score, thresholds);
    }
    small
}

impl Packing {
    fn unpack(self, bytes: &[u8], thresholds: &Thresholds) -> Result<Value, ReadError> {
        Ok(match self {
            Packing::ListZiplist => {
                let mut list = List::new();
                push_all(&mut list, Ziplist::new(bytes)?, thresholds)?;
                list.into_value()
            }
            Packing::Intset => {
                let (mut set, mut buffer) = (Set::new(), [0; I64_TEXT_BYTES_MAX]);
                for number in intset::integers(bytes)? {
                    add(&mut set, Item::Integer(number?).text(&mut buffer), thresholds)?;
                }
                set.into_value()
            }
            Packing::SetListpack => {
                let (mut set, mut buffer) = (Set::new(), [0; I64_TEXT_BYTES_MAX]);
                for member in Listpack::new(bytes)? {
                    add(&mut set, member?.text(&mut buffer), thresholds)?;
                }
                set.into_value()
            }
            Packing::ZSetZiplist => zset_of(Ziplist::new(bytes)?, thresholds)?.into_value(),
            Packing::ZSetListpack => zset_of(Listpack::new(bytes)?, thresholds)?.into_value(),
            Packing::HashZiplist => hash_of(Ziplist::new(bytes)?, thresholds)?.into_value(),
            Packing::HashListpack => hash_of(Listpack::new(bytes)?, thresholds)?.into_value(),
            Packing::HashZipmap => {
                let mut hash = Hash::new();
                for pair in Zipmap::new(bytes)? {
                    let (field, value) = pair?;
                    set_field(&mut hash, field, value, thresholds)?;
                }
                hash.into_value()
            }
        })
    }
}

type Read<'a> = Result<Item<'a>, ReadError>;

fn push_all<'a>(
    list: &mut List,
    items: impl Iterator<Item = Read<'a>>,
    thresholds: &Thresholds,
) -> Result<(), ReadError> {
    let mut buffer = [0; I64_TEXT_BYTES_MAX];
    for item in items {
        list.push_back(item?.text(&mut buffer), thresholds);
    }
    Ok(())
}

fn zset_of<'a>(
    mut items: impl Iterator<Item = Read<'a>>,
    thresholds: &Thresholds,
) -> Result<ZSet, ReadError> {
    let (mut zset, mut buffer) = (ZSet::new(), [0; I64_TEXT_BYTES_MAX]);
    while let Some(member) = items.next() {
        let score = match items.next().ok_or(ODD)?? {
            Item::Integer(number) => number as f64,
            Item::Text(text) => parse_f64(text).ok_or(NO_SCORE)?,
        };
        score_member(&mut zset, member?.text(&mut buffer), score, thresholds)?;
    }
    Ok(zset)
}

fn hash_of<'a>(
    mut items: impl Iterator<Item = Read<'a>>,
    thresholds: &Thresholds,
) -> Result<Hash, ReadError> {
    let mut hash = Hash::new();
    let (mut buffer, mut value_buffer) = ([0; I64_TEXT_BYTES_MAX], [0; I64_TEXT_BYTES_MAX]);
    while let Some(field) = items.next() {
        let value = items.next().ok_or(ODD)??;
        set_field(&mut hash, field?.text(&mut buffer), value.text(&mut value_buffer), thresholds)?;
    }
    Ok(hash)
}

fn add(set: &mut Set, member: &[u8], thresholds: &Thresholds) -> Result<(), ReadError> {
    if set.insert(member, thresholds) { Ok(()) } else { Err(DUPLICATE) }
}

fn score_member(
    zset: &mut ZSet,
    member: &[u8],
    score: f64,
    thresholds: &Thresholds,
) -> Result<(), ReadError> {
    if score.is_nan() {
        return Err(NO_SCORE);
    }
    match zset.insert(member, score, thresholds) {
        ZInsert::Added => Ok(()),
        ZInsert::Updated | ZInsert::Unchanged => Err(DUPLICATE),
    }
}

fn set_field(hash: &mut Hash, field: &[u8], value: &[u8], thresholds: &Thresholds) -> Result<(), ReadError> {
    if hash.set(field, value, thresholds) { Ok(()) } else { Err(DUPLICATE) }
}

/// Fields, values and ends, 0 for none.
fn hash_with_ends(mut items: Listpack<'_>, thresholds: &Thresholds) -> Result<Hash, ReadError> {
    let mut hash = Hash::new();
    hash.expect_ends();
    let (mut buffer, mut value_buffer) = ([0; I64_TEXT_BYTES_MAX], [0; I64_TEXT_BYTES_MAX]);
    while let Some(field) = items.next() {
        let (field, value) = (field?, items.next().ok_or(ODD)??);
        let field = field.text(&mut buffer);
        set_field(&mut hash, field, value.text(&mut value_buffer), thresholds)?;
        match items.next().ok_or(ODD)?? {
            Item::Integer(0) => {}
            Item::Integer(end_ms) => end_field(&mut hash, field, u64::try_from(end_ms).map_err(|_| NO_END)?)?,
            Item::Text(_) => return Err(NO_END),
        }
    }
    Ok(hash)
}

fn end_field(hash: &mut Hash, field: &[u8], end_ms: u64) -> Result<(), ReadError> {
    let end_ms = i64::try_from(end_ms).ok().filter(|end_ms| *end_ms <= END_MS_MAX).ok_or(NO_END)?;
    hash.set_end_ms(field, Some(end_ms));
    Ok(())
}

/// A score as versions before 8 wrote it: its length and text, or 253 to 255 for what has no digits.
fn score_text(input: &mut Cursor<'_>) -> Result<f64, ReadError> {
    match input.byte()? {
        255 => Ok(f64::NEG_INFINITY),
        254 => Ok(f64::INFINITY),
        253 => Err(NO_SCORE),
        len => parse_f64(input.take(u64::from(len))?).ok_or(NO_SCORE),
    }
}

#[cfg(test)]
mod tests;
