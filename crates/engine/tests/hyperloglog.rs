//! The HyperLogLog commands, as clients see them. Every reply here was given by a redis-server 7.0.15 as well.

use engine::testing::Harness;

fn check(script: &[(&str, &str)]) {
    let mut harness = Harness::new();
    script.iter().for_each(|(line, expected)| harness.check(line, expected));
}

/// The bytes of a string, escaped.
fn bytes_of(harness: &mut Harness, key: &str) -> String {
    let reply = harness.run_raw(&format!("get {key}"));
    let start = reply.iter().position(|byte| *byte == b'\n').expect("a string") + 1;
    reply[start..reply.len() - 2].escape_ascii().to_string()
}

#[test]
fn values_are_those_of_redis() {
    let mut harness = Harness::new();
    harness.check("pfadd h", ":1");
    let header = r"HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    assert_eq!(bytes_of(&mut harness, "h"), format!(r"{header}\x80\x7f\xff"));
    harness.check("pfadd h", ":0");
    harness.check("pfcount h", ":0");
    assert_eq!(bytes_of(&mut harness, "h"), format!(r"{header}\x00\x7f\xff"));
    harness.check("pfadd h a b c", ":1");
    harness.check("pfadd h b", ":0");
    harness.check("pfcount h", ":3");
    let counted = r"HYLL\x01\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00";
    assert!(bytes_of(&mut harness, "h").starts_with(counted));
    harness.check("pfdebug decode h", "Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603");
    harness.check("strlen h", ":27");
    harness.check("object encoding h", "raw");
}

#[test]
fn many_elements_make_a_value_dense() {
    let mut harness = Harness::new();
    for from in (0..30_000).step_by(1000) {
        let elements: Vec<String> = (from..from + 1000).map(|number| format!("e:{number}")).collect();
        harness.check(&format!("pfadd h {}", elements.join(" ")), ":1");
    }
    harness.check("pfdebug encoding h", "+dense");
    harness.check("strlen h", ":12304");
    harness.check("pfadd h e:1 e:2", ":0");
    harness.check("expire h 100", ":1");
    harness.check("pfcount h", ":30037");
    harness.check("pfcount h missing", ":30037");
    harness.check("ttl h", ":100");
    harness.check("copy h c", ":1");
    harness.check("pfadd c x1 x2 x3 x4 x5 x6 x7 x8 x9", ":1");
    harness.check("pfcount h", ":30037");
    harness.check("pfmerge d h c", "+OK");
    // So many dense values are merged on the long lane.
    let merged = harness.run("pfcount d");
    let sources = ["h c d"; 20].join(" ");
    harness.check(&format!("pfcount {sources}"), &merged);
    harness.check(&format!("pfmerge e {sources}"), "+OK");
    harness.check("pfcount e", &merged);
}

#[test]
fn other_values_are_refused() {
    let not_a_sketch = "-WRONGTYPE Key is not a valid HyperLogLog string value.";
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let corrupted = "-INVALIDOBJ Corrupted HLL object detected";
    check(&[
        ("set s foo", "+OK"),
        ("pfadd s a", not_a_sketch),
        ("pfcount s", not_a_sketch),
        ("pfcount s missing", not_a_sketch),
        ("pfmerge d s", not_a_sketch),
        ("exists d", ":0"),
        ("rpush l a", ":1"),
        ("pfadd l a", wrong_type),
        ("pfcount l", wrong_type),
        ("pfdebug encoding missing", "-ERR The specified key does not exist"),
        (r#"set c "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x00""#, "+OK"),
        ("pfcount c", corrupted),
        ("pfmerge d c l", corrupted),
        ("pfdebug todense c", corrupted),
        ("pfadd ok a", ":1"),
        ("pfdebug nosuch ok", "-ERR Unknown PFDEBUG subcommand 'nosuch'"),
        ("pfdebug todense ok", ":1"),
        ("pfdebug todense ok", ":0"),
        ("pfdebug decode ok", "-ERR HLL encoding is not sparse"),
        ("pfcount ok", ":1"),
        // Longer than any value can be: refused without being copied.
        ("setrange c 500000000 x", ":500000001"),
        ("pfadd c a", corrupted),
    ]);
}

#[test]
fn the_selftest_passes() {
    check(&[("pfselftest", "+OK")]);
}
