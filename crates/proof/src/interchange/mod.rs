//! RDB files from Halcyon to real servers and back, and the other way round: what each of them loads must be what was
//! saved, by key, type, end, content, library and DEBUG DIGEST.

mod dataset;
pub mod peers;
mod state;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::duo::Disagreement;
use crate::options::Options;
use crate::server::{Binaries, DEFAULT, SMALL, Server, Setup};
use crate::tally::Tally;
use dataset::Dataset;
use peers::{FieldEnds, Peer};
use state::{Digests, State};

/// One dataset in so many has fields with ends, where the real server knows them.
const FIELD_ENDS_ONE_IN: u64 = 3;
/// Where files are kept that were not loaded as they were saved.
const KEPT_FILES: &str = "target/differential";
/// The way to none but itself.
const HERE: &str = "halcyon to halcyon";
/// The header without which Valkey 9 and Redis 7.0 refuse a file.
const HEADER: &[u8] = b"REDIS0010";
/// That of files with ends of fields.
const HEADER_WITH_ENDS: &[u8] = b"REDIS0012";

/// Exchanges datasets for `options.seconds`, and at least one in each direction with each server that is here.
pub fn run(options: &Options) -> io::Result<Tally> {
    let peers = peers::found(&options.binaries);
    let (started, mut round) = (Instant::now(), 0);
    let (mut tally, mut keys, mut bytes) = (Tally::default(), 0, 0);
    let rounds_min = 2 * peers.len() as u64;
    while round < rounds_min || started.elapsed() < Duration::from_secs(options.seconds) {
        // The seed of a failure is enough to go the same way again.
        let seed = options.seed + round;
        let peer = &peers[(seed / 2) as usize % peers.len()];
        let mut exchange = Exchange {
            binaries: &options.binaries,
            peer,
            setup: if (seed / rounds_min).is_multiple_of(2) { &DEFAULT } else { &SMALL },
            seed,
            tally: &mut tally,
            keys: 0,
            bytes: 0,
        };
        let ran = if seed.is_multiple_of(2) { exchange.begin_here() } else { exchange.begin_there() };
        keys += exchange.keys;
        bytes += exchange.bytes;
        if let Err(error) = ran {
            let place = format!("interchange with {} (--seed {})", peer.name, seed);
            tally.fail(&place, &disagreement(String::new(), String::new(), error.to_string()));
        }
        round += 1;
    }
    let names: Vec<&str> = peers.iter().map(|peer| &peer.name[..]).collect();
    println!(
        "interchange with {}: {round} datasets, {keys} keys compared, {bytes} B of files, {} s",
        names.join(", "),
        started.elapsed().as_secs()
    );
    Ok(tally)
}

/// One dataset on its way.
struct Exchange<'a> {
    binaries: &'a Binaries,
    peer: &'a Peer,
    setup: &'static Setup,
    seed: u64,
    tally: &'a mut Tally,
    keys: usize,
    bytes: usize,
}

/// A file, what it must hold, and whether digests are compared.
struct Saved {
    file: Vec<u8>,
    state: State,
    has_field_ends: bool,
}

impl Exchange<'_> {
    /// Halcyon saves; it and the real server load that; what the real server saves then, Halcyon loads.
    fn begin_here(&mut self) -> io::Result<()> {
        let field_ends =
            if self.peer.field_ends == FieldEnds::Redis { FieldEnds::Redis } else { FieldEnds::Unknown };
        let server = self.halcyon(None)?;
        let saved = self.fill(&server, field_ends)?;
        drop(server);
        self.check_file(&saved)?;
        self.load(&saved, HERE, Self::halcyon)?;
        let back = self.load(&saved, "halcyon to the real server", Self::peer)?;
        self.load(&back, "there and back to halcyon", Self::halcyon)?;
        Ok(())
    }

    /// The real server saves; Halcyon loads that; what it saves then, the real server loads.
    fn begin_there(&mut self) -> io::Result<()> {
        let server = self.peer(None)?;
        let saved = self.fill(&server, self.peer.field_ends)?;
        drop(server);
        let here = self.load(&saved, "the real server to halcyon", Self::halcyon)?;
        let is_refused = self.peer.field_ends == FieldEnds::Valkey && here.has_field_ends;
        if !is_refused {
            self.check_file(&here)?;
            self.load(&here, "to halcyon and back", Self::peer)?;
        }
        Ok(())
    }

    fn halcyon(&self, file: Option<&[u8]>) -> io::Result<Server> {
        let extra: Vec<&str> = self.binaries.halcyon_args.iter().map(String::as_str).collect();
        Server::start_with_file(&self.binaries.halcyon, self.setup, &extra, file)
    }

    fn peer(&self, file: Option<&[u8]>) -> io::Result<Server> {
        Server::start_with_file(&self.peer.binary, self.setup, &[], file)
    }

    /// Fills an empty server and has it save.
    fn fill(&mut self, server: &Server, field_ends: FieldEnds) -> io::Result<Saved> {
        let mut rng = fastrand::Rng::with_seed(self.seed);
        let field_ends = if rng.u64(..FIELD_ENDS_ONE_IN) == 0 { field_ends } else { FieldEnds::Unknown };
        let mut link = server.connect()?;
        if rng.bool() {
            link.call(&["CONFIG", "SET", "rdbcompression", "no"])?;
        }
        let has_field_ends = Dataset { link: &mut link, rng, field_ends }.fill()?;
        let state = State::of(&mut link)?;
        Ok(Saved { file: server.save(&mut link)?, state, has_field_ends })
    }

    /// Whether what Halcyon saved is of the version that it should be, and right to redis-check-rdb, if that knows it.
    fn check_file(&mut self, saved: &Saved) -> io::Result<()> {
        let header = if saved.has_field_ends { HEADER_WITH_ENDS } else { HEADER };
        if !saved.file.starts_with(header) {
            let [expected, there] =
                [header, &saved.file[..9]].map(|header| header.escape_ascii().to_string());
            self.fail("the header", &saved.file, disagreement("version".to_owned(), expected, there));
        }
        if saved.has_field_ends {
            return Ok(());
        }
        let path = std::env::temp_dir().join(format!("proof-check-{}.rdb", std::process::id()));
        fs::write(&path, &saved.file)?;
        let checked = peers::check_file(self.binaries, &path);
        fs::remove_file(&path)?;
        match checked {
            Ok(()) => self.tally.passed += 1,
            Err(why) => {
                self.fail(
                    "redis-check-rdb",
                    &saved.file,
                    disagreement(why.to_string(), String::new(), String::new()),
                );
            }
        }
        Ok(())
    }

    /// Starts a server on the file, compares what it holds, and has it save.
    fn load(
        &mut self,
        saved: &Saved,
        way: &str,
        start: impl Fn(&Self, Option<&[u8]>) -> io::Result<Server>,
    ) -> io::Result<Saved> {
        self.bytes += saved.file.len();
        let loaded = start(self, Some(&saved.file)).and_then(|server| {
            let mut link = server.connect()?;
            let state = State::of(&mut link)?;
            Ok(Saved { file: server.save(&mut link)?, state, has_field_ends: saved.has_field_ends })
        });
        let loaded = loaded.map_err(|error| {
            let kept = self.keep(&saved.file);
            io::Error::other(format!("{way}, of {kept}: {error}"))
        })?;
        let digests = match way {
            HERE => Digests::Whole,
            _ => self.peer.digests(saved.has_field_ends),
        };
        self.keys += loaded.state.len();
        match saved.state.differs(&loaded.state, digests) {
            None => self.tally.passed += 1,
            Some([about, here, there]) => self.fail(way, &saved.file, disagreement(about, here, there)),
        }
        Ok(loaded)
    }

    fn fail(&mut self, way: &str, file: &[u8], mut found: Disagreement) {
        let (kept, peer) = (self.keep(file), &self.peer.name);
        found.about = format!("{} (file {kept})", found.about);
        self.tally.fail(&format!("interchange with {peer}, {way} (--seed {})", self.seed), &found);
    }

    /// Keeps a file; its name.
    fn keep(&self, file: &[u8]) -> String {
        let path = PathBuf::from(KEPT_FILES).join(format!("interchange-{}.rdb", self.seed));
        let kept = fs::create_dir_all(Path::new(KEPT_FILES)).and_then(|()| fs::write(&path, file));
        kept.map_or_else(|error| format!("(not kept: {error})"), |()| path.display().to_string())
    }
}

/// `saved` stands in the oracle's place, `loaded` in Halcyon's.
fn disagreement(about: String, saved: String, loaded: String) -> Disagreement {
    Disagreement { about, oracle: format!("(saved) {saved}"), halcyon: format!("(loaded) {loaded}") }
}
