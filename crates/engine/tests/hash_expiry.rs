//! Fields of hashes that end, as a client sees them. Replies are those of Redis 7.4, and of 8.0 for HGETEX, HSETEX and
//! HGETDEL.

use engine::testing::Harness;

/// What the harness's clock starts with, in seconds.
const START_S: u64 = 1_704_067_200;
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

fn run(harness: &mut Harness, script: &[(&str, &str)]) {
    for (line, expected) in script {
        harness.check(line, expected);
    }
}

/// Both forms of a hash.
fn small_and_large() -> [Harness; 2] {
    [Harness::new(), Harness::with_config(&[("hash-max-listpack-entries", "0")])]
}

/// The words of a shown reply, sorted.
fn words(shown: &str) -> Vec<String> {
    let mut words: Vec<String> = shown.split(' ').map(|word| word.replace(['[', ']'], "")).collect();
    words.sort_unstable();
    words
}

fn keyspace_line(harness: &mut Harness) -> String {
    let info = harness.run("INFO keyspace");
    info.lines().find(|line| line.starts_with("db0:")).unwrap_or_default().trim_end().to_owned()
}

fn stat(harness: &mut Harness, name: &str) -> String {
    let info = harness.run("INFO stats");
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_owned));
    line.expect(name)
}

#[test]
fn giving_ends_under_conditions() {
    for mut harness in small_and_large() {
        run(
            &mut harness,
            &[
                ("HSET h a 1 b 2 c 3 d 4", ":4"),
                ("HEXPIRE h 100 FIELDS 3 a b nofield", "[:1 :1 :-2]"),
                ("HTTL h FIELDS 4 a b c nofield", "[:100 :100 :-1 :-2]"),
                ("HPTTL h FIELDS 1 a", "[:100000]"),
                ("HEXPIRE h 200 NX FIELDS 2 a c", "[:0 :1]"),
                ("HEXPIRE h 300 xx FIELDS 2 a d", "[:1 :0]"),
                ("HEXPIRE h 300 GT FIELDS 2 a d", "[:0 :0]"),
                ("HEXPIRE h 301 gt FIELDS 2 a d", "[:1 :0]"),
                ("HEXPIRE h 301 LT FIELDS 1 a", "[:0]"),
                ("HEXPIRE h 300 LT FIELDS 2 a d", "[:1 :1]"),
                ("HPEXPIRE h 1500 FIELDS 1 a", "[:1]"),
                ("HTTL h FIELDS 1 a", "[:2]"),
                ("HPTTL h FIELDS 1 a", "[:1500]"),
                ("HEXPIRETIME h FIELDS 2 a b", &format!("[:{} :{}]", START_S + 2, START_S + 100)),
                ("HPEXPIRETIME h FIELDS 1 a", &format!("[:{}]", START_S * 1000 + 1500)),
                ("HEXPIREAT h 4000000000 FIELDS 1 a", "[:1]"),
                ("HPEXPIREAT h 4000000000123 FIELDS 1 b", "[:1]"),
                ("HEXPIRETIME h FIELDS 2 a b", "[:4000000000 :4000000001]"),
                ("HPEXPIRETIME h FIELDS 2 a b", "[:4000000000000 :4000000000123]"),
                ("HPERSIST h FIELDS 3 a b nofield", "[:1 :1 :-2]"),
                ("HPERSIST h FIELDS 1 a", "[:-1]"),
                ("HTTL h FIELDS 2 a b", "[:-1 :-1]"),
                ("HEXPIRE h 100 NX FIELDS 1 c", "[:0]"),
                ("HEXPIREAT h 1 NX FIELDS 3 a c nofield", "[:2 :0 :-2]"),
                ("HEXPIRE h 0 FIELDS 2 b b", "[:2 :-2]"),
                ("HPEXPIREAT h 1704067200000 FIELDS 1 c", "[:2]"),
                ("HPEXPIREAT h 1704067200001 FIELDS 1 d", "[:1]"),
                ("HGETALL h", "[d 4]"),
                ("HPEXPIREAT h 5 FIELDS 2 d e", "[:2 :-2]"),
                ("EXISTS h", ":0"),
                ("HEXPIRE nokey 100 FIELDS 2 a b", "[:-2 :-2]"),
                ("HTTL nokey FIELDS 1 a", "[:-2]"),
                ("HPERSIST nokey FIELDS 1 a", "[:-2]"),
                ("HEXPIRETIME nokey FIELDS 1 a", "[:-2]"),
                ("EXISTS nokey", ":0"),
            ],
        );
        assert_eq!(stat(&mut harness, "expired_subkeys"), "4");
    }
}

#[test]
fn arguments_of_hexpire_and_its_kin() {
    let mut harness = Harness::new();
    let no_fields = "-ERR Mandatory argument FIELDS is missing or not at the right position";
    let mismatch = "-ERR The `numfields` parameter must match the number of arguments";
    let not_positive = "-ERR Parameter `numFields` should be greater than 0";
    let number = "-ERR Number of fields must be a positive integer";
    run(
        &mut harness,
        &[
            ("HSET h a 1", ":1"),
            ("SET s v", "+OK"),
            ("HEXPIRE h 10 FIELDS 1", "-ERR wrong number of arguments for 'hexpire' command"),
            ("HTTL h FIELDS 1", "-ERR wrong number of arguments for 'httl' command"),
            ("HPERSIST h FIELDS 1", "-ERR wrong number of arguments for 'hpersist' command"),
            ("HEXPIRE s x FIELDS 1 a", WRONG_TYPE),
            ("HTTL s FIELD 1 a", WRONG_TYPE),
            ("HPERSIST s FIELD 1 a", WRONG_TYPE),
            ("HEXPIRE h x FIELDS 1 a", "-ERR value is not an integer or out of range"),
            ("HEXPIRE h -1 FIELDS 1 a", "-ERR invalid expire time, must be >= 0"),
            ("HEXPIRE h 70368744178 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command"),
            ("HEXPIRE h 9223372036854775807 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command"),
            ("HPEXPIRE h 9223372036854775807 FIELDS 1 a", "-ERR invalid expire time in 'hpexpire' command"),
            ("HEXPIREAT h 70368744178 FIELDS 1 a", "-ERR invalid expire time in 'hexpireat' command"),
            ("HPEXPIREAT h 70368744177664 FIELDS 1 a", "-ERR invalid expire time in 'hpexpireat' command"),
            ("HPEXPIREAT h 70368744177663 FIELDS 1 a", "[:1]"),
            ("HPEXPIRETIME h FIELDS 1 a", "[:70368744177663]"),
            ("HEXPIRE h 10 FIELD 1 a", no_fields),
            ("HEXPIRE h 10 XX 1 FIELDS a", no_fields),
            ("HEXPIRE h 10 NX GT FIELDS 1 a", no_fields),
            ("HTTL h 1 FIELDS a", no_fields),
            ("HPERSIST h FIELD 1 a", no_fields),
            ("HEXPIRE h 10 FIELDS 0 a", not_positive),
            ("HEXPIRE h 10 FIELDS x a", not_positive),
            ("HEXPIRE h 10 FIELDS 9223372036854775808 a", not_positive),
            ("HTTL h FIELDS 0 a", number),
            ("HPERSIST h FIELDS -1 a", number),
            ("HEXPIRE h 10 FIELDS 2 a", mismatch),
            ("HEXPIRE h 10 FIELDS 1 a b", mismatch),
            ("HEXPIRE h 10 NX FIELDS 1", mismatch),
            ("HEXPIRE nokey 10 FIELDS 2 a", mismatch),
            ("HTTL h FIELDS 9223372036854775807 a", mismatch),
            ("HPERSIST h FIELDS 2 a", mismatch),
        ],
    );
}

#[test]
fn fields_past_their_end_are_absent() {
    for mut harness in small_and_large() {
        let pairs = (0..20).map(|n| format!("f{n} {n}")).collect::<Vec<_>>().join(" ");
        for key in ["h", "one"] {
            harness.check(&format!("HSET {key} {pairs}"), ":20");
            let fields = (5..20).map(|n| format!("f{n}")).collect::<Vec<_>>().join(" ");
            harness.run(&format!("HPEXPIRE {key} 1000 FIELDS 15 {fields}"));
        }
        harness.advance_ms(1000);
        harness.check("HMGET h f4 f5", "[4 5]");
        harness.advance_ms(1);
        for (command, expected) in [
            ("HKEYS one", "f0 f1 f2 f3 f4"),
            ("HVALS one", "0 1 2 3 4"),
            ("HGETALL one", "0 1 2 3 4 f0 f1 f2 f3 f4"),
            ("HSCAN one 0 COUNT 100", "0 0 1 2 3 4 f0 f1 f2 f3 f4"),
            ("HSCAN one 0 COUNT 100 NOVALUES", "0 f0 f1 f2 f3 f4"),
            ("HLEN one", ":20"),
            ("HRANDFIELD one 100", "f0 f1 f2 f3 f4"),
            ("HLEN one", ":5"),
        ] {
            assert_eq!(words(&harness.run(command)).join(" "), expected, "{command}");
        }
        run(
            &mut harness,
            &[
                ("HLEN h", ":20"),
                ("HTTL h FIELDS 2 f4 f5", "[:-1 :-2]"),
                ("HPERSIST h FIELDS 2 f4 f5", "[:-1 :-2]"),
                ("HLEN h", ":20"),
                ("HGET h f5", "(nil)"),
                ("HLEN h", ":19"),
                ("HMGET h f6 f7 f4 f6", "[(nil) (nil) 4 (nil)]"),
                ("HLEN h", ":17"),
                ("HEXISTS h f8", ":0"),
                ("HSTRLEN h f9", ":0"),
                ("HLEN h", ":15"),
                ("HINCRBY h f10 3", ":3"),
                ("HINCRBYFLOAT h f11 1.5", "1.5"),
                ("HSETNX h f12 new", ":1"),
                ("HTTL h FIELDS 3 f10 f11 f12", "[:-1 :-1 :-1]"),
                ("HEXPIRE h 10 FIELDS 1 f13", "[:-2]"),
                ("HSET h f14 again", ":0"),
                ("HGET h f14", "again"),
                ("HDEL h f15 f15 nofield", ":1"),
                ("HGETEX h FIELDS 2 f16 f4", "[(nil) 4]"),
                ("HGETDEL h FIELDS 2 f17 f0", "[(nil) 0]"),
                ("HSETEX h KEEPTTL FIELDS 1 f18 kept", ":1"),
                ("HTTL h FIELDS 1 f18", "[:-1]"),
                ("HLEN h", ":10"),
            ]
            .map(|(line, expected)| (line, expected)),
        );
        assert_eq!(
            words(&harness.run("HRANDFIELD h 100")),
            ["f1", "f10", "f11", "f12", "f14", "f18", "f2", "f3", "f4"]
        );
        harness.check("HLEN h", ":9");
        // f5 to f13, f16 to f19, and the fifteen of the other key; f14 was set and f15 removed as if alive.
        assert_eq!(stat(&mut harness, "expired_subkeys"), (13 + 15).to_string());
    }
}

#[test]
fn the_key_goes_with_its_last_field() {
    for command in [
        "HGET h a",
        "HMGET h a b",
        "HEXISTS h a",
        "HSTRLEN h a",
        "HRANDFIELD h",
        "HRANDFIELD h 2",
        "HRANDFIELD h -2 WITHVALUES",
        "HDEL h a",
        "HGETEX h FIELDS 1 a",
        "HGETEX h EX 10 FIELDS 1 a",
        "HGETDEL h FIELDS 1 a",
        "HSETEX h FXX FIELDS 1 a 1",
        "HEXPIRE h 10 FIELDS 1 a",
    ] {
        for mut harness in small_and_large() {
            run(&mut harness, &[("HSET h a 1", ":1"), ("HPEXPIRE h 5 FIELDS 1 a", "[:1]")]);
            harness.advance_ms(6);
            run(&mut harness, &[("HGETALL h", "[]"), ("HLEN h", ":1"), ("EXISTS h", ":1")]);
            harness.run(command);
            harness.check("EXISTS h", ":0");
            assert_eq!(keyspace_line(&mut harness), "", "{command}");
        }
    }
}

#[test]
fn what_keeps_an_end_and_what_clears_it() {
    for mut harness in small_and_large() {
        run(
            &mut harness,
            &[
                ("HSET h a 1 b 2 c 3 d 4", ":4"),
                ("HEXPIRE h 100 FIELDS 4 a b c d", "[:1 :1 :1 :1]"),
                ("HINCRBY h a 1", ":2"),
                ("HINCRBYFLOAT h b 0.5", "2.5"),
                ("HSETNX h c x", ":0"),
                ("HSET h d 5 e 6", ":1"),
                ("HTTL h FIELDS 5 a b c d e", "[:100 :100 :100 :-1 :-1]"),
                ("COPY h copy", ":1"),
                ("RENAME h renamed", "+OK"),
                ("MOVE renamed 1", ":1"),
                ("HTTL copy FIELDS 3 a b d", "[:100 :100 :-1]"),
                ("HDEL copy a", ":1"),
                ("HSET copy a 1", ":1"),
                ("HTTL copy FIELDS 1 a", "[:-1]"),
                ("SELECT 1", "+OK"),
                ("HTTL renamed FIELDS 3 a b d", "[:100 :100 :-1]"),
                ("SELECT 0", "+OK"),
                ("HMSET copy b 7", "+OK"),
                ("HTTL copy FIELDS 2 b c", "[:-1 :100]"),
            ],
        );
        assert_eq!(keyspace_line(&mut harness), "db0:keys=1,expires=0,avg_ttl=0,subexpiry=1");
        harness.check("HPERSIST copy FIELDS 1 c", "[:1]");
        assert_eq!(keyspace_line(&mut harness), "db0:keys=1,expires=0,avg_ttl=0,subexpiry=0");
    }
}

#[test]
fn encodings_with_ends() {
    let mut harness = Harness::new();
    run(
        &mut harness,
        &[
            ("HSET h a 1", ":1"),
            ("OBJECT ENCODING h", "listpack"),
            ("HTTL h FIELDS 1 a", "[:-1]"),
            ("HPERSIST h FIELDS 1 a", "[:-1]"),
            ("HGETEX h FIELDS 1 a", "[1]"),
            ("OBJECT ENCODING h", "listpack"),
            ("HEXPIRE h 10 FIELDS 1 nofield", "[:-2]"),
            ("OBJECT ENCODING h", "listpackex"),
            ("HEXPIRE h 10 FIELDS 1 a", "[:1]"),
            ("HPERSIST h FIELDS 1 a", "[:1]"),
            ("OBJECT ENCODING h", "listpackex"),
            (&format!("HSET h b {}", "v".repeat(65)), ":1"),
            ("OBJECT ENCODING h", "hashtable"),
            ("HSETEX x EX 10 FIELDS 1 a 1", ":1"),
            ("OBJECT ENCODING x", "listpackex"),
        ],
    );
}

#[test]
fn hsetex() {
    for mut harness in small_and_large() {
        run(
            &mut harness,
            &[
                ("HSETEX h FXX FIELDS 1 a 1", ":0"),
                ("EXISTS h", ":0"),
                ("HSETEX h FNX EX 100 FIELDS 2 a 1 b 2", ":1"),
                ("HSETEX h FNX FIELDS 2 c 3 b 4", ":0"),
                ("HSETEX h FXX FIELDS 2 a 3 c 4", ":0"),
                ("HGETALL h", "[a 1 b 2]"),
                ("HTTL h FIELDS 2 a b", "[:100 :100]"),
                ("HSETEX h keepttl fxx fields 1 a 5", ":1"),
                ("HTTL h FIELDS 2 a b", "[:100 :100]"),
                ("HSETEX h FIELDS 1 a 6", ":1"),
                ("HTTL h FIELDS 2 a b", "[:-1 :100]"),
                ("HSETEX h PX 1500 FIELDS 2 a 7 c 8", ":1"),
                ("HPTTL h FIELDS 3 a b c", "[:1500 :100000 :1500]"),
                ("HSETEX h EXAT 4000000000 FIELDS 1 a 9", ":1"),
                ("HSETEX h PXAT 4000000000001 FIELDS 1 b 9", ":1"),
                ("HPEXPIRETIME h FIELDS 2 a b", "[:4000000000000 :4000000000001]"),
                ("HSETEX h PXAT 1 FIELDS 2 a 1 new 1", ":1"),
                ("HMGET h a b c new", "[(nil) 9 8 (nil)]"),
                ("HSETEX gone EXAT 0 FIELDS 1 a 1", ":1"),
                ("EXISTS gone", ":0"),
                ("SET s v", "+OK"),
                ("HSETEX s FIELDS 1 a 1", WRONG_TYPE),
                ("HSETEX s NX FIELDS 1 a 1", "-ERR unknown argument: NX"),
            ],
        );
    }
}

#[test]
fn arguments_of_hsetex() {
    let mut harness = Harness::new();
    let arity = "-ERR wrong number of arguments for 'hsetex' command";
    let number = "-ERR invalid number of fields";
    let conditions = "-ERR Only one of FXX or FNX arguments can be specified";
    let ends = "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
    run(
        &mut harness,
        &[
            ("HSETEX h FIELDS 1 a", arity),
            ("HSETEX h FIELDS 2 a b", arity),
            ("HSETEX h FIELDS 2 a b c", arity),
            ("HSETEX h FIELDS 1 a b unknown", arity),
            ("HSETEX h FIELDS 2 a b c d e", arity),
            ("HSETEX h FNX EX 10 FIELDS", arity),
            ("HSETEX h FIELDS 0 a b", number),
            ("HSETEX h FIELDS -1 a b", number),
            ("HSETEX h FIELDS x a b", number),
            ("HSETEX h FIELDS 2147483648 a b", number),
            ("HSETEX h nx FIELDS 1 a b", "-ERR unknown argument: nx"),
            ("HSETEX h FXX FNX FIELDS 1 a b", conditions),
            ("HSETEX h FXX FXX FIELDS 1 a b", conditions),
            ("HSETEX h EX 100 PX 1000 FIELDS 1 a b", ends),
            ("HSETEX h KEEPTTL EX 100 FIELDS 1 a b", ends),
            ("HSETEX h EX 100 KEEPTTL FIELDS 1 a b", ends),
            ("HSETEX h EX FIELDS 1 a b", "-ERR value is not an integer or out of range"),
            ("HSETEX h FNX FNX FNX EX", conditions),
            ("HSETEX h FNX KEEPTTL FOO EX", "-ERR unknown argument: FOO"),
            ("HSETEX h EX 1 FNX EX", ends),
            ("HSETEX h EXAT -1 FIELDS 1 a b", "-ERR invalid expire time, must be >= 0"),
            ("HSETEX h PXAT 70368744177664 FIELDS 1 a b", "-ERR invalid expire time in 'hsetex' command"),
            ("EXISTS h", ":0"),
        ],
    );
}

#[test]
fn hgetex_and_hgetdel() {
    let no_fields = "-ERR Mandatory argument FIELDS is missing or not at the right position";
    let mismatch = "-ERR The `numfields` parameter must match the number of arguments";
    let number = "-ERR Number of fields must be a positive integer";
    for mut harness in small_and_large() {
        run(
            &mut harness,
            &[
                ("HSET h a 1 b 2 c 3 d 4", ":4"),
                ("HGETEX h FIELDS 3 a nofield b", "[1 (nil) 2]"),
                ("HGETEX h EX 100 FIELDS 2 a nofield", "[1 (nil)]"),
                ("HGETEX h px 1500 FIELDS 2 b b", "[2 2]"),
                ("HPTTL h FIELDS 4 a b c nofield", "[:100000 :1500 :-1 :-2]"),
                ("HGETEX h EXAT 4000000000 FIELDS 1 a", "[1]"),
                ("HGETEX h PXAT 4000000000001 FIELDS 1 b", "[2]"),
                ("HPEXPIRETIME h FIELDS 2 a b", "[:4000000000000 :4000000000001]"),
                ("HGETEX h FIELDS 1 a", "[1]"),
                ("HGETEX h PERSIST FIELDS 2 a c", "[1 3]"),
                ("HTTL h FIELDS 1 a", "[:-1]"),
                ("HGETEX h PXAT 1 FIELDS 3 a a nofield", "[1 (nil) (nil)]"),
                ("HGETDEL h FIELDS 3 b b nofield", "[2 (nil) (nil)]"),
                ("HGETALL h", "[c 3 d 4]"),
                ("HGETDEL h FIELDS 1 c", "[3]"),
                ("HGETEX h EX 0 FIELDS 1 d", "[4]"),
                ("EXISTS h", ":0"),
                ("HGETEX h FIELDS 1 a", "[(nil)]"),
                ("HGETEX h EX 10 FIELDS 2 a b", "[(nil) (nil)]"),
                ("HGETDEL h FIELDS 2 a b", "[(nil) (nil)]"),
                ("EXISTS h", ":0"),
                ("SET s v", "+OK"),
                ("HGETEX s FOO 1 a", WRONG_TYPE),
                ("HGETDEL s FOO 1 a", WRONG_TYPE),
                ("HGETEX h XFIELDX 1 a", no_fields),
                ("HGETEX h PXAT 1 1", no_fields),
                ("HGETEX h KEEPTTL FIELDS 1 a", no_fields),
                ("HGETEX h PERSIST 1 FIELDS 1 a", no_fields),
                ("HGETDEL h FIELD 1 a", no_fields),
                ("HGETEX h EX 10 FIELDS", number),
                ("HGETEX h FIELDS 0 a", number),
                ("HGETDEL h FIELDS x a", number),
                ("HGETEX h FIELDS 2 a", mismatch),
                ("HGETDEL h FIELDS 1 a b", mismatch),
                ("HGETEX h EX x FIELDS 1 a", "-ERR value is not an integer or out of range"),
                ("HGETEX h PX -1 FIELDS 1 a", "-ERR invalid expire time, must be >= 0"),
                ("HGETEX h EX 70368744178 FIELDS 1 a", "-ERR invalid expire time in 'hgetex' command"),
            ],
        );
    }
}

#[test]
fn hits_of_long_values_named_many_times_are_streamed() {
    let mut harness = Harness::new();
    let value = "v".repeat(40_000);
    harness.check(&format!("HSET h a {value} b {value} c 1"), ":3");
    for command in ["HGETEX h EX 10", "HGETEX h PXAT 1", "HGETDEL h"] {
        let shown = harness.run(&format!("{command} FIELDS 5 a b nofield a c"));
        let again = if command.ends_with("10") { value.as_str() } else { "(nil)" };
        assert!(shown == format!("[{value} {value} (nil) {again} 1]"), "{command}");
        harness.run(&format!("HSET h a {value} b {value} c 1"));
    }
}

#[test]
fn due_fields_are_removed_a_slice_at_a_time() {
    let mut harness = Harness::new();
    for start in (0..5_000).step_by(500) {
        let pairs: Vec<String> = (start..start + 500).map(|n| format!("f{n} {n}")).collect();
        harness.run(&format!("HSETEX h PX 1000 FIELDS 500 {}", pairs.join(" ")));
    }
    run(&mut harness, &[("HSETEX one EX 1 FIELDS 1 a 1", ":1"), ("PEXPIRE one 100000", ":1")]);
    run(&mut harness, &[("HSETEX later EX 2 FIELDS 1 a 1", ":1"), ("HSET later b 2", ":1")]);
    assert_eq!(
        keyspace_line(&mut harness).split_once(",avg").map(|parts| parts.0.to_owned()).as_deref(),
        Some("db0:keys=3,expires=1")
    );
    let slices = |harness: &Harness, now_ms: i64| {
        let mut removed = Vec::new();
        for stripe in 0..store::STRIPES {
            loop {
                let (fields, more) = harness.server.expire_slice(stripe, now_ms, 32);
                removed.push(fields);
                if !more {
                    break;
                }
            }
        }
        removed
    };
    let start_ms = START_S as i64 * 1000;
    assert_eq!(slices(&harness, start_ms + 1000).iter().sum::<usize>(), 0, "they live through their last ms");
    let removed = slices(&harness, start_ms + 1001);
    assert_eq!(removed.iter().sum::<usize>(), 5_001);
    assert!(removed.iter().all(|fields| *fields <= 32));
    assert_eq!(stat(&mut harness, "expired_subkeys"), "5001");
    run(&mut harness, &[("EXISTS h one", ":0"), ("DBSIZE", ":1")]);
    assert_eq!(keyspace_line(&mut harness), "db0:keys=1,expires=0,avg_ttl=0,subexpiry=1");
    assert_eq!(slices(&harness, start_ms + 2001).iter().sum::<usize>(), 1);
    assert_eq!(keyspace_line(&mut harness), "db0:keys=1,expires=0,avg_ttl=0,subexpiry=0");
    harness.check("HGETALL later", "[b 2]");
    harness.check("FLUSHALL", "+OK");
}

#[test]
fn random_fields_of_a_large_hash_with_many_due() {
    let mut harness = Harness::new();
    for start in (0..12_000).step_by(500) {
        let pairs: Vec<String> = (start..start + 500).map(|n| format!("f{n} {n}")).collect();
        let command = if start == 0 { "HSETEX h" } else { "HSETEX h PX 1" };
        harness.run(&format!("{command} FIELDS 500 {}", pairs.join(" ")));
    }
    harness.advance_ms(2);
    for _ in 0..20 {
        let field = harness.run("HRANDFIELD h");
        assert!(field[1..].parse::<u32>().is_ok_and(|number| number < 500), "{field}");
    }
    let shown = harness.run("HRANDFIELD h 20000");
    assert_eq!(shown.split(' ').count(), 500);
    let shown = harness.run("HRANDFIELD h -100 WITHVALUES");
    assert_eq!(shown.split(' ').count(), 200);
}

/// Lines of `command => events`, in Redis's order; each names the key `h`.
#[test]
fn events() {
    for mut harness in [
        Harness::with_config(&[("notify-keyspace-events", "KEA")]),
        Harness::with_config(&[("notify-keyspace-events", "KEA"), ("hash-max-listpack-entries", "0")]),
    ] {
        harness.on(1).run("PSUBSCRIBE __keyspace*");
        for (line, expected) in [
            ("HSET h a 1 b 2 c 3 d 4", "hset"),
            ("HEXPIRE h 10 FIELDS 3 a b nofield", "hexpire"),
            ("HEXPIRE h 10 NX FIELDS 1 a", ""),
            ("HTTL h FIELDS 1 a", ""),
            ("HPERSIST h FIELDS 2 a b", "hpersist"),
            ("HPERSIST h FIELDS 2 a b", ""),
            ("HGETEX h FIELDS 1 a", ""),
            ("HGETEX h EX 10 FIELDS 2 a b", "hexpire"),
            ("HGETEX h PERSIST FIELDS 2 a c", "hpersist"),
            ("HGETEX h PXAT 1 FIELDS 1 a", "hdel"),
            ("HEXPIRE h 0 FIELDS 2 b nofield", "hdel"),
            ("HGETDEL h FIELDS 2 c nofield", "hdel"),
            ("HGETDEL h FIELDS 1 d", "hdel del"),
            ("HSETEX h FXX FIELDS 1 a 1", ""),
            ("HSETEX h FIELDS 1 a 1", "hset"),
            ("HSETEX h EX 10 FIELDS 1 a 1", "hset hexpire"),
            ("HSETEX h KEEPTTL FIELDS 1 a 1", "hset"),
            ("HSETEX h FNX FIELDS 1 a 1", ""),
            ("HSETEX h PXAT 1 FIELDS 1 a 1", "hset hdel del"),
            ("HSETEX h PXAT 1 FIELDS 1 a 1", "hset hdel del"),
            ("HSETEX h PX 5 FIELDS 3 a 1 b 1 c 1", "hset hexpire"),
            ("wait", ""),
            ("HGET h a", "hexpired"),
            ("HSETEX h FXX FIELDS 1 b 1", "hexpired"),
            ("HINCRBY h c 1", "hexpired del hincrby"),
            ("HPEXPIRE h 5 FIELDS 1 c", "hexpire"),
            ("wait", ""),
            ("HMGET h c nofield", "hexpired del"),
            ("HSETEX h PX 5 FIELDS 2 a 1 b 1", "hset hexpire"),
            ("wait", ""),
            ("HRANDFIELD h", "hexpired del"),
            ("HSETEX h PX 5 FIELDS 2 a 1 b 1", "hset hexpire"),
            ("HSET h c 1", "hset"),
            ("expire", "hexpired"),
            ("HPEXPIRE h 5 FIELDS 1 c", "hexpire"),
            ("expire", "hexpired del"),
            ("HSETEX h PX 5 FIELDS 1 a 1", "hset hexpire"),
            ("PEXPIRE h 2", "expire"),
            ("expire", "expired"),
        ] {
            match line {
                "wait" => harness.advance_ms(10),
                "expire" => {
                    harness.advance_ms(10);
                    for stripe in 0..store::STRIPES {
                        harness.server.expire_slice(stripe, i64::MAX, 32);
                    }
                }
                _ => drop(harness.on(0).run(line)),
            }
            let received = harness.on(1).received();
            let events: Vec<&str> = received.split("__keyspace@0__:h ").skip(1).collect();
            let events: Vec<&str> =
                events.iter().map(|event| event.split(']').next().unwrap_or("")).collect();
            assert_eq!(events.join(" "), expected, "{line}: {received}");
        }
    }
}

#[test]
fn a_field_that_ends_touches_its_watchers() {
    for met in [true, false] {
        let mut harness = Harness::new();
        run(
            &mut harness,
            &[("HSET h a 1 b 2", ":2"), ("HPEXPIRE h 5 FIELDS 1 a", "[:1]"), ("WATCH h", "+OK")],
        );
        harness.advance_ms(10);
        if met {
            harness.on(1).check("HGET h a", "(nil)");
        } else {
            for stripe in 0..store::STRIPES {
                harness.server.expire_slice(stripe, i64::MAX, 32);
            }
        }
        run(harness.on(0), &[("MULTI", "+OK"), ("HLEN h", "+QUEUED"), ("EXEC", "(nil array)")]);
    }
}
