//! Whole payloads: what servers make of values of every kind, and types that no server writes any more.

use std::io;

use rdb::crc64;
use resp::Value;

use crate::duo::{args, args_of};
use crate::link::Link;
use crate::random::{FAMILIES, FAMILIES_APART, Generator};
use crate::server::Server;
use crate::value::Reply;

/// Random commands of each family that fill the keyspace to be dumped.
const COMMANDS_PER_FAMILY: usize = 150;
/// Larger payloads change too seldom where it matters.
const SEED_BYTES_MAX: usize = 4_000;

/// Values that a few random commands do not make.
const COMMANDS: &[&str] = &[
    "SADD seed:numbers 1 2 3 70000 3000000000",
    "RPUSH seed:list one 2 three 4 -5 70000 3000000000 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "ZADD seed:zset 1 a 2.5 b -inf c inf d 1e20 e",
    "HSET seed:hash a 1 b two c 333333333333",
    "XADD seed:stream 1-1 name value number 7",
    "XADD seed:stream 1-2 name value2 number 8",
    "XADD seed:stream 2-1 other fields here 1 and 2",
    "XGROUP CREATE seed:stream group 0",
    "XREADGROUP GROUP group alice COUNT 2 STREAMS seed:stream >",
    "XREADGROUP GROUP group bob STREAMS seed:stream >",
    "XDEL seed:stream 1-2",
    "PFADD seed:hll a b c d e",
    "SET seed:text aaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbb",
];

/// Makes a small value of every kind.
pub fn fill(link: &mut Link) -> io::Result<()> {
    for command in COMMANDS {
        // What a server does not have is left out.
        link.run(&args(&command.split(' ').collect::<Vec<_>>()))?;
    }
    Ok(())
}

/// The payloads of a server that was filled at random.
pub fn dumped(server: &Server, seed: u64) -> io::Result<Vec<Vec<u8>>> {
    let mut link = server.connect()?;
    fill(&mut link)?;
    for number in 0..200 {
        let (field, long) = (format!("field:{number}"), "x".repeat(number));
        link.call(&["HSET", "seed:table", &field, &long])?;
        link.call(&["ZADD", "seed:skiplist", &number.to_string(), &field])?;
        link.call(&["SADD", "seed:set", &field])?;
        link.call(&["RPUSH", "seed:quicklist", &field, &long])?;
    }
    for family in FAMILIES[..FAMILIES.len() - FAMILIES_APART].iter().filter(|family| family.name != "server")
    {
        let mut generator = Generator::new(seed, family, false);
        for _ in 0..COMMANDS_PER_FAMILY {
            let command = generator.command();
            link.run(&command)?;
        }
    }
    let keys = link.call(&["KEYS", "*"])?.leaves();
    let mut payloads = Vec::new();
    for key in keys {
        if let Value::Bulk(payload) = link.run(&args_of(&[b"DUMP", &key]))?
            && payload.len() <= SEED_BYTES_MAX
        {
            payloads.push(payload);
        }
    }
    link.call(&["FLUSHALL"])?;
    Ok(payloads)
}

/// Bodies with a footer: values of the types of Redis 2.2 to 6.2 that later versions only read, and of those of Redis 7.2 and Valkey.
pub fn old_types() -> Vec<Vec<u8>> {
    const ZIPLIST: &[u8] = b"\x18\x18\0\0\0\x13\0\0\0\x04\0\0\x01a\x03\xf3\x02\x02bc\x04\xc0\x10\x27\xff";
    const LISTPACK: &[u8] = b"\x13\x13\0\0\0\x04\0\x81a\x02\x01\x01\x82bc\x03\xc1\x2c\x02\xff";
    let bodies: Vec<Vec<u8>> = vec![
        b"\x03\x02\x01a\x031.5\x01b\xff".to_vec(),
        b"\x01\x03\x01a\xc0\x07\x02bc".to_vec(),
        b"\x09\x12\x02\x03foo\x03\x00bar\x01a\x02\x01hi.\xff".to_vec(),
        [&[10], ZIPLIST].concat(),
        [&[12], ZIPLIST].concat(),
        [&[13], ZIPLIST].concat(),
        [&[14, 2], ZIPLIST, ZIPLIST].concat(),
        [&[16], LISTPACK].concat(),
        [&[17], LISTPACK].concat(),
        [&[18, 2, 2], LISTPACK, b"\x01\x03big"].concat(),
        [&[20], LISTPACK].concat(),
        b"\x18\0\0\0\0\0\x01\0\0\x02\x01\x01a\x01b\0\x01c\x01d".to_vec(),
        [
            &b"\x19\0\0\0\0\0\x01\0\0"[..],
            b"\x15\x15\0\0\0\x06\0\x81a\x02\x01\x01\0\x01\x81b\x02\x02\x01\x05\x01\xff",
        ]
        .concat(),
        b"\x16\x02\x01a\x01b\xff\xff\xff\xff\xff\xff\xff\xff\x01c\x01d\0\0\0\0\0\x01\0\0".to_vec(),
    ];
    let close = |mut body: Vec<u8>| {
        body.extend_from_slice(&[10, 0]);
        let crc = crc64::update(0, &body);
        body.extend_from_slice(&crc.to_le_bytes());
        body
    };
    bodies.into_iter().map(close).collect()
}
