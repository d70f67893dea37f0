//! MULTI, EXEC, DISCARD, WATCH in one connection; what others do to it is the differential suite's to show.

use engine::testing::Harness;

fn run(lines: &[(&str, &str)]) {
    let mut harness = Harness::new();
    for (line, expected) in lines {
        harness.check(line, expected);
    }
}

#[test]
fn a_queue_runs_as_one() {
    run(&[
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("INCR a", "+QUEUED"),
        ("LPUSH l x y", "+QUEUED"),
        ("LRANGE l 0 -1", "+QUEUED"),
        ("EXEC", "[+OK :2 :2 [y x]]"),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("DISCARD", "-ERR DISCARD without MULTI"),
    ]);
}

#[test]
fn a_refused_command_aborts_and_a_failing_one_does_not() {
    run(&[
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("GET a", "(nil)"),
        ("MULTI", "+OK"),
        ("SET a x", "+QUEUED"),
        ("INCR a", "+QUEUED"),
        ("EXEC", "[+OK -ERR value is not an integer or out of range]"),
        ("MULTI", "+OK"),
        ("MULTI", "-ERR MULTI calls can not be nested"),
        ("WATCH a", "-ERR WATCH inside MULTI is not allowed"),
        ("EXEC", "[]"),
        (
            "EXEC a",
            "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
        ),
    ]);
}

#[test]
fn walks_and_floods_run_under_the_stripes_that_are_held() {
    run(&[
        ("MSET a 1 b 2", "+OK"),
        ("MULTI", "+OK"),
        ("KEYS a", "+QUEUED"),
        ("RANDOMKEY", "+QUEUED"),
        ("SCAN 0 COUNT 100 MATCH b", "+QUEUED"),
        ("SWAPDB 0 1", "+QUEUED"),
        ("DBSIZE", "+QUEUED"),
        ("FLUSHALL", "+QUEUED"),
        ("SELECT 1", "+QUEUED"),
        ("DBSIZE", "+QUEUED"),
        ("SET c 3", "+QUEUED"),
        ("DEL a b", "+QUEUED"),
        ("DISCARD", "+OK"),
        ("DEL a", ":1"),
        ("MULTI", "+OK"),
        ("KEYS *", "+QUEUED"),
        ("RANDOMKEY", "+QUEUED"),
        ("SCAN 0", "+QUEUED"),
        ("SWAPDB 0 1", "+QUEUED"),
        ("DBSIZE", "+QUEUED"),
        ("FLUSHALL", "+QUEUED"),
        ("SELECT 1", "+QUEUED"),
        ("DBSIZE", "+QUEUED"),
        ("SET c 3", "+QUEUED"),
        ("EXEC", "[[b] b [0 [b]] +OK :0 +OK +OK :0 +OK]"),
        ("GET c", "3"),
    ]);
}

#[test]
fn a_watched_key_that_was_written_stops_the_transaction() {
    for (write, expected) in [
        ("SET w 2", "(nil array)"),
        ("SET w 1", "(nil array)"),
        ("EXPIRE w 100", "(nil array)"),
        ("FLUSHALL", "(nil array)"),
        ("SWAPDB 0 3", "(nil array)"),
        ("RENAME w v", "(nil array)"),
        ("GET w", "[:7]"),
        ("SET other 1", "[:7]"),
        ("SWAPDB 2 3", "[:7]"),
        ("UNWATCH", "[:7]"),
    ] {
        let mut harness = Harness::new();
        harness.check("SET w 1", "+OK");
        harness.check("WATCH w missing", "+OK");
        harness.run(write);
        harness.check("MULTI", "+OK");
        harness.check("INCRBY n 7", "+QUEUED");
        harness.check("EXEC", expected);
        assert!(!harness.server.watches.any(), "{write}: nothing is watched any more");
    }
}

#[test]
fn expiry_is_a_write_unless_it_was_over_before() {
    let mut harness = Harness::new();
    harness.check("SET w 1 PX 10", "+OK");
    harness.check("WATCH w", "+OK");
    harness.advance_ms(20);
    harness.check("MULTI", "+OK");
    harness.check("PING", "+QUEUED");
    harness.check("EXEC", "(nil array)");
    harness.check("SET w 1 PX 10", "+OK");
    harness.advance_ms(20);
    harness.check("WATCH w", "+OK");
    harness.check("MULTI", "+OK");
    harness.check("PING", "+QUEUED");
    harness.check("EXEC", "[+PONG]");
}

#[test]
fn a_transaction_over_something_big_runs_on_the_long_lane() {
    let mut harness = Harness::new();
    let members: Vec<String> = (0..12_000).map(|n| n.to_string()).collect();
    harness.check(&format!("SADD big {}", members.join(" ")), ":12000");
    harness.check("WATCH big", "+OK");
    harness.check("MULTI", "+OK");
    harness.check("SUNIONSTORE copy big", "+QUEUED");
    harness.check("SCARD copy", "+QUEUED");
    harness.check("EXEC", "[:12000 :12000]");
}
