//! Clients that wait: served in order of arrival, by whoever writes.

use engine::testing::play;

#[test]
fn a_push_serves_whoever_came_first() {
    play(
        "1> BLPOP a b 0
         2> BRPOP b a 0
         3> BLPOP a 0
         0> RPUSH a x y => :2
         1< [a x]
         2< [a y]
         3<
         0> LLEN a => :0
         0> LPUSH a 1 => :1
         3< [a 1]
         0> EXISTS a b => :0",
    );
}

#[test]
fn a_list_that_is_there_is_popped_at_once() {
    play(
        "0> RPUSH a x => :1
         1> BLPOP b a 0 => [a x]
         1> BLPOP b a 0.5
         wait 499
         1<
         wait 1
         1< (nil array)
         0> RPUSH a x => :1
         0> LLEN a => :1
         0> ZADD z 1 m 2 n => :2
         1> BZPOPMIN z 0 => [z m 1]
         1> BZPOPMAX q z 0 => [z n 2]
         1> BZMPOP 0 2 q z MAX COUNT 9
         0> ZADD z 1 m 2 n => :2
         1< [z [[n 2] [m 1]]]
         0> SET s x => +OK
         1> BLPOP s 0 => -WRONGTYPE Operation against a key holding the wrong kind of value
         1> BLMPOP 0 2 q a LEFT => [a [x]]",
    );
}

#[test]
fn one_move_brings_on_the_next() {
    play(
        "1> BLMOVE a b LEFT RIGHT 0
         2> BLPOP b 0
         3> BRPOPLPUSH c d 0.01
         0> RPUSH a x => :1
         1< x
         2< [b x]
         0> EXISTS a b => :0
         wait 10
         3< (nil array)",
    );
}

#[test]
fn a_destination_of_the_wrong_type_is_reported_and_takes_nothing() {
    play(
        "0> SET b x => +OK
         1> BLMOVE a b LEFT RIGHT 0
         2> BLPOP a 0
         0> RPUSH a x => :1
         1< -WRONGTYPE Operation against a key holding the wrong kind of value
         2< [a x]",
    );
}

#[test]
fn a_transaction_serves_when_it_is_done() {
    play(
        "1> BLPOP a 0
         2> BLPOP a 0
         0> MULTI => +OK
         0> RPUSH a x y => +QUEUED
         0> LPOP a => +QUEUED
         0> BLPOP q 0 => +QUEUED
         0> EXEC => [:2 x (nil array)]
         1< [a y]
         2<
         0> SELECT 1 => +OK
         0> RPUSH a other => :1
         2<
         0> SWAPDB 0 1 => +OK
         2< [a other]",
    );
}

#[test]
fn any_command_that_makes_a_list_serves() {
    for write in ["RENAME other a", "COPY other a", "LMOVE other a LEFT LEFT", "RPOPLPUSH other a"] {
        play(&format!(
            "0> RPUSH other x => :1
             0> SET a string => +OK
             0> DEL a => :1
             1> BLPOP a 0
             0> ZADD a 1 x => :1
             1<
             0> DEL a => :1
             0> {write} => {}
             1< [a x]",
            match write.split(' ').next() {
                Some("RENAME") => "+OK",
                Some("COPY") => ":1",
                _ => "x",
            }
        ));
    }
}

#[test]
fn a_wait_can_be_ended() {
    play(
        "1> CLIENT ID => :2
         1> BLPOP a 0
         0> CLIENT UNBLOCK 2 => :1
         1< (nil array)
         0> CLIENT UNBLOCK 2 => :0
         1> BLPOP a b 0
         0> CLIENT UNBLOCK 2 ERROR => :1
         1< -UNBLOCKED client unblocked via CLIENT UNBLOCK
         1> WAIT 1 10
         wait 10
         1< :0
         1> WAIT 0 0 => :0
         1> WAITAOF 0 0 0 => [:0 :0]
         1> WAITAOF 1 0 0 => -ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.
         1> WAITAOF 2 0 0 => -ERR value is out of range, value must between 0 and 1
         0> RPUSH a x => :1",
    );
}

#[test]
fn timeouts_are_read_as_redis_reads_them() {
    play(
        "0> BLPOP a x => -ERR timeout is not a float or out of range
         0> BLPOP a -1 => -ERR timeout is negative
         0> BLPOP a 1e300 => -ERR timeout is out of range
         0> BLMPOP 1 1 a NOWHERE => -ERR syntax error
         0> BZMPOP nan 1 a MIN => -ERR timeout is not a float or out of range
         0> WAIT 1 -1 => -ERR timeout is negative
         0> WAIT x 1 => -ERR value is not an integer or out of range",
    );
}
