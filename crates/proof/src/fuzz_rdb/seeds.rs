//! Whole files: what servers save of small keyspaces of every kind, and what only other servers write.

use std::io;

use rdb::crc64;
use rdb::payload::FOOTER_BYTES;

use crate::fuzz_restore::seeds;
use crate::interchange::peers;
use crate::options::Options;
use crate::random::{FAMILIES, FAMILIES_APART, Generator, NEWER_FAMILIES};
use crate::server::{DEFAULT, SMALL, Server};

/// At the end of a file.
pub const CHECKSUM_BYTES: usize = 8;
/// Random commands that make the keys of a file.
const COMMANDS: usize = 40;
/// Larger files change too seldom where it matters.
const FILE_BYTES_MAX: usize = 6_000;
const LIBRARY: &str = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";

/// Whole files, and how many servers made them.
pub struct Seeds {
    pub files: Vec<Vec<u8>>,
    pub servers: usize,
}

/// Saves random keyspaces on Halcyon and on each real server that is there.
pub fn files(options: &Options) -> io::Result<Seeds> {
    let mut seeds = Seeds { files: foreign(), servers: 0 };
    let peers = peers::found(&options.binaries);
    let binaries = peers.iter().map(|peer| &peer.binary).chain([&options.binaries.halcyon]);
    for binary in binaries {
        for (setup, compresses) in [(&DEFAULT, "no"), (&SMALL, "yes")] {
            let server = Server::start(binary, setup, &["--rdbcompression", compresses])?;
            saved(&server, options.seed, &mut seeds.files)?;
        }
        seeds.servers += 1;
    }
    Ok(seeds)
}

/// The files of one server.
fn saved(server: &Server, seed: u64, files: &mut Vec<Vec<u8>>) -> io::Result<()> {
    let mut link = server.connect()?;
    link.call(&["FUNCTION", "LOAD", LIBRARY])?;
    seeds::fill(&mut link)?;
    files.push(server.save(&mut link)?);
    link.call(&["FUNCTION", "FLUSH"])?;
    let families = FAMILIES[..FAMILIES.len() - FAMILIES_APART].iter().chain(NEWER_FAMILIES);
    for (number, family) in families.filter(|family| family.name != "server").enumerate() {
        link.call(&["FLUSHALL"])?;
        let mut generator = Generator::new(seed + number as u64, family, false);
        for _ in 0..COMMANDS {
            link.run(&generator.command())?;
        }
        let file = server.save(&mut link)?;
        if file.len() <= FILE_BYTES_MAX {
            files.push(file);
        }
    }
    Ok(())
}

/// Files with values of types that these servers do not write, and with what modules write.
fn foreign() -> Vec<Vec<u8>> {
    let mut files: Vec<Vec<u8>> = seeds::old_types()
        .into_iter()
        .map(|payload| {
            let (code, value) = (payload[0], &payload[1..payload.len() - FOOTER_BYTES]);
            let header: &[u8] = if code == rdb::code::HASH_VALKEY_ENDS { b"VALKEY081" } else { b"REDIS0012" };
            closed([header, b"\xfe\x00\xfb\x01\x00", &[code], b"\x03key", value, b"\xff"].concat())
        })
        .collect();
    let module = [&[0x81][..], &0x45e2_5238_df91_2c03u64.to_be_bytes()].concat();
    files.push(closed([b"REDIS0009\xf7", &module[..], b"\x02\x01\x05\x03abc\x03\0\0\0\0\0\xff"].concat()));
    files.push(closed([b"REDIS0009\x07\x01k", &module[..], b"\x02\x01\0\xff"].concat()));
    files.push(closed(b"REDIS0009\xf4\x01\x02\x03\xfd\0\0\0\x7f\xf9\x07\x00\x01k\x01v\xff".to_vec()));
    // Entries named as the node's first, which is gone, among entries with names of their own.
    files.push(long_names());
    files
}

fn closed(mut file: Vec<u8>) -> Vec<u8> {
    let crc = crc64::update(0, &file);
    file.extend_from_slice(&crc.to_le_bytes());
    file
}

/// A stream whose one node has a long name that half of its entries share, though not the first: each of them would
/// cost the name again if nodes were begun with their first entry's names.
pub fn long_names() -> Vec<u8> {
    const NAME_BYTES: usize = 2_000;
    const PAIRS: usize = 100;
    let mut node = Vec::new();
    let mut count = 0u16;
    let mut element = |bytes: &[u8]| {
        node.extend_from_slice(bytes);
        match bytes.len() {
            len @ ..128 => node.push(len as u8),
            len => node.extend_from_slice(&[(len >> 7) as u8, (len & 0x7f) as u8 | 0x80]),
        }
        count += 1;
    };
    let small = |number: usize| [0xc0 | (number >> 8) as u8, number as u8];
    let name = [&[0xe0 | (NAME_BYTES >> 8) as u8, NAME_BYTES as u8][..], &[b'n'; NAME_BYTES]].concat();
    for part in [&small(2 * PAIRS)[..], &[0], &[1], &name, &[0]] {
        element(part);
    }
    for pair in 0..PAIRS {
        // Flags, time, number; a field of its own; elements.
        for part in [&[0][..], &[0], &small(2 * pair), &[1], b"\x81f", &[1], &[6]] {
            element(part);
        }
        for part in [&[2][..], &[0], &small(2 * pair + 1), &[1], &[4]] {
            element(part);
        }
    }
    node.push(0xff);
    let len = (node.len() + 6) as u32;
    let node = [&len.to_le_bytes()[..], &count.to_le_bytes(), &node].concat();
    let node_len = [0x40 | (node.len() >> 8) as u8, node.len() as u8];
    let id = [&[16][..], &[0; 7], &[1], &[0; 8]].concat();
    let entries = [0x40 | ((2 * PAIRS) >> 8) as u8, (2 * PAIRS) as u8];
    let ids = [&entries[..], &[2, 0, 0]].concat();
    closed([b"REDIS0009\x0f\x01k\x01", &id[..], &node_len, &node, &ids, b"\xff"].concat())
}

#[cfg(test)]
mod tests {
    use rdb::{Cursor, Event, FileDecoder, ReadError, Thresholds};

    use super::*;

    #[test]
    fn files_made_by_hand_are_whole() {
        for file in foreign() {
            let (mut decoder, mut input) = (FileDecoder::new(Thresholds::default()), Cursor::new(&file));
            let end = loop {
                match decoder.read(&mut input) {
                    Ok(Event::End) => break None,
                    Ok(_) => {}
                    Err(error) => break Some(error),
                }
            };
            let is_module = matches!(end, Some(ReadError::Unsupported(_))) && file[9] == 7;
            assert!(end.is_none() || is_module, "{end:?}: {}", file.escape_ascii());
        }
    }
}
