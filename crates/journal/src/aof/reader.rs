//! Reading a file record by record.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use base::limits::{ANNOTATION_BYTES_MAX, JOURNAL_READ_BYTES};
use resp::{Args, Batch, DecodeLimits, Decoder};

use super::annotation::{Annotation, Sum};
use super::record::Record;
use super::{Damage, Flaw};
use crate::storage::{StorageError, StoredFile};

/// A file's commands were taken once: nothing is too large.
pub(super) const LIMITS: DecodeLimits =
    DecodeLimits { bulk_bytes_max: u64::MAX, query_buffer_bytes_max: u64::MAX, authenticated: true };

/// Disks lose whole multiples of this.
const PAGE_BYTES: u64 = 512;

/// Why there is no next record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AofError {
    /// The file could not be read.
    Storage(StorageError),
    /// The file is not whole.
    Damage(Damage),
}

impl From<StorageError> for AofError {
    fn from(error: StorageError) -> AofError {
        AofError::Storage(error)
    }
}

impl fmt::Display for AofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AofError::Storage(error) => error.fmt(f),
            AofError::Damage(damage) => damage.fmt(f),
        }
    }
}

impl std::error::Error for AofError {}

/// How to end a file that is not whole.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// It is cut here.
    pub position: u64,
    /// Then a `#CUT` line is appended for the `#SUM` line that stands here.
    pub sum_at: Option<u64>,
}

/// Reads a file from some record on.
pub struct AofReader {
    file: Arc<dyn StoredFile>,
    /// How many bytes of it count.
    size: u64,
    /// The file from `base` on.
    buffer: Vec<u8>,
    base: u64,
    /// Read up to here in the buffer, and from here on it is still needed.
    at: usize,
    needed: usize,
    batch: Batch,
    /// The commands of the record.
    commands: Vec<Range<u64>>,
    /// What a checksum covers ends here.
    covered_to: u64,
    /// The last line that announces what a checksum covers, and where that starts.
    sum: Option<(u64, u64)>,
    /// What it announced is not all there.
    is_sum_short: bool,
    /// The file is one of ours, in which pages are not zeros.
    is_ours: bool,
    is_foreign: bool,
    commands_read: u64,
    stream_bytes: u64,
    timestamp: Option<i64>,
    starts_at: Option<u64>,
}

impl AofReader {
    /// Reads the first `size` bytes of `file`, from `position` on, where a record or a line starts. `is_ours`: it was
    /// begun by this software, which can be known only from elsewhere if its first page is lost.
    pub fn new(file: Arc<dyn StoredFile>, position: u64, size: u64, is_ours: bool) -> AofReader {
        AofReader {
            file,
            size,
            buffer: Vec::new(),
            base: position,
            at: 0,
            needed: 0,
            batch: Batch::new(),
            commands: Vec::new(),
            covered_to: position,
            sum: None,
            is_sum_short: false,
            is_ours,
            is_foreign: false,
            commands_read: 0,
            stream_bytes: 0,
            timestamp: None,
            starts_at: None,
        }
    }

    /// Where the next record starts, or the lines before it.
    pub fn position(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Bytes of all commands so far.
    pub fn stream_bytes(&self) -> u64 {
        self.stream_bytes
    }

    /// How many commands were read.
    pub fn commands_read(&self) -> u64 {
        self.commands_read
    }

    /// The last time that the file told.
    pub fn timestamp(&self) -> Option<i64> {
        self.timestamp
    }

    /// The offset that the file says its first command has.
    pub fn starts_at(&self) -> Option<u64> {
        self.starts_at
    }

    /// Whether some line tells that part of the file was safe on the disk once.
    pub fn was_synced(&self) -> Result<bool, StorageError> {
        Scan { file: Arc::clone(&self.file), from: 1, size: self.size }.synced_later()
    }

    /// Whether there were commands that no checksum covers: another server's.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// How the file is to be cut so that it ends at `position`, before which it is whole and up to which it was read.
    pub fn cut_at(&self, position: u64) -> Cut {
        match self.sum.filter(|_| self.is_sum_short || position < self.covered_to) {
            // Nothing of what the line announced is kept, and so neither is the line.
            Some((line_at, from)) if position <= from => {
                Cut { position: position.min(line_at), sum_at: None }
            }
            Some((line_at, _)) => Cut { position, sum_at: Some(line_at) },
            None => Cut { position, sum_at: None },
        }
    }

    /// Lets more bytes of the file count, which was appended to.
    pub fn extend(&mut self, size: u64) {
        self.size = self.size.max(size);
    }

    /// The next record; None at the end of the file. After an error, this reader is done with.
    #[expect(clippy::should_implement_trait, reason = "a record borrows the reader")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, AofError> {
        self.advance()?;
        Ok(self.record())
    }

    /// The record that was read last; None before the first and after the last.
    pub fn record(&self) -> Option<Record<'_>> {
        let (buffer, base, commands) = (&self.buffer[..], self.base, &self.commands[..]);
        (!commands.is_empty()).then_some(Record { buffer, base, commands, first: &self.batch })
    }

    fn advance(&mut self) -> Result<(), AofError> {
        self.commands.clear();
        self.needed = self.at;
        let mut start = self.position();
        loop {
            if self.have(1)? == 0 {
                return match self.commands.is_empty() {
                    true => Ok(()),
                    false => Err(self.damage(Flaw::Unfinished, start, "the file ends within a transaction")),
                };
            }
            match self.rest()[0] {
                b'#' => {
                    self.annotation(start)?;
                    if self.commands.is_empty() {
                        (self.needed, start) = (self.at, self.position());
                    }
                    continue;
                }
                b'*' => {}
                _ => return Err(self.flaw_at(start, "a command does not start with '*'")?),
            }
            let end = self.command(start)?;
            let from = self.position();
            if from >= self.covered_to {
                self.is_foreign = true;
            }
            let name = self.batch.command(0, self.rest()).at(0);
            let begins = name.eq_ignore_ascii_case(b"MULTI");
            let is_last = if self.commands.is_empty() { !begins } else { name.eq_ignore_ascii_case(b"EXEC") };
            self.commands.push(from..from + end as u64);
            self.at += end;
            if is_last {
                break;
            }
        }
        self.commands_read += self.commands.len() as u64;
        self.stream_bytes += self.commands.iter().map(|range| range.end - range.start).sum::<u64>();
        Ok(())
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Reads until at least `bytes` are there from `at` on, if the file has them. How many are there.
    fn have(&mut self, bytes: usize) -> Result<usize, StorageError> {
        while self.buffer.len() - self.at < bytes {
            let left = self.size - self.base - self.buffer.len() as u64;
            if left == 0 {
                break;
            }
            if self.needed > 0 {
                self.buffer.drain(..self.needed);
                self.base += self.needed as u64;
                self.at -= self.needed;
                self.needed = 0;
            }
            let filled = self.buffer.len();
            let wanted = (bytes - (filled - self.at)).max(JOURNAL_READ_BYTES);
            self.buffer.resize(filled + left.min(wanted as u64) as usize, 0);
            let position = self.base + filled as u64;
            let read = self.file.read_at(position, &mut self.buffer[filled..]);
            self.buffer.truncate(filled + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                // Somebody cut it meanwhile.
                self.size = position;
            }
        }
        Ok(self.buffer.len() - self.at)
    }

    /// Decodes the command at the front into the batch: its size. `start` is where its record starts.
    fn command(&mut self, start: u64) -> Result<usize, AofError> {
        let mut decoder = Decoder::new();
        let mut have = self.rest().len();
        loop {
            // An empty array is nothing to a connection, which would be given the command after it.
            if matches!(self.rest(), [_, digit, ..] if !(b'1'..=b'9').contains(digit)) {
                return Err(self.flaw_at(start, "a command has no arguments, or their number is none")?);
            }
            let decoded = decoder.decode(&self.buffer[self.at..], &LIMITS, 1, &mut self.batch);
            match decoded {
                Ok(end) if !self.batch.is_empty() => {
                    if ends_right(self.batch.command(0, self.rest()), self.rest()) {
                        return Ok(end);
                    }
                    return Err(self.flaw_at(start, "an argument is not followed by the end of a line")?);
                }
                Ok(_) => {}
                Err(error) => return Err(self.flaw_at(start, &format!("no command: {error}"))?),
            }
            let more = self.have(have + decoder.wanted_bytes().max(1))?;
            if more == have {
                return Err(self.flaw_at_end(start));
            }
            have = more;
        }
    }

    /// Reads the line at the front, which is no command. `start` is where its record starts.
    fn annotation(&mut self, start: u64) -> Result<(), AofError> {
        let have = self.have(ANNOTATION_BYTES_MAX)?;
        let line = &self.rest()[..have.min(ANNOTATION_BYTES_MAX)];
        let Some(len) = line.iter().position(|byte| *byte == b'\n') else {
            let is_short = have < ANNOTATION_BYTES_MAX && !line.contains(&0);
            return Err(match is_short {
                true => self.flaw_at_end(start),
                false => self.flaw_at(start, "a line is too long")?,
            });
        };
        let read = if line[..len].contains(&0) { None } else { Annotation::parse(&line[..len]) };
        let line_at = self.position();
        match read {
            None => return Err(self.flaw_at(start, "a line cannot be read")?),
            Some(Annotation::Other) => {}
            Some(Annotation::Timestamp(unix_s)) => self.timestamp = Some(unix_s),
            Some(Annotation::At(offset)) => self.starts_at = Some(offset),
            Some(Annotation::Cut(_)) => {}
            Some(Annotation::Sum(sum)) => {
                self.at += len + 1;
                return self.check_sum(sum, line_at, start);
            }
        }
        self.at += len + 1;
        Ok(())
    }

    /// Checks what the `#SUM` line at `line_at` announced, which starts here. `start` is where its record starts.
    fn check_sum(&mut self, sum: Sum, line_at: u64, start: u64) -> Result<(), AofError> {
        self.is_ours = true;
        let from = self.position();
        (self.sum, self.is_sum_short) = (Some((line_at, from)), false);
        let announced_to = from.saturating_add(sum.bytes);
        let to = announced_to.min(self.size);
        let wanted = (to - from) as usize;
        let have = self.have(wanted)?;
        if to == announced_to && have >= wanted && sum.is_of(&self.rest()[..wanted]) {
            self.covered_to = to;
            return Ok(());
        }
        match self.frames_to(to, line_at)? {
            Frames::Cut(position) => self.covered_to = position,
            Frames::Across => self.is_foreign = true,
            _ if self.has_lost_page(from, to) => return Err(self.lost_pages(start)?),
            _ if to < announced_to => {
                // The last write was cut short: its whole commands are believed. A server that cut the file would have.
                (self.is_sum_short, self.covered_to) = (true, to);
            }
            Frames::Exact => return Err(self.damage(Flaw::Corrupt, start, "a checksum is wrong")),
            Frames::Broken => {
                return Err(self.damage(
                    Flaw::Corrupt,
                    start,
                    "a checksum is wrong, and a command is no command",
                ));
            }
        }
        Ok(())
    }

    /// Goes through the commands from here on without taking them: how they lie across `to`, where what the `#SUM` line
    /// at `line_at` announced ends.
    fn frames_to(&mut self, to: u64, line_at: u64) -> Result<Frames, AofError> {
        let mut ahead = 0;
        loop {
            let position = self.position() + ahead as u64;
            if position >= to {
                return Ok(if position == to { Frames::Exact } else { Frames::Across });
            }
            match self.frame(ahead)? {
                Frame::Whole(bytes) => ahead += bytes,
                Frame::Line(bytes, Some(Annotation::Cut(of))) if of == line_at => {
                    debug_assert!(bytes > 0, "whole-records: a line has an end");
                    return Ok(Frames::Cut(position));
                }
                Frame::Line(bytes, _) => ahead += bytes,
                // If the file ends in the midst of it, nothing went on after the announced bytes.
                Frame::Partial | Frame::Broken => return Ok(Frames::Broken),
            }
        }
    }

    /// Looks at what stands `ahead` bytes from here.
    fn frame(&mut self, ahead: usize) -> Result<Frame, AofError> {
        let mut decoder = Decoder::new();
        let mut have = self.have(ahead + ANNOTATION_BYTES_MAX)? - ahead;
        loop {
            let rest = &self.buffer[self.at + ahead..];
            match rest.first() {
                Some(b'#') => {
                    let line = &rest[..have.min(ANNOTATION_BYTES_MAX)];
                    let len = line.iter().position(|byte| *byte == b'\n');
                    let len = len.filter(|len| !line[..*len].contains(&0));
                    let whole = |len: usize| Frame::Line(len + 1, Annotation::parse(&line[..len]));
                    return Ok(len.map_or(Frame::Broken, whole));
                }
                Some(b'*') => {}
                Some(_) => return Ok(Frame::Broken),
                None => return Ok(Frame::Partial),
            }
            match decoder.decode(rest, &LIMITS, 1, &mut self.batch) {
                Ok(end) if !self.batch.is_empty() => {
                    let is_right = ends_right(self.batch.command(0, rest), rest);
                    return Ok(if is_right { Frame::Whole(end) } else { Frame::Broken });
                }
                Ok(0) => {}
                _ => return Ok(Frame::Broken),
            }
            let more = self.have(ahead + have + decoder.wanted_bytes().max(1))? - ahead;
            if more == have {
                return Ok(Frame::Partial);
            }
            have = more;
        }
    }

    /// Whether some page's last byte within `from..to`, which is in the buffer, is a zero: so what a crash lost looks.
    /// Nothing that is written together ends with one.
    fn has_lost_page(&self, from: u64, to: u64) -> bool {
        let byte = |position: u64| self.buffer.get((position - self.base) as usize) == Some(&0);
        let first_end = from / PAGE_BYTES * PAGE_BYTES + PAGE_BYTES - 1;
        let mut page_ends = (first_end..to).step_by(PAGE_BYTES as usize);
        page_ends.any(byte) || (to > from && byte(to - 1))
    }

    fn damage(&self, flaw: Flaw, position: u64, reason: &str) -> AofError {
        let commands = self.commands_read;
        AofError::Damage(Damage { flaw, position, commands, reason: reason.to_owned() })
    }

    /// What is wrong with a record from `start` on that cannot be read further than a little beyond `at`.
    fn flaw_at(&mut self, start: u64, reason: &str) -> Result<AofError, AofError> {
        self.have(2 * PAGE_BYTES as usize)?;
        let to = self.base + self.buffer.len() as u64;
        let is_lost = match self.is_ours {
            true => self.has_lost_page(start, to.min(self.position() + 2 * PAGE_BYTES)),
            false => self.ends_in_zeros()?,
        };
        match is_lost {
            true => self.lost_pages(start),
            false => Ok(self.damage(Flaw::Corrupt, start, reason)),
        }
    }

    /// Whether nothing is wrong with what is here but that zeros follow to the end of the file: how a crash leaves a
    /// file without checksums, too.
    fn ends_in_zeros(&mut self) -> Result<bool, AofError> {
        let is_text = |byte: &u8| *byte != 0;
        // Zeros in arguments are not what was stumbled over, and much more than a few pages are not lost.
        let have = self.have(JOURNAL_READ_BYTES)?;
        let reaches_end = self.base + self.buffer.len() as u64 == self.size;
        let text = self.rest().iter().rposition(is_text).map_or(0, |last| last + 1);
        if !reaches_end || text == have {
            return Ok(false);
        }
        let whole = self.buffer.split_off(self.at + text);
        let frame = if text == 0 { Frame::Partial } else { self.without_more(|reader| reader.frame(0))? };
        self.buffer.extend_from_slice(&whole);
        Ok(matches!(frame, Frame::Partial))
    }

    /// Runs `look` as if the file ended with what is in the buffer.
    fn without_more<T>(&mut self, look: impl FnOnce(&mut AofReader) -> T) -> T {
        let size = std::mem::replace(&mut self.size, self.base + self.buffer.len() as u64);
        let seen = look(self);
        self.size = size;
        seen
    }

    /// The file ends within the record from `start` on.
    fn flaw_at_end(&self, start: u64) -> AofError {
        self.damage(Flaw::Short, start, "the file ends within a command")
    }

    /// Pages are missing at `position`. If a later line says that they were safe once, the disk lost them.
    fn lost_pages(&mut self, position: u64) -> Result<AofError, AofError> {
        let lost = self.damage(Flaw::LostPages, position, "what was last written is missing in part");
        let scan = Scan { file: Arc::clone(&self.file), from: position + 1, size: self.size };
        Ok(match scan.synced_later()? {
            true => self.damage(Flaw::Corrupt, position, "what was safe on the disk is missing"),
            false => lost,
        })
    }
}

/// How commands lie across the end of what a `#SUM` line announced.
enum Frames {
    /// They end there.
    Exact,
    /// One lies across: they are not those that were announced.
    Across,
    /// A line says that what came of it ends here.
    Cut(u64),
    /// They cannot be read.
    Broken,
}

/// What stands somewhere in a file: its bytes.
enum Frame {
    Whole(usize),
    Line(usize, Option<Annotation>),
    /// The file ends in the midst of it.
    Partial,
    Broken,
}

/// Whether every argument is followed by the end of a line, of which the decoder takes any two bytes.
fn ends_right(command: Args<'_>, input: &[u8]) -> bool {
    command.iter().all(|arg| {
        let end = arg.as_ptr() as usize - input.as_ptr() as usize + arg.len();
        input.get(end..end + 2) == Some(b"\r\n")
    })
}

/// A search for `#SUM` lines in what cannot be read in order.
struct Scan {
    file: Arc<dyn StoredFile>,
    from: u64,
    size: u64,
}

impl Scan {
    /// Whether a line that is right tells that the file was synced beyond `from`.
    fn synced_later(&self) -> Result<bool, StorageError> {
        let mut window = vec![0; JOURNAL_READ_BYTES];
        let mut position = self.from;
        while position < self.size {
            let read = self.file.read_at(position, &mut window)?;
            if read == 0 {
                break;
            }
            let bytes = &window[..read];
            for at in (0..read).filter(|at| bytes[*at..].starts_with(b"#SUM:")) {
                if self.tells(position + at as u64)? {
                    return Ok(true);
                }
            }
            // A line can start in one window and end in the next.
            position += if read > ANNOTATION_BYTES_MAX { read - ANNOTATION_BYTES_MAX } else { read } as u64;
        }
        Ok(false)
    }

    /// Whether the line at `position` is right, with what it announces, and tells so.
    fn tells(&self, position: u64) -> Result<bool, StorageError> {
        let mut line = [0; ANNOTATION_BYTES_MAX];
        let read = self.file.read_at(position, &mut line)?;
        let Some(len) = line[..read].iter().position(|byte| *byte == b'\n') else { return Ok(false) };
        let Some(Annotation::Sum(sum)) = Annotation::parse(&line[..len]) else { return Ok(false) };
        let from = position + len as u64 + 1;
        if sum.synced < self.from || from.saturating_add(sum.bytes) > self.size {
            return Ok(false);
        }
        let mut bytes = vec![0; sum.bytes as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(from + filled as u64, &mut bytes[filled..])? {
                0 => return Ok(false),
                read => filled += read,
            }
        }
        Ok(sum.is_of(&bytes))
    }
}
