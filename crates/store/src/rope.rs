//! Long strings: chunks of 16 KiB in groups of 128, both shared between clones.
//!
//! Invariant: every group but the last has `GROUP_CHUNKS` chunks, every chunk but the last `CHUNK_BYTES` bytes; no
//! group and no chunk is empty. So position `p` is byte `p % CHUNK_BYTES` of chunk `p / CHUNK_BYTES`.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use crate::sharing::own;

/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = 16 * 1024;
/// Chunks of a group: a group spans 2 MiB, so that the largest string (512 MiB) has 256 groups.
const GROUP_CHUNKS: usize = 128;

/// What gaps are filled with: a long gap shares one chunk.
static ZEROS: LazyLock<Chunk> = LazyLock::new(|| Chunk(Arc::new(vec![0; CHUNK_BYTES])));

/// A handle on one chunk: its bytes stay what they are for as long as it lives.
#[derive(Clone)]
pub struct Chunk(Arc<Vec<u8>>);

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

type Group = Vec<Chunk>;

/// A byte string too long to be one allocation. `Clone` is O(1); a writer copies the chunks it touches and their
/// paths.
#[derive(Clone, Default)]
pub struct LongString {
    groups: Arc<Vec<Arc<Group>>>,
    len: usize,
}

impl LongString {
    /// The empty string.
    pub fn new() -> Self {
        LongString::default()
    }

    /// A copy of `bytes`.
    pub fn from_slice(bytes: &[u8]) -> Self {
        let chunks: Vec<Chunk> =
            bytes.chunks(CHUNK_BYTES).map(|part| Chunk(Arc::new(part.to_vec()))).collect();
        let groups = chunks.chunks(GROUP_CHUNKS).map(|group| Arc::new(group.to_vec())).collect();
        LongString { groups: Arc::new(groups), len: bytes.len() }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A copy of the bytes in `range`, which is cut at the string's end.
    pub fn read(&self, range: Range<usize>) -> Vec<u8> {
        let end = range.end.min(self.len);
        let mut bytes = Vec::with_capacity(end.saturating_sub(range.start));
        let mut at = range.start;
        while at < end {
            let part = self.piece(at);
            let part = &part[..part.len().min(end - at)];
            bytes.extend_from_slice(part);
            at += part.len();
        }
        bytes
    }

    /// The bytes from `at`, which must be below the length, to the end of its chunk.
    pub fn piece(&self, at: usize) -> &[u8] {
        let chunk = at / CHUNK_BYTES;
        &self.groups[chunk / GROUP_CHUNKS][chunk % GROUP_CHUNKS].as_ref()[at % CHUNK_BYTES..]
    }

    /// As [`LongString::piece`], for writing in place.
    pub fn piece_mut(&mut self, at: usize) -> &mut [u8] {
        let chunk = at / CHUNK_BYTES;
        let groups = own(&mut self.groups, list_bytes);
        let group = own(&mut groups[chunk / GROUP_CHUNKS], list_bytes);
        &mut own(&mut group[chunk % GROUP_CHUNKS].0, list_bytes)[at % CHUNK_BYTES..]
    }

    /// A copy of the whole.
    pub fn to_vec(&self) -> Vec<u8> {
        self.read(0..self.len)
    }

    /// Writes `bytes` from `offset` on; a gap before `offset` is filled with zeros. Empty `bytes` change nothing.
    pub fn write_at(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if offset > self.len {
            self.append_zeros(offset - self.len);
        }
        let overlap = bytes.len().min(self.len - offset);
        let (mut rest, mut at) = (&bytes[..overlap], offset);
        while !rest.is_empty() {
            let piece = self.piece_mut(at);
            let (part, later) = rest.split_at(rest.len().min(piece.len()));
            piece[..part.len()].copy_from_slice(part);
            at += part.len();
            rest = later;
        }
        self.append(&bytes[overlap..]);
    }

    /// Appends `bytes`.
    pub fn append(&mut self, bytes: &[u8]) {
        let (fill, rest) = bytes.split_at(bytes.len().min(self.room()));
        if !fill.is_empty()
            && let Some(chunk) = self.last_chunk()
        {
            // Steps of a quarter, up to the chunk: a string that grows by single bytes is not copied each time.
            if chunk.capacity() - chunk.len() < fill.len() {
                let step = fill.len().max(chunk.len() / 4).min(CHUNK_BYTES - chunk.len());
                chunk.reserve_exact(step);
            }
            chunk.extend_from_slice(fill);
            self.len += fill.len();
        }
        for part in rest.chunks(CHUNK_BYTES) {
            self.push_chunk(Chunk(Arc::new(part.to_vec())));
        }
    }

    /// The chunks from the one that holds byte `start` on. The first chunk begins at or before `start`, at a multiple
    /// of [`CHUNK_BYTES`]. Owns a clone of the string.
    pub fn chunks(&self, start: usize) -> Chunks {
        Chunks { groups: Arc::clone(&self.groups), next: start / CHUNK_BYTES }
    }

    /// Bytes of memory, what is shared with clones included. O(1).
    pub fn memory_bytes(&self) -> usize {
        let chunk_count = self.len.div_ceil(CHUNK_BYTES);
        self.len + chunk_count * (size_of::<Chunk>() + 40) + self.groups.len() * 48 + 40
    }

    /// Number of allocation groups that dropping the last clone frees: a reaper's measure. O(1).
    pub fn weight(&self) -> usize {
        self.len.div_ceil(CHUNK_BYTES) + self.groups.len()
    }

    /// True if both are clones between which nothing was written.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.groups, &other.groups)
    }

    /// Bytes that the last chunk can still take.
    fn room(&self) -> usize {
        self.len.next_multiple_of(CHUNK_BYTES) - self.len
    }

    fn last_chunk(&mut self) -> Option<&mut Vec<u8>> {
        let group = own(&mut self.groups, list_bytes).last_mut()?;
        own(group, list_bytes).last_mut().map(|chunk| own(&mut chunk.0, list_bytes))
    }

    fn push_chunk(&mut self, chunk: Chunk) {
        self.len += chunk.0.len();
        let groups = own(&mut self.groups, list_bytes);
        match groups.last_mut() {
            Some(group) if group.len() < GROUP_CHUNKS => own(group, list_bytes).push(chunk),
            _ => groups.push(Arc::new(vec![chunk])),
        }
    }

    /// Appends `count` zero bytes. A long run of them shares one chunk.
    pub fn append_zeros(&mut self, count: usize) {
        let zeros = ZEROS.as_ref();
        let fill = count.min(self.room());
        self.append(&zeros[..fill]);
        let rest = count - fill;
        for _ in 0..rest / CHUNK_BYTES {
            self.push_chunk(ZEROS.clone());
        }
        self.append(&zeros[..rest % CHUNK_BYTES]);
    }
}

/// Bytes behind a list.
fn list_bytes<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

/// The chunks of a clone of a string, which it owns.
pub struct Chunks {
    groups: Arc<Vec<Arc<Group>>>,
    next: usize,
}

impl Iterator for Chunks {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        let chunk = self.groups.get(self.next / GROUP_CHUNKS)?.get(self.next % GROUP_CHUNKS)?.clone();
        self.next += 1;
        Some(chunk)
    }
}
