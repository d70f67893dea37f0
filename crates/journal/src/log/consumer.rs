//! Readers of the log.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::task::Waker;

use super::segment::Bytes;
use super::{Log, Place, finish};

/// The bytes that were asked for are not in memory (any more): the files may have them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// What was asked for.
    pub asked: u64,
    /// The first offset that is there.
    pub start: u64,
    /// The offset after the last that is there.
    pub end: u64,
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {} is not in memory, which has {} to {}", self.asked, self.start, self.end)
    }
}

impl std::error::Error for Gone {}

/// A run of bytes of the log, shared with it: cloning copies nothing. It ends at a record's boundary.
#[derive(Clone)]
pub struct Part {
    start: u64,
    bytes: Bytes,
    at: usize,
    len: usize,
    db_after: Option<u32>,
}

impl Part {
    /// Offset of the first byte.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Offset after the last byte.
    pub fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    /// The database that is selected after these bytes.
    pub fn db_after(&self) -> Option<u32> {
        self.db_after
    }
}

impl Deref for Part {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `Consumer::read` made the part from a piece, under the log's lock, and `bytes` keeps the segment from
        // being reused as long as the part lives.
        #[allow(unsafe_code)]
        unsafe {
            self.bytes.read(self.at..self.at + self.len)
        }
    }
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Part({}..{})", self.start(), self.end())
    }
}

impl Log {
    /// A reader that starts at `from`, which may lie within a record. What it has not released stays in memory if it is
    /// *required*: writers are held up in the end ([`Log::has_room`]). Another may find itself left behind.
    pub fn consumer(self: &Arc<Log>, from: u64, is_required: bool) -> Result<Consumer, Gone> {
        self.enter(Place { offset: from, is_required, retained_bytes_max: 0, asleep: None })
    }

    /// A reader that starts at `from`. What it has not released stays in memory, but no more than `bytes_max` up to the
    /// end, and nobody is held up for it. With `u64::MAX` who has one bounds it.
    pub fn retaining_consumer(self: &Arc<Log>, from: u64, bytes_max: u64) -> Result<Consumer, Gone> {
        self.enter(Place { offset: from, is_required: false, retained_bytes_max: bytes_max, asleep: None })
    }

    fn enter(self: &Arc<Log>, place: Place) -> Result<Consumer, Gone> {
        let from = place.offset;
        let mut state = self.tail.state.lock();
        let (start, end) = (state.start(), state.end);
        if !(start..=end).contains(&from) {
            return Err(Gone { asked: from, start, end });
        }
        let place = Some(place);
        let id = state.consumers.iter().position(Option::is_none).unwrap_or(state.consumers.len());
        if id == state.consumers.len() {
            state.consumers.push(place);
        } else {
            state.consumers[id] = place;
        }
        self.publish_held(&state);
        Ok(Consumer { log: Arc::clone(self), id, held: from, generation: state.generation })
    }
}

/// One reader of the log. What it reads and what it still holds are two things: a file is read from long before what it
/// wrote is safe.
#[derive(Debug)]
pub struct Consumer {
    log: Arc<Log>,
    id: usize,
    held: u64,
    generation: u64,
}

impl Consumer {
    /// The log it reads.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// The offset up to which it has released everything.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Appends to `parts` what follows offset `from`: all of it, or whole parts of `bytes_max` and more bytes together.
    /// Each part ends at a record's boundary; a large record is one part however large. Nothing when `from` is the end.
    ///
    /// True if a file is to begin at `from` ([`Log::begin_file`]); no parts reach beyond the next such place.
    pub fn read(&self, from: u64, bytes_max: usize, parts: &mut Vec<Part>) -> Result<bool, Gone> {
        let state = self.log.tail.state.lock();
        let (start, end) = (state.start(), state.end);
        if self.generation != state.generation || !(start..=end).contains(&from) {
            return Err(Gone { asked: from, start, end });
        }
        let first = state.pieces.partition_point(|piece| piece.end() <= from);
        let next_file = state.file_starts.iter().map(|file_start| file_start.offset).find(|at| *at > from);
        let next_file = next_file.unwrap_or(u64::MAX);
        let mut bytes = 0;
        for piece in state.pieces.iter().skip(first).take_while(|piece| piece.start < next_file) {
            let skipped = from.saturating_sub(piece.start) as usize;
            let part = Part {
                start: piece.start + skipped as u64,
                bytes: piece.bytes.clone(),
                at: piece.at + skipped,
                len: piece.len - skipped,
                db_after: piece.db_after,
            };
            bytes += part.len;
            parts.push(part);
            if bytes >= bytes_max {
                break;
            }
        }
        Ok(state.file_starts.iter().any(|file_start| file_start.offset == from))
    }

    /// Says that nothing before `to` is needed any more. Going back changes nothing.
    pub fn release(&mut self, to: u64) {
        if to <= self.held {
            return;
        }
        self.held = to;
        let mut state = self.log.tail.state.lock();
        if self.generation != state.generation {
            return;
        }
        if let Some(place) = &mut state.consumers[self.id] {
            place.offset = to;
        }
        self.log.publish_held(&state);
        state.trim();
        finish(state);
    }

    /// True if there is something to read at `from` already, or the consumer is [`Gone`]. If not, `waker` is woken once
    /// by the next append, and by no other: while a consumer is busy, appending costs no system call.
    pub fn is_ready(&self, from: u64, waker: &Waker) -> bool {
        let mut state = self.log.tail.state.lock();
        if state.end > from || self.generation != state.generation {
            return true;
        }
        if let Some(place) = &mut state.consumers[self.id] {
            place.asleep = Some((from, waker.clone()));
            state.wakes_at = state.wakes_at.min(from);
        }
        false
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let mut state = self.log.tail.state.lock();
        state.consumers[self.id] = None;
        while state.consumers.last().is_some_and(Option::is_none) {
            state.consumers.pop();
        }
        self.log.publish_held(&state);
        state.trim();
        finish(state);
    }
}
