//! Damaged payloads at the codec and at RESTORE: each must be taken or refused, and what is taken must be a value like
//! any other. Their checksums are right, so that nothing is refused before it is looked at.

pub mod seeds;

use std::io;
use std::panic::catch_unwind;
use std::time::Instant;

use rdb::payload::{self, Checksum, FOOTER_BYTES};
use rdb::{Compression, ReadError, Thresholds, crc64};
use resp::Value;

use crate::duo::{Args, Disagreement, args_of};
use crate::link::Link;
use crate::mutate::Mutator;
use crate::options::Options;
use crate::server::{DEFAULT, SMALL, Server};
use crate::tally::Tally;
use crate::value::Reply;

/// Payloads sent to the server together.
const PIPELINE: usize = 50;
/// Batches after which the server is emptied and its memory looked at.
const BATCHES_PER_ROUND: usize = 200;
/// Resident memory may stand this much above its start once the server is empty.
const GROWTH_BYTES_MAX: u64 = 256 << 20;
/// The beginning of a payload holds types, lengths and counts.
const HEAD_BYTES: usize = 40;
/// Type codes up to this are tried on any body.
const CODE_MAX: u8 = 26;
/// Versions in footers, of which some are not known.
const VERSIONS: [u8; 8] = [1, 9, 11, 12, 13, 80, 80, 81];
/// What the server says of a payload that is no value.
const REFUSALS: [&[u8]; 2] = [b"ERR Bad data format", b"ERR DUMP payload version or checksum are wrong"];

/// Runs `options.commands` damaged payloads, half of them under small thresholds.
pub fn run(options: &Options) -> io::Result<Tally> {
    let mut tally = Tally::default();
    for (index, setup) in [&DEFAULT, &SMALL].into_iter().enumerate() {
        let started = Instant::now();
        let extra: Vec<&str> = options.binaries.halcyon_args.iter().map(String::as_str).collect();
        let mut server = Server::start(&options.binaries.halcyon, setup, &extra)?;
        let mut payloads = seeds::old_types();
        payloads.extend(seeds::dumped(&server, options.seed)?);
        // The oracle has encodings that Halcyon only reads.
        payloads.extend(seeds::dumped(&Server::start(&options.binaries.oracle, setup, &[])?, options.seed)?);
        payloads.iter_mut().for_each(|payload| payload.truncate(payload.len() - FOOTER_BYTES));
        let mut fuzzer = Fuzzer {
            mutator: Mutator::new(options.seed + index as u64, payloads, HEAD_BYTES, CODE_MAX),
            link: server.connect()?,
            resident_start: server.resident_bytes(),
            taken: 0,
        };
        let ran = fuzzer.run(&server, options.commands.div_ceil(2), &mut tally);
        if let Err(error) = ran {
            tally.fail(
                &format!("fuzz-restore ({} thresholds)", setup.name),
                &disagreement(&[], error.to_string()),
            );
            if !server.is_alive() {
                println!("  the server died; its last lines:\n{}", server.log_tail());
            }
        }
        println!(
            "fuzz-restore ({}): {} payloads so far, {} of these were values, {} ms",
            setup.name,
            tally.passed,
            fuzzer.taken,
            started.elapsed().as_millis()
        );
    }
    Ok(tally)
}

struct Fuzzer {
    mutator: Mutator,
    link: Link,
    resident_start: Option<u64>,
    taken: usize,
}

impl Fuzzer {
    fn run(&mut self, server: &Server, cases: usize, tally: &mut Tally) -> io::Result<()> {
        for round in 0..cases.div_ceil(PIPELINE) {
            let payloads: Vec<Vec<u8>> = (0..PIPELINE).map(|_| self.payload()).collect();
            for payload in &payloads {
                match decode(payload) {
                    Ok(is_value) => self.taken += usize::from(is_value),
                    Err(why) => tally.fail("fuzz-restore: the codec", &disagreement(payload, why)),
                }
            }
            self.restore(&payloads, tally)?;
            if round % BATCHES_PER_ROUND == BATCHES_PER_ROUND - 1 {
                self.check_memory(server)?;
            }
        }
        self.check_memory(server)
    }

    /// The next payload, with a right checksum.
    fn payload(&mut self) -> Vec<u8> {
        let mut payload = self.mutator.body();
        let rng = &mut self.mutator.rng;
        let version = if rng.u8(..8) == 0 { VERSIONS[rng.usize(..VERSIONS.len())] } else { 10 };
        payload.extend_from_slice(&[version, 0]);
        let crc = crc64::update(0, &payload);
        payload.extend_from_slice(&crc.to_le_bytes());
        payload
    }

    /// Restores each payload, and has whatever became of it walked through and written again.
    fn restore(&mut self, payloads: &[Vec<u8>], tally: &mut Tally) -> io::Result<()> {
        const PLACE: &[u8] = b"k";
        let follow: [Args; 2] = [args_of(&[b"DEBUG", b"DIGEST-VALUE", PLACE]), args_of(&[b"DUMP", PLACE])];
        let commands: Vec<Args> = payloads
            .iter()
            .flat_map(|payload| {
                [vec![args_of(&[b"RESTORE", PLACE, b"0", payload, b"REPLACE"])], follow.to_vec()].concat()
            })
            .collect();
        self.link.send(&commands)?;
        for payload in payloads {
            let restored = self.link.reply()?;
            let (digest, dumped) = (self.link.reply()?, self.link.reply()?);
            let is_ok = match &restored {
                Value::Simple(text) => text == b"OK" && matches!(&dumped, Value::Bulk(_)),
                Value::Error(text) => REFUSALS.contains(&&text[..]),
                _ => false,
            };
            if is_ok && !digest.is_error() {
                tally.passed += 1;
            } else {
                let replies = [&restored, &digest, &dumped].map(Reply::notation).join(" ");
                tally.fail("fuzz-restore: RESTORE", &disagreement(payload, replies));
            }
        }
        Ok(())
    }

    fn check_memory(&mut self, server: &Server) -> io::Result<()> {
        self.link.call(&["FLUSHALL"])?;
        match (self.resident_start, server.resident_bytes()) {
            (Some(start), Some(empty)) if empty > start + GROWTH_BYTES_MAX => {
                Err(io::Error::other(format!("resident memory: {start} B at start, {empty} B when empty")))
            }
            _ => Ok(()),
        }
    }
}

/// Whether the codec takes a payload as a value, which must then survive being written and read.
fn decode(payload: &[u8]) -> Result<bool, String> {
    let payload = payload.to_vec();
    let ran = catch_unwind(move || -> Result<bool, String> {
        let read = |payload: &[u8]| {
            let body = payload::body(payload, Checksum::Checked);
            payload::value(body.ok_or(ReadError::Short)?, &Thresholds::default())
        };
        let Ok(value) = read(&payload) else { return Ok(false) };
        let written = payload::encode(&value, Compression::On);
        if payload::len(&value, Compression::On) != written.len() {
            return Err("its length is not that of its bytes".to_owned());
        }
        let again = read(&written).map_err(|error| format!("its own bytes are refused: {error:?}"))?;
        let rewritten = payload::encode(&again, Compression::Off);
        let unpacked = payload::encode(&value, Compression::Off);
        // Members of one place in the order of hashes may change places.
        if rewritten.len() == unpacked.len() {
            Ok(true)
        } else {
            Err("it changes when it is read again".to_owned())
        }
    });
    ran.unwrap_or_else(|_| Err("the codec panicked".to_owned()))
}

fn disagreement(payload: &[u8], halcyon: String) -> Disagreement {
    Disagreement {
        about: payload.escape_ascii().to_string(),
        oracle: "(taken or refused)".to_owned(),
        halcyon,
    }
}
