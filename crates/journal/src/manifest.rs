//! The manifest of an append-only directory: which files there are, in which order they are read.
//!
//! A line for each file, as Redis 7 has it, with the offsets of Redis 8 and one key of our own:
//!
//! ```text
//! file appendonly.aof.3.base.rdb seq 3 type b
//! file appendonly.aof.7.incr.aof seq 7 type i startoffset 1000 endoffset 2500 halcyon-bytes 1633
//! file appendonly.aof.8.incr.aof seq 8 type i startoffset 2500 halcyon-bytes 0
//! ```
//!
//! `type` is `b` for the base (at most one), `i` for what was appended since (increasing `seq`), `h` for what is not
//! needed any more and will be removed. Lines that start with `#` are passed over, and so are unknown keys. Names are
//! quoted where they have to be, and never lead out of the directory.
//!
//! `halcyon-bytes` says that offsets of this file count exactly the bytes of its commands, and for a file with an end
//! how many bytes of it count: more can be there after a failure of the disk, but not fewer. Redis passes over it, and
//! leaves it out when it writes a manifest of its own: then nothing is known of the bytes. Without `startoffset` the file
//! was made before it was known where it would begin: where the one before it ends, which is still written to as long as
//! this one is empty. `halcyon-prefix` says how many bytes at the file's start are a SELECT that stands in a file before, too.
//!
//! A comment at the end, `# halcyon-stream ID OFFSET DB`, says that the files end at this offset of that stream, in which
//! the database is selected: who stopped in order has written it, and it is void once the files go on.

use std::fmt;

use base::limits::{MANIFEST_LINE_BYTES_MAX, STREAM_ID_BYTES};
use resp::{Args, Batch, DecodeLimits, Decoder};

/// What a file is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All there was when the log was last rewritten.
    Base,
    /// What came after.
    Incr,
    /// Not needed any more.
    History,
}

impl Kind {
    fn letter(self) -> char {
        match self {
            Kind::Base => 'b',
            Kind::Incr => 'i',
            Kind::History => 'h',
        }
    }
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file's name in the directory.
    pub name: String,
    /// Its number among the files of its kind; not 0.
    pub seq: i64,
    /// What it is for.
    pub kind: Kind,
    /// Replication offset of its first byte.
    pub start_offset: Option<u64>,
    /// Replication offset after its last byte.
    pub end_offset: Option<u64>,
    /// Offsets count exactly the bytes of its commands; if it has an end, so many bytes of it count.
    pub exact_bytes: Option<u64>,
    /// It starts with so many bytes of a SELECT that are not counted: they stand in a file before, too.
    pub prefix_bytes: u64,
}

impl Entry {
    fn new(name: String, seq: i64, kind: Kind) -> Entry {
        Entry { name, seq, kind, start_offset: None, end_offset: None, exact_bytes: None, prefix_bytes: 0 }
    }

    /// How many bytes of the file count, if it was closed by who knew.
    pub fn closed_bytes(&self) -> Option<u64> {
        self.end_offset.and(self.exact_bytes)
    }

    /// Whether it was made before it was known where it would begin: where the file before it ended.
    pub fn is_made_ahead(&self) -> bool {
        self.kind == Kind::Incr && self.start_offset.is_none() && self.exact_bytes.is_some()
    }

    /// Whether its commands' offsets are known.
    pub fn is_exact(&self) -> bool {
        self.exact_bytes.is_some() && self.start_offset.is_some_and(|start| start >= self.prefix_bytes)
    }
}

/// What the base is written as.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum BaseFormat {
    /// `aof-use-rdb-preamble yes`.
    Rdb,
    /// `aof-use-rdb-preamble no`.
    Aof,
}

/// Which files there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The file that is read first.
    pub base: Option<Entry>,
    /// The files that are read after it, in this order.
    pub incrs: Vec<Entry>,
    /// The files that are to be removed.
    pub history: Vec<Entry>,
    /// The stream that ends with the files, if they were ended in order.
    pub stream: Option<StreamEnd>,
}

/// Where in which stream the files end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEnd {
    /// The stream: 40 characters.
    pub id: String,
    /// Offset after its last byte.
    pub offset: u64,
    /// The database that is selected there.
    pub db: u32,
}

const STREAM: &str = "# halcyon-stream ";

impl StreamEnd {
    fn parse(line: &[u8]) -> Option<StreamEnd> {
        let mut words = std::str::from_utf8(line).ok()?.strip_prefix(STREAM)?.split_ascii_whitespace();
        let id = words.next().filter(|id| id.len() == STREAM_ID_BYTES)?.to_owned();
        let (offset, db) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        words.next().is_none().then_some(StreamEnd { id, offset, db })
    }
}

/// Why a manifest cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The line, from 1; 0 if it is none of them.
    pub line: usize,
    /// What it says.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(self.reason),
            line => write!(f, "line {line}: {}: '{}'", self.reason, self.text),
        }
    }
}

impl std::error::Error for ManifestError {}

const BAD_FORMAT: &str = "invalid format, expected: file NAME seq NUMBER type b|i|h";

impl Manifest {
    /// Reads a manifest, as strictly as Redis does.
    pub fn parse(text: &[u8]) -> Result<Manifest, ManifestError> {
        let mut manifest = Manifest::default();
        if text.is_empty() {
            return Err(ManifestError { line: 0, text: String::new(), reason: "the manifest is empty" });
        }
        for (at, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let added = match line.first() {
                Some(b'#') => {
                    manifest.stream = StreamEnd::parse(line).or(manifest.stream.take());
                    Ok(())
                }
                _ => parse_line(line).and_then(|entry| manifest.add(entry)),
            };
            added.map_err(|reason| {
                let text = line[..line.len().min(MANIFEST_LINE_BYTES_MAX)].trim_ascii();
                ManifestError { line: at + 1, text: text.escape_ascii().to_string(), reason }
            })?;
        }
        Ok(manifest)
    }

    fn add(&mut self, entry: Entry) -> Result<(), &'static str> {
        match entry.kind {
            Kind::Base if self.base.is_some() => return Err("there is a base file already"),
            Kind::Base => self.base = Some(entry),
            Kind::History => self.history.push(entry),
            Kind::Incr if entry.seq <= self.incrs.last().map_or(0, |last| last.seq) => {
                return Err("the sequence number does not increase");
            }
            Kind::Incr => self.incrs.push(entry),
        }
        Ok(())
    }

    /// The text of a file.
    pub fn format(&self) -> String {
        let mut text = String::new();
        for entry in self.base.iter().chain(&self.history).chain(&self.incrs) {
            text.push_str("file ");
            put_name(&mut text, &entry.name);
            text.push_str(&format!(" seq {} type {}", entry.seq, entry.kind.letter()));
            if let Some(start) = entry.start_offset {
                text.push_str(&format!(" startoffset {start}"));
                if let Some(end) = entry.end_offset {
                    text.push_str(&format!(" endoffset {end}"));
                }
            }
            if let Some(bytes) = entry.exact_bytes {
                text.push_str(&format!(" halcyon-bytes {bytes}"));
            }
            if entry.prefix_bytes > 0 {
                text.push_str(&format!(" halcyon-prefix {}", entry.prefix_bytes));
            }
            text.push('\n');
        }
        if let Some(StreamEnd { id, offset, db }) = &self.stream {
            text.push_str(&format!("{STREAM}{id} {offset} {db}\n"));
        }
        text
    }

    /// The files to be read, in order.
    pub fn loaded(&self) -> impl Iterator<Item = &Entry> {
        self.base.iter().chain(&self.incrs)
    }

    /// Puts a new base of that name in the place of the old one, which becomes history together with the incremental
    /// files before `seq`: the base has what they have.
    pub fn install_base(&mut self, base: Entry, first_incr_seq: i64) {
        let mut old: Vec<Entry> = self.base.replace(base).into_iter().collect();
        let kept = self.incrs.iter().position(|entry| entry.seq >= first_incr_seq);
        old.extend(self.incrs.drain(..kept.unwrap_or(self.incrs.len())));
        old.iter_mut().for_each(|entry| entry.kind = Kind::History);
        self.history.extend(old);
    }

    /// The line of the next base.
    pub fn next_base(&self, prefix: &str, format: BaseFormat) -> Entry {
        let suffix = match format {
            BaseFormat::Rdb => "rdb",
            BaseFormat::Aof => "aof",
        };
        // The number of a base that is history already is not used again: its file may still be there.
        let numbered = self.history.iter().filter(|entry| entry.name.contains(".base."));
        let last = self.base.iter().chain(numbered).map(|entry| entry.seq).max().unwrap_or(0);
        Entry::new(format!("{prefix}.{}.base.{suffix}", last + 1), last + 1, Kind::Base)
    }

    /// Says that the incremental file of number `seq` ended at `end_offset`, with so many bytes.
    pub fn close_incr(&mut self, seq: i64, end_offset: u64, bytes: u64) {
        close_incr(&mut self.incrs, seq, end_offset, bytes);
    }

    /// The line of the next incremental file, which starts at `start_offset`, or where the one before will have ended.
    /// `used` is the highest number that was used, perhaps for a file that was given up.
    pub fn next_incr(&self, prefix: &str, start_offset: Option<u64>, used: i64) -> Entry {
        let numbered = self.history.iter().filter(|entry| entry.name.contains(".incr."));
        let last = self.incrs.iter().chain(numbered).map(|entry| entry.seq).max().unwrap_or(0).max(used);
        let name = format!("{prefix}.{}.incr.aof", last + 1);
        let entry = Entry::new(name, last + 1, Kind::Incr);
        Entry { start_offset, exact_bytes: Some(0), ..entry }
    }

    /// The manifest that a single file of a server before Redis 7 begins with.
    pub fn of_single_file(name: &str) -> Manifest {
        Manifest { base: Some(Entry::new(name.to_owned(), 1, Kind::Base)), ..Manifest::default() }
    }
}

/// As [`Manifest::close_incr`], of lines that are not listed yet.
pub(crate) fn close_incr(incrs: &mut [Entry], seq: i64, end_offset: u64, bytes: u64) {
    if let Some(closed) = incrs.iter_mut().find(|listed| listed.seq == seq) {
        (closed.end_offset, closed.exact_bytes) = (Some(end_offset), Some(bytes));
        if bytes == 0 {
            (closed.start_offset, closed.prefix_bytes) = (Some(end_offset), 0);
        }
    }
}

fn parse_line(line: &[u8]) -> Result<Entry, &'static str> {
    if line.len() > MANIFEST_LINE_BYTES_MAX || line.last() != Some(&b'\n') {
        return Err("the line is too long, or has no end");
    }
    let trimmed = [line.trim_ascii(), b"\n"].concat();
    if trimmed.len() == 1 || trimmed[0] == b'*' || trimmed.contains(&0) {
        return Err(BAD_FORMAT);
    }
    // A line of words with quotes is what an inline command is.
    let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
    let decoded = decoder.decode(&trimmed, &DecodeLimits::default(), 1, &mut batch);
    if decoded.is_err() || batch.is_empty() {
        return Err(BAD_FORMAT);
    }
    entry_of(batch.command(0, &trimmed))
}

fn entry_of(words: Args<'_>) -> Result<Entry, &'static str> {
    if words.len() < 6 || !words.len().is_multiple_of(2) {
        return Err(BAD_FORMAT);
    }
    let mut entry = Entry::new(String::new(), 0, Kind::Base);
    let mut kind = None;
    for pair in 0..words.len() / 2 {
        let (key, value) = (words.at(2 * pair), words.at(2 * pair + 1));
        let number = || std::str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok());
        let offset = || number().and_then(|number| u64::try_from(number).ok());
        match &*key.to_ascii_lowercase() {
            b"file" => entry.name = file_name(value)?,
            b"seq" => entry.seq = number().unwrap_or(0),
            b"type" => {
                kind = Some(match value.first() {
                    Some(b'b') => Kind::Base,
                    Some(b'i') => Kind::Incr,
                    Some(b'h') => Kind::History,
                    _ => return Err("unknown file type, expected b, i or h"),
                });
            }
            b"startoffset" => entry.start_offset = offset(),
            b"endoffset" => entry.end_offset = offset(),
            b"halcyon-bytes" => entry.exact_bytes = offset(),
            b"halcyon-prefix" => entry.prefix_bytes = offset().unwrap_or(0),
            _ => {}
        }
    }
    entry.kind = kind.ok_or(BAD_FORMAT)?;
    if entry.name.is_empty() || entry.seq == 0 {
        return Err(BAD_FORMAT);
    }
    Ok(entry)
}

fn file_name(bytes: &[u8]) -> Result<String, &'static str> {
    let name = std::str::from_utf8(bytes).map_err(|_| "the file's name is not UTF-8")?;
    if name.contains(['/', '\\', '\0']) || matches!(name, "." | "..") {
        return Err("a file can't be a path, just a name");
    }
    Ok(name.to_owned())
}

fn put_name(text: &mut String, name: &str) {
    if name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'')) {
        text.push_str(name);
        return;
    }
    text.push('"');
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_write_is_read_and_written_again() {
        let texts = [
            "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n",
            "file a.2.base.aof seq 2 type b\nfile a.1.base.aof seq 1 type h\nfile a.1.incr.aof seq 1 type h\n\
             file a.2.incr.aof seq 2 type i startoffset 0 endoffset 17\nfile a.9.incr.aof seq 9 type i startoffset 17\n",
            "file \"my file.1.incr.aof\" seq 1 type i startoffset 5 endoffset 9 halcyon-bytes 40 halcyon-prefix 2\n",
            "file \"q\\\"\\xc3\\xa4.aof\" seq 3 type i\n",
            "file appendonly.aof seq 1 type b\n",
            "file a.1.incr.aof seq 1 type i\n# halcyon-stream 0123456789012345678901234567890123456789 77 3\n",
        ];
        for text in texts {
            let manifest = Manifest::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(manifest.format(), text);
        }
        let manifest = Manifest::parse(texts[3].as_bytes()).expect("it was read before");
        assert_eq!(manifest.incrs[0].name, "q\"\u{e4}.aof");
        let odd = b"# a comment\n  TYPE incremental Seq 4 new value FILE 'it''' \r\n";
        assert_eq!(Manifest::parse(odd).expect_err("quotes").line, 2);
        let odd = b"# a comment\n  TYPE incremental Seq 4 new value FILE 'its' \r\n";
        let manifest = Manifest::parse(odd).expect("keys in any case and order");
        assert_eq!(manifest.format(), "file its seq 4 type i\n");
        for odd in ["# nothing\n", "# halcyon-stream short 1 0\n", "# halcyon-stream\n"] {
            assert_eq!(Manifest::parse(odd.as_bytes()), Ok(Manifest::default()), "{odd}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_the_line() {
        let long = format!("file {} seq 1 type b\n", "a".repeat(1024));
        let cases = [
            ("", "the manifest is empty"),
            ("\n", BAD_FORMAT),
            ("file a seq 1 type b", "the line is too long, or has no end"),
            (&long, "the line is too long, or has no end"),
            ("file a seq 1 type\n", BAD_FORMAT),
            ("file a seq 1 new b\n", BAD_FORMAT),
            ("file a seq 0 type b\n", BAD_FORMAT),
            ("file \"\" seq 1 type b\n", BAD_FORMAT),
            ("file a seq x type b\n", BAD_FORMAT),
            ("file \"a seq 1 type b\n", BAD_FORMAT),
            ("*3 a\n", BAD_FORMAT),
            ("file a seq 1 type x\n", "unknown file type, expected b, i or h"),
            ("file ../a seq 1 type b\n", "a file can't be a path, just a name"),
            ("file .. seq 1 type b\n", "a file can't be a path, just a name"),
            ("file \"\\xff\" seq 1 type b\n", "the file's name is not UTF-8"),
            ("file a seq 1 type b\nfile b seq 2 type b\n", "there is a base file already"),
            ("file a seq 2 type i\nfile b seq 2 type i\n", "the sequence number does not increase"),
        ];
        for (text, reason) in cases {
            let error = Manifest::parse(text.as_bytes()).expect_err(text);
            assert_eq!(error.reason, reason, "{text}");
            assert_eq!(error.line, text.lines().count(), "{text}");
        }
        let error = Manifest::parse(b"file a seq 1 type b\nfile b seq 1 type q\n").expect_err("a type");
        let text = "line 2: unknown file type, expected b, i or h: 'file b seq 1 type q'";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_new_base_makes_history_of_what_it_replaces() {
        let mut manifest = Manifest::of_single_file("appendonly.aof");
        for start in [0, 10, 20] {
            manifest.incrs.push(manifest.next_incr("appendonly.aof", Some(start), 0));
        }
        let base = manifest.next_base("appendonly.aof", BaseFormat::Rdb);
        manifest.install_base(base, 3);
        let text = "file appendonly.aof.2.base.rdb seq 2 type b\n\
                    file appendonly.aof seq 1 type h\n\
                    file appendonly.aof.1.incr.aof seq 1 type h startoffset 0 halcyon-bytes 0\n\
                    file appendonly.aof.2.incr.aof seq 2 type h startoffset 10 halcyon-bytes 0\n\
                    file appendonly.aof.3.incr.aof seq 3 type i startoffset 20 halcyon-bytes 0\n";
        assert_eq!(manifest.format(), text);
        assert_eq!(manifest.next_incr("a", Some(30), 7).name, "a.8.incr.aof");
        assert_eq!(manifest.next_base("a", BaseFormat::Aof).name, "a.3.base.aof");
        assert_eq!(manifest.loaded().count(), 2);
    }
}
