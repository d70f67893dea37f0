//! The sorted set commands, as a client sees them. Replies were asked of redis-server 7.0.15.

use std::collections::{BTreeMap, BTreeSet};

use engine::testing::Harness;

fn run(mut harness: Harness, script: &[(&str, &str)]) {
    for (line, expected) in script {
        harness.check(line, expected);
    }
}

#[test]
fn adding_and_asking() {
    run(
        Harness::new(),
        &[
            ("ZADD z 1 a 2 b 3 c", ":3"),
            ("ZADD z 1 a", ":0"),
            ("ZADD z 5 a", ":0"),
            ("ZADD z CH 6 a 2 b 7 d", ":2"),
            ("ZADD z NX 100 a 8 e", ":1"),
            ("ZADD z XX 9 a 9 nothere", ":0"),
            ("ZADD z XX CH 10 a", ":1"),
            ("ZADD z GT CH 5 a 15 b", ":1"),
            ("ZADD z LT CH 20 a 3 b", ":1"),
            ("ZADD z GT CH 50 new", ":1"),
            ("ZADD z INCR 5 a", "15"),
            ("ZADD z NX INCR 5 a", "(nil)"),
            ("ZADD z XX INCR 5 nothere", "(nil)"),
            ("ZADD z GT INCR -5 a", "(nil)"),
            ("ZADD z LT INCR -5 a", "10"),
            ("ZADD z ch nx incr 1.5 fresh", "1.5"),
            ("ZRANGE z 0 -1 WITHSCORES", "[fresh 1.5 b 3 c 3 d 7 e 8 a 10 new 50]"),
            ("ZADD nokey XX 1 a", ":0"),
            ("EXISTS nokey", ":0"),
            ("ZADD z inf p -inf m", ":2"),
            ("ZADD z INCR -inf p", "-ERR resulting score is not a number (NaN)"),
            ("ZINCRBY z inf m", "-ERR resulting score is not a number (NaN)"),
            ("ZINCRBY z 0.1 a", "10.1"),
            ("ZINCRBY z 5 made", "5"),
            ("ZSCORE z a", "10.1"),
            ("ZSCORE z nothere", "(nil)"),
            ("ZSCORE nokey a", "(nil)"),
            ("ZMSCORE z a nothere m", "[10.1 (nil) -inf]"),
            ("ZMSCORE nokey a b", "[(nil) (nil)]"),
            ("ZCARD z", ":10"),
            ("ZCARD nokey", ":0"),
            ("ZREM z a nothere b", ":2"),
            ("ZREM nokey a", ":0"),
            ("ZADD z", "-ERR wrong number of arguments for 'zadd' command"),
            ("ZADD z 1", "-ERR wrong number of arguments for 'zadd' command"),
            ("ZADD z CH", "-ERR wrong number of arguments for 'zadd' command"),
            ("ZADD z CH a", "-ERR syntax error"),
            ("ZADD z 1 a 2", "-ERR syntax error"),
            ("ZADD z x a", "-ERR value is not a valid float"),
            ("ZADD z 1 a nan b", "-ERR value is not a valid float"),
            ("ZADD z \" 1\" a", "-ERR value is not a valid float"),
            ("ZADD z NX XX 1 a", "-ERR XX and NX options at the same time are not compatible"),
            ("ZADD z NX GT 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible"),
            ("ZADD z LT NX 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible"),
            ("ZADD z GT LT 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible"),
            ("ZADD z NX XX 1", "-ERR syntax error"),
            ("ZADD z INCR 1 a 2 b", "-ERR INCR option supports a single increment-element pair"),
            ("ZADD z INCR x a", "-ERR value is not a valid float"),
            ("ZINCRBY z x a", "-ERR value is not a valid float"),
            ("ZREM z c d e fresh p m made", ":7"),
            ("EXISTS z", ":1"),
            ("SET s x", "+OK"),
            ("ZADD s 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZADD s x a", "-ERR value is not a valid float"),
            ("ZADD s XX 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZINCRBY s 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZREM s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZSCORE s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZMSCORE s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZCARD s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZRANK s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZSCAN s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZRANDMEMBER s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ],
    );
}

#[test]
fn ranks_and_ranges() {
    run(
        Harness::new(),
        &[
            ("ZADD z 1 a 2 b 3 c 4 d 5 e", ":5"),
            ("ZRANK z a", ":0"),
            ("ZRANK z e", ":4"),
            ("ZREVRANK z a", ":4"),
            ("ZRANK z x", "(nil)"),
            ("ZRANK nokey a", "(nil)"),
            ("ZRANK z b WITHSCORE", "[:1 2]"),
            ("ZREVRANK z b withscore", "[:3 2]"),
            ("ZRANK z x WITHSCORE", "(nil array)"),
            ("ZRANK nokey x WITHSCORE", "(nil array)"),
            ("ZRANK z b WITHSCORES", "-ERR syntax error"),
            ("ZREVRANK z b WITHSCORE x", "-ERR wrong number of arguments for 'zrevrank' command"),
            ("ZRANGE z 0 -1", "[a b c d e]"),
            ("ZRANGE z 1 3 WITHSCORES", "[b 2 c 3 d 4]"),
            ("ZRANGE z -2 -1", "[d e]"),
            ("ZRANGE z -100 100", "[a b c d e]"),
            ("ZRANGE z 3 1", "[]"),
            ("ZRANGE z 5 9", "[]"),
            ("ZRANGE z 0 1 REV", "[e d]"),
            ("ZRANGE z -2 -1 REV WITHSCORES", "[b 2 a 1]"),
            ("ZREVRANGE z 0 1 WITHSCORES", "[e 5 d 4]"),
            ("ZREVRANGE z -9 -4", "[e d]"),
            ("ZRANGE z (1 4 BYSCORE", "[b c d]"),
            ("ZRANGE z 4 (1 BYSCORE REV WITHSCORES", "[d 4 c 3 b 2]"),
            ("ZRANGE z -inf +inf BYSCORE LIMIT 1 2", "[b c]"),
            ("ZRANGE z +inf -inf BYSCORE REV LIMIT 1 2", "[d c]"),
            ("ZRANGE z +inf -inf BYSCORE REV LIMIT 4 9", "[a]"),
            ("ZRANGE z +inf -inf BYSCORE REV LIMIT 9 9", "[]"),
            ("ZRANGEBYSCORE z -inf inf LIMIT -1 2", "[]"),
            ("ZRANGEBYSCORE z -inf inf LIMIT 3 -2", "[d e]"),
            ("ZRANGEBYSCORE z -inf inf LIMIT 0 0", "[]"),
            ("ZRANGEBYSCORE z -inf inf LIMIT 0 1 LIMIT 0 2", "[a b]"),
            ("ZRANGEBYSCORE z 2 3 WITHSCORES", "[b 2 c 3]"),
            ("ZREVRANGEBYSCORE z 3 2 WITHSCORES LIMIT 1 5", "[b 2]"),
            ("ZREVRANGEBYSCORE z 2 3", "[]"),
            ("ZRANGEBYSCORE z (2 (3", "[]"),
            ("ZRANGEBYSCORE z \"\" \"\"", "[]"),
            ("ZRANGEBYSCORE z ( 1", "[a]"),
            ("ZRANGEBYSCORE z \" 1\" 2", "[a b]"),
            ("ZRANGEBYSCORE z \"1 \" 2", "-ERR min or max is not a float"),
            ("ZRANGEBYSCORE z -1e400 1e400", "[a b c d e]"),
            ("ZRANGEBYSCORE z nan 2", "-ERR min or max is not a float"),
            ("ZRANGE z 0 -1 LIMIT 5 -1", "[a b c d e]"),
            (
                "ZRANGE z 0 -1 LIMIT 0 1",
                "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ),
            ("ZRANGE z 0 -1 LIMIT 0", "-ERR syntax error"),
            ("ZRANGE z 0 -1 LIMIT 0 x", "-ERR value is not an integer or out of range"),
            (
                "ZRANGE z - + BYLEX WITHSCORES",
                "-ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ),
            ("ZRANGE z - + BYLEX BYSCORE", "-ERR syntax error"),
            ("ZRANGE z 0 -1 REV REV", "-ERR syntax error"),
            ("ZRANGE z a b", "-ERR value is not an integer or out of range"),
            ("ZRANGE z a b BYSCORE", "-ERR min or max is not a float"),
            ("ZRANGE z a b BYLEX", "-ERR min or max not valid string range item"),
            ("ZRANGE nokey a b", "-ERR value is not an integer or out of range"),
            ("ZRANGE nokey 0 -1", "[]"),
            ("ZREVRANGE z 0 -1 REV", "-ERR syntax error"),
            ("ZREVRANGE z 0 -1 BYSCORE", "-ERR syntax error"),
            ("ZRANGEBYSCORE z 0 1 REV", "-ERR syntax error"),
            (
                "ZRANGEBYLEX z - + WITHSCORES",
                "-ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ),
            ("ZCOUNT z 2 4", ":3"),
            ("ZCOUNT z (2 (4", ":1"),
            ("ZCOUNT z 4 2", ":0"),
            ("ZCOUNT nokey 0 1", ":0"),
            ("ZCOUNT nokey x 1", "-ERR min or max is not a float"),
            ("ZLEXCOUNT nokey x 1", "-ERR min or max not valid string range item"),
            ("ZRANGESTORE out z 1 3", ":3"),
            ("ZRANGE out 0 -1 WITHSCORES", "[b 2 c 3 d 4]"),
            ("ZRANGESTORE out z (4 -inf BYSCORE REV LIMIT 0 2", ":2"),
            ("ZRANGE out 0 -1 WITHSCORES", "[b 2 c 3]"),
            ("ZRANGESTORE z z 0 1", ":2"),
            ("ZRANGE z 0 -1 WITHSCORES", "[a 1 b 2]"),
            ("SET text x EX 1000", "+OK"),
            ("ZRANGESTORE text z 0 -1", ":2"),
            ("TYPE text", "+zset"),
            ("TTL text", ":-1"),
            ("ZRANGESTORE text nokey 0 -1", ":0"),
            ("EXISTS text", ":0"),
            ("ZRANGESTORE out z 0 -1 WITHSCORES", "-ERR syntax error"),
            ("ZRANGESTORE out z x y", "-ERR value is not an integer or out of range"),
            ("SET s x", "+OK"),
            ("ZRANGESTORE out s 0 -1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZRANGE s 0 -1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZCOUNT s 0 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZREMRANGEBYRANK s 0 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZREMRANGEBYSCORE s x 1", "-ERR min or max is not a float"),
            ("EXISTS out", ":1"),
        ],
    );
}

#[test]
fn names_and_removals() {
    run(
        Harness::new(),
        &[
            ("ZADD z 0 a 0 aa 0 b 0 c 0 d", ":5"),
            ("ZRANGE z - + BYLEX", "[a aa b c d]"),
            ("ZRANGE z [aa (c BYLEX", "[aa b]"),
            ("ZRANGE z + [b BYLEX REV LIMIT 1 2", "[c b]"),
            ("ZRANGEBYLEX z (a [b", "[aa b]"),
            ("ZRANGEBYLEX z (a +  LIMIT 1 2", "[b c]"),
            ("ZREVRANGEBYLEX z [c (a", "[c b aa]"),
            ("ZREVRANGEBYLEX z + -", "[d c b aa a]"),
            ("ZRANGEBYLEX z + -", "[]"),
            ("ZRANGEBYLEX z [c [a", "[]"),
            ("ZRANGEBYLEX z (b (b", "[]"),
            ("ZRANGEBYLEX z [b [b", "[b]"),
            ("ZRANGEBYLEX z [ (", "[]"),
            ("ZRANGEBYLEX z \"-\\x00a\" \"+\\x00a\"", "[a aa b c d]"),
            ("ZRANGEBYLEX z \"-a\" +", "-ERR min or max not valid string range item"),
            ("ZRANGEBYLEX z \"\" +", "-ERR min or max not valid string range item"),
            ("ZRANGEBYLEX z a b", "-ERR min or max not valid string range item"),
            ("ZLEXCOUNT z - +", ":5"),
            ("ZLEXCOUNT z [aa (d", ":3"),
            ("ZREMRANGEBYLEX z [b (d", ":2"),
            ("ZREMRANGEBYLEX z x y", "-ERR min or max not valid string range item"),
            ("ZRANGE z 0 -1", "[a aa d]"),
            ("ZREMRANGEBYLEX z - +", ":3"),
            ("EXISTS z", ":0"),
            ("ZADD z 1 a 2 b 3 c 4 d 5 e", ":5"),
            ("ZREMRANGEBYSCORE z (1 2", ":1"),
            ("ZREMRANGEBYSCORE z 10 20", ":0"),
            ("ZREMRANGEBYRANK z -1 -1", ":1"),
            ("ZREMRANGEBYRANK z 5 9", ":0"),
            ("ZREMRANGEBYRANK z x 9", "-ERR value is not an integer or out of range"),
            ("ZRANGE z 0 -1 WITHSCORES", "[a 1 c 3 d 4]"),
            ("ZREMRANGEBYRANK z 0 -1", ":3"),
            ("EXISTS z", ":0"),
            ("ZREMRANGEBYRANK nokey 0 -1", ":0"),
        ],
    );
}

#[test]
fn popping_drawing_scanning() {
    run(
        Harness::new(),
        &[
            ("ZADD z 1 a 2 b 3 c 4 d", ":4"),
            ("ZPOPMIN z", "[a 1]"),
            ("ZPOPMAX z", "[d 4]"),
            ("ZPOPMIN z 0", "[]"),
            ("ZPOPMIN z -1", "-ERR value is out of range, must be positive"),
            ("ZPOPMIN z x", "-ERR value is out of range, must be positive"),
            ("ZPOPMIN z 1 2", "-ERR syntax error"),
            ("ZPOPMAX z 5", "[c 3 b 2]"),
            ("EXISTS z", ":0"),
            ("ZPOPMIN nokey", "[]"),
            ("ZPOPMIN nokey 2", "[]"),
            ("ZADD z 1 a 2 b 3 c 4 d", ":4"),
            ("ZMPOP 2 nokey z MIN", "[z [[a 1]]]"),
            ("ZMPOP 2 nokey z max COUNT 2", "[z [[d 4] [c 3]]]"),
            ("ZMPOP 1 nokey MIN", "(nil array)"),
            ("ZMPOP 1 z MIN COUNT 10", "[z [[b 2]]]"),
            ("EXISTS z", ":0"),
            ("ZMPOP 0 z MIN", "-ERR numkeys should be greater than 0"),
            ("ZMPOP x z MIN", "-ERR numkeys should be greater than 0"),
            ("ZMPOP 1 z", "-ERR wrong number of arguments for 'zmpop' command"),
            ("ZMPOP 1 z MID", "-ERR syntax error"),
            ("ZMPOP 2 z MIN", "-ERR syntax error"),
            ("ZMPOP 9223372036854775807 z MIN", "-ERR syntax error"),
            ("ZMPOP 1 z MIN COUNT", "-ERR syntax error"),
            ("ZMPOP 1 z MIN COUNT 0", "-ERR count should be greater than 0"),
            ("ZMPOP 1 z MIN COUNT x", "-ERR count should be greater than 0"),
            ("ZMPOP 1 z MIN COUNT 1 COUNT 2", "-ERR syntax error"),
            ("ZMPOP 1 z MIN FOO 2", "-ERR syntax error"),
            ("SET s x", "+OK"),
            ("ZADD z 1 a 2 b", ":2"),
            ("ZMPOP 2 s z MIN", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZMPOP 2 z s MIN", "[z [[a 1]]]"),
            ("ZPOPMIN s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZPOPMIN s x", "-ERR value is out of range, must be positive"),
            ("ZRANDMEMBER z", "b"),
            ("ZRANDMEMBER z 0", "[]"),
            ("ZRANDMEMBER z 5", "[b]"),
            ("ZRANDMEMBER z -3", "[b b b]"),
            ("ZRANDMEMBER z 5 WITHSCORES", "[b 2]"),
            ("ZRANDMEMBER z -2 WITHSCORES", "[b 2 b 2]"),
            ("ZRANDMEMBER z x", "-ERR value is not an integer or out of range"),
            ("ZRANDMEMBER z 1 foo", "-ERR syntax error"),
            ("ZRANDMEMBER z 1 WITHSCORES foo", "-ERR syntax error"),
            (
                "ZRANDMEMBER z -9223372036854775808",
                "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ),
            ("ZRANDMEMBER z 5000000000000000000 WITHSCORES", "-ERR value is out of range"),
            ("ZRANDMEMBER nokey", "(nil)"),
            ("ZRANDMEMBER nokey 2", "[]"),
            ("ZSCAN z 0", "[0 [b 2]]"),
            ("ZSCAN z 0 MATCH b*", "[0 [b 2]]"),
            ("ZSCAN z 0 MATCH a* COUNT 5", "[0 []]"),
            ("ZSCAN z 0 NOVALUES", "-ERR NOVALUES option can only be used in HSCAN"),
            ("ZSCAN z x", "-ERR invalid cursor"),
            ("ZSCAN z 0 COUNT 0", "-ERR syntax error"),
            ("ZSCAN nokey 0 foo", "[0 []]"),
        ],
    );
}

#[test]
fn algebra() {
    run(
        Harness::new(),
        &[
            ("ZADD a 1 x 2 y 3 z", ":3"),
            ("ZADD b 10 y 20 z 30 w", ":3"),
            ("SADD s x w", ":2"),
            ("SET text x", "+OK"),
            ("ZUNION 2 a b WITHSCORES", "[x 1 y 12 z 23 w 30]"),
            ("ZUNION 3 a b s WITHSCORES", "[x 2 y 12 z 23 w 31]"),
            ("ZUNION 2 a b", "[x y z w]"),
            ("ZUNION 2 a b WEIGHTS 2 0.5 WITHSCORES", "[x 2 y 9 w 15 z 16]"),
            ("ZUNION 2 a b AGGREGATE MIN WITHSCORES", "[x 1 y 2 z 3 w 30]"),
            ("ZUNION 2 a b aggregate max weights 1 -1 withscores", "[w -30 x 1 y 2 z 3]"),
            ("ZUNION 2 a nokey WITHSCORES", "[x 1 y 2 z 3]"),
            ("ZUNION 1 nokey", "[]"),
            ("ZUNION 1 s WEIGHTS 3 WITHSCORES", "[w 3 x 3]"),
            ("ZUNION 2 a a WITHSCORES", "[x 2 y 4 z 6]"),
            ("ZINTER 2 a b WITHSCORES", "[y 12 z 23]"),
            ("ZINTER 2 a s WEIGHTS 2 3 WITHSCORES", "[x 5]"),
            ("ZINTER 2 a b AGGREGATE MAX WITHSCORES", "[y 10 z 20]"),
            ("ZINTER 2 a nokey", "[]"),
            ("ZINTER 2 a a WITHSCORES", "[x 2 y 4 z 6]"),
            ("ZDIFF 2 a b WITHSCORES", "[x 1]"),
            ("ZDIFF 2 a s WITHSCORES", "[y 2 z 3]"),
            ("ZDIFF 2 s a WITHSCORES", "[w 1]"),
            ("ZDIFF 2 a a", "[]"),
            ("ZDIFF 2 nokey a", "[]"),
            ("ZDIFF 1 a", "[x y z]"),
            ("ZINTERCARD 2 a b", ":2"),
            ("ZINTERCARD 2 a b LIMIT 1", ":1"),
            ("ZINTERCARD 2 a b LIMIT 0", ":2"),
            ("ZINTERCARD 2 a nokey", ":0"),
            ("ZUNIONSTORE out 2 a b WEIGHTS 2 3", ":4"),
            ("ZRANGE out 0 -1 WITHSCORES", "[x 2 y 34 z 66 w 90]"),
            ("ZINTERSTORE out 2 a b AGGREGATE MIN", ":2"),
            ("ZRANGE out 0 -1 WITHSCORES", "[y 2 z 3]"),
            ("ZDIFFSTORE out 2 a b", ":1"),
            ("ZRANGE out 0 -1 WITHSCORES", "[x 1]"),
            ("ZDIFFSTORE out 2 a a", ":0"),
            ("EXISTS out", ":0"),
            ("SET over x EX 100", "+OK"),
            ("ZUNIONSTORE over 1 s", ":2"),
            ("TYPE over", "+zset"),
            ("TTL over", ":-1"),
            ("ZUNIONSTORE a 2 a b", ":4"),
            ("ZRANGE a 0 -1 WITHSCORES", "[x 1 y 12 z 23 w 30]"),
            ("ZADD i inf p -inf m", ":2"),
            ("ZADD j -inf p inf m", ":2"),
            ("ZUNION 2 i j WITHSCORES", "[m 0 p 0]"),
            ("ZINTER 2 i j WITHSCORES", "[m 0 p 0]"),
            ("ZUNION 1 i WEIGHTS 0 WITHSCORES", "[m 0 p 0]"),
            ("ZUNION 0 a", "-ERR at least 1 input key is needed for 'zunion' command"),
            ("ZUNION x a", "-ERR value is not an integer or out of range"),
            ("ZUNION -1 a", "-ERR at least 1 input key is needed for 'zunion' command"),
            ("ZUNION 2 a", "-ERR syntax error"),
            ("ZUNION 9223372036854775807 a", "-ERR syntax error"),
            ("ZUNION 1 a WEIGHTS", "-ERR syntax error"),
            ("ZUNION 1 a WEIGHTS x", "-ERR weight value is not a float"),
            ("ZUNION 1 a WEIGHTS nan", "-ERR weight value is not a float"),
            ("ZUNION 2 a b WEIGHTS 1", "-ERR syntax error"),
            ("ZUNION 1 a AGGREGATE", "-ERR syntax error"),
            ("ZUNION 1 a AGGREGATE foo", "-ERR syntax error"),
            ("ZUNION 1 a FOO", "-ERR syntax error"),
            ("ZUNION 1 a WITHSCORES WITHSCORES WEIGHTS 2 WEIGHTS 3", "[x 3 y 36 z 69 w 90]"),
            ("ZUNIONSTORE out 1 a WITHSCORES", "-ERR syntax error"),
            ("ZUNIONSTORE out 0 a", "-ERR at least 1 input key is needed for 'zunionstore' command"),
            ("ZDIFF 1 a WEIGHTS 1", "-ERR syntax error"),
            ("ZDIFF 1 a AGGREGATE SUM", "-ERR syntax error"),
            ("ZDIFFSTORE out 0 a", "-ERR at least 1 input key is needed for 'zdiffstore' command"),
            ("ZINTERCARD 0 a", "-ERR at least 1 input key is needed for 'zintercard' command"),
            ("ZINTERCARD 1 a LIMIT -1", "-ERR LIMIT can't be negative"),
            ("ZINTERCARD 1 a LIMIT x", "-ERR LIMIT can't be negative"),
            ("ZINTERCARD 1 a LIMIT", "-ERR syntax error"),
            ("ZINTERCARD 1 a WITHSCORES", "-ERR syntax error"),
            ("ZUNION 2 a text", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            (
                "ZUNION 2 a text WEIGHTS x",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            ("ZINTER 2 nokey text", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            (
                "ZDIFFSTORE out 2 nokey text",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            ("EXISTS out", ":0"),
        ],
    );
}

#[test]
fn replies_of_resp3() {
    run(
        Harness::new().resp3(),
        &[
            ("ZADD z 1 a 2.5 b inf c", ":3"),
            ("SADD s a", ":1"),
            ("ZADD z INCR 1 a", ",2"),
            ("ZADD z NX INCR 1 a", "(nil)"),
            ("ZINCRBY z 0.1 b", ",2.6000000000000001"),
            ("ZSCORE z a", ",2"),
            ("ZSCORE z x", "(nil)"),
            ("ZMSCORE z a x", "[,2 (nil)]"),
            ("ZRANK z x", "(nil)"),
            ("ZRANK z x WITHSCORE", "(nil)"),
            ("ZRANK z a WITHSCORE", "[:0 ,2]"),
            ("ZRANGE z 0 -1", "[a b c]"),
            ("ZRANGE z 0 -1 WITHSCORES", "[[a ,2] [b ,2.6000000000000001] [c ,inf]]"),
            ("ZRANGE nokey 0 -1 WITHSCORES", "[]"),
            ("ZREVRANGE z 0 0 WITHSCORES", "[[c ,inf]]"),
            ("ZRANGEBYSCORE z 2 inf WITHSCORES LIMIT 1 1", "[[b ,2.6000000000000001]]"),
            ("ZUNION 2 z s WITHSCORES", "[[b ,2.6000000000000001] [a ,3] [c ,inf]]"),
            ("ZINTER 2 z s WITHSCORES", "[[a ,3]]"),
            ("ZDIFF 2 z s WITHSCORES", "[[b ,2.6000000000000001] [c ,inf]]"),
            ("ZUNION 2 z s", "[b a c]"),
            ("ZRANDMEMBER nokey", "(nil)"),
            ("ZSCAN z 0 MATCH a", "[0 [a 2]]"),
            ("ZMPOP 1 z MIN", "[z [[a ,2]]]"),
            ("ZMPOP 1 nokey MIN", "(nil)"),
            ("ZPOPMIN z", "[b ,2.6000000000000001]"),
            ("ZPOPMAX z 5", "[[c ,inf]]"),
            ("ZPOPMIN z 1", "[]"),
            ("ZADD z 1 a", ":1"),
            ("ZRANDMEMBER z 2 WITHSCORES", "[[a ,1]]"),
            ("ZRANDMEMBER z -2 WITHSCORES", "[[a ,1] [a ,1]]"),
            ("ZPOPMIN z 1", "[[a ,1]]"),
        ],
    );
}

#[test]
fn encodings() {
    let mut harness = Harness::with_config(&[("zset-max-listpack-entries", "4")]);
    let long = "m".repeat(65);
    for (script, encoding) in [
        ("ZADD out 1 a 2 b 3 c 4 d".to_owned(), "listpack"),
        ("ZADD out 1 a 2 b 3 c 4 d 5 e".to_owned(), "skiplist"),
        ("ZADD out 1 a\nZADD out XX 1 a 2 b 3 c 4 d 5 e".to_owned(), "listpack"),
        (format!("ZADD out 1 {}", &long[1..]), "listpack"),
        (format!("ZADD out 1 {long}"), "skiplist"),
        ("ZUNIONSTORE out 1 five".to_owned(), "skiplist"),
        ("ZUNIONSTORE out 1 four".to_owned(), "listpack"),
        ("ZUNIONSTORE out 2 four long".to_owned(), "skiplist"),
        ("ZINTERSTORE out 2 four five".to_owned(), "listpack"),
        ("ZDIFFSTORE out 2 five four".to_owned(), "listpack"),
        ("ZRANGESTORE out five 0 3".to_owned(), "listpack"),
        ("ZRANGESTORE out five 0 4".to_owned(), "skiplist"),
        ("ZRANGESTORE out long 0 -1".to_owned(), "skiplist"),
    ] {
        harness.run("FLUSHALL");
        harness.run("ZADD four 1 a 2 b 3 c 4 d");
        harness.run("ZADD five 1 a 2 b 3 c 4 d 5 e");
        harness.run(&format!("ZADD long 1 {long}"));
        for line in script.lines() {
            harness.run(line);
        }
        assert_eq!(harness.run("OBJECT ENCODING out"), encoding, "{script}");
    }
}

#[test]
fn the_sign_of_zero() {
    // The small form does not keep it.
    run(
        Harness::with_config(&[("zset-max-listpack-entries", "2")]),
        &[
            ("ZADD z -0 a", ":1"),
            ("ZSCORE z a", "0"),
            ("ZADD z INCR -0 b", "-0"),
            ("ZADD z -0 c", ":1"),
            ("ZADD z -0 d 1 b", ":1"),
            ("ZADD z -0 b", ":0"),
            ("ZRANGE z 0 -1 WITHSCORES", "[a 0 b -0 c -0 d -0]"),
            ("ZUNION 1 z WITHSCORES", "[a 0 b -0 c -0 d -0]"),
            ("ZRANGESTORE out z 2 3", ":2"),
            ("ZRANGE out 0 -1 WITHSCORES", "[c 0 d 0]"),
            ("ZUNIONSTORE out 1 z WEIGHTS -1", ":4"),
            ("ZRANGE out 0 -1 WITHSCORES", "[a -0 b 0 c 0 d 0]"),
            ("ZUNION 1 z WEIGHTS -1 WITHSCORES", "[a -0 b 0 c 0 d 0]"),
            ("ZUNION 2 z z AGGREGATE MIN WITHSCORES", "[a 0 b -0 c -0 d -0]"),
            ("ZPOPMIN z", "[a 0]"),
            ("DEL z", ":1"),
            ("ZADD small -0 a 1 b 2 c", ":3"),
            ("ZRANGE small 0 -1 WITHSCORES", "[a 0 b 1 c 2]"),
            ("ZADD z 5 x 6 y 7 w", ":3"),
            ("ZADD z -0 a", ":1"),
            ("ZRANGESTORE out z 0 2", ":3"),
            ("ZRANGE out 0 -1 WITHSCORES", "[a -0 x 5 y 6]"),
            ("ZRANGESTORE out z -inf 6 BYSCORE", ":3"),
            ("ZRANGE out 0 -1 WITHSCORES", "[a 0 x 5 y 6]"),
            ("ZRANGESTORE out z 6 -inf BYSCORE REV", ":3"),
            ("ZRANGE out 0 -1 WITHSCORES", "[a -0 x 5 y 6]"),
            ("ZINTERSTORE out 2 z z WEIGHTS 1 -0", ":4"),
            ("ZRANGE out 0 -1 WITHSCORES", "[a 0 x 5 y 6 w 7]"),
            ("DEL z", ":1"),
            ("ZADD z 0 a 1 b 2 c 3 d", ":4"),
            ("ZADD other -1 a", ":1"),
            ("ZUNION 2 other z WEIGHTS 0 1 AGGREGATE MIN WITHSCORES", "[a -0 b 1 c 2 d 3]"),
            ("ZUNIONSTORE out 2 z other WEIGHTS 1 0 AGGREGATE MAX", ":4"),
            ("ZRANGE out 0 -1 WITHSCORES", "[a -0 b 1 c 2 d 3]"),
        ],
    );
}

#[test]
fn scans_show_whole_scores_of_small_sorted_sets() {
    run(
        Harness::with_config(&[("zset-max-listpack-entries", "6")]),
        &[
            (
                "ZADD z 4611686018427387904 a -4611686018427387904 b 4611686018427388928 c 1e17 d 0.5 e -inf f",
                ":6",
            ),
            ("ZSCAN z 0 MATCH a", "[0 [a 4611686018427387904]]"),
            ("ZSCAN z 0 MATCH b", "[0 [b -4611686018427387904]]"),
            ("ZSCAN z 0 MATCH c", "[0 [c 4.6116860184273889e+18]]"),
            ("ZSCAN z 0 MATCH d", "[0 [d 100000000000000000]]"),
            ("ZSCAN z 0 MATCH e", "[0 [e 0.5]]"),
            ("ZSCAN z 0 MATCH f", "[0 [f -inf]]"),
            ("ZSCORE z d", "1e+17"),
            ("ZADD z 1 g", ":1"),
            ("ZSCAN z 0 MATCH a", "[0 [a 4.6116860184273879e+18]]"),
            ("ZSCAN z 0 MATCH d", "[0 [d 1e+17]]"),
        ],
    );
}

/// Members with whole scores.
type Model = BTreeMap<String, i64>;

/// Writes the members to a key that does not exist, as a set (all scores are 1) or a sorted set.
fn fill(harness: &mut Harness, key: &str, members: &Model, as_set: bool) {
    let members: Vec<(&String, &i64)> = members.iter().collect();
    for piece in members.chunks(500) {
        let words: Vec<String> = piece
            .iter()
            .map(|(member, score)| if as_set { (*member).clone() } else { format!("{score} {member}") })
            .collect();
        let command = if as_set { "SADD" } else { "ZADD" };
        harness.check(&format!("{command} {key} {}", words.join(" ")), &format!(":{}", piece.len()));
    }
}

/// Scores with members, in their order.
fn ordered(members: &Model) -> Vec<(i64, String)> {
    let mut ordered: Vec<(i64, String)> =
        members.iter().map(|(member, score)| (*score, member.clone())).collect();
    ordered.sort();
    ordered
}

/// The pairs of a shown array of members and scores, in RESP2 or as ZMPOP nests them.
fn pairs(shown: &str) -> Vec<(i64, String)> {
    let words: Vec<&str> = shown.split(['[', ']', ' ']).filter(|word| !word.is_empty()).collect();
    words.chunks(2).map(|pair| (pair[1].parse().expect("a whole score"), pair[0].to_owned())).collect()
}

fn numbered(range: std::ops::Range<i64>) -> Model {
    range.map(|n| (format!("m{n}"), n * 7919 % 1000)).collect()
}

/// More members than a worker handles while others wait.
const BIG: i64 = 11_000;

#[test]
fn long_replies_hold_every_member_once() {
    let mut harness = Harness::new();
    let all = numbered(0..BIG);
    fill(&mut harness, "z", &all, false);
    let mut expected = ordered(&all);
    assert!(pairs(&harness.run("ZRANGE z 0 -1 WITHSCORES")) == expected);
    assert!(
        pairs(&harness.run("ZRANGEBYSCORE z 10 900 WITHSCORES LIMIT 5 9000")) == {
            let part = expected.iter().filter(|(score, _)| (10..=900).contains(score)).skip(5).take(9_000);
            part.cloned().collect::<Vec<_>>()
        }
    );
    expected.reverse();
    assert!(pairs(&harness.run("ZREVRANGE z 0 -1 WITHSCORES")) == expected);

    for count in [1, 100, BIG - 1, BIG, BIG + 1] {
        let drawn = pairs(&harness.run(&format!("ZRANDMEMBER z {count} WITHSCORES")));
        assert_eq!(drawn.len() as i64, count.min(BIG));
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), drawn.len(), "members are distinct");
        assert!(drawn.iter().all(|(score, member)| all.get(member) == Some(score)));
    }
    assert_eq!(pairs(&harness.run("ZRANDMEMBER z -12000 WITHSCORES")).len(), 12_000);

    let (mut cursor, mut seen) = ("0".to_owned(), Model::new());
    loop {
        let shown = harness.run(&format!("ZSCAN z {cursor} COUNT 500"));
        let (next, rest) = shown[1..].split_once(' ').expect("a cursor and members");
        seen.extend(pairs(rest).into_iter().map(|(score, member)| (member, score)));
        cursor = next.to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert!(seen == all);
}

#[test]
fn long_removals_take_what_they_say() {
    let all = numbered(0..BIG);
    let members = ordered(&all);
    let most = BIG - 500;
    for (script, removed, nested) in [
        (format!("ZREMRANGEBYRANK z 0 {}", most - 1), 0..most as usize, None),
        (format!("ZREMRANGEBYRANK z 100 {}", most + 99), 100..most as usize + 100, None),
        ("ZREMRANGEBYRANK z 0 -1".to_owned(), 0..BIG as usize, None),
        (
            "ZREMRANGEBYSCORE z -inf (500".to_owned(),
            0..members.partition_point(|(score, _)| *score < 500),
            None,
        ),
        (format!("ZPOPMIN z {most}"), 0..most as usize, Some((false, false))),
        (format!("ZPOPMAX z {most}"), (BIG - most) as usize..BIG as usize, Some((true, false))),
        (format!("ZPOPMAX z {BIG}"), 0..BIG as usize, Some((true, false))),
        (format!("ZMPOP 3 nokey z text MIN COUNT {most}"), 0..most as usize, Some((false, true))),
        (format!("ZMPOP 2 z text MAX COUNT {}", BIG + 1), 0..BIG as usize, Some((true, true))),
    ] {
        let mut harness = Harness::new();
        fill(&mut harness, "z", &all, false);
        harness.check("SET text x", "+OK");
        harness.check("EXPIRE z 1000", ":1");
        let shown = harness.run(&script);
        let gone = &members[removed.clone()];
        match nested {
            None => assert_eq!(shown, format!(":{}", gone.len()), "{script}"),
            Some((reverse, named)) => {
                let shown = if named { shown.strip_prefix("[z ").expect("the key") } else { &shown };
                let mut expected = gone.to_vec();
                if reverse {
                    expected.reverse();
                }
                assert!(pairs(shown) == expected, "{script}");
            }
        }
        let left = [&members[..removed.start], &members[removed.end..]].concat();
        assert!(pairs(&harness.run("ZRANGE z 0 -1 WITHSCORES")) == left, "{script}");
        harness.check("TTL z", if left.is_empty() { ":-2" } else { ":1000" });
        harness.check(&format!("ZSCORE z {}", gone[0].1), "(nil)");
    }
}

/// What the command must find, by its definition. Sets have scores of 1.
fn combined(operation: &str, inputs: &[Model], weights: &[i64], aggregate: &str) -> Model {
    let weigh = |at: usize, score: i64| score * weights[at];
    let together = |a: i64, b: i64| match aggregate {
        "MIN" => a.min(b),
        "MAX" => a.max(b),
        _ => a + b,
    };
    let mut result = Model::new();
    match operation {
        "ZDIFF" => {
            let is_elsewhere = |member: &String| inputs[1..].iter().any(|other| other.contains_key(member));
            result.extend(inputs[0].clone().into_iter().filter(|(member, _)| !is_elsewhere(member)));
        }
        _ => {
            for (at, input) in inputs.iter().enumerate() {
                for (member, score) in input {
                    let score = weigh(at, *score);
                    result
                        .entry(member.clone())
                        .and_modify(|held| *held = together(*held, score))
                        .or_insert(score);
                }
            }
            if operation == "ZINTER" {
                result.retain(|member, _| inputs.iter().all(|input| input.contains_key(member)));
            }
        }
    }
    result
}

#[test]
fn algebra_agrees_with_its_definition_at_every_size() {
    let mut rng = fastrand::Rng::with_seed(5);
    let mut harness = Harness::new();
    // Small; past the small form; past what is done at once.
    let models = [
        ("none", Model::new(), false),
        ("few", numbered(0..20), false),
        ("some", numbered(10..400), false),
        ("many", numbered(100..6_000), false),
        ("others", numbered(5_000..11_000), false),
        ("set", numbered(0..150).into_keys().map(|member| (member, 1)).collect(), true),
        ("bigset", numbered(3_000..9_000).into_keys().map(|member| (member, 1)).collect(), true),
    ];
    for (name, members, as_set) in &models {
        fill(&mut harness, name, members, *as_set);
    }
    for round in 0..30 {
        let chosen: Vec<&(&str, Model, bool)> =
            (0..rng.usize(1..4)).map(|_| &models[rng.usize(..models.len())]).collect();
        let inputs: Vec<Model> = chosen.iter().map(|(_, members, _)| members.clone()).collect();
        let keys: Vec<&str> = chosen.iter().map(|(name, ..)| *name).collect();
        let operation = ["ZUNION", "ZINTER", "ZDIFF"][round % 3];
        let mut weights = vec![1; inputs.len()];
        let (mut aggregate, mut options) = ("SUM", String::new());
        if operation != "ZDIFF" && rng.bool() {
            weights.fill_with(|| rng.i64(-2..4));
            let words: Vec<String> = weights.iter().map(i64::to_string).collect();
            aggregate = ["SUM", "MIN", "MAX"][rng.usize(..3)];
            options = format!(" WEIGHTS {} AGGREGATE {aggregate}", words.join(" "));
        }
        let arguments = format!("{} {}{options}", keys.len(), keys.join(" "));
        let expected = combined(operation, &inputs, &weights, aggregate);
        let shown = harness.run(&format!("{operation} {arguments} WITHSCORES"));
        assert!(pairs(&shown) == ordered(&expected), "{operation} {arguments}");

        harness.run("SET out x EX 100");
        harness.check(&format!("{operation}STORE out {arguments}"), &format!(":{}", expected.len()));
        assert!(
            pairs(&harness.run("ZRANGE out 0 -1 WITHSCORES")) == ordered(&expected),
            "{operation}STORE {arguments}"
        );
        if expected.is_empty() {
            harness.check("EXISTS out", ":0");
        } else {
            harness.check("OBJECT ENCODING out", if expected.len() <= 128 { "listpack" } else { "skiplist" });
            harness.check("TTL out", ":-1");
            let (score, member) = &ordered(&expected)[expected.len() / 2];
            harness.check(&format!("ZSCORE out {member}"), &score.to_string());
        }
        if operation == "ZINTER" {
            for limit in [0, 1, 50] {
                let count = if limit == 0 { expected.len() } else { expected.len().min(limit) };
                let line = format!("ZINTERCARD {} {} LIMIT {limit}", keys.len(), keys.join(" "));
                harness.check(&line, &format!(":{count}"));
            }
        }
    }
}
