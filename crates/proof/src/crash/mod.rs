//! Crashes: a server under a mixed load is killed at a random instant and started again on what it left; what it then holds
//! must be what it had acknowledged.
//!
//! The mode says what must be there: `always`, all that was answered; `everysec`, all that was answered up to a second
//! before; `save`, without a log, all that was answered before the last SAVE that succeeded began; `no`, nothing.
//!
//! - Each writer has keys of its own, of every type, and pipelines commands, transactions and scripts to them. What is there
//!   after the crash must be the outcome of the first so many of its steps: none of those that must be there is missing, none
//!   is there that was not sent, none is there in part ([`writer`], [`model`]).
//! - Transactions and scripts move money between accounts that all share. The accounts must hold exactly what the steps
//!   that are there have moved.
//! - Elements wander through lists, taken by connections that wait for them ([`queues`]).
//! - Readers look at counters that only grow. What they have seen must not be taken back.

mod model;
mod queues;
mod reader;
mod round;
mod writer;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;

use crate::duo::Disagreement;
use crate::options::Options;
use crate::server::Server;
use crate::tally::Tally;
use round::{Round, Wrong};

/// Which answers a crash may not take back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Always,
    Everysec,
    No,
    Save,
}

const MODES: [(Mode, &str); 4] =
    [(Mode::Always, "always"), (Mode::Everysec, "everysec"), (Mode::No, "no"), (Mode::Save, "save")];

impl Mode {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Mode::Always => &["--appendonly", "yes", "--appendfsync", "always"],
            Mode::Everysec => &["--appendonly", "yes", "--appendfsync", "everysec"],
            Mode::No => &["--appendonly", "yes", "--appendfsync", "no"],
            Mode::Save => &[],
        }
    }

    /// How long the load lasts at the most: where a second may be lost, more than that must be at stake.
    fn load_ms_max(self) -> u64 {
        match self {
            Mode::Always | Mode::No | Mode::Save => 700,
            Mode::Everysec => 2_500,
        }
    }
}

/// Unix milliseconds.
fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Kills the server so many times in each mode, or in the one that is asked for.
pub fn run(options: &Options) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let started = Instant::now();
    let wanted: Vec<(Mode, &str)> =
        MODES.into_iter().filter(|(_, name)| options.only.as_ref().is_none_or(|only| only == name)).collect();
    if wanted.is_empty() {
        return Err(io::Error::other("crash: --only takes always, everysec, no or save"));
    }
    for (at, (mode, name)) in wanted.iter().enumerate() {
        // What is left of the time is shared by the modes that are left.
        let left = Duration::from_secs(options.seconds).saturating_sub(started.elapsed());
        let deadline = Instant::now() + left / (wanted.len() - at) as u32;
        let kills = options.kills / wanted.len() + usize::from(at < options.kills % wanted.len());
        let (before, mut killed) = (tally.passed, 0);
        let directory = std::env::temp_dir().join(format!("proof-crash-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory)?;
        let found = crash(options, *mode, &directory, kills, deadline, &mut killed, &mut tally)?;
        match &found {
            Some(Wrong { about, expected, found }) => {
                let kept = format!("crash, {name}, kill {killed}; what it left: {}", directory.display());
                let (oracle, halcyon) = (expected.clone(), found.clone());
                tally.fail(&kept, &Disagreement { about: about.clone(), oracle, halcyon });
            }
            None => drop(fs::remove_dir_all(&directory)),
        }
        println!("crash, {name}: {killed} kills, {} checks", tally.passed - before);
    }
    Ok(tally)
}

/// Starts, loads, kills and checks; the first thing that is wrong, if any is.
fn crash(
    options: &Options,
    mode: Mode,
    directory: &Path,
    kills: usize,
    deadline: Instant,
    killed: &mut usize,
    tally: &mut Tally,
) -> io::Result<Option<Wrong>> {
    let mut rng = Rng::with_seed(options.seed ^ mode as u64);
    let extra: Vec<&str> = mode
        .arguments()
        .iter()
        .copied()
        .chain(["--io-threads", "2", "--save", ""])
        .chain(options.binaries.halcyon_args.iter().map(String::as_str))
        .collect();
    let mut round = Round::new(mode, options.seed);
    let mut server = Server::start_in(&options.binaries.halcyon, directory, &extra)?;
    while *killed < kills && Instant::now() < deadline {
        let load = Duration::from_millis(rng.u64(20..mode.load_ms_max()));
        if let Err(wrong) = round.load(&mut server, load)? {
            return Ok(Some(wrong));
        }
        *killed += 1;
        drop(server);
        if options.cut_bytes > 0 {
            cut(directory, options.cut_bytes)?;
        }
        server = match Server::start_in(&options.binaries.halcyon, directory, &extra) {
            Ok(server) => server,
            Err(error) => return Ok(Some(Wrong::new("the restart", "that it starts", error))),
        };
        match round.check(&server)? {
            Ok(checks) => tally.passed += checks,
            Err(wrong) => return Ok(Some(wrong)),
        }
    }
    Ok(None)
}

/// Takes bytes from the end of the append-only file that was written last: what a server that lies would have lost.
fn cut(directory: &Path, bytes: u64) -> io::Result<()> {
    let files = fs::read_dir(directory.join("appendonlydir"))?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_incremental = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "aof");
    let last = files
        .filter(|path| is_incremental(path) && path.to_string_lossy().contains(".incr."))
        .max_by_key(|path| fs::metadata(path).and_then(|facts| facts.modified()).ok());
    if let Some(last) = last {
        let file = fs::File::options().write(true).open(last)?;
        file.set_len(file.metadata()?.len().saturating_sub(bytes))?;
    }
    Ok(())
}
