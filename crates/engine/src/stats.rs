//! Counters: written by one thread each, read by whoever asks, summed in time that does not depend on
//! clients or keys.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::table::CommandId;

/// A counter with a single writer: adding is a plain load and store.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; only the owning thread may.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The count.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Sets it; only the owning thread may.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// Sets it to zero. An increment at the same instant may be lost.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Buckets of a latency histogram: bucket `n` counts calls of up to `2^n` ns.
pub const HISTOGRAM_BUCKETS: usize = 40;

/// Latencies of one command, by powers of two.
pub type Histogram = [Counter; HISTOGRAM_BUCKETS];

/// The longest time that a bucket stands for, in nanoseconds, as Redis's histograms of two significant digits
/// round it: what INFO latencystats and LATENCY HISTOGRAM print. The first is 1.031 us.
pub fn bucket_end_ns(bucket: usize) -> u64 {
    let end_ns = 1u64 << bucket.max(10);
    end_ns + end_ns / 128 - 1
}

/// As [`bucket_end_ns`], in whole microseconds.
pub fn bucket_end_us(bucket: usize) -> u64 {
    bucket_end_ns(bucket) / 1000
}

/// The buckets of a merged histogram with their own counts and the counts up to them.
pub fn cumulative(histogram: &[u64; HISTOGRAM_BUCKETS]) -> impl Iterator<Item = (usize, u64, u64)> {
    histogram.iter().enumerate().scan(0, |upto, (bucket, here)| {
        *upto += here;
        Some((bucket, *here, *upto))
    })
}

/// Statistics of one command, summed over the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandTotals {
    /// Times it ran.
    pub calls: u64,
    /// Nanoseconds it ran in all.
    pub time_ns: u64,
    /// Times it was refused before it ran.
    pub rejected: u64,
    /// Times it ran and replied with an error.
    pub failed: u64,
}

/// Statistics of one command on one worker.
#[derive(Default)]
pub struct CommandStats {
    /// Times it ran.
    pub calls: Counter,
    /// Nanoseconds it ran in all.
    pub time_ns: Counter,
    /// Times it was refused before it ran.
    pub rejected: Counter,
    /// Times it ran and replied with an error.
    pub failed: Counter,
    histogram: OnceLock<Box<Histogram>>,
}

impl CommandStats {
    /// Counts a call that took `time_ns`.
    #[inline]
    pub fn record(&self, time_ns: u64, with_histogram: bool) {
        self.calls.add(1);
        self.time_ns.add(time_ns);
        if with_histogram {
            let bucket = (u64::BITS - time_ns.leading_zeros()) as usize;
            let histogram =
                self.histogram.get_or_init(|| Box::new(std::array::from_fn(|_| Counter::default())));
            histogram[bucket.min(HISTOGRAM_BUCKETS - 1)].add(1);
        }
    }

    /// The histogram, if anything was recorded.
    pub fn histogram(&self) -> Option<&Histogram> {
        self.histogram.get().map(|histogram| &**histogram)
    }

    fn reset(&self) {
        [&self.calls, &self.time_ns, &self.rejected, &self.failed].into_iter().for_each(Counter::reset);
        self.reset_histogram();
    }

    /// Forgets the latencies (LATENCY RESET does not; CONFIG RESETSTAT does).
    pub fn reset_histogram(&self) {
        self.histogram().into_iter().flatten().for_each(Counter::reset);
    }
}

/// Counters of one worker. Its own cache lines: workers do not share any.
#[repr(align(128))]
pub struct WorkerStats {
    /// Commands run.
    pub commands: Counter,
    /// Connections accepted.
    pub connections: Counter,
    /// Connections refused for maxclients.
    pub rejected_connections: Counter,
    /// Bytes read.
    pub input_bytes: Counter,
    /// Bytes written.
    pub output_bytes: Counter,
    /// Reads from sockets that brought bytes.
    pub reads: Counter,
    /// Turns of sending that sent bytes.
    pub writes: Counter,
    /// Lookups for reading that found a key.
    pub keyspace_hits: Counter,
    /// Lookups for reading that found none.
    pub keyspace_misses: Counter,
    /// Times an output passed the high-water mark and its connection was paused.
    pub output_pauses: Counter,
    /// Error replies.
    pub errors: Counter,
    /// Turns of the event loop.
    pub loop_turns: Counter,
    /// Writes: changed keys, as `rdb_changes_since_last_save` counts them.
    pub dirty: Counter,
    /// Connections closed for their query buffer's limit.
    pub limit_disconnections: Counter,
    /// Connections closed for their unsent replies' limit.
    pub output_limit_disconnections: Counter,
    /// Keys evicted for want of memory.
    pub evicted_keys: Counter,
    /// Connections closed for want of memory.
    pub evicted_clients: Counter,
    /// Replies that had to wait for the log.
    pub gated_replies: Counter,
    /// Those of them that need not wait any more, or whose connection is gone.
    pub released_replies: Counter,
    /// Connections with replies that wait, now.
    pub gated_connections: Counter,
    /// Connections to other nodes over which requests are forwarded.
    pub relays: Counter,
    /// Requests that wait in them, for being sent or for their answers.
    pub relays_waiting_requests: Counter,
    /// Bytes that wait in them to be sent.
    pub relays_waiting_bytes: Counter,
    commands_by_id: Box<[CommandStats]>,
}

impl WorkerStats {
    /// Zero everywhere, for `commands` commands.
    pub fn new(commands: usize) -> WorkerStats {
        WorkerStats {
            commands: Counter::default(),
            connections: Counter::default(),
            rejected_connections: Counter::default(),
            input_bytes: Counter::default(),
            output_bytes: Counter::default(),
            reads: Counter::default(),
            writes: Counter::default(),
            keyspace_hits: Counter::default(),
            keyspace_misses: Counter::default(),
            output_pauses: Counter::default(),
            errors: Counter::default(),
            loop_turns: Counter::default(),
            dirty: Counter::default(),
            limit_disconnections: Counter::default(),
            output_limit_disconnections: Counter::default(),
            evicted_keys: Counter::default(),
            evicted_clients: Counter::default(),
            gated_replies: Counter::default(),
            released_replies: Counter::default(),
            gated_connections: Counter::default(),
            relays: Counter::default(),
            relays_waiting_requests: Counter::default(),
            relays_waiting_bytes: Counter::default(),
            commands_by_id: (0..commands).map(|_| CommandStats::default()).collect(),
        }
    }

    /// Statistics of one command.
    #[inline]
    pub fn command(&self, id: CommandId) -> &CommandStats {
        &self.commands_by_id[id]
    }

    /// Counts a lookup for reading.
    #[inline]
    pub fn count_lookup(&self, found: bool) {
        if found {
            self.keyspace_hits.add(1);
        } else {
            self.keyspace_misses.add(1);
        }
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        let counters = [
            &self.commands,
            &self.connections,
            &self.rejected_connections,
            &self.input_bytes,
            &self.output_bytes,
            &self.reads,
            &self.writes,
            &self.keyspace_hits,
            &self.keyspace_misses,
            &self.output_pauses,
            &self.errors,
            &self.loop_turns,
            &self.limit_disconnections,
            &self.output_limit_disconnections,
            &self.evicted_keys,
            &self.evicted_clients,
        ];
        counters.into_iter().for_each(Counter::reset);
        self.commands_by_id.iter().for_each(CommandStats::reset);
    }
}

/// Kinds of errors that INFO errorstats tells apart; after that, all count as one (Redis: 128).
const ERROR_KINDS_MAX: usize = 128;

/// Error replies by their first word.
#[derive(Default)]
pub struct ErrorStats(Mutex<BTreeMap<String, u64>>);

impl ErrorStats {
    /// Counts one error.
    pub fn count(&self, code: &str) {
        let mut kinds = self.0.lock();
        if let Some(count) = kinds.get_mut(code) {
            *count += 1;
        } else {
            let code = if kinds.len() < ERROR_KINDS_MAX { code } else { "ERRORSTATS_OVERFLOW" };
            *kinds.entry(code.to_owned()).or_default() += 1;
        }
    }

    /// Calls `each` with every code and its count.
    pub fn each(&self, mut each: impl FnMut(&str, u64)) {
        self.0.lock().iter().for_each(|(code, count)| each(code, *count));
    }

    /// All counts, by code.
    pub fn list(&self) -> Vec<(String, u64)> {
        self.0.lock().iter().map(|(code, count)| (code.clone(), *count)).collect()
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        self.0.lock().clear();
    }
}

/// Samples of a growing counter, for the `instantaneous_*` fields: the mean rate over the last ones.
#[derive(Default)]
pub struct Rate {
    last_count: u64,
    last_at_us: u64,
    samples: [u64; Rate::SAMPLES],
    next: usize,
}

impl Rate {
    const SAMPLES: usize = 16;

    /// Takes the counter's value at a time; call it about every 100 ms.
    pub fn sample(&mut self, count: u64, now_us: u64) {
        let elapsed_us = now_us.saturating_sub(self.last_at_us);
        if elapsed_us == 0 {
            return;
        }
        self.samples[self.next] = count.saturating_sub(self.last_count) * 1_000_000 / elapsed_us;
        self.next = (self.next + 1) % Rate::SAMPLES;
        (self.last_count, self.last_at_us) = (count, now_us);
    }

    /// Mean rate a second.
    pub fn per_second(&self) -> u64 {
        self.samples.iter().sum::<u64>() / Rate::SAMPLES as u64
    }
}
