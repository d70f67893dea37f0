//! What a connection still has to be sent.
//!
//! Replies are bytes, big values that are sent from where they lie, and streams: replies too large to
//! be built whole, of which a piece is made whenever there is room. Invariant *reply-order*: parts leave
//! in the order they were queued; bytes never pass a stream that is not finished.
//!
//! A *gate* stands before a reply that may not leave yet: it and all behind it are kept until the log has reached the
//! gate's offset ([`Output::open`]). Invariant *gate-order*: of those that wait in one way, gates further back have higher
//! offsets, and each has bytes behind it.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use base::limits::{
    OUTPUT_BUFFER_BYTES, OUTPUT_GATES_MAX, OUTPUT_PART_BYTES, SHARE_BYTES_MIN, STREAM_PIECE_BYTES,
};
use journal::log;
use resp::{Encoder, Proto};
use store::Chunk;

use crate::gates::{Awaits, Safe};

/// A reply made piece by piece. Holds what it reads from, as O(1) clones, and no lock.
pub trait Stream: Send {
    /// Writes the next element or few; false when nothing is left, or this was the last.
    fn fill(&mut self, out: &mut Encoder<'_>) -> bool;
}

impl<F: FnMut(&mut Encoder<'_>) -> bool + Send> Stream for F {
    fn fill(&mut self, out: &mut Encoder<'_>) -> bool {
        self(out)
    }
}

enum Part {
    Bytes(Vec<u8>),
    Chunk(Chunk),
    Shared(Arc<[u8]>),
    Log(log::Part),
    Stream(Box<dyn Stream>, Proto),
}

impl Part {
    /// Bytes that are there to be sent: none of a stream's.
    fn queued_bytes(&self) -> usize {
        match self {
            Part::Bytes(bytes) => bytes.len(),
            Part::Chunk(chunk) => chunk.as_ref().len(),
            Part::Shared(bytes) => bytes.len(),
            Part::Log(part) => part.len(),
            Part::Stream(..) => 0,
        }
    }

    /// What it takes up of the positions that gates are told by: its bytes, of a stream one.
    fn span(&self) -> u64 {
        match self {
            Part::Stream(..) => 1,
            part => part.queued_bytes() as u64,
        }
    }
}

/// What waits for the log.
#[derive(Clone, Copy)]
struct Gate {
    /// Where it stands.
    position: u64,
    /// What the log has to reach, and in what way.
    offset: u64,
    awaits: Awaits,
    /// Replies that wait for it, for statistics.
    replies: u32,
}

/// The unsent replies of one connection.
#[derive(Default)]
pub struct Output {
    /// What stands before the tail. An idle connection has none.
    queue: Option<Box<Queue>>,
    /// Bytes after the last part: where commands write. Empty capacity when idle.
    tail: Vec<u8>,
    /// Bytes of the first part (or of the tail, if there is no part) that were sent already.
    sent: usize,
}

const _: () = assert!(size_of::<Output>() <= 40, "every idle connection carries one");

/// Parts in the order in which they leave, and what is known of them.
#[derive(Default)]
struct Queue {
    parts: VecDeque<Part>,
    /// Bytes in `parts`, streams not counted.
    queued_bytes: usize,
    streams: usize,
    /// Streams that have made everything. What they hold may be large, and the last of its kind.
    finished: Vec<Box<dyn Stream>>,
    /// Closed gates, in order.
    gates: VecDeque<Gate>,
    /// Position of the start of the first part, or of the tail if there is none. Bytes and streams take up positions (see
    /// [`Part::span`]), what streams have made does not: it stands before its stream.
    position: u64,
    /// The first part was made by the stream behind it, or by one that has made everything.
    starts_with_piece: bool,
}

impl Queue {
    fn push(&mut self, part: Part) {
        self.queued_bytes += part.queued_bytes();
        self.streams += usize::from(matches!(part, Part::Stream(..)));
        self.parts.push_back(part);
    }

    /// Position after the parts up to this one, which is not counted: the tail's for their number.
    fn position_of(&self, part: usize) -> u64 {
        let piece = usize::from(self.starts_with_piece);
        // Mostly near the end of many.
        let behind: u64 = self.parts.range(part.max(piece)..).map(Part::span).sum();
        let of_piece =
            if self.starts_with_piece { self.parts.front().map_or(0, Part::queued_bytes) } else { 0 };
        self.position + (self.queued_bytes - of_piece + self.streams) as u64 - behind
    }

    fn drop_last(&mut self) {
        if let Some(part) = self.parts.pop_back() {
            self.queued_bytes -= part.queued_bytes();
            self.streams -= usize::from(matches!(part, Part::Stream(..)));
        }
    }
}

impl Output {
    /// Nothing to send.
    pub fn new() -> Output {
        Output::default()
    }

    /// The buffer that replies are appended to.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    /// Lends a buffer to write to, if there is none: idle connections own no buffer.
    #[inline]
    pub fn lend(&mut self, buffer: impl FnOnce() -> Vec<u8>) {
        if self.tail.capacity() == 0 {
            self.tail = buffer();
        }
    }

    /// Takes the buffer back once everything is sent.
    #[inline]
    pub fn reclaim(&mut self) -> Option<Vec<u8>> {
        if !self.is_empty() {
            return None;
        }
        if let Some(queue) = &self.queue {
            debug_assert!(queue.gates.is_empty(), "gate-order: a gate has bytes behind it");
            if queue.finished.is_empty() {
                self.queue = None;
            }
        }
        if self.tail.capacity() == 0 {
            return None;
        }
        self.sent = 0;
        let mut buffer = std::mem::take(&mut self.tail);
        buffer.clear();
        Some(buffer)
    }

    /// True if nothing is left to send, now or later.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.has_no_parts() && self.tail.len() == self.sent
    }

    /// True if a reply is still being made.
    #[inline]
    pub fn is_streaming(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.streams > 0)
    }

    /// True if nothing can be sent before [`Output::refill`] has made more.
    #[inline]
    pub fn is_at_stream(&self) -> bool {
        matches!(self.queue.as_ref().and_then(|queue| queue.parts.front()), Some(Part::Stream(..)))
    }

    /// Bytes waiting to be sent.
    #[inline]
    pub fn pending_bytes(&self) -> usize {
        self.queued_bytes() + self.tail.len() - self.sent
    }

    /// Memory that the unsent replies hold.
    pub fn memory_bytes(&self) -> usize {
        self.queued_bytes() + self.tail.capacity()
    }

    /// Parts waiting (`oll` of CLIENT LIST).
    pub fn parts(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.parts.len())
    }

    #[inline]
    fn has_no_parts(&self) -> bool {
        self.queue.as_ref().is_none_or(|queue| queue.parts.is_empty())
    }

    #[inline]
    fn queued_bytes(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.queued_bytes)
    }

    fn push(&mut self, part: Part) {
        self.queue.get_or_insert_default().push(part);
    }

    /// Empties the tail, of which everything is sent.
    fn clear_tail(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.position += self.tail.len() as u64;
        }
        self.tail.clear();
        self.sent = 0;
    }

    fn seal_tail(&mut self) {
        // With no part before it, the tail itself may be half sent: `sent` goes with it.
        if self.tail.len() > if self.has_no_parts() { self.sent } else { 0 } {
            let bytes = std::mem::take(&mut self.tail);
            self.push(Part::Bytes(bytes));
        } else if self.has_no_parts() {
            self.clear_tail();
        }
    }

    /// Ends the tail as a part once it is long, so that no buffer ever grows by being copied.
    #[inline]
    pub fn seal_if_long(&mut self) {
        if self.tail.len() >= OUTPUT_PART_BYTES {
            self.seal_tail();
            self.tail = Vec::with_capacity(OUTPUT_BUFFER_BYTES);
        }
    }

    /// Queues a big value's chunk, which is sent without being copied.
    pub fn push_chunk(&mut self, chunk: Chunk) {
        self.seal_tail();
        self.push(Part::Chunk(chunk));
    }

    /// Queues bytes that many connections are sent. Short ones are copied: sending a part costs more than that.
    pub fn push_shared(&mut self, bytes: Arc<[u8]>) {
        if bytes.len() < SHARE_BYTES_MIN {
            self.tail.extend_from_slice(&bytes);
            self.seal_if_long();
            return;
        }
        self.seal_tail();
        self.push(Part::Shared(bytes));
    }

    /// Queues a part of the log, which is sent without being copied.
    pub fn push_log(&mut self, part: log::Part) {
        self.seal_tail();
        self.push(Part::Log(part));
    }

    /// Queues bytes that are many.
    pub fn push_bytes(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.seal_tail();
            self.push(Part::Bytes(bytes));
        }
    }

    /// Queues the rest of a reply that is made piece by piece.
    pub fn push_stream(&mut self, stream: Box<dyn Stream>, proto: Proto) {
        self.seal_tail();
        self.push(Part::Stream(stream, proto));
    }

    /// Queues everything of another output after this one's.
    pub fn append(&mut self, mut other: Output) {
        debug_assert_eq!(other.sent, 0, "append-unsent");
        if other.has_gates() {
            let end = self.end();
            let Some(queue) = &mut other.queue else { unreachable!("gates stand in a queue") };
            for gate in std::mem::take(&mut queue.gates) {
                self.add_gate(Gate { position: end + gate.position - queue.position, ..gate });
            }
        }
        if other.has_no_parts() {
            self.tail.extend_from_slice(&other.tail);
            return;
        }
        other.seal_tail();
        self.seal_tail();
        for part in other.queue.into_iter().flat_map(|queue| queue.parts) {
            self.push(part);
        }
    }

    /// Position of what is written next.
    fn end(&self) -> u64 {
        self.queue.as_ref().map_or(0, |queue| queue.position_of(queue.parts.len())) + self.tail.len() as u64
    }

    /// Keeps what was written since `mark`, and all that follows, until the log is safe up to `offset` in the ways that are
    /// awaited. Nothing was sent since. False if nothing was written.
    pub fn gate(&mut self, mark: Mark, offset: u64, awaits: Awaits) -> bool {
        let start = self.queue.as_ref().map_or(0, |queue| queue.position_of(mark.parts)) + mark.tail as u64;
        if self.end() == start {
            return false;
        }
        self.add_gate(Gate { position: start, offset, awaits, replies: 1 });
        true
    }

    fn add_gate(&mut self, gate: Gate) {
        let gates = &mut self.queue.get_or_insert_default().gates;
        let is_full = gates.len() == OUTPUT_GATES_MAX;
        match gates.back_mut() {
            // It waits for the gate before it, and for nothing more.
            Some(last) if gate.offset <= last.offset && gate.awaits.is_in(last.awaits) => {
                last.replies += gate.replies;
            }
            // One sync opens most of them: that some wait for the last of them is no loss.
            Some(last) if is_full => {
                (last.offset, last.awaits) = (gate.offset.max(last.offset), last.awaits.or(gate.awaits));
                last.replies += gate.replies;
            }
            _ => gates.push_back(gate),
        }
    }

    /// Opens the gates up to whose offsets the log is safe; returns how many replies waited for them.
    pub fn open(&mut self, safe: impl Into<Safe>) -> u64 {
        let Some(queue) = &mut self.queue else { return 0 };
        let (safe, mut replies) = (safe.into(), 0);
        while let Some(gate) = queue.gates.pop_front_if(|gate| gate.offset <= safe.to(gate.awaits)) {
            replies += u64::from(gate.replies);
        }
        replies
    }

    /// True if a gate is closed, be it the first thing or further back.
    #[inline]
    pub fn has_gates(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| !queue.gates.is_empty())
    }

    /// What the log has to reach before anything more can be sent; `None` if something can.
    #[inline]
    pub fn waits_for(&self) -> Option<u64> {
        self.closed_gate().map(|(offset, _)| offset)
    }

    /// As [`Output::waits_for`], and in what way.
    #[inline]
    pub fn closed_gate(&self) -> Option<(u64, Awaits)> {
        let queue = self.queue.as_ref()?;
        let gate = queue.gates.front()?;
        let is_first = gate.position == queue.position + self.sent as u64 && !queue.starts_with_piece;
        is_first.then_some((gate.offset, gate.awaits))
    }

    /// The gate that opens before all others, be it the first thing or further back.
    #[inline]
    pub(crate) fn first_gate(&self) -> Option<(u64, Awaits)> {
        let gate = self.queue.as_ref()?.gates.front()?;
        Some((gate.offset, gate.awaits))
    }

    /// Replies that wait for closed gates.
    pub fn gated_replies(&self) -> u64 {
        self.queue.iter().flat_map(|queue| &queue.gates).map(|gate| u64::from(gate.replies)).sum()
    }

    /// A point to come back to with [`Output::rewind`].
    pub fn mark(&self) -> Mark {
        Mark { parts: self.parts(), tail: self.tail.len() }
    }

    /// Takes back what was written since `mark` (an error replaces a half-written reply, or CLIENT
    /// REPLY swallows it).
    pub fn rewind(&mut self, mark: Mark) {
        self.take_back(mark);
        let end = if self.has_gates() { self.end() } else { return };
        self.queue.iter_mut().for_each(|queue| queue.gates.retain(|gate| gate.position < end));
    }

    fn take_back(&mut self, mark: Mark) {
        let Some(queue) = self.queue.as_mut().filter(|queue| queue.parts.len() > mark.parts) else {
            self.tail.truncate(mark.tail);
            return;
        };
        while queue.parts.len() > mark.parts + 1 {
            queue.drop_last();
        }
        // The first part queued since the mark may be the sealed tail of before.
        if let Some(Part::Bytes(_)) = queue.parts.back() {
            let Some(Part::Bytes(mut bytes)) = queue.parts.pop_back() else { unreachable!("just seen") };
            queue.queued_bytes -= bytes.len();
            bytes.truncate(mark.tail);
            self.tail = bytes;
        } else {
            queue.drop_last();
            self.tail.clear();
        }
    }

    /// Makes the next piece if the first part is a stream: call it until it returns false, while
    /// there is room for more bytes.
    pub fn refill(&mut self) -> bool {
        let Some(queue) = &mut self.queue else { return false };
        let is_gated = queue.gates.front().is_some_and(|gate| gate.position == queue.position);
        let Some(Part::Stream(stream, proto)) = queue.parts.front_mut() else { return false };
        if is_gated {
            return false;
        }
        let mut piece = Vec::with_capacity(STREAM_PIECE_BYTES + STREAM_PIECE_BYTES / 8);
        let mut more = true;
        while more && piece.len() < STREAM_PIECE_BYTES {
            more = stream.fill(&mut Encoder::new(&mut piece, *proto));
        }
        if !more {
            if let Some(Part::Stream(stream, _)) = queue.parts.pop_front() {
                queue.finished.push(stream);
            }
            queue.streams -= 1;
            queue.position += 1;
        }
        if !piece.is_empty() {
            queue.queued_bytes += piece.len();
            queue.parts.push_front(Part::Bytes(piece));
            queue.starts_with_piece = true;
        }
        true
    }

    /// Streams that have made everything, for their clones to be freed elsewhere.
    #[inline]
    pub fn take_finished(&mut self) -> Vec<Box<dyn Stream>> {
        self.queue.as_mut().map_or_else(Vec::new, |queue| std::mem::take(&mut queue.finished))
    }

    /// The bytes that may be sent now, in order, as many slices as fit; returns how many.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        let mut skip = self.sent;
        // Up to which position bytes may leave, and where the next part stands.
        let (open_to, mut position) = self.queue.as_ref().map_or((u64::MAX, 0), |queue| {
            (queue.gates.front().map_or(u64::MAX, |gate| gate.position), queue.position)
        });
        let mut is_piece = self.queue.as_ref().is_some_and(|queue| queue.starts_with_piece);
        for part in self.queue.iter().flat_map(|queue| &queue.parts) {
            let bytes: &[u8] = match part {
                Part::Bytes(bytes) => bytes,
                Part::Chunk(chunk) => chunk.as_ref(),
                Part::Shared(bytes) => bytes,
                Part::Log(part) => part,
                Part::Stream(..) => return count,
            };
            let open = if is_piece { bytes.len() } else { bytes.len().min(clamped(open_to - position)) };
            if count == slices.len() {
                return count;
            }
            if open > skip {
                slices[count] = IoSlice::new(&bytes[skip..open]);
                count += 1;
            }
            if open < bytes.len() {
                return count;
            }
            skip = 0;
            position += if std::mem::take(&mut is_piece) { 0 } else { bytes.len() as u64 };
        }
        let open = self.tail.len().min(clamped(open_to - position));
        if count < slices.len() && open > skip {
            slices[count] = IoSlice::new(&self.tail[skip..open]);
            count += 1;
        }
        count
    }

    /// The bytes to send when there are only plain bytes: the usual case.
    #[inline]
    pub fn plain(&self) -> Option<&[u8]> {
        let is_plain =
            self.queue.as_ref().is_none_or(|queue| queue.parts.is_empty() && queue.gates.is_empty());
        is_plain.then(|| &self.tail[self.sent..])
    }

    /// All bytes, what streams have to make included, whatever gates there are; the buffer that was lent, if it sufficed.
    pub fn into_bytes(mut self) -> Vec<u8> {
        if self.has_no_parts() && self.sent == 0 {
            return self.tail;
        }
        let mut bytes = Vec::new();
        self.drain_into(&mut bytes);
        bytes
    }

    /// All bytes, what streams have to make included, whatever gates there are; nothing is left.
    pub fn drain_into(&mut self, bytes: &mut Vec<u8>) {
        self.open(u64::MAX);
        if let Some(plain) = self.plain() {
            bytes.extend_from_slice(plain);
            self.clear_tail();
            return;
        }
        while !self.is_empty() {
            while self.refill() {}
            let mut slices = [IoSlice::new(&[]); 64];
            let count = self.slices(&mut slices);
            let before = bytes.len();
            slices[..count].iter().for_each(|slice| bytes.extend_from_slice(slice));
            self.advance(bytes.len() - before);
        }
    }

    /// `count` bytes were sent.
    pub fn advance(&mut self, count: usize) {
        let mut left = self.sent + count;
        while let Some(queue) = &mut self.queue
            && let Some(part) = queue.parts.front()
            && !matches!(part, Part::Stream(..))
        {
            let len = part.queued_bytes();
            if left < len {
                break;
            }
            left -= len;
            // `sent` was part of the first part's bytes; from here on they are gone.
            queue.queued_bytes -= len;
            queue.position += if std::mem::take(&mut queue.starts_with_piece) { 0 } else { len as u64 };
            queue.parts.pop_front();
        }
        if self.has_no_parts() && left == self.tail.len() {
            self.clear_tail();
            left = 0;
        }
        self.sent = left;
    }
}

fn clamped(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// A point in an [`Output`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    parts: usize,
    tail: usize,
}

impl Mark {
    /// The start of an output of which nothing was sent.
    pub const START: Mark = Mark { parts: 0, tail: 0 };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(output: &mut Output, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while !output.is_empty() {
            while output.refill() {}
            let mut slices = [IoSlice::new(&[]); 4];
            let count = output.slices(&mut slices);
            let before = all.len();
            all.extend(slices[..count].iter().flat_map(|slice| slice.iter().copied()).take(step));
            let taken = all.len() - before;
            assert!(taken > 0, "an output that is not empty has something to send");
            output.advance(taken);
        }
        assert_eq!(output.pending_bytes(), 0);
        all
    }

    fn counter(upto: i64) -> Box<dyn Stream> {
        let mut next = 0;
        Box::new(move |out: &mut Encoder<'_>| {
            out.int(next);
            next += 1;
            next < upto
        })
    }

    #[test]
    fn parts_leave_in_order_whatever_the_step() {
        for step in [1, 7, 1000, 1 << 20] {
            let mut output = Output::new();
            let mut wanted = Vec::new();
            output.tail().extend_from_slice(b"first");
            output.push_stream(counter(300), Proto::V2);
            output.tail().extend_from_slice(b"middle");
            let long = store::LongString::from_slice(&[b'x'; 40_000]);
            long.chunks(0).for_each(|chunk| output.push_chunk(chunk));
            output.tail().extend_from_slice(b"last");
            wanted.extend_from_slice(b"first");
            (0..300).for_each(|n| wanted.extend_from_slice(format!(":{n}\r\n").as_bytes()));
            wanted.extend_from_slice(b"middle");
            wanted.resize(wanted.len() + 40_000, b'x');
            wanted.extend_from_slice(b"last");
            assert!(drain(&mut output, step) == wanted, "step {step}");
        }
    }

    /// What leaves when the log has reached `offset`, in steps of 3 bytes.
    fn drain_to(output: &mut Output, offset: u64) -> String {
        let mut all = Vec::new();
        output.open(offset);
        while !output.is_empty() {
            while output.refill() {}
            if output.waits_for().is_some() {
                break;
            }
            let mut slices = [IoSlice::new(&[]); 4];
            let count = output.slices(&mut slices);
            let before = all.len();
            all.extend(slices[..count].iter().flat_map(|slice| slice.iter().copied()).take(3));
            assert!(all.len() > before, "what does not wait can be sent");
            output.advance(all.len() - before);
        }
        String::from_utf8(all).expect("what the test wrote")
    }

    fn write(output: &mut Output, text: &str, offset: u64) {
        let mark = output.mark();
        output.tail().extend_from_slice(text.as_bytes());
        assert!(offset == 0 || output.gate(mark, offset, Awaits::DISK));
    }

    #[test]
    fn nothing_passes_a_closed_gate() {
        let mut output = Output::new();
        write(&mut output, "open ", 0);
        write(&mut output, "ten ", 10);
        write(&mut output, "behind ten ", 0);
        write(&mut output, "seven ", 7);
        write(&mut output, "twenty ", 20);
        assert_eq!((output.pending_bytes(), output.gated_replies(), output.has_gates()), (33, 3, true));
        assert_eq!(output.plain(), None);
        assert_eq!(drain_to(&mut output, 9), "open ");
        assert_eq!((output.waits_for(), output.pending_bytes()), (Some(10), 28));
        assert_eq!(drain_to(&mut output, 10), "ten behind ten seven ");
        assert_eq!((output.waits_for(), output.is_empty()), (Some(20), false));
        assert_eq!(drain_to(&mut output, 19), "");
        assert_eq!(drain_to(&mut output, 20), "twenty ");
        assert!(output.is_empty() && output.reclaim().is_some());
        write(&mut output, "plain", 0);
        assert_eq!(output.plain(), Some(&b"plain"[..]));
    }

    #[test]
    fn gates_stand_among_parts_and_streams_and_travel() {
        let long = store::LongString::from_slice(&[b'x'; 20_000]);
        for opened_first in [false, true] {
            let mut other = Output::new();
            write(&mut other, "free ", 0);
            let mark = other.mark();
            other.push_stream(counter(3), Proto::V2);
            assert!(other.gate(mark, 5, Awaits::DISK));
            write(&mut other, "six", 6);
            let mark = other.mark();
            long.chunks(0).for_each(|chunk| other.push_chunk(chunk));
            assert!(other.gate(mark, 7, Awaits::DISK));
            write(&mut other, "end", 8);
            let mut output = Output::new();
            write(&mut output, "before ", 0);
            if opened_first {
                assert_eq!(drain_to(&mut output, 0), "before ");
            }
            output.append(other);
            let first = drain_to(&mut output, 4);
            assert_eq!(first, if opened_first { "free " } else { "before free " });
            assert!(!output.refill() && output.is_at_stream() && output.waits_for() == Some(5));
            assert_eq!(drain_to(&mut output, 5), ":0\r\n:1\r\n:2\r\n");
            assert_eq!(drain_to(&mut output, 6), "six");
            assert_eq!(drain_to(&mut output, 7).len(), 20_000);
            assert_eq!(drain_to(&mut output, 8), "end");
        }
    }

    #[test]
    fn what_is_taken_back_leaves_no_gate() {
        let mut output = Output::new();
        let mark = output.mark();
        assert!(!output.gate(mark, 3, Awaits::DISK), "nothing was written");
        write(&mut output, "kept", 1);
        let mark = output.mark();
        write(&mut output, "gone", 2);
        output.push_stream(counter(2), Proto::V2);
        output.rewind(mark);
        assert_eq!((output.gated_replies(), drain_to(&mut output, 1)), (1, "kept".to_owned()));
        assert!(output.is_empty() && !output.has_gates());
    }

    #[test]
    fn gates_are_few() {
        let mut output = Output::new();
        for offset in 1..=1000 {
            write(&mut output, "x", offset);
        }
        assert_eq!(output.gated_replies(), 1000);
        assert!(output.queue.as_ref().is_some_and(|queue| queue.gates.len() == OUTPUT_GATES_MAX));
        assert_eq!(drain_to(&mut output, 3), "xxx");
        assert_eq!(output.gated_replies(), 997);
        let last_kept = OUTPUT_GATES_MAX as u64 - 1;
        assert_eq!(drain_to(&mut output, last_kept).len() as u64, last_kept - 3);
        assert_eq!(drain_to(&mut output, 999), "");
        assert_eq!(drain_to(&mut output, 1000).len() as u64, 1000 - last_kept);
    }

    #[test]
    fn rewinding_takes_back_all_that_followed() {
        let mut output = Output::new();
        output.tail().extend_from_slice(b"keep");
        output.advance(2);
        let mark = output.mark();
        output.tail().extend_from_slice(b"gone");
        output.rewind(mark);
        output.tail().extend_from_slice(b"gone");
        output.push_stream(counter(3), Proto::V2);
        output.tail().extend_from_slice(b"gone too");
        output.rewind(mark);
        assert!(!output.is_streaming());
        output.push_stream(counter(1), Proto::V2);
        let mark = output.mark();
        output.push_stream(counter(1), Proto::V2);
        output.rewind(mark);
        assert_eq!(drain(&mut output, 3), b"ep:0\r\n");
    }
}
