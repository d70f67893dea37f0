//! Damaged files at the reader, in pieces of any size. Each must be read or refused: no panic, no memory that
//! the file's own size does not bound, and the same end whatever the pieces.

mod seeds;

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

use rdb::alloc::used_bytes;
use rdb::{Cursor, Event, FileDecoder, ReadError, Thresholds, crc64};

use crate::duo::Disagreement;
use crate::mutate::Mutator;
use crate::options::Options;
use crate::tally::Tally;

/// Memory that a file may cost: of anything, and for each of its bytes. Compression alone makes 88 of one, and elements
/// of two bytes come with what every element has.
const COST_BYTES_MAX: usize = 64 * 1024;
const COST_PER_BYTE_MAX: usize = 300;
/// The process's peak of resident memory may grow by this: what is let go before a record ends is seen there only.
const PEAK_GROWTH_BYTES_MAX: u64 = 256 << 20;
/// One file in so many is also read in one piece, for the same end.
const COMPARED_ONE_IN: u32 = 4;
const PROGRESS_FILES: usize = 1_000_000;
const FAILURES_KEPT_MAX: usize = 20;

/// Runs `options.commands` damaged files, or the one to be replayed.
pub fn run(options: &Options) -> io::Result<Tally> {
    let mut fuzzer = Fuzzer { tally: Tally::default(), read: 0, keys: 0, costliest: (0, 0) };
    if let Some(path) = &options.replay {
        let mut rng = fastrand::Rng::with_seed(options.seed);
        fuzzer.check(&fs::read(path)?, &mut rng);
        return Ok(fuzzer.tally);
    }
    let started = Instant::now();
    let files = seeds::files(options)?;
    println!("fuzz-rdb: from {} files of {} servers", files.files.len(), files.servers);
    let bodies = files.files.into_iter().map(|mut file| {
        file.truncate(file.len() - seeds::CHECKSUM_BYTES);
        file
    });
    let mut mutator = Mutator::new(options.seed, bodies.collect(), 0, u8::MAX);
    let peak_start = peak_bytes();
    for number in 1..=options.commands {
        let file = finished(&mut mutator);
        fuzzer.check(&file, &mut mutator.rng);
        if number % PROGRESS_FILES == 0 {
            println!("fuzz-rdb: {number} files, {} s", started.elapsed().as_secs());
        }
    }
    let grown = peak_bytes().saturating_sub(peak_start);
    if grown > PEAK_GROWTH_BYTES_MAX {
        fuzzer.fail(&[], format!("the peak of resident memory grew by {grown} B"));
    }
    let (cost, len) = fuzzer.costliest;
    println!(
        "fuzz-rdb: {} files ({} whole, {} keys in all); at most {cost} B for {len} B; the peak grew by {grown} B; {} ms",
        options.commands,
        fuzzer.read,
        fuzzer.keys,
        started.elapsed().as_millis()
    );
    Ok(fuzzer.tally)
}

/// A damaged file with a checksum: the right one, none, or (seldom) a wrong one.
fn finished(mutator: &mut Mutator) -> Vec<u8> {
    let mut file = mutator.body();
    let checksum = match mutator.rng.u8(..8) {
        0 => mutator.rng.u64(..),
        1..4 => 0,
        _ => crc64::update(0, &file),
    };
    file.extend_from_slice(&checksum.to_le_bytes());
    file
}

/// How the reading of a file went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outcome {
    events: usize,
    keys: usize,
    /// `None`: the end was reached.
    error: Option<ReadError>,
}

struct Fuzzer {
    tally: Tally,
    /// Files that were read to their end, and keys of all.
    read: usize,
    keys: usize,
    /// The largest cost, and the size of its file.
    costliest: (usize, usize),
}

impl Fuzzer {
    fn check(&mut self, file: &[u8], rng: &mut fastrand::Rng) {
        let pieces = if rng.u8(..8) == 0 { 4 } else { file.len().max(2) };
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let (outcome, cost) = read(file, || rng.usize(1..pieces));
            if rng.u32(..COMPARED_ONE_IN) == 0 {
                let (whole, _) = read(file, || file.len().max(1));
                if whole != outcome {
                    return Err(format!("in one piece {whole:?}, in many {outcome:?}"));
                }
            }
            Ok((outcome, cost))
        }));
        match ran {
            Err(_) => self.fail(file, "the reader panicked".to_owned()),
            Ok(Err(why)) => self.fail(file, why),
            Ok(Ok((_, cost))) if cost > COST_BYTES_MAX + COST_PER_BYTE_MAX * file.len() => {
                self.fail(file, format!("{cost} B of memory for a file of {} B", file.len()));
            }
            Ok(Ok((outcome, cost))) => {
                self.tally.passed += 1;
                self.read += usize::from(outcome.error.is_none());
                self.keys += outcome.keys;
                self.costliest = self.costliest.max((cost, file.len()));
            }
        }
    }

    /// Counts a failure and keeps its file.
    fn fail(&mut self, file: &[u8], halcyon: String) {
        let mut about = file.escape_ascii().to_string();
        if self.tally.failed < FAILURES_KEPT_MAX {
            let path = PathBuf::from(format!("target/differential/fuzz-rdb-{}.rdb", self.tally.failed));
            let kept = fs::create_dir_all("target/differential").and_then(|()| fs::write(&path, file));
            about = match kept {
                Ok(()) => format!("--replay {}", path.display()),
                Err(_) => about,
            };
        }
        let found = Disagreement { about, oracle: "(read or refused)".to_owned(), halcyon };
        self.tally.fail("fuzz-rdb", &found);
    }
}

/// Reads a file in pieces of the sizes that `step` gives; how it went, and the most memory that what was read took.
fn read(file: &[u8], mut step: impl FnMut() -> usize) -> (Outcome, usize) {
    let before = used_bytes();
    let mut decoder = FileDecoder::new(Thresholds::default());
    let (mut start, mut end, mut cost) = (0, 0, 0);
    let (mut kept, mut keys): (Vec<Event>, usize) = (Vec::new(), 0);
    let error = loop {
        let mut input = Cursor::new(&file[start..end]);
        let event = decoder.read(&mut input);
        start += input.position();
        cost = cost.max(used_bytes().saturating_sub(before));
        match event {
            Ok(Event::End) => break None,
            Ok(event) => {
                keys += usize::from(matches!(event, Event::Key(..)));
                kept.push(event);
            }
            Err(ReadError::Short) if end < file.len() => end = (end + step()).min(file.len()),
            Err(error) => break Some(error),
        }
    };
    (Outcome { events: kept.len(), keys, error }, cost)
}

/// The most resident memory that this process ever had; 0 where /proc does not tell.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_entries_share_cost_once() {
        let file = seeds::long_names();
        // Other tests allocate meanwhile: the least of several readings is this file's.
        let cost = (0..20).map(|_| read(&file, || file.len()).1).min();
        assert!(cost.is_some_and(|cost| cost < 2 * file.len()), "{cost:?} B for {} B", file.len());
    }
}
