//! MIGRATE between two servers of one process.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};

use engine::testing::{DirectLink, Harness};

type Shared = Arc<Mutex<Harness>>;
fn direct(to: &Shared, meanwhile: impl FnMut(usize) -> io::Result<()> + Send + 'static) -> Box<DirectLink> {
    Box::new(DirectLink::new(to, meanwhile))
}

/// A server that knows the way to another, and that one.
fn two() -> (Harness, Shared) {
    two_with(&[])
}

fn two_with(directives: &[(&str, &str)]) -> (Harness, Shared) {
    let (mut from, to) = (Harness::with_config(directives), Harness::with_config(directives));
    let to = Arc::new(Mutex::new(to));
    from.give_link(direct(&to, |_| Ok(())));
    (from, to)
}

fn there(to: &Shared, line: &str, expected: &str) {
    to.lock().expect("a test that goes on").check(line, expected);
}

#[test]
fn keys_of_any_type_go_with_their_ends() {
    let (mut from, to) = two();
    for line in [
        "SET text v",
        "SET number 17",
        "RPUSH list a b c",
        "SADD set a b",
        "ZADD zset 1 a 2 b",
        "HSET hash f v g w",
        "XADD stream 5-1 f v",
    ] {
        from.run(line);
    }
    from.run_args(&[b"SET", b"long", &vec![b'x'; 300_000]]);
    let members: Vec<String> = (0..30_000).map(|n| format!("member:{n}")).collect();
    let words: Vec<&[u8]> =
        [&b"SADD"[..], b"big"].into_iter().chain(members.iter().map(|m| m.as_bytes())).collect();
    from.run_args(&words);
    from.check("PEXPIRE list 5000", ":1");
    let digest = from.run("DEBUG DIGEST");
    let command = "MIGRATE host 6379 \"\" 0 1000 KEYS text number list set none zset hash stream long big";
    assert_eq!(from.effects(command), "SELECT 0|DEL text number list set zset hash stream long big");
    from.check("DBSIZE", ":0");
    there(&to, "DBSIZE", ":9");
    there(&to, "PTTL list", ":5000");
    there(&to, "SCARD big", ":30000");
    assert_eq!(to.lock().expect("a test that goes on").run("DEBUG DIGEST"), digest);
    from.check("MIGRATE host 6379 text 0 1000", "+NOKEY");
}

#[test]
fn options_are_given_effect() {
    let (mut from, to) = two();
    from.run("MSET a 1 b 2 c 3");
    from.check("MIGRATE host 6379 a 3 1000 COPY", "+OK");
    from.check("GET a", "1");
    there(&to, "SELECT 3", "+OK");
    there(&to, "GET a", "1");
    from.run("SET a other");
    let busy = "-ERR Target instance replied with error: BUSYKEY Target key name already exists.";
    from.check("MIGRATE host 6379 a 3 1000", busy);
    from.check("GET a", "other");
    from.check("MIGRATE host 6379 a 3 1000 REPLACE", "+OK");
    from.check("EXISTS a", ":0");
    there(&to, "GET a", "other");
    // What could be moved is.
    from.run("SET a again");
    assert_eq!(from.effects("MIGRATE host 6379 \"\" 3 1000 KEYS b a c"), "SELECT 0|DEL b c");
    from.check("MIGRATE host 6379 \"\" 3 1000 KEYS a", busy);
    from.check("EXISTS a b c", ":1");
    there(&to, "MGET a b c", "[other 2 3]");
    from.check(
        "MIGRATE host 6379 a 99 1000",
        "-ERR Target instance replied with error: ERR DB index is out of range",
    );
    assert!(from.run("INFO stats").contains("migrate_cached_sockets:1\r\n"));
}

#[test]
fn a_key_named_twice_goes_once() {
    let (mut from, to) = two();
    from.run("SET a 1");
    from.check("MIGRATE host 6379 \"\" 0 1000 REPLACE KEYS a a", "+OK");
    from.check("EXISTS a", ":0");
    there(&to, "GET a", "1");
}

#[test]
fn who_must_say_who_it_is_does() {
    let (mut from, to) = two();
    there(&to, "CONFIG SET requirepass secret", "+OK");
    to.lock().expect("a test that goes on").on(1);
    from.run("SET a 1");
    let refused = |why: &str| format!("-ERR Target instance replied with error: {why}");
    from.check("MIGRATE host 6379 a 0 1000", &refused("NOAUTH Authentication required."));
    let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
    from.check("MIGRATE host 6379 a 0 1000 AUTH wrong", &refused(wrong));
    from.check("MIGRATE host 6379 a 0 1000 AUTH2 nobody secret", &refused(wrong));
    from.check("MIGRATE host 6379 a 0 1000 AUTH2 default secret KEYS b", &{
        "-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string".to_owned()
    });
    from.check("MIGRATE host 6379 a 0 1000 AUTH secret", "+OK");
    there(&to, "GET a", "1");
    from.run("CONFIG SET slowlog-log-slower-than 0");
    from.check("MIGRATE host 6379 none 0 1000 AUTH2 name secret COPY", "+NOKEY");
    let shown = from.run("SLOWLOG GET 1");
    assert!(shown.contains("[MIGRATE host 6379 none 0 1000 AUTH2 (redacted) (redacted) COPY]"), "{shown}");
}

/// Moves a list while `change` is done to it, the first `times` that it has been sent.
fn move_disturbed(times: usize, change: &'static str) -> (Harness, Shared) {
    let (mut from, to) = (Harness::new(), Arc::new(Mutex::new(Harness::new())));
    for line in ["RPUSH list a", "SET text 1"] {
        from.run(line);
    }
    let mut other = Harness::sharing(&from);
    let disturbing = move |reads| {
        if reads <= times {
            other.run(change);
        }
        Ok(())
    };
    from.give_link(direct(&to, disturbing));
    from.check("MIGRATE host 6379 \"\" 0 1000 KEYS list text", "+OK");
    (from, to)
}

#[test]
fn what_is_written_meanwhile_goes_too() {
    for (times, there_then) in [(1, "[a b]"), (2, "[a b b]"), (3, "[a b b b]")] {
        let (mut from, to) = move_disturbed(times, "RPUSH list b");
        there(&to, "LRANGE list 0 -1", there_then);
        there(&to, "GET text", "1");
        from.check("EXISTS list text", ":0");
    }
    let (mut from, to) = move_disturbed(1, "PEXPIRE list 7000");
    there(&to, "PTTL list", ":7000");
    from.check("EXISTS list text", ":0");
}

#[test]
fn what_is_deleted_meanwhile_is_deleted_there() {
    let (mut from, to) = move_disturbed(1, "DEL list");
    there(&to, "KEYS *", "[text]");
    from.check("DBSIZE", ":0");
    let (mut from, to) = move_disturbed(1, "RENAME list text");
    there(&to, "LRANGE text 0 -1", "[a]");
    there(&to, "EXISTS list", ":0");
    from.check("DBSIZE", ":0");
}

#[test]
fn a_link_that_is_dead_is_replaced_once() {
    let gone = || Err::<(), _>(io::Error::from(ErrorKind::UnexpectedEof));
    for (links, kind, expected) in [
        (2, ErrorKind::UnexpectedEof, "+OK"),
        (1, ErrorKind::UnexpectedEof, "-IOERR error or timeout connecting to the client"),
        (0, ErrorKind::UnexpectedEof, "-IOERR error or timeout connecting to the client"),
        (2, ErrorKind::TimedOut, "-IOERR error or timeout reading to target instance"),
    ] {
        let (mut from, to) = (Harness::new(), Arc::new(Mutex::new(Harness::new())));
        from.run("SET a 1");
        if links > 1 {
            from.give_link(direct(&to, |_| Ok(())));
        }
        if links > 0 {
            from.give_link(direct(&to, move |_| Err(kind.into())));
        }
        from.check("MIGRATE host 6379 a 0 1000", expected);
        from.check("EXISTS a", if expected == "+OK" { ":0" } else { ":1" });
    }
    let (mut from, to) = (Harness::new(), Arc::new(Mutex::new(Harness::new())));
    from.run("SET a 1");
    (0..2).for_each(|_| from.give_link(direct(&to, move |_| gone())));
    from.check("MIGRATE host 6379 a 0 1000", "-IOERR error or timeout reading to target instance");
    from.check("EXISTS a", ":1");
}

#[test]
fn a_link_that_ends_midway_leaves_what_was_not_acknowledged() {
    let (mut from, to) = (Harness::new(), Arc::new(Mutex::new(Harness::new())));
    let keys: Vec<String> = (0..1500).map(|n| format!("key:{n}")).collect();
    for key in &keys {
        from.run(&format!("SET {key} v"));
    }
    let ending = |reads| if reads == 1 { Ok(()) } else { Err(ErrorKind::ConnectionReset.into()) };
    from.give_link(direct(&to, ending));
    let line = format!("MIGRATE host 6379 \"\" 0 1000 KEYS {}", keys.join(" "));
    from.check(&line, "-IOERR error or timeout reading to target instance");
    from.check("DBSIZE", ":476");
    there(&to, "DBSIZE", ":1024");
}

#[test]
fn transactions_and_scripts_may_migrate() {
    let (mut from, to) = two();
    from.run("MSET {t}a 1 {t}b 2");
    for line in ["MULTI", "SET {t}a 3", "MIGRATE host 6379 {t}a 0 1000", "EXISTS {t}a"] {
        from.run(line);
    }
    from.check("EXEC", "[+OK +OK :0]");
    assert_eq!(from.deferred, 1, "not on a worker");
    from.check("EVAL \"return redis.call('MIGRATE', 'host', 6379, KEYS[1], 0, 1000)\" 1 {t}b", "+OK");
    assert_eq!(from.deferred, 2, "not on a worker");
    there(&to, "MGET {t}a {t}b", "[3 2]");
    from.check("DBSIZE", ":0");
}

#[test]
fn in_a_cluster_it_goes_into_a_slot_that_is_being_moved() {
    let (mut from, to) = two_with(&[("cluster-enabled", "yes")]);
    from.run("MSET {t}a 1 {t}b 2");
    from.check("MIGRATE host 6379 \"\" 0 1000 KEYS {t}a {t}b", "+OK");
    there(&to, "MGET {t}a {t}b", "[1 2]");
    let info = to.lock().expect("a test that goes on").run("INFO commandstats");
    assert!(info.contains("cmdstat_restore-asking:calls=2,"), "{info}");
    from.check(
        "MIGRATE host 6379 \"\" 0 1000 KEYS a b",
        "-CROSSSLOT Keys in request don't hash to the same slot",
    );
}

#[test]
fn mistakes_are_reported_as_by_redis() {
    let mut harness = Harness::new();
    let not_empty = "-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string";
    for (line, expected) in [
        ("MIGRATE host 6379 a 0", "-ERR wrong number of arguments for 'migrate' command"),
        ("MIGRATE host 6379 a x 1000", "-ERR value is not an integer or out of range"),
        ("MIGRATE host 6379 a 0 soon", "-ERR value is not an integer or out of range"),
        ("MIGRATE host 6379 a 0 1000 MOVE", "-ERR syntax error"),
        ("MIGRATE host 6379 a 0 1000 AUTH", "-ERR syntax error"),
        ("MIGRATE host 6379 a 0 1000 AUTH2 name", "-ERR syntax error"),
        ("MIGRATE host 6379 a 0 1000 KEYS b", not_empty),
        ("MIGRATE host 6379 a 0 1000", "+NOKEY"),
        ("MIGRATE host 6379 \"\" 0 -5 KEYS a b", "+NOKEY"),
        ("MIGRATE host 6379 \"\" 0 1000 KEYS", "+NOKEY"),
        ("COMMAND GETKEYS MIGRATE host 6379 a 0 1000 COPY", "[a]"),
        ("COMMAND GETKEYS MIGRATE host 6379 \"\" 0 1000 AUTH keys COPY KEYS a b", "[a b]"),
    ] {
        harness.check(line, expected);
    }
}
