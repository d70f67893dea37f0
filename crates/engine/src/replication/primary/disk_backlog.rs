//! The stream on the disk, for replicas that are away for longer than memory reaches back.
//!
//! As long as all replicas acknowledge what they are sent, nothing is written here. What one lacks, be it connected or
//! lately gone, stays in memory up to [`SYNC_LOG_BYTES_MAX`]; then it goes to files without a name, in `dir`, up to
//! `repl-backlog-disk-size`. Nobody is held up for that: if the disk is too slow or fails, whoever lacked it is sent
//! everything. Where append-only files are written, these are what replicas go on from.
//!
//! # Invariants
//! - The chunks follow each other without a gap, and the last ends where the log in memory is kept from.

use std::collections::VecDeque;
use std::sync::Arc;

use base::limits::{
    BACKLOG_CHUNK_BYTES_MAX, BACKLOG_CHUNKS_MIN, BACKLOG_MEMORY_BYTES_MAX, BACKLOG_RETRY_MS,
    REPLICA_FETCH_BYTES, REPLICAS_REMEMBERED_MAX, SYNC_LOG_BYTES_MAX,
};
use journal::log::{Consumer, Gone};
use journal::storage::{Result as StorageResult, Storage};
use parking_lot::Mutex;

use super::full_sync::Spool;
use super::replica::{Place, Replica};
use crate::server::Server;

/// A run of the stream in a file of its own.
struct Chunk {
    /// Offset of its first byte.
    start: u64,
    spool: Spool,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.start + self.spool.written()
    }
}

/// A replica that is gone and may come back.
struct Absent {
    place: Place,
    /// It has everything before this offset.
    from: u64,
    since_ms: i64,
    /// As [`Replica`] has it.
    kept: Option<Consumer>,
}

/// The stream on the disk, and who may need it.
#[derive(Default)]
pub struct DiskBacklog {
    chunks: Mutex<VecDeque<Arc<Chunk>>>,
    absent: Mutex<Vec<Absent>>,
    keeper: Mutex<Keeper>,
}

/// Who moves the stream from memory to the disk.
#[derive(Default)]
struct Keeper {
    /// None: nobody lacks anything, or the disk has failed.
    consumer: Option<Consumer>,
    /// The offset up to which the stream is on the disk, if it has to be there.
    at: u64,
    /// Files made.
    count: u64,
    /// Unix milliseconds before which nothing is tried, since the disk has failed.
    retry_at_ms: i64,
}

impl DiskBacklog {
    /// The part of the stream that is there; with what memory has it goes on to the log's end.
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        let chunks = self.chunks.lock();
        Some((chunks.front()?.start, chunks.back()?.end()))
    }

    /// Bytes on the disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.range().map_or(0, |(start, end)| end - start)
    }

    /// A reader from `offset` on.
    pub(super) fn reader(self: &Arc<DiskBacklog>, offset: u64) -> Result<DiskReader, Gone> {
        let (start, end) = self.range().unwrap_or((0, 0));
        match (start..=end).contains(&offset) {
            true => Ok(DiskReader { backlog: self.clone(), offset }),
            false => Err(Gone { asked: offset, start, end }),
        }
    }

    /// Keeps what a replica lacks that has gone.
    pub(super) fn remember(&self, replica: &Replica, now_ms: i64) {
        let Some(from) = replica.needs_from().filter(|_| replica.has_acked()) else { return };
        let mut absent = self.absent.lock();
        if absent.len() == REPLICAS_REMEMBERED_MAX {
            absent.remove(0);
        }
        let kept = replica.take_kept();
        absent.push(Absent { place: replica.place(), from, since_ms: now_ms, kept });
    }

    /// A replica has come back: what it lacks is asked of itself from now on.
    pub(super) fn forget(&self, replica: &Replica) {
        let place = replica.place();
        self.absent.lock().retain(|absent| absent.place != place);
    }

    /// The stream has become another one: nobody comes back to what it was.
    pub(crate) fn forget_all(&self) {
        self.absent.lock().clear();
    }

    /// What the absent lack is kept for all.
    fn drop_kept(&self) {
        self.absent.lock().iter_mut().for_each(|absent| absent.kept = None);
    }

    /// True if a replica that is gone may come back.
    pub(super) fn is_awaited(&self) -> bool {
        !self.absent.lock().is_empty()
    }

    /// Forgets those who are gone since before a time, or lack more than there is.
    fn forget_lost(&self, gone_before_ms: i64) {
        let start = self.chunks.lock().front().map_or(0, |chunk| chunk.start);
        self.absent.lock().retain(|absent| absent.from >= start && absent.since_ms >= gone_before_ms);
    }

    /// What the one lacks of the absent that has least.
    fn absent_from(&self) -> Option<u64> {
        self.absent.lock().iter().map(|absent| absent.from).min()
    }

    /// Drops what nobody lacks, and what is too much.
    fn trim(&self, needed_from: u64, bytes_max: u64) {
        let mut dropped = Vec::new();
        let mut chunks = self.chunks.lock();
        while let Some(first) = chunks.front() {
            let is_over = chunks.back().is_some_and(|last| last.end() - first.start > bytes_max);
            if first.end() > needed_from && !is_over {
                break;
            }
            dropped.extend(chunks.pop_front());
        }
        // Closing a large file takes long, and workers look at the list.
        drop(chunks);
        drop(dropped);
    }

    /// Drops all.
    fn clear(&self) {
        self.trim(u64::MAX, 0);
    }

    /// The chunk that is written to, or a new one that starts at `at`.
    fn chunk(
        &self,
        storage: &dyn Storage,
        name: &dyn Fn() -> String,
        at: u64,
        bytes_max: u64,
    ) -> StorageResult<Arc<Chunk>> {
        let chunk_bytes = (bytes_max / BACKLOG_CHUNKS_MIN).min(BACKLOG_CHUNK_BYTES_MAX);
        let last = self.chunks.lock().back().cloned();
        if let Some(last) = last.filter(|last| last.spool.written() < chunk_bytes) {
            return Ok(last);
        }
        let chunk = Arc::new(Chunk { start: at, spool: Spool::open(storage, &name())? });
        self.chunks.lock().push_back(chunk.clone());
        Ok(chunk)
    }
}

impl Keeper {
    /// Begins to keep the stream from `needed_from` on, or from where memory has it.
    fn begin(&mut self, server: &Server, needed_from: u64) {
        let from = needed_from.max(server.log.start()).min(server.log.end());
        // If it has just gone, the next step begins later.
        self.consumer = server.log.retaining_consumer(from, BACKLOG_MEMORY_BYTES_MAX).ok();
        self.at = from;
    }

    /// Moves to the disk what memory should not hold; true if there was something.
    fn step(&mut self, server: &Server, storage: &dyn Storage, bytes_max: u64) -> Result<bool, String> {
        let (log, backlog) = (&server.log, &server.replication.replicas.on_disk);
        let Some(consumer) = &mut self.consumer else { return Ok(false) };
        if log.end().saturating_sub(self.at) <= SYNC_LOG_BYTES_MAX {
            return Ok(false);
        }
        let mut parts = Vec::new();
        while log.end().saturating_sub(self.at) > SYNC_LOG_BYTES_MAX / 2 {
            let gone = |gone: Gone| format!("the disk is slower than what is written: {gone}");
            consumer.read(self.at, REPLICA_FETCH_BYTES, &mut parts).map_err(gone)?;
            let name = || format!("temp-backlog-{}-{}.log", server.process.pid, self.count);
            let chunk =
                backlog.chunk(storage, &name, self.at, bytes_max).map_err(|error| error.to_string())?;
            self.count += 1;
            for part in parts.drain(..) {
                chunk.spool.append(&part).map_err(|error| error.to_string())?;
            }
            // What is released is on the disk already: who finds it gone from memory finds it there.
            self.at = chunk.end();
            consumer.release(self.at);
            backlog.trim(0, bytes_max);
        }
        Ok(true)
    }
}

impl Server {
    /// Sees to it that what replicas lack stays somewhere. To be called every now and then, by one thread, which may
    /// wait for the disk; soon again, if it says so.
    pub fn tend_disk_backlog(&self, storage: &dyn Storage) -> bool {
        let (backlog, now_ms) = (&self.replication.replicas.on_disk, self.clock.now().unix_ms);
        let ttl_s = self.config.int("repl-backlog-ttl");
        backlog.forget_lost(if ttl_s > 0 { now_ms - ttl_s * 1000 } else { i64::MIN });
        let mut keeper = backlog.keeper.lock();
        let bytes_max = self.disk_backlog_bytes();
        let needed_from = self.replicas_need_from().filter(|from| bytes_max > 0 && !self.is_in_files(*from));
        let Some(needed_from) = needed_from.filter(|_| self.is_log_kept()) else {
            keeper.consumer = None;
            self.drop_kept_one_by_one();
            backlog.clear();
            return false;
        };
        let range = backlog.range();
        let begins_late = range.is_none() && needed_from < keeper.at;
        if (keeper.consumer.is_none() && now_ms >= keeper.retry_at_ms) || begins_late {
            backlog.clear();
            keeper.begin(self, needed_from);
        }
        if keeper.consumer.is_some() {
            // From here on it is kept for all.
            self.drop_kept_one_by_one();
        }
        backlog.trim(needed_from, bytes_max);
        if needed_from > keeper.at {
            keeper.at = needed_from.min(self.log.end());
            let at = keeper.at;
            keeper.consumer.iter_mut().for_each(|consumer| consumer.release(at));
        }
        match keeper.step(self, storage, bytes_max) {
            Ok(has_moved) => has_moved,
            Err(reason) => {
                self.notice(&format!("The stream that replicas lack is not kept on the disk: {reason}"));
                (keeper.consumer, keeper.retry_at_ms) = (None, now_ms + BACKLOG_RETRY_MS);
                backlog.clear();
                false
            }
        }
    }

    /// What a replica lacks that begins to follow at `offset` stays in memory by this, until
    /// [`Server::tend_disk_backlog`] takes care of it.
    pub(super) fn keep_for_replica(&self, offset: u64) -> Option<Consumer> {
        let is_wanted = self.disk_backlog_bytes() > 0 && self.files_backlog().is_none();
        is_wanted.then(|| self.log.retaining_consumer(offset, BACKLOG_MEMORY_BYTES_MAX).ok()).flatten()
    }

    /// `repl-backlog-disk-size`.
    pub(crate) fn disk_backlog_bytes(&self) -> u64 {
        self.config.int("repl-backlog-disk-size").max(0) as u64
    }

    /// Lets go of what is kept in memory for single replicas, connected or gone.
    fn drop_kept_one_by_one(&self) {
        let replicas = &self.replication.replicas;
        replicas.list().iter().for_each(|replica| drop(replica.take_kept()));
        replicas.on_disk.drop_kept();
    }

    /// What the one lacks that has least: of the replicas that are connected, and of those that may come back.
    fn replicas_need_from(&self) -> Option<u64> {
        let replicas = &self.replication.replicas;
        let from = replicas.needed_from().min(replicas.on_disk.absent_from().unwrap_or(u64::MAX));
        (from != u64::MAX).then_some(from)
    }

    fn is_in_files(&self, offset: u64) -> bool {
        let files = self.files_backlog().and_then(|files| files.range());
        files.is_some_and(|(from, end)| (from..=end).contains(&offset))
    }
}

/// Reads the stream from the disk, up to where memory has it.
pub struct DiskReader {
    backlog: Arc<DiskBacklog>,
    offset: u64,
}

impl DiskReader {
    /// Offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes; none where memory has them.
    pub(super) fn read(&mut self) -> Result<Vec<u8>, String> {
        let chunks = self.backlog.chunks.lock();
        let is_there = |chunk: &&Arc<Chunk>| (chunk.start..chunk.end()).contains(&self.offset);
        // Most are read in order, and all chunks but the last are as long.
        let Some(chunk) = chunks.iter().find(is_there).cloned() else { return Ok(Vec::new()) };
        drop(chunks);
        let bytes = chunk.spool.read(self.offset - chunk.start).map_err(|error| error.to_string())?;
        self.offset += bytes.len() as u64;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use journal::storage::{Faults, SimulatedStorage};

    use super::*;

    /// A backlog that has the stream from 1,000 on, which is `bytes`, in chunks of 10 bytes.
    fn backlog(storage: &SimulatedStorage, bytes: &[u8]) -> Arc<DiskBacklog> {
        let backlog = Arc::new(DiskBacklog::default());
        for (number, byte) in bytes.iter().enumerate() {
            let name = || format!("chunk-{number}");
            let chunk = backlog.chunk(storage, &name, 1000 + number as u64, 10 * BACKLOG_CHUNKS_MIN);
            chunk.and_then(|chunk| chunk.spool.append(&[*byte])).expect("a disk without faults");
        }
        backlog
    }

    fn read_all(backlog: &Arc<DiskBacklog>, offset: u64) -> Vec<u8> {
        let mut reader = backlog.reader(offset).expect("it is there");
        let mut all = Vec::new();
        loop {
            match reader.read().expect("a disk without faults") {
                bytes if bytes.is_empty() => return all,
                bytes => all.extend(bytes),
            }
        }
    }

    #[test]
    fn the_stream_is_read_from_any_offset_across_files() {
        let storage = SimulatedStorage::new(1);
        let bytes: Vec<u8> = (0..95).collect();
        let backlog = backlog(&storage, &bytes);
        assert_eq!(backlog.range(), Some((1000, 1095)));
        for offset in 0..=95 {
            assert_eq!(read_all(&backlog, 1000 + offset as u64), bytes[offset..], "from {offset}");
        }
        assert!(backlog.reader(999).is_err() && backlog.reader(1096).is_err());
    }

    #[test]
    fn what_nobody_lacks_goes_and_what_is_being_read_stays() {
        let storage = SimulatedStorage::new(1);
        let bytes: Vec<u8> = (0..95).collect();
        let backlog = backlog(&storage, &bytes);
        let mut reader = backlog.reader(1005).expect("it is there");
        assert_eq!(reader.read(), Ok((5..10).collect()));
        backlog.trim(1025, u64::MAX);
        assert_eq!(backlog.range(), Some((1020, 1095)), "whole files go");
        backlog.trim(0, 40);
        assert_eq!(backlog.range(), Some((1060, 1095)), "there is no more than is allowed");
        assert_eq!(read_all(&backlog, 1060), bytes[60..]);
        backlog.trim(u64::MAX, u64::MAX);
        assert_eq!((backlog.range(), backlog.bytes()), (None, 0));
    }

    #[test]
    fn a_disk_that_fails_is_reported() {
        let storage = SimulatedStorage::new(1);
        storage.set_faults(Faults { other: 1000, ..Faults::default() });
        let name = || "chunk".to_owned();
        assert!(DiskBacklog::default().chunk(&storage, &name, 0, 1000).is_err());
    }
}
