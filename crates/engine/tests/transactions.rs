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
    assert_eq!(harness.deferred, 1);
}

#[test]
fn a_long_string_is_something_big_to_who_visits_all_of_it() {
    let mut harness = Harness::new();
    harness.check("SETRANGE s 999999 x", ":1000000");
    for (line, reply, deferred) in [
        ("STRLEN s", ":1000000", 0),
        ("APPEND s y", ":1000001", 0),
        ("SETBIT s 0 1", ":0", 0),
        ("BITCOUNT s", ":10", 1),
        ("BITOP NOT d s", ":1000001", 2),
    ] {
        harness.check("MULTI", "+OK");
        harness.check(line, "+QUEUED");
        harness.check("EXEC", &format!("[{reply}]"));
        assert_eq!(harness.deferred, deferred, "{line}");
    }
}

/// What CLIENT LIST and INFO show of a transaction that ended, however it did.
#[test]
fn nothing_is_left_of_a_transaction_that_ended() {
    for ending in ["EXEC", "EXEC x", "DISCARD", "RESET", "HELLO 2 AUTH nobody wrong"] {
        let mut harness = Harness::new();
        harness.check("WATCH a b", "+OK");
        harness.check("MULTI", "+OK");
        harness.check("SET a 1", "+QUEUED");
        let shown = harness.on(1).run("CLIENT LIST");
        assert!(shown.contains(" multi=1 watch=2 "), "{shown}");
        harness.on(0).run(ending);
        let is_over = !ending.starts_with("HELLO");
        let shown = harness.on(1).run("CLIENT LIST ID 1");
        assert_eq!(shown.contains(" multi=-1 watch=0 "), is_over, "{ending}: {shown}");
        assert_eq!(harness.server.watches.any(), !is_over, "{ending}");
    }
}

#[test]
fn the_slow_log_and_the_counters_know_what_a_transaction_ran() {
    let mut harness = Harness::with_config(&[("slowlog-log-slower-than", "0")]);
    for line in
        ["MULTI", "SET a 1", "GET a", "LPUSH a 1", "EXEC", "EVAL 'return redis.call(\"GET\", \"a\")' 0"]
    {
        harness.run(line);
    }
    harness.run("CONFIG SET slowlog-log-slower-than -1");
    let logged = harness.run("SLOWLOG GET 20");
    let at = |command: &str| logged.find(command).unwrap_or_else(|| panic!("{command} is in {logged}"));
    // Newest first; EXEC itself stands for nothing.
    assert!(at("[EVAL") < at("[GET a]") && at("[GET a]") < at("[LPUSH a 1]"));
    assert!(at("[LPUSH a 1]") < at("[SET a 1]") && at("[SET a 1]") < at("[MULTI]"), "{logged}");
    assert_eq!((logged.matches("[GET a]").count(), logged.contains("[EXEC]")), (2, false), "{logged}");
    for times_each in ["0", "10000"] {
        harness.run(&format!("CONFIG SET slowlog-log-slower-than {times_each}"));
        harness.check("CONFIG RESETSTAT", "+OK");
        for line in ["MULTI", "INCR n", "INCR n", "LRANGE a 0 -1", "INCR n", "DEL n", "EXEC"] {
            harness.run(line);
        }
        let stats = harness.run("INFO commandstats");
        for (command, calls, failed) in [("incr", 3, 0), ("lrange", 1, 1), ("del", 1, 0), ("exec", 1, 0)] {
            let line = format!("cmdstat_{command}:calls={calls},");
            let line = stats.lines().find(|shown| shown.starts_with(&line));
            let line = line.unwrap_or_else(|| panic!("{command} was called {calls} times: {stats}"));
            assert!(line.ends_with(&format!("failed_calls={failed}")), "{line}");
        }
    }
}
