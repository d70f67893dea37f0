//! Whole files.
//!
//! | bytes | what |
//! |---|---|
//! | 9 | `REDIS` and four digits of version, or `VALKEY` and three |
//! | | records, of which the first byte is a type's code or one of [`opcode`] |
//! | 8 | after [`opcode::END`], from version 5 on: the checksum of all before it, little-endian; 0: none was made |

use store::{OwnedValue, Thresholds};

use crate::cursor::{Cursor, ReadError};
use crate::decode::ValueDecoder;
use crate::encode::Compression;
use crate::foreign::{ModuleType, Unsupported};
use crate::wire::{StringWriter, length, put_length, string};
use crate::{VERSION_VALKEY, VERSION_WRITTEN, code, crc64, reads_version};

/// First bytes of the records that are no keys. The numbers are the format's.
pub(crate) mod opcode {
    /// A command within the file, in Valkey from 9.2 on.
    pub const UPDATE: u8 = 0xf2;
    /// Slots that are being moved to this server, in Valkey from 9.0 on.
    pub const SLOT_IMPORT: u8 = 0xf3;
    /// Slot, its keys, its keys with an end: a hint.
    pub const SLOT_INFO: u8 = 0xf4;
    /// A library's code.
    pub const FUNCTION: u8 = 0xf5;
    /// A function of a release candidate.
    pub const FUNCTION_1: u8 = 0xf6;
    /// What a module saved for itself.
    pub const MODULE_AUX: u8 = 0xf7;
    /// Seconds since the next key was used.
    pub const IDLE: u8 = 0xf8;
    /// How often the next key is used, as a logarithm.
    pub const FREQUENCY: u8 = 0xf9;
    /// A name and a value about the file.
    pub const AUX: u8 = 0xfa;
    /// Keys of the database, and keys with an end: a hint.
    pub const RESIZE: u8 = 0xfb;
    /// The end of the next key, unix milliseconds in 8 bytes.
    pub const EXPIRE_MS: u8 = 0xfc;
    /// The end of the next key, unix seconds in 4 bytes.
    pub const EXPIRE_S: u8 = 0xfd;
    /// The database of the following keys.
    pub const SELECT: u8 = 0xfe;
    pub const END: u8 = 0xff;
}

const UPDATES: ReadError = ReadError::Unsupported(Unsupported::Feature(
    "commands among the keys, as Valkey 9.2 saves without a fork: have it save with one",
));
const MOVING_SLOTS: ReadError = ReadError::Unsupported(Unsupported::Feature(
    "slots that were being moved when Valkey saved: save again when they have arrived",
));
const EARLY_FUNCTION: ReadError = ReadError::Unsupported(Unsupported::Feature(
    "a function as release candidates of Redis 7.0 wrote it: load and save it with a release",
));

const HEADER_BYTES: u64 = 9;
/// Older files have no checksum.
const VERSION_WITH_CHECKSUM: u16 = 5;

/// What a file tells of a key beside its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyFacts {
    /// Unix milliseconds of its end.
    pub expire_at_ms: Option<i64>,
    /// Seconds since it was used.
    pub idle_s: Option<u64>,
    /// How often it is used, as a logarithm.
    pub frequency: Option<u8>,
}

/// A record of a file.
pub enum Event {
    /// The file's version.
    Version(u16),
    /// A name and a value about the file.
    Aux(Vec<u8>, Vec<u8>),
    /// The code of a library of functions.
    Function(Vec<u8>),
    /// The database of the following keys.
    Select(u64),
    /// How many keys it has, and how many of them end.
    Resize(u64, u64),
    /// Something that the module of this type saved beside its keys, which was passed over.
    ModuleAux(ModuleType),
    /// A key. Its value may be a collection without elements, which stands for no key unless it is a stream.
    Key(Vec<u8>, OwnedValue, KeyFacts),
    /// The file is whole, and its checksum right.
    End,
}

/// Appends the records of a file to `out`. They may be made by several encoders, and put together in any order that leaves
/// each record whole; who puts them together computes the checksum ([`crc64`]) and ends the file with [`end`].
pub struct RecordEncoder {
    keys: StringWriter,
}

impl RecordEncoder {
    /// Whether names of keys, code and the like are compressed.
    pub fn new(compression: Compression) -> RecordEncoder {
        RecordEncoder { keys: StringWriter::new(compression == Compression::On) }
    }

    /// The header; comes first. No value may need a later version than this, which is [`VERSION_WRITTEN`] or later.
    pub fn begin(out: &mut Vec<u8>, version: u16) {
        debug_assert!(version >= VERSION_WRITTEN, "rdb-version: what is written is newer");
        out.extend_from_slice(format!("REDIS{version:04}").as_bytes());
    }

    /// A name and a value about the file.
    pub fn aux(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        out.push(opcode::AUX);
        self.keys.put(out, name);
        self.keys.put(out, value);
    }

    /// The code of a library.
    pub fn function(&mut self, out: &mut Vec<u8>, code: &[u8]) {
        out.push(opcode::FUNCTION);
        self.keys.put(out, code);
    }

    /// The database of the following keys.
    pub fn select(out: &mut Vec<u8>, db: u64) {
        out.push(opcode::SELECT);
        put_length(out, db);
    }

    /// How many keys and ends the selected database has.
    pub fn resize(out: &mut Vec<u8>, keys: u64, expires: u64) {
        out.push(opcode::RESIZE);
        put_length(out, keys);
        put_length(out, expires);
    }

    /// A key, up to its value, which has to follow.
    pub fn key(&mut self, out: &mut Vec<u8>, key: &[u8], code: u8, facts: KeyFacts) {
        if let Some(at_ms) = facts.expire_at_ms {
            out.push(opcode::EXPIRE_MS);
            out.extend_from_slice(&at_ms.to_le_bytes());
        }
        if let Some(idle_s) = facts.idle_s {
            out.push(opcode::IDLE);
            put_length(out, idle_s);
        }
        if let Some(frequency) = facts.frequency {
            out.extend_from_slice(&[opcode::FREQUENCY, frequency]);
        }
        out.push(code);
        self.keys.put(out, key);
    }

    /// A key that holds a string.
    pub fn string(&mut self, out: &mut Vec<u8>, key: &[u8], text: &[u8], facts: KeyFacts) {
        self.key(out, key, code::STRING, facts);
        self.keys.put(out, text);
    }
}

/// What comes after the last record, but for the checksum of all up to and including this.
pub fn end(out: &mut Vec<u8>) {
    out.push(opcode::END);
}

/// Reads a file from bytes that come in pieces.
pub struct FileDecoder {
    thresholds: Thresholds,
    version: u16,
    crc: u64,
    /// Of the key that comes next.
    facts: KeyFacts,
    state: State,
}

enum State {
    Start,
    Records,
    /// A key was read, its value not wholly.
    Value(Vec<u8>, ValueDecoder),
    /// The end was read, the checksum not.
    Footer,
}

impl FileDecoder {
    /// At the start of a file.
    pub fn new(thresholds: Thresholds) -> FileDecoder {
        FileDecoder { thresholds, version: 0, crc: 0, facts: KeyFacts::default(), state: State::Start }
    }

    /// The next record. After [`ReadError::Short`], `input` stands where reading goes on: call again with its rest and
    /// more bytes after that. After [`Event::End`] or another error, this decoder is done with.
    pub fn read(&mut self, input: &mut Cursor<'_>) -> Result<Event, ReadError> {
        loop {
            let before = *input;
            let read = self.step(input);
            if matches!(read, Err(ReadError::Short)) && !matches!(self.state, State::Value(..)) {
                *input = before;
            }
            let consumed = input.position() - before.position();
            self.crc = crc64::update(self.crc, &before.rest()[..consumed]);
            if let Some(event) = read? {
                return Ok(event);
            }
        }
    }

    fn step(&mut self, input: &mut Cursor<'_>) -> Result<Option<Event>, ReadError> {
        match &mut self.state {
            State::Start => {
                self.version = version_of(input.take(HEADER_BYTES)?)?;
                self.state = State::Records;
                Ok(Some(Event::Version(self.version)))
            }
            State::Records => self.record(input),
            State::Value(key, decoder) => {
                let value = decoder.read(input)?;
                let key = std::mem::take(key);
                self.state = State::Records;
                Ok(Some(Event::Key(key, value, std::mem::take(&mut self.facts))))
            }
            State::Footer => {
                if self.version >= VERSION_WITH_CHECKSUM {
                    let crc = u64::from_le_bytes(input.array()?);
                    if crc != 0 && crc != self.crc {
                        return Err(ReadError::Corrupt("a checksum that is not the file's"));
                    }
                }
                Ok(Some(Event::End))
            }
        }
    }

    fn record(&mut self, input: &mut Cursor<'_>) -> Result<Option<Event>, ReadError> {
        let event = match input.byte()? {
            opcode::AUX => Event::Aux(string(input)?.into_owned(), string(input)?.into_owned()),
            opcode::FUNCTION => Event::Function(string(input)?.into_owned()),
            opcode::SELECT => Event::Select(length(input)?),
            opcode::RESIZE => Event::Resize(length(input)?, length(input)?),
            opcode::EXPIRE_MS => {
                self.facts.expire_at_ms = Some(i64::from_le_bytes(input.array()?));
                return Ok(None);
            }
            opcode::EXPIRE_S => {
                self.facts.expire_at_ms = Some(i64::from(i32::from_le_bytes(input.array()?)) * 1000);
                return Ok(None);
            }
            opcode::IDLE => {
                self.facts.idle_s = Some(length(input)?);
                return Ok(None);
            }
            opcode::FREQUENCY => {
                self.facts.frequency = Some(input.byte()?);
                return Ok(None);
            }
            opcode::SLOT_INFO => {
                for _ in 0..3 {
                    length(input)?;
                }
                return Ok(None);
            }
            opcode::MODULE_AUX => {
                let module = ModuleType(length(input)?);
                skip_module(input)?;
                Event::ModuleAux(module)
            }
            opcode::UPDATE if self.version > VERSION_VALKEY => return Err(UPDATES),
            opcode::SLOT_IMPORT if self.version >= VERSION_VALKEY => return Err(MOVING_SLOTS),
            opcode::FUNCTION_1 => return Err(EARLY_FUNCTION),
            opcode::END => {
                self.state = State::Footer;
                return Ok(None);
            }
            code => {
                let decoder = ValueDecoder::new(code, self.version, self.thresholds)?;
                let key = string(input)?.into_owned();
                self.state = State::Value(key, decoder);
                return Ok(None);
            }
        };
        Ok(Some(event))
    }
}

fn version_of(header: &[u8]) -> Result<u16, ReadError> {
    let by_redis = header.strip_prefix(b"REDIS");
    let digits = by_redis.or_else(|| header.strip_prefix(b"VALKEY"));
    let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_digit));
    let digits = digits.ok_or(ReadError::Corrupt("a file that is no RDB file"))?;
    let version = digits.iter().fold(0, |version, digit| version * 10 + u16::from(digit - b'0'));
    if version == 0 || by_redis.is_none() != (version >= VERSION_VALKEY) {
        return Err(ReadError::Corrupt("a file whose version is not its maker's"));
    }
    if !reads_version(version) {
        return Err(ReadError::Unsupported(Unsupported::Version(version)));
    }
    Ok(version)
}

/// Passes over what a module saved: pairs of a kind and a value up to kind 0.
fn skip_module(input: &mut Cursor<'_>) -> Result<(), ReadError> {
    loop {
        match length(input)? {
            0 => return Ok(()),
            1 | 2 => drop(length(input)?),
            3 => drop(input.take(4)?),
            4 => drop(input.take(8)?),
            5 => drop(string(input)?),
            _ => return Err(ReadError::Corrupt("a module's value of an unknown kind")),
        }
    }
}

#[cfg(test)]
mod tests {
    use store::{List, Typed};

    use super::*;
    use crate::encode::ValueEncoder;

    fn sample() -> Vec<u8> {
        let mut list = List::new();
        (0..3000).for_each(|n| list.push_back(format!("element {n}").as_bytes(), &Thresholds::default()));
        let values = [
            OwnedValue::Inline(b"12345".as_slice().into(), store::entry::Form::Plain),
            OwnedValue::Object(list.into_value()),
        ];
        let facts = KeyFacts { expire_at_ms: Some(1_900_000_000_123), idle_s: Some(77), frequency: None };
        let (mut file, mut out) = (RecordEncoder::new(Compression::Off), Vec::new());
        RecordEncoder::begin(&mut out, VERSION_WRITTEN);
        file.aux(&mut out, b"redis-ver", b"7.4.0");
        file.function(&mut out, b"#!lua name=lib");
        RecordEncoder::select(&mut out, 3);
        RecordEncoder::resize(&mut out, 2, 1);
        for (value, facts) in values.iter().zip([facts, KeyFacts::default()]) {
            let mut value = ValueEncoder::new(value, Compression::On);
            file.key(&mut out, b"key", value.code(), facts);
            while value.fill(&mut out) {}
        }
        end(&mut out);
        let crc = crc64::update(0, &out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// What a file tells, read in pieces of `step` bytes.
    fn read(bytes: &[u8], step: usize) -> Result<Vec<String>, String> {
        let mut decoder = FileDecoder::new(Thresholds::default());
        let (mut told, mut start, mut end) = (Vec::new(), 0, step);
        loop {
            let mut input = Cursor::new(&bytes[start..end.min(bytes.len())]);
            let event = decoder.read(&mut input);
            start += input.position();
            told.push(match event {
                Ok(Event::End) => return Ok(told),
                Ok(Event::Version(version)) => format!("version {version}"),
                Ok(Event::Aux(name, value)) => format!("{} {}", name.escape_ascii(), value.escape_ascii()),
                Ok(Event::Function(code)) => code.escape_ascii().to_string(),
                Ok(Event::Select(db)) => format!("db {db}"),
                Ok(Event::Resize(keys, expires)) => format!("{keys} keys, {expires} end"),
                Ok(Event::Key(key, OwnedValue::Inline(text, _), facts)) => {
                    format!("{} {} {facts:?}", key.escape_ascii(), text.escape_ascii())
                }
                Ok(Event::Key(_, OwnedValue::Object(value), _)) => format!("{} elements", value.len()),
                Ok(Event::ModuleAux(module)) => format!("of module {module}"),
                Err(error @ (ReadError::Corrupt(_) | ReadError::Unsupported(_))) => {
                    return Err(error.to_string());
                }
                Err(ReadError::Short) if end >= bytes.len() => return Err("short".to_owned()),
                Err(ReadError::Short) => {
                    end += step;
                    continue;
                }
            });
        }
    }

    fn refused(why: &str) -> Result<Vec<String>, String> {
        Err(why.to_owned())
    }

    #[test]
    fn a_file_comes_back_in_pieces_of_any_size() {
        let file = sample();
        for step in [1, 7, 1000, file.len()] {
            let expected = [
                "version 10",
                "redis-ver 7.4.0",
                "#!lua name=lib",
                "db 3",
                "2 keys, 1 end",
                "key 12345 KeyFacts { expire_at_ms: Some(1900000000123), idle_s: Some(77), frequency: None }",
                "3000 elements",
            ];
            assert_eq!(read(&file, step), Ok(expected.map(str::to_owned).to_vec()), "in steps of {step}");
        }
    }

    #[test]
    fn a_file_that_is_not_whole_or_changed_is_refused() {
        let file = sample();
        assert!((0..file.len()).step_by(997).all(|end| read(&file[..end], 4096) == refused("short")));
        let mut changed = file.clone();
        changed[13] ^= 1;
        assert_eq!(read(&changed, 4096), refused("a checksum that is not the file's"));
        for unknown in [b"REDIS0013", b"REDIS0079", b"VALKEY082"] {
            let why = read(unknown, 9).expect_err("a version of the future");
            assert!(why.contains("versions 1 to 12 of Redis and 80 to 81 of Valkey are read"), "{why}");
        }
        for version in ["080", "081"] {
            let file = [b"VALKEY", version.as_bytes(), b"\xff\0\0\0\0\0\0\0\0"].concat();
            assert_eq!(read(&file, 9), Ok(vec![format!("version {}", &version[1..])]));
        }
        for (header, why) in [
            (b"SQLite fo", "a file that is no RDB file"),
            (b"REDIS0080", "a file whose version is not its maker's"),
            (b"VALKEY010", "a file whose version is not its maker's"),
            (b"REDIS0000", "a file whose version is not its maker's"),
        ] {
            assert_eq!(read(header, 9), refused(why));
        }
    }

    /// The length of a module type with this number.
    fn module_type() -> Vec<u8> {
        // `ReJSON-RL`, encoding 3.
        [&[0x81][..], &0x45e2_5238_df91_2c03u64.to_be_bytes()].concat()
    }

    #[test]
    fn what_modules_saved_beside_keys_is_passed_over_by_name() {
        let rest = b"\x02\x01\x05\x03abc\x04\0\0\0\0\0\0\0\0\0\xf4\x01\x02\x03\xff\0\0\0\0\0\0\0\0";
        let file = [b"REDIS0009\xf7", &module_type()[..], rest].concat();
        for step in [1, 1000] {
            let told = ["version 9", "of module ReJSON-RL"].map(str::to_owned).to_vec();
            assert_eq!(read(&file, step), Ok(told));
        }
    }

    #[test]
    fn what_only_others_can_read_is_told_by_name() {
        let json = [b"REDIS0009\x07\x01k", &module_type()[..]].concat();
        for (file, why) in [
            (&json[..], "a value of type ReJSON-RL (encoding 3), which belongs to a module"),
            (b"VALKEY081\x17\x01k", "a hash of paths"),
            (b"VALKEY080\x17\x01k", "a type that is not known"),
            (b"REDIS0012\x16\x01k", "release candidates of Redis 7.4"),
            (b"VALKEY081\xf2", "commands among the keys"),
            (b"VALKEY080\xf3", "slots that were being moved"),
            (b"REDIS0010\xf6", "release candidates of Redis 7.0"),
            (b"VALKEY080\x18\x01k", "a type that is not known"),
            (b"REDIS0012\xf3", "a type that is not known"),
        ] {
            let told = read(file, 1).expect_err("nothing that is read");
            assert!(told.contains(why), "{told}");
        }
    }
}
