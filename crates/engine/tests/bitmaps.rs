//! The bitmap commands, as clients see them. Every reply here was given by a redis-server 7.0.15 as well, unless a
//! comment says otherwise.

use engine::testing::Harness;

fn check(script: &[(&str, &str)]) {
    let mut harness = Harness::new();
    script.iter().for_each(|(line, expected)| harness.check(line, expected));
}

#[test]
fn bits_are_set_and_read() {
    check(&[
        ("setbit k 7 1", ":0"),
        ("setbit k 7 1", ":1"),
        ("getbit k 7", ":1"),
        ("getbit k 6", ":0"),
        ("getbit k 4294967295", ":0"),
        ("setbit k 30 0", ":0"),
        ("strlen k", ":4"),
        ("set n 1", "+OK"),
        ("object encoding n", "int"),
        ("setbit n 7 1", ":1"),
        ("object encoding n", "raw"),
        ("expire n 100", ":1"),
        ("setbit n 100000 1", ":0"),
        ("ttl n", ":100"),
        ("setbit k -1 1", "-ERR bit offset is not an integer or out of range"),
        ("setbit k 4294967296 1", "-ERR bit offset is not an integer or out of range"),
        ("setbit k 1 2", "-ERR bit is not an integer or out of range"),
        ("rpush l a", ":1"),
        ("setbit l 1 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("getbit l 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn bits_are_counted_and_found() {
    check(&[
        ("set k foobar", "+OK"),
        ("bitcount k", ":26"),
        ("bitcount k 5 30 BIT", ":17"),
        ("bitcount k -2 -1", ":7"),
        ("bitcount k 1 0", ":0"),
        ("bitcount missing", ":0"),
        ("bitcount k 0", "-ERR syntax error"),
        // Redis 7.2 and later read the bounds before the key.
        ("bitcount missing a b", "-ERR value is not an integer or out of range"),
        (r#"set p "\xff\xf0\x00""#, "+OK"),
        ("bitpos p 0", ":12"),
        ("bitpos p 1 2", ":-1"),
        ("bitpos p 0 0 11 BIT", ":-1"),
        (r#"set ones "\xff\xff""#, "+OK"),
        ("bitpos ones 0", ":16"),
        ("bitpos ones 0 0 -1", ":-1"),
        ("bitpos missing 0", ":0"),
        ("bitpos missing 1", ":-1"),
        ("bitpos k 2", "-ERR The bit argument must be 1 or 0."),
    ]);
}

#[test]
fn strings_are_combined() {
    check(&[
        ("set a foobar", "+OK"),
        ("set b abcdef", "+OK"),
        ("bitop and d a b", ":6"),
        ("get d", "`bc`ab"),
        ("bitop or d a missing", ":6"),
        ("get d", "foobar"),
        ("expire d 100", ":1"),
        ("bitop xor d a a", ":6"),
        ("bitcount d", ":0"),
        ("ttl d", ":-1"),
        ("bitop not d missing", ":0"),
        ("exists d", ":0"),
        ("bitop not d a b", "-ERR BITOP NOT must be called with a single source key."),
        // As of Redis 8.2.
        ("bitop andor d a b missing", ":6"),
        ("get d", "`bc`ab"),
        ("bitop diff d a", "-ERR BITOP DIFF must be called with at least two source keys."),
        ("bitop nand d a", "-ERR syntax error"),
    ]);
}

#[test]
fn integers_are_kept_in_bits() {
    check(&[
        ("bitfield k set i5 100 1 get u4 0", "[:0 :0]"),
        ("bitfield k set u8 #1 300 get u8 8", "[:0 :44]"),
        ("bitfield k overflow sat incrby u8 8 -100 incrby u8 8 300", "[:0 :255]"),
        ("bitfield k overflow fail incrby u8 8 1 get u8 8", "[(nil) :255]"),
        ("bitfield k set i64 3 -2 get i64 3", "[:574208952489738240 :-2]"),
        ("bitfield_ro k get i64 3", "[:-2]"),
        ("bitfield_ro k set u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand"),
        (
            "bitfield k get u64 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        ("bitfield k overflow never", "-ERR Invalid OVERFLOW type specified"),
        ("command getkeysandflags bitfield k get u8 0", "[[k [+RO +access]]]"),
        ("command getkeysandflags bitfield k set u8 0 1", "[[k [+RW +access +update]]]"),
    ]);
}

#[test]
fn huge_strings_take_little_memory_and_the_long_lane() {
    // The furthest bit that the default `proto-max-bulk-len` allows: the gap before it shares one chunk.
    check(&[
        ("setbit far 4294967295 1", ":0"),
        ("strlen far", ":536870912"),
        ("getbit far 4294967295", ":1"),
        ("bitcount far -1 -1", ":1"),
        ("setbit k 80000000 1", ":0"),
        ("bitcount k", ":1"),
        ("bitcount k 1 -2", ":0"),
        ("bitpos k 1", ":80000000"),
        ("bitpos k 0 10000000 10000000", ":80000001"),
        ("setbit other 70000000 1", ":0"),
        ("bitop or d k other missing", ":10000001"),
        ("bitcount d", ":2"),
        ("bitop xor k k d", ":10000001"),
        ("bitpos k 1", ":70000000"),
        ("bitfield k get u8 69999999 set u8 79999997 255", "[:64 :0]"),
        ("bitcount k -10 -1", ":8"),
    ]);
}
