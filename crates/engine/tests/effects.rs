//! What commands leave in the log: what a redis-server 7.0 sends its replicas for them, and 8.0 for what 7.0 lacks.
//!
//! A line is a command and its effects, with a bar between two. `?` before a command: whatever its effects are, they are not
//! looked at. The clock stands at 1,704,067,200,000 ms until a `wait`.

use engine::persistence::replaying::Replayer;
use engine::testing::Harness;

/// Runs the lines on a fresh server.
fn check(lines: &str) {
    check_on(&mut Harness::with_config(&[("enable-debug-command", "yes")]), lines);
}

fn check_on(harness: &mut Harness, lines: &str) {
    // The log is wanted from the first line on, and has a database.
    harness.effects("SET first 1");
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (number, line) = match line.split_once("> ") {
            Some((number, rest)) if number.len() == 1 => (number.parse().expect("a connection"), rest),
            _ => (0, line),
        };
        harness.on(number);
        if let Some(ms) = line.strip_prefix("wait ") {
            harness.advance_ms(ms.parse().expect("milliseconds"));
        } else if let Some(command) = line.strip_prefix("? ") {
            harness.effects(command);
        } else {
            let (command, expected) = line.split_once(" => ").unwrap_or((line.trim_end_matches(" =>"), ""));
            // A last word that is empty shows as a space.
            assert_eq!(harness.effects(command).trim_end(), expected, "{line}");
        }
    }
}

#[test]
fn strings() {
    check(
        "SET k v => SET k v
        set k v => set k v
        SET k v EX 100 => SET k v PXAT 1704067300000
        SET k v PX 100 => SET k v PXAT 1704067200100
        SET k v EXAT 99999999999 => SET k v PXAT 99999999999000
        SET k v PXAT 99999999999000 => SET k v PXAT 99999999999000
        SET k v XX EX 100 GET => SET k v PXAT 1704067300000
        SET k v XX KEEPTTL => SET k v XX KEEPTTL
        SET k v KEEPTTL GET => SET k v KEEPTTL
        SET k v NX =>
        SET k2 v NX GET => SET k2 v NX
        SET k v EXAT 1 => SET k v PXAT 1000
        SET k v NX PXAT 1 => MULTI|DEL k|SET k v PXAT 1|EXEC
        EXISTS k => DEL k
        SETEX k 10 v => SET k v PXAT 1704067210000
        PSETEX k 10 v => SET k v PXAT 1704067200010
        SETNX k v =>
        SETNX kk v => SETNX kk v
        GETSET k w => SET k w
        GETEX k =>
        GETEX k EX 100 => PEXPIREAT k 1704067300000
        GETEX k PXAT 99999999999000 => PEXPIREAT k 99999999999000
        GETEX k PERSIST => PERSIST k
        GETEX k PERSIST =>
        GETEX k EXAT 1 => DEL k
        GETEX k EXAT 1 =>
        SET k v => SET k v
        GETDEL k => DEL k
        GETDEL k =>
        MSET a 1 b 2 => MSET a 1 b 2
        MSETNX a 1 c 2 =>
        MSETNX c 1 d 2 => MSETNX c 1 d 2
        APPEND a x => APPEND a x
        APPEND a \"\" => APPEND a
        SETRANGE a 0 \"\" =>
        SETRANGE a 0 b => SETRANGE a 0 b
        SETRANGE none 0 \"\" =>
        GETRANGE a 0 1 =>
        LCS a b =>",
    );
}

#[test]
fn counters_and_bits() {
    check(
        "INCR n => INCR n
        INCRBY n 5 => INCRBY n 5
        DECR n => DECR n
        DECRBY n 0 => DECRBY n 0
        INCRBYFLOAT n 1.5 => SET n 6.5 KEEPTTL
        INCRBYFLOAT n x =>
        INCR n =>
        SETBIT b 7 1 => SETBIT b 7 1
        SETBIT b 7 1 =>
        BITFIELD b GET u8 0 =>
        BITFIELD b SET u8 0 5 INCRBY u8 0 1 => BITFIELD b SET u8 0 5 INCRBY u8 0 1
        BITFIELD b SET u8 0 6 =>
        BITFIELD b OVERFLOW FAIL INCRBY u8 0 1000 =>
        BITFIELD b OVERFLOW FAIL INCRBY u8 80 1000 => BITFIELD b OVERFLOW FAIL INCRBY u8 80 1000
        BITFIELD b OVERFLOW FAIL INCRBY u8 80 1000 =>
        BITFIELD_RO b GET u8 0 =>
        BITOP AND d b none => BITOP AND d b none
        BITOP NOT d none => BITOP NOT d none
        BITOP NOT d none =>
        BITCOUNT b =>",
    );
}

#[test]
fn times_to_live() {
    check(
        "SET k v => SET k v
        EXPIRE k 100 => PEXPIREAT k 1704067300000
        EXPIRE k 100 NX =>
        EXPIRE k 10 XX => PEXPIREAT k 1704067210000 XX
        PEXPIRE k 100 => PEXPIREAT k 1704067200100
        EXPIREAT k 99999999999 => PEXPIREAT k 99999999999000
        PEXPIREAT k 99999999999001 GT => PEXPIREAT k 99999999999001 GT
        PEXPIREAT k 99999999999001 GT =>
        PERSIST k => PERSIST k
        PERSIST k =>
        EXPIRE k 0 => DEL k
        EXPIRE k 0 =>
        SET k v => SET k v
        PEXPIREAT k 1 => DEL k
        CONFIG SET lazyfree-lazy-expire yes lazyfree-lazy-user-del yes =>
        SET k v => SET k v
        EXPIREAT k 1 => UNLINK k
        SET k v => SET k v
        GETEX k PX 20 => PEXPIREAT k 1704067200020
        wait 21
        GET k => UNLINK k
        SET k v => SET k v
        GETEX k PXAT 1 => UNLINK k
        SET k v => SET k v
        GETDEL k => UNLINK k",
    );
}

#[test]
fn keys() {
    check(
        "MSET a 1 b 2 c 3 => MSET a 1 b 2 c 3
        DEL a none => DEL a none
        DEL none =>
        UNLINK b none => UNLINK b none
        RENAME c c =>
        RENAME c d => RENAME c d
        RENAMENX d d =>
        RENAMENX d e => RENAMENX d e
        COPY e f => COPY e f
        COPY e f =>
        COPY e f REPLACE => COPY e f REPLACE
        COPY none f REPLACE =>
        COPY e f DB 3 => COPY e f DB 3
        MOVE e 2 => MOVE e 2
        MOVE none 2 =>
        TOUCH f =>
        OBJECT ENCODING f =>
        SWAPDB 0 0 => SWAPDB 0 0
        SWAPDB 5 6 => SWAPDB 5 6
        FLUSHDB => FLUSHDB
        FLUSHDB ASYNC => FLUSHDB ASYNC
        FLUSHALL SYNC => FLUSHALL SYNC
        FLUSHALL => FLUSHALL
        SELECT 7 =>
        FLUSHDB => SELECT 7|FLUSHDB
        RANDOMKEY =>
        SCAN 0 =>
        DEBUG POPULATE 2 p => SET p:0 value:0|SET p:1 value:1
        DEBUG POPULATE 2 p =>",
    );
}

#[test]
fn dumped_values() {
    let payload = "\\x00\\x01a\\n\\x00\\xbf\\xfe\\xef\\x9b\\x8f6}\\xb4";
    let mut harness = Harness::new();
    harness.effects("SET first 1");
    for (options, expected) in [
        ("RESTORE k 0 @", "RESTORE k 0 @"),
        ("RESTORE k 0 @", ""),
        ("RESTORE k 0 @ REPLACE", "RESTORE k 0 @ REPLACE"),
        ("RESTORE k 10 @ REPLACE", "RESTORE k 1704067200010 @ REPLACE ABSTTL"),
        ("RESTORE k 1704067200011 @ REPLACE ABSTTL", "RESTORE k 1704067200011 @ REPLACE ABSTTL"),
        ("RESTORE k 0 @ IDLETIME 5 REPLACE", "RESTORE k 0 @ REPLACE IDLETIME 5"),
        ("RESTORE k 0 @ REPLACE FREQ 5", "RESTORE k 0 @ REPLACE FREQ 5"),
        ("RESTORE-ASKING k 0 @ REPLACE", "RESTORE k 0 @ REPLACE"),
        ("RESTORE k 1 @ REPLACE ABSTTL", "DEL k"),
        ("RESTORE k 1 @ REPLACE ABSTTL", ""),
    ] {
        let effects = harness.effects(&options.replace('@', &format!("\"{payload}\"")));
        let words: Vec<&str> = effects.split(' ').collect();
        let shown = words.iter().enumerate().map(|(at, word)| if at == 3 { "@" } else { *word });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{options}");
    }
}

#[test]
fn lists() {
    check(
        "LPUSH l a b c => LPUSH l a b c
        RPUSHX l d => RPUSHX l d
        RPUSHX none d =>
        LPOP l => LPOP l
        LPOP l 0 =>
        RPOP l 2 => RPOP l 2
        LPOP l 9 => LPOP l 9
        LPOP l =>
        RPUSH l a b c d e f a a => RPUSH l a b c d e f a a
        LSET l 0 z => LSET l 0 z
        LREM l 0 none =>
        LREM l 0 a => LREM l 0 a
        LINSERT l BEFORE b q => LINSERT l BEFORE b q
        LINSERT l BEFORE none q =>
        LTRIM l 0 100 =>
        LTRIM l 0 -2 => LTRIM l 0 -2
        LTRIM none 0 1 =>
        LMOVE l m LEFT RIGHT => LMOVE l m LEFT RIGHT
        LMOVE none m LEFT RIGHT =>
        LMOVE l l LEFT RIGHT => LMOVE l l LEFT RIGHT
        RPOPLPUSH l m => RPOPLPUSH l m
        BRPOPLPUSH l m 0 => RPOPLPUSH l m
        BLMOVE l m LEFT LEFT 0 => LMOVE l m LEFT LEFT
        LMPOP 2 none l LEFT => LPOP l 1
        LMPOP 2 none l RIGHT COUNT 10 => RPOP l 1
        LMPOP 2 none l RIGHT COUNT 10 =>
        RPUSH l a b c d => RPUSH l a b c d
        BLPOP none l 0 => LPOP l
        BRPOP l none 0 => RPOP l
        BLMPOP 0 2 none l RIGHT COUNT 10 => RPOP l 2
        SORT m ALPHA STORE d => SORT m ALPHA STORE d
        SORT m ALPHA =>
        SORT none STORE d => SORT none STORE d
        SORT none STORE d =>
        LRANGE m 0 -1 =>",
    );
}

#[test]
fn sets() {
    check(
        "SADD s a b c => SADD s a b c
        SADD s a =>
        SADD s a x => SADD s a x
        SREM s x none => SREM s x none
        SREM s none =>
        SMOVE s t none =>
        SMOVE s t a => SMOVE s t a
        SMOVE s s b =>
        SINTERSTORE d s s => SINTERSTORE d s s
        SINTERSTORE d s none => SINTERSTORE d s none
        SINTERSTORE d s none =>
        SUNIONSTORE d s t => SUNIONSTORE d s t
        SDIFFSTORE d s s => SDIFFSTORE d s s
        SPOP t => SREM t a
        SPOP s 0 =>
        SPOP s 2 => DEL s
        SPOP s 2 =>
        SPOP s =>
        SRANDMEMBER s =>",
    );
}

/// The members that the SREMs of an SPOP name, which is all that it may leave.
fn told_members(effects: &str) -> Vec<String> {
    let commands = effects.split('|').filter(|command| !matches!(*command, "MULTI" | "EXEC"));
    let members = commands.map(|command| command.strip_prefix("SREM s ").expect("only SREM"));
    members.flat_map(|members| members.split(' ').map(str::to_owned)).collect()
}

#[test]
fn popped_members_are_removed_by_name() {
    let mut harness = Harness::new();
    for (len, count) in [(10, 3), (5_000, 900), (5_000, 4_999), (30_000, 20_000)] {
        harness.run("DEL s");
        let all: Vec<String> = (0..len).map(|n| n.to_string()).collect();
        harness.run(&format!("SADD s {}", all.join(" ")));
        let told = told_members(&harness.effects(&format!("SPOP s {count}")).replace("SELECT 0|", ""));
        assert_eq!(told.len(), count, "{len}");
        let left = harness.run("SMEMBERS s");
        let mut together: Vec<&str> = left.trim_matches(['[', ']']).split(' ').collect();
        together.extend(told.iter().map(String::as_str));
        together.sort_unstable();
        together.dedup();
        assert_eq!(together.len(), len, "what is told is gone, and the rest is there");
    }
}

#[test]
fn sorted_sets_and_places() {
    check(
        "ZADD z 1 a 2 b => ZADD z 1 a 2 b
        ZADD z 1 a =>
        ZADD z XX 1 q =>
        ZADD z INCR 1 a => ZADD z INCR 1 a
        ZADD z GT INCR -100 a =>
        ZADD z CH 1 a => ZADD z CH 1 a
        ZINCRBY z 2 a => ZINCRBY z 2 a
        ZINCRBY z 0 a =>
        ZREM z none =>
        ZREM z a none => ZREM z a none
        ZPOPMIN z => ZPOPMIN z
        ZADD z 1 a 2 b 3 c 4 d 5 e 6 f 7 g => ZADD z 1 a 2 b 3 c 4 d 5 e 6 f 7 g
        ZPOPMAX z 0 =>
        ZPOPMAX z 2 => ZPOPMAX z 2
        ZMPOP 2 none z MIN => ZPOPMIN z 1
        ZMPOP 2 none z MAX COUNT 2 => ZPOPMAX z 2
        BZPOPMIN none z 0 => ZPOPMIN z
        BZMPOP 0 2 none z MAX COUNT 10 => ZPOPMAX z 1
        ZMPOP 2 none z MIN =>
        ZADD z 1 a 2 b 3 c 4 d => ZADD z 1 a 2 b 3 c 4 d
        ZRANGESTORE d z 0 -1 => ZRANGESTORE d z 0 -1
        ZRANGESTORE d z 5 1 => ZRANGESTORE d z 5 1
        ZRANGESTORE d z 5 1 =>
        ZUNIONSTORE d 2 z z => ZUNIONSTORE d 2 z z
        ZINTERSTORE d 2 z none => ZINTERSTORE d 2 z none
        ZDIFFSTORE d 2 z z =>
        ZREMRANGEBYRANK z 0 0 => ZREMRANGEBYRANK z 0 0
        ZREMRANGEBYRANK z 9 9 =>
        ZREMRANGEBYSCORE z 2 2 => ZREMRANGEBYSCORE z 2 2
        ZREMRANGEBYLEX z [c [c => ZREMRANGEBYLEX z [c [c
        GEOADD g 13.361389 38.115556 P 15.087269 37.502669 C => ZADD g 3479099956230698 P 3479447370796909 C
        GEOADD g 13.361389 38.115556 P =>
        GEOADD g XX CH 13.5 38 P => ZADD g XX CH 3479097324432493 P
        GEORADIUS g 15 37 200 km STORE d => GEORADIUS g 15 37 200 km STORE d
        GEORADIUS g 15 37 200 km =>
        GEORADIUSBYMEMBER g P 200 km STOREDIST d => GEORADIUSBYMEMBER g P 200 km STOREDIST d
        GEOSEARCHSTORE d g FROMLONLAT 0 0 BYRADIUS 2 m => GEOSEARCHSTORE d g FROMLONLAT 0 0 BYRADIUS 2 m
        GEOSEARCHSTORE d g FROMLONLAT 0 0 BYRADIUS 2 m =>",
    );
}

#[test]
fn cardinalities() {
    check(
        "PFADD p a b c => PFADD p a b c
        PFADD p a =>
        PFADD e => PFADD e
        PFADD e =>
        PFCOUNT p => PFCOUNT p
        PFCOUNT p =>
        PFCOUNT p e =>
        PFMERGE m p e => PFMERGE m p e
        PFMERGE m p e => PFMERGE m p e
        PFDEBUG ENCODING p =>
        PFDEBUG TODENSE p => PFDEBUG TODENSE p
        PFDEBUG TODENSE p =>",
    );
}

#[test]
fn hashes() {
    check(
        "HSET h a 1 b 2 => HSET h a 1 b 2
        HSET h a 1 => HSET h a 1
        HSETNX h a 1 =>
        HSETNX h n 1 => HSETNX h n 1
        HMSET h a 1 => HMSET h a 1
        HINCRBY h a 1 => HINCRBY h a 1
        HINCRBYFLOAT h a 1.5 => HSET h a 3.5
        HDEL h none =>
        HDEL h n none => HDEL h n none
        HGETALL h =>
        HRANDFIELD h =>",
    );
}

#[test]
fn ends_of_fields() {
    check(
        "HSET h a 1 b 2 c 3 d 4 e 5 f 6 => HSET h a 1 b 2 c 3 d 4 e 5 f 6
        HEXPIRE h 100 FIELDS 2 a b => HPEXPIREAT h 1704067300000 FIELDS 2 a b
        HEXPIRE h 100 NX FIELDS 3 a b c => HPEXPIREAT h 1704067300000 NX FIELDS 1 c
        HEXPIRE h 100 NX FIELDS 2 a b =>
        HPEXPIRE h 100 FIELDS 2 a none => HPEXPIREAT h 1704067200100 FIELDS 1 a
        HPEXPIREAT h 9999999999900 GT FIELDS 1 a => HPEXPIREAT h 9999999999900 GT FIELDS 1 a
        HEXPIREAT h 9999999999 FIELDS 2 a b => HPEXPIREAT h 9999999999000 FIELDS 2 a b
        HINCRBYFLOAT h a 1 => HSETEX h KEEPTTL FIELDS 1 a 2
        HPERSIST h FIELDS 2 a b => HPERSIST h FIELDS 2 a b
        HPERSIST h FIELDS 2 a b =>
        HPEXPIRE h 0 FIELDS 2 a b => HDEL h a b
        HPEXPIREAT h 1 FIELDS 2 c none => HDEL h c
        HSET h a 1 b 2 c 3 => HSET h a 1 b 2 c 3
        HGETDEL h FIELDS 2 a none => HDEL h a
        HGETDEL h FIELDS 2 none nor =>
        HGETEX h FIELDS 1 c =>
        HGETEX h EX 100 FIELDS 2 c none => HPEXPIREAT h 1704067300000 FIELDS 1 c
        HGETEX h PERSIST FIELDS 3 c d e => HPERSIST h FIELDS 1 c
        HGETEX h PERSIST FIELDS 3 c d e =>
        HGETEX h EXAT 1 FIELDS 2 c none => HDEL h c
        HSETEX h FIELDS 2 a 1 b 2 => HSETEX h FIELDS 2 a 1 b 2
        HSETEX h EX 100 FIELDS 2 a 1 b 2 => HSETEX h PXAT 1704067300000 FIELDS 2 a 1 b 2
        HSETEX h KEEPTTL FIELDS 1 a 1 => HSETEX h KEEPTTL FIELDS 1 a 1
        HSETEX h FNX PX 100 FIELDS 1 new 1 => HSETEX h PXAT 1704067200100 FIELDS 1 new 1
        HSETEX h FNX PX 100 FIELDS 1 new 1 =>
        HSETEX h FXX PX 100 FIELDS 1 none 1 =>
        HSETEX h PXAT 1 FIELDS 2 a 1 q 2 => HDEL h a q
        HPEXPIRE h 0 FIELDS 6 a b c d e f => HDEL h b d e f",
    );
}

#[test]
fn fields_that_were_found_past_their_end_are_removed_first() {
    let refill = "? HSET h a 1 b 2 c 3 d 4\n ? HPEXPIRE h 20 FIELDS 2 a b\n wait 21";
    for (command, effects) in [
        ("HGET h a", "HDEL h a"),
        ("HEXISTS h a", "HDEL h a"),
        ("HSTRLEN h a", "HDEL h a"),
        ("HMGET h c b a", "HDEL h b a"),
        ("HINCRBY h a 5", "MULTI|HDEL h a|HINCRBY h a 5|EXEC"),
        ("HINCRBYFLOAT h a 5", "MULTI|HDEL h a|HSET h a 5|EXEC"),
        ("HSETNX h a 5", "MULTI|HDEL h a|HSETNX h a 5|EXEC"),
        ("HSET h a 5", "HSET h a 5"),
        ("HDEL h a", "HDEL h a"),
        ("HGETALL h", ""),
        ("HGETDEL h FIELDS 2 a c", "MULTI|HDEL h a|HDEL h c|EXEC"),
        ("HGETEX h FIELDS 2 a c", "HDEL h a"),
        ("HPERSIST h FIELDS 2 a c", ""),
        ("HSETEX h FXX FIELDS 1 a 9", "HDEL h a"),
        ("HSETEX h FNX FIELDS 1 a 9", "MULTI|HDEL h a|HSETEX h FIELDS 1 a 9|EXEC"),
        (
            "HPEXPIREAT h 9999999999000 FIELDS 2 a c",
            "MULTI|HDEL h a|HPEXPIREAT h 9999999999000 FIELDS 1 c|EXEC",
        ),
        ("EVAL \"redis.call('HGET', KEYS[1], 'a') redis.call('HLEN', KEYS[1])\" 1 h", "HDEL h a"),
    ] {
        check(&format!("{refill}\n {command} => {effects}"));
    }
    let mut harness = Harness::new();
    harness.run("HSET h a 1 b 2 c 3");
    harness.run("HPEXPIRE h 20 FIELDS 2 a b");
    harness.effects("SET first 1");
    harness.advance_ms(21);
    let mut told: Vec<String> = harness.effects("HRANDFIELD h").split(' ').map(str::to_owned).collect();
    told[2..].sort();
    assert_eq!(told, ["HDEL", "h", "a", "b"]);
}

#[test]
fn streams() {
    check(
        "XADD x 1-1 a 1 => XADD x 1-1 a 1
        XADD x * a 1 => XADD x 1704067200000-0 a 1
        XADD x 99999999999999-* a 1 => XADD x 99999999999999-0 a 1
        XADD x MAXLEN 2 * a 1 => XADD x MAXLEN = 2 99999999999999-1 a 1
        XADD x MAXLEN ~ 1 * a 1 => XADD x MAXLEN = 3 99999999999999-2 a 1
        XADD x MAXLEN = 2 99999999999999-77 a 1 => XADD x MAXLEN = 2 99999999999999-77 a 1
        XADD x MINID ~ 5 LIMIT 10 99999999999999-79 a 1 => XADD x MINID = 99999999999999-2 99999999999999-79 a 1
        XADD none NOMKSTREAM * a b =>
        XADD x NOMKSTREAM * a b => XADD x NOMKSTREAM 99999999999999-80 a b
        XTRIM x MAXLEN 1 => XTRIM x MAXLEN 1
        XTRIM x MAXLEN 100 =>
        XTRIM x MAXLEN ~ 0 => XTRIM x MAXLEN = 0
        XTRIM x MINID ~ 99999999999999-90 =>
        XADD y 1-1 a b => XADD y 1-1 a b
        XADD y MINID ~ 3 LIMIT 0 2-1 a b => XADD y MINID = 18446744073709551615-18446744073709551615 2-1 a b
        XADD y MAXLEN ~ 0 LIMIT 0 3-1 a b => XADD y MAXLEN = 0 3-1 a b
        XADD y MINID ~ 3 4-1 a b => XADD y MINID = 4-1 4-1 a b
        XTRIM y MINID ~ 5 LIMIT 0 => XTRIM y MINID = 18446744073709551615-18446744073709551615
        DEL y => DEL y
        XADD x 99999999999999-90 a b => XADD x 99999999999999-90 a b
        XDEL x 99999999999999-90 5-5 => XDEL x 99999999999999-90 5-5
        XDEL x 5-5 =>
        XSETID x 99999999999999-95 => XSETID x 99999999999999-95
        XGROUP CREATE x g 0 => XGROUP CREATE x g 0
        XGROUP CREATE y g $ MKSTREAM => XGROUP CREATE y g $ MKSTREAM
        XGROUP SETID x g 0 ENTRIESREAD 2 => XGROUP SETID x g 0 ENTRIESREAD 2
        XGROUP CREATECONSUMER x g c => XGROUP CREATECONSUMER x g c
        XGROUP CREATECONSUMER x g c =>
        XGROUP DELCONSUMER x g c => XGROUP DELCONSUMER x g c
        XGROUP DELCONSUMER x g c =>
        XGROUP DESTROY x g => XGROUP DESTROY x g
        XGROUP DESTROY x g =>
        XREAD COUNT 1 STREAMS x 0 =>",
    );
}

#[test]
fn what_redis_tells_others_of_trimming_is_taken_from_files() {
    let (mut harness, mut commands) = (Harness::new(), Vec::new());
    for command in ["XADD x 1-1 a b", "XADD x MINID = 1-1 LIMIT 10 2-1 a b", "XTRIM x MAXLEN = 1 LIMIT 10"] {
        resp::write_command(&mut commands, command.split(' ').collect::<Vec<_>>());
    }
    let mut replayer = Replayer::new(&harness.server);
    replayer.run_all(&commands);
    assert_eq!(replayer.failures, (0, None));
    harness.check("XRANGE x - +", "[[2-1 [a b]]]");
    let refused = "-ERR syntax error, LIMIT cannot be used without the special ~ option";
    harness.check("XTRIM x MAXLEN = 1 LIMIT 10", refused);
}

#[test]
fn groups_that_read() {
    let claim = |consumer: &str, id: &str, count: u32, last: &str| {
        format!(
            "XCLAIM x g {consumer} 0 {id} TIME 1704067200000 RETRYCOUNT {count} FORCE JUSTID LASTID {last}"
        )
    };
    let claims = |list: &[String]| format!("MULTI|{}|EXEC", list.join("|"));
    let mut harness = Harness::new();
    harness.effects("SET first 1");
    for id in ["1-1", "2-1", "3-1", "4-1"] {
        harness.run(&format!("XADD x {id} a 1"));
    }
    harness.run("XGROUP CREATE x g 0");
    for (command, expected) in [
        (
            "XREADGROUP GROUP g c1 COUNT 1 STREAMS x >",
            claims(&[claim("c1", "1-1", 1, "1-1"), "XGROUP SETID x g 1-1 ENTRIESREAD 1".into()]),
        ),
        (
            "XREADGROUP GROUP g c1 COUNT 2 STREAMS x >",
            claims(&[
                claim("c1", "2-1", 1, "2-1"),
                claim("c1", "3-1", 1, "3-1"),
                "XGROUP SETID x g 3-1 ENTRIESREAD 3".into(),
            ]),
        ),
        ("XREADGROUP GROUP g c1 COUNT 2 STREAMS x 0", String::new()),
        ("XREADGROUP GROUP g c2 COUNT 2 STREAMS x 0", "XGROUP CREATECONSUMER x g c2".into()),
        (
            "XREADGROUP GROUP g c3 NOACK STREAMS x >",
            "MULTI|XGROUP CREATECONSUMER x g c3|XGROUP SETID x g 4-1 ENTRIESREAD 4|EXEC".into(),
        ),
        ("XREADGROUP GROUP g c3 STREAMS x >", String::new()),
        ("XACK x g 1-1", "XACK x g 1-1".into()),
        ("XACK x g 1-1", String::new()),
        ("XCLAIM x g c6 0 2-1", claim("c6", "2-1", 3, "4-1")),
        ("XCLAIM x g c6 0 2-1 JUSTID", claim("c6", "2-1", 3, "4-1")),
        ("XCLAIM x g c6 0 1-1 FORCE", claim("c6", "1-1", 2, "4-1")),
        ("XCLAIM x g c6 0 9-9 LASTID 5-5", "XGROUP SETID x g 5-5 ENTRIESREAD 4".into()),
        ("XCLAIM x g c6 999999 1-1", String::new()),
        ("XDEL x 2-1", "XDEL x 2-1".into()),
        ("XCLAIM x g c7 0 2-1 3-1", claims(&[claim("c7", "3-1", 2, "5-5"), claim("c6", "2-1", 3, "5-5")])),
        ("XAUTOCLAIM x g c9 0 0", claims(&[claim("c9", "1-1", 3, "5-5"), claim("c9", "3-1", 3, "5-5")])),
        ("XAUTOCLAIM x g c9 999999 0", String::new()),
        ("XAUTOCLAIM x g c9 0 0 COUNT 1 JUSTID", claim("c9", "1-1", 3, "5-5")),
    ] {
        assert_eq!(harness.effects(command), expected, "{command}");
    }
}

#[test]
fn clients_that_wait_are_served_after_what_served_them() {
    check(
        "1> BLPOP l 0 =>
        LPUSH l a => LPUSH l a|LPOP l
        1> BLPOP l other 0 =>
        2> BRPOP l 0 =>
        3> BLMOVE l ll LEFT RIGHT 0 =>
        4> BRPOPLPUSH l ll 0 =>
        5> BLMPOP 0 2 l none LEFT COUNT 2 =>
        RPUSH l a b c d e f => RPUSH l a b c d e f|LPOP l|RPOP l|LMOVE l ll LEFT RIGHT|RPOPLPUSH l ll|LPOP l 2
        1> BZPOPMIN z 0 =>
        2> BZPOPMAX z 0 =>
        3> BZMPOP 0 1 z MIN COUNT 2 =>
        ZADD z 1 a 2 b 3 c 4 d => ZADD z 1 a 2 b 3 c 4 d|ZPOPMIN z|ZPOPMAX z|ZPOPMIN z 2
        1> BLMOVE q1 q2 LEFT RIGHT 0 =>
        2> BLPOP q2 0 =>
        RPUSH q1 v => RPUSH q1 v|LMOVE q1 q2 LEFT RIGHT|LPOP q2
        1> BLPOP m 0 =>
        MULTI =>
        RPUSH m a =>
        SET other 1 =>
        EXEC => MULTI|RPUSH m a|SET other 1|EXEC|LPOP m
        XGROUP CREATE x g 0 MKSTREAM => XGROUP CREATE x g 0 MKSTREAM
        1> XREADGROUP GROUP g c NOACK BLOCK 0 STREAMS x > => XGROUP CREATECONSUMER x g c
        XADD x 1-1 f v => XADD x 1-1 f v|XGROUP SETID x g 1-1 ENTRIESREAD 1
        1> SELECT 3 =>
        1> BLPOP d 0 =>
        SELECT 3 =>
        LPUSH d a => SELECT 3|LPUSH d a|LPOP d",
    );
}

#[test]
fn scripts_functions_and_messages() {
    let lib =
        "#!lua name=lib\\nredis.register_function('f',function(k,a) return redis.call('SET',k[1],a[1]) end)";
    let shown = lib.replace("\\n", "\n");
    let mut harness = Harness::new();
    harness.effects("SET first 1");
    for (command, expected) in [
        ("EVAL \"redis.call('SET','a',1) redis.call('NOSUCH')\" 0".to_owned(), "SET a 1".to_owned()),
        ("EVAL \"redis.call('SELECT',3) redis.call('SET','a',1)\" 0".into(), "SELECT 3|SET a 1".into()),
        (
            "EVAL \"redis.call('SADD','s',1) redis.call('SPOP','s')\" 0".into(),
            "SELECT 0|MULTI|SADD s 1|SREM s 1|EXEC".into(),
        ),
        ("EVAL \"return redis.call('SPOP','s')\" 0".into(), String::new()),
        (format!("FUNCTION LOAD \"{lib}\""), format!("FUNCTION LOAD {shown}")),
        (format!("FUNCTION LOAD \"{lib}\""), String::new()),
        (format!("FUNCTION LOAD REPLACE \"{lib}\""), format!("FUNCTION LOAD REPLACE {shown}")),
        ("FCALL f 1 k v".into(), "SET k v".into()),
        ("FUNCTION DELETE lib".into(), "FUNCTION DELETE lib".into()),
        ("FUNCTION DELETE lib".into(), String::new()),
        ("FUNCTION FLUSH".into(), "FUNCTION FLUSH".into()),
        ("SCRIPT LOAD \"return 1\"".into(), String::new()),
        ("SCRIPT FLUSH".into(), String::new()),
        ("PUBLISH ch msg".into(), String::new()),
    ] {
        assert_eq!(harness.effects(&command), expected, "{command}");
    }
    harness.server.want_log(engine::propagation::LogReader::Replicas, true);
    check_on(
        &mut harness,
        "PUBLISH ch msg => PUBLISH ch msg
        SPUBLISH ch msg => SPUBLISH ch msg
        EVAL \"redis.call('SET','a',1) redis.call('PUBLISH','x','y')\" 0 => MULTI|SET a 1|PUBLISH x y|EXEC",
    );
}

#[test]
fn keys_that_were_found_expired_are_removed_first() {
    let expired = "? SET e 5 PX 20\n ? SET e2 5 PX 20\n wait 21";
    for (command, effects) in [
        ("GET e", "DEL e"),
        ("INCR e", "MULTI|DEL e|INCR e|EXEC"),
        ("DEL e e2", "MULTI|DEL e|DEL e2|EXEC"),
        ("UNLINK e", "DEL e"),
        ("RENAME e f", "DEL e"),
        ("MGET e e2", "MULTI|DEL e|DEL e2|EXEC"),
        ("WATCH e", "DEL e"),
        ("OBJECT ENCODING e", "DEL e"),
        ("COPY e f", "DEL e"),
        ("SET e 1 KEEPTTL", "MULTI|DEL e|SET e 1 KEEPTTL|EXEC"),
        ("EVAL \"redis.call('GET','e')\" 0", "DEL e"),
        ("EVAL \"redis.call('GET','e') redis.call('SET','f',1)\" 0", "MULTI|DEL e|SET f 1|EXEC"),
        ("SUNIONSTORE d e e2", "MULTI|DEL e|DEL e2|EXEC"),
    ] {
        check(&format!("{expired}\n {command} => {effects}"));
    }
    check(&format!("{expired}\n MULTI =>\n GET e =>\n SET f 1 =>\n EXEC => MULTI|DEL e|SET f 1|EXEC"));
}

#[test]
fn what_ends_or_is_evicted_by_itself_is_removed() {
    let mut harness = Harness::with_config(&[("maxmemory-policy", "allkeys-random")]);
    harness.effects("SET k v PX 10");
    harness.run("HSET h f v g v");
    harness.run("HPEXPIRE h 10 FIELDS 1 f");
    harness.advance_ms(20);
    let removed = harness.effects_of(|harness| {
        let now_ms = 1_704_067_200_020;
        for stripe in 0..store::STRIPES {
            harness.server.expire_slice(stripe, now_ms, 100);
        }
    });
    let mut removed: Vec<&str> = removed.split('|').collect();
    removed.sort_unstable();
    assert_eq!(removed, ["DEL k", "HDEL h f"]);
    for (lazy, expected) in [("no", "DEL h"), ("yes", "UNLINK h")] {
        harness.run("DEL h");
        harness.run("HSET h f v");
        harness.run(&format!("CONFIG SET lazyfree-lazy-eviction {lazy}"));
        assert_eq!(harness.effects_of(|harness| assert!(harness.evict_one())), expected);
    }
}

#[test]
fn big_inputs_are_told_from_the_long_lane() {
    let mut harness = Harness::new();
    let all: Vec<String> = (0..15_000).map(|n| n.to_string()).collect();
    harness.run(&format!("SADD s {}", all.join(" ")));
    harness.run("SADD t 1");
    let scored: Vec<String> = all.iter().map(|n| format!("{n} m{n}")).collect();
    harness.run(&format!("ZADD z {}", scored.join(" ")));
    let deferred = harness.deferred;
    check_on(
        &mut harness,
        "SUNIONSTORE d s t => SUNIONSTORE d s t
        SUNION d s =>
        ZMPOP 1 z MIN COUNT 12000 => ZPOPMIN z 12000
        MULTI =>
        SUNIONSTORE d s t =>
        SPOP t =>
        EXEC => MULTI|SUNIONSTORE d s t|SREM t 1|EXEC
        ? HSET h f v g v
        ? HPEXPIRE h 20 FIELDS 1 f
        ? SET e v PX 20
        wait 21
        EVAL \"redis.call('HGET', 'h', 'f') redis.call('GET', 'e') redis.call('SUNIONSTORE', 'd', 's')\" 3 h e d => \
         MULTI|HDEL h f|DEL e|SUNIONSTORE d s|EXEC",
    );
    assert!(harness.deferred >= deferred + 3, "they were done on the long lane");
}
