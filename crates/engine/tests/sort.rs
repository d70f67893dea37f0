//! SORT, as clients see it. Every reply here was given by a redis-server 7.0.15 as well, unless a comment says
//! otherwise.

use engine::testing::Harness;

fn check(script: &[(&str, &str)]) {
    let mut harness = Harness::new();
    script.iter().for_each(|(line, expected)| harness.check(line, expected));
}

#[test]
fn elements_are_sorted() {
    check(&[
        ("rpush l 3 1 2 10", ":4"),
        ("sort l", "[1 2 3 10]"),
        ("sort l desc limit 1 2", "[3 2]"),
        ("sort l alpha", "[1 10 2 3]"),
        ("sort l by nosort desc", "[10 2 1 3]"),
        ("sort l limit 0 0", "[]"),
        ("sort l limit 9 9", "[]"),
        ("sort missing", "[]"),
        ("sort l store d", ":4"),
        ("lrange d 0 -1", "[1 2 3 10]"),
        ("sort missing store d", ":0"),
        ("exists d", ":0"),
        ("rpush t b a", ":2"),
        ("sort t", "-ERR One or more scores can't be converted into double"),
        ("zadd z 1 b 2 a", ":2"),
        ("sort z alpha", "[a b]"),
        ("object encoding z", "skiplist"),
        ("set s x", "+OK"),
        ("sort s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("sort_ro l store d", "-ERR syntax error"),
        ("sort l limit 0", "-ERR syntax error"),
    ]);
}

#[test]
fn patterns_name_other_keys() {
    check(&[
        ("rpush l 1 2 3", ":3"),
        ("mset w_1 30 w_2 10 w_3 20 o_1 one", "+OK"),
        ("hset h_2 f v", ":1"),
        ("sort l by w_*", "[2 3 1]"),
        ("sort l by w_* get # get o_* get h_*->f", "[2 (nil) v 3 (nil) (nil) 1 one (nil)]"),
        ("sort_ro l by w_* desc get w_*", "[30 20 10]"),
        ("sort l by w_* get o_* store d", ":3"),
        ("lrange d 0 -1", "[  one]"),
        ("sort l by o_*", "-ERR One or more scores can't be converted into double"),
        ("sort l by o_* alpha limit 2 1", "[1]"),
        ("multi", "+OK"),
        ("sort l by w_*", "+QUEUED"),
        ("sort l store e", "+QUEUED"),
        ("exec", "[[2 3 1] :3]"),
    ]);
}

#[test]
fn keys_of_a_pattern_stay_within_a_slot_of_a_cluster() {
    let mut harness = Harness::with_config(&[("cluster-enabled", "yes")]);
    // As of Redis 7.4: older ones refuse all patterns.
    let denied =
        "option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.";
    for (line, expected) in [
        ("rpush {t}l 1 2", ":2".to_owned()),
        ("mset {t}w_1 2 {t}w_2 1", "+OK".to_owned()),
        ("sort {t}l by {t}w_*", "[2 1]".to_owned()),
        ("sort {t}l by w_*", format!("-ERR BY {denied}")),
        ("sort {t}l get w_*", format!("-ERR GET {denied}")),
        ("sort {t}l get #", "[1 2]".to_owned()),
        ("sort {t}l by {t}w_* store d", "-CROSSSLOT Keys in request don't hash to the same slot".to_owned()),
    ] {
        harness.check(line, &expected);
    }
}

#[test]
fn many_elements_are_sorted_on_the_long_lane() {
    let mut harness = Harness::new();
    const COUNT: usize = 12_000;
    for from in (0..COUNT).step_by(1000) {
        // Each number once, in no order.
        let numbers: Vec<String> =
            (from..from + 1000).map(|number| (number * 7919 % COUNT).to_string()).collect();
        harness.run(&format!("rpush l {}", numbers.join(" ")));
        let weights: Vec<String> =
            (from..from + 1000).map(|number| format!("w_{number} {}", COUNT - number)).collect();
        harness.check(&format!("mset {}", weights.join(" ")), "+OK");
    }
    harness.check("sort l limit 5 3", "[5 6 7]");
    harness.check("sort l desc limit 0 2", "[11999 11998]");
    harness.check("sort l by w_* limit 0 2", "[11999 11998]");
    harness.check("sort l by w_* limit 0 2 get w_* get #", "[1 11999 2 11998]");
    harness.check("sort l by w_* get # store d", ":12000");
    harness.check("lrange d 0 1", "[11999 11998]");
    harness.check("sort l store d", ":12000");
    harness.check("lrange d -2 -1", "[11998 11999]");
    let all = harness.run("sort l");
    assert!(all.starts_with("[0 1 2 ") && all.ends_with(" 11998 11999]"));
    harness.check("multi", "+OK");
    harness.check("sort l by w_* limit 0 1", "+QUEUED");
    harness.check("exec", "[[11999]]");
}
