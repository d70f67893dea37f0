//! DEBUG: for those who test the server and its clients. Refused unless `enable-debug-command` allows it.

mod digest;
mod reload;
mod shard;
mod switching;
mod values;

use std::ops::RangeInclusive;
use std::time::Duration;

use base::num::parse_f64;
use resp::Proto;
use store::Expiry;

use crate::args::{Args, is, natural};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::lane::Lane;
use crate::reply::Reply;
use crate::table::Run;

const NOT_ALLOWED: Fault = Fault::Text(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local \
     connection, otherwise you need to set this option in the configuration file, and then restart the server.",
);

/// Bytes that are looked at to read a number.
const NUMBER_BYTES_MAX: usize = 64;

const HELP: &[&str] = &[
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANGE-REPL-ID",
    "    Take a new replication id.",
    "CLIENT-ENFORCE-REPLY-LIST <0|1>, DICT-RESIZING <0|1>, REPLYBUFFER <what> <value>",
    "    Accepted: there are no such buffers and tables here.",
    "DIGEST",
    "    Answer a signature of all databases' content.",
    "DIGEST-VALUE [<key> ...]",
    "    Answer a signature of each key's value.",
    "ERROR <text>",
    "    Reply with <text> as an error.",
    "HTSTATS <db> [full]",
    "    Tell about the tables of a database.",
    "HTSTATS-KEY <key> [full]",
    "    Tell about the table that <key>'s value is.",
    "JOURNAL-PAUSE <0|1>",
    "    Stop, or start again, the writing of append-only files.",
    "LISTPACK <key>, QUICKLIST <key> [<0|1>]",
    "    Log how the value of <key> is kept.",
    "LOADAOF",
    "    Write what is still to be written to the append-only files, and load them anew.",
    "LOG <message>",
    "    Write <message> to the log.",
    "OBJECT <key> [fast]",
    "    Tell how the value of <key> is kept; with fast, only what is known without reading it.",
    "PAUSE-CRON <0|1>",
    "    Stop, or start again, what is done without being asked for.",
    "POPULATE <count> [<prefix>] [<size>]",
    "    Create <count> strings called <prefix>:<number> (default prefix: key), of <size> bytes",
    "    if that is given. Keys that exist stay as they are.",
    "PROTOCOL <type>",
    "    Reply with a value of <type>: string, integer, double, bignum, null, array, set, map,",
    "    attrib, push, verbatim, true, false.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Accepted if <size> is one: long elements are always kept apart from short ones.",
    "RELOAD [MERGE] [NOFLUSH] [NOSAVE]",
    "    Save the data, unless NOSAVE, drop it, unless NOFLUSH, and load the file. What is there already is",
    "    replaced with MERGE, and an error without.",
    "SDSLEN <key>",
    "    Tell the lengths of <key> and of the string that it holds.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Stop, or start again, the removal of expired keys that nobody asks for.",
    "SET-DISABLE-DENY-SCRIPTS <0|1>",
    "    Let scripts call, or not, what is not meant for them.",
    "SET-SKIP-CHECKSUM-VALIDATION <0|1>",
    "    Let RESTORE take, or not, payloads with a wrong checksum.",
    "SHARD LEAD <epoch> <refuses writes: 0|1> [<node> <life> ...], SHARD FOLLOW <ip> <port> <shard> <epoch> <node> <life>,",
    "SHARD STAND, SHARD HOLD <node> <life>, SHARD PARK, SHARD RELEASE, SHARD SERVE <milliseconds>, SHARD ME, SHARD FOLLOWERS",
    "    Do what a cluster would have this node do, or tell what a cluster would be told.",
    "SLEEP <seconds>",
    "    Reply after <seconds>, which may have decimals. Other connections are served meanwhile.",
    "STRINGMATCH-LEN <pattern> <string>",
    "    Tell whether <string> matches <pattern>.",
    "STRINGMATCH-TEST",
    "    Match random patterns with random strings.",
    "STRUCTSIZE",
    "    Tell the sizes of what keys and values are made of.",
    "HELP",
    "    Print this text.",
];

type Subcommand = (&'static str, RangeInclusive<usize>, Run);

/// Every subcommand, with how many words it has in all.
const SUBCOMMANDS: &[Subcommand] = &[
    ("HELP", 2..=2, help),
    ("SLEEP", 3..=3, sleep),
    ("OBJECT", 3..=4, values::object),
    ("POPULATE", 3..=5, populate),
    ("ERROR", 3..=3, error),
    ("PROTOCOL", 3..=3, protocol),
    ("JMAP", 2..=3, jmap),
    ("DIGEST", 2..=2, digest::all),
    ("DIGEST-VALUE", 2..=usize::MAX, digest::of_keys),
    ("LISTPACK", 3..=3, values::listpack),
    ("QUICKLIST", 3..=4, values::quicklist),
    ("SDSLEN", 3..=3, values::sdslen),
    ("HTSTATS", 3..=4, values::htstats),
    ("HTSTATS-KEY", 3..=4, values::htstats_key),
    ("RELOAD", 2..=usize::MAX, reload::reload),
    ("LOADAOF", 2..=2, reload::load_aof),
    ("SHARD", 3..=usize::MAX, shard::shard),
    ("SET-ACTIVE-EXPIRE", 3..=3, switching::active_expire),
    ("SET-SKIP-CHECKSUM-VALIDATION", 3..=3, switching::skip_checksums),
    ("SET-DISABLE-DENY-SCRIPTS", 3..=3, switching::disable_deny_scripts),
    ("PAUSE-CRON", 3..=3, switching::pause_cron),
    ("JOURNAL-PAUSE", 3..=3, switching::pause_journal),
    ("DICT-RESIZING", 3..=3, switching::accept),
    ("CLIENT-ENFORCE-REPLY-LIST", 3..=3, switching::accept),
    ("REPLYBUFFER", 4..=4, switching::reply_buffer),
    ("QUICKLIST-PACKED-THRESHOLD", 3..=3, switching::packed_threshold),
    ("CHANGE-REPL-ID", 2..=2, switching::change_replication_id),
    ("LOG", 3..=3, switching::log),
    ("STRINGMATCH-LEN", 4..=4, switching::string_match),
    ("STRINGMATCH-TEST", 2..=2, switching::string_match_test),
    ("STRUCTSIZE", 2..=2, switching::struct_size),
];

/// DEBUG subcommand [...]
pub(crate) fn debug(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let allowed = match ctx.server().config.string("enable-debug-command").as_str() {
        "yes" => true,
        "local" => ctx.session().client.peer.is_local(),
        _ => false,
    };
    if !allowed {
        return Err(NOT_ALLOWED);
    }
    match SUBCOMMANDS.iter().find(|(name, len, _)| is(&args[1], name) && len.contains(&args.len())) {
        Some((_, _, run)) => run(ctx, args, reply),
        None => Err(Fault::wrong_subcommand("DEBUG", &args[1])),
    }
}

fn help(_: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.status_lines(HELP);
    Ok(())
}

fn jmap(_: &mut Ctx<'_>, _: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    Err(Fault::Text(
        "ERR DEBUG JMAP is not available: there is no virtual machine whose heap could be mapped",
    ))
}

fn error(_: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    let one_line = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    Err(Fault::Quoting(args[2].iter().map(one_line).collect()))
}

/// The decimal number that text begins with, as C's `strtod` reads it; 0 for none.
fn leading_number(text: &[u8]) -> f64 {
    let numeric = text.iter().take(NUMBER_BYTES_MAX).take_while(|byte| b"+-.0123456789eE".contains(byte));
    (1..=numeric.count()).rev().find_map(|end| parse_f64(&text[..end])).unwrap_or(0.0)
}

fn sleep(ctx: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    // What is no duration (negative, NaN, too long for the clock) is none.
    let duration = Duration::try_from_secs_f64(leading_number(&args[2])).unwrap_or_default();
    ctx.defer(move |lane| {
        std::thread::sleep(duration);
        lane.reply().ok();
        Ok(())
    });
    Ok(())
}

/// DEBUG POPULATE count [prefix [size]]: may be many, so they are made on the long lane.
fn populate(ctx: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    let count = natural(&args[2], Fault::NOT_POSITIVE)?;
    let prefix = args.get(3).unwrap_or(b"key").to_vec();
    let size = if args.len() == 5 { natural(&args[4], Fault::NOT_POSITIVE)? } else { 0 };
    if size as u64 > ctx.server().config.hot().proto_max_bulk_bytes() {
        return Err(Fault::STRING_TOO_LONG);
    }
    ctx.defer(move |lane| {
        for number in 0..count {
            create(lane, &prefix, number, size)?;
        }
        lane.reply().ok();
        Ok(())
    });
    Ok(())
}

fn create(lane: &mut Lane<'_>, prefix: &[u8], number: usize, size: usize) -> CmdResult {
    if lane.server().out_of_memory() {
        return Err(Fault::OOM);
    }
    let key = [prefix, format!(":{number}").as_bytes()].concat();
    let mut value = format!("value:{number}").into_bytes();
    if size > 0 {
        value.resize(size, 0);
    }
    lane.with_keys(&[&key], |ctx, _| {
        if ctx.peek(&key).is_none() {
            ctx.put_str(&key, &value, Expiry::Clear);
            ctx.effect(&[b"SET", &key, &value]);
        }
        Ok(())
    })
}

const WRONG_TYPE_NAME: Fault = Fault::Text(
    "ERR Wrong protocol type name. Please use one of the following: \
     string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
);

#[expect(clippy::approx_constant, reason = "the sample that client tests look for")]
fn protocol(_: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    match args[2].to_ascii_lowercase().as_slice() {
        b"string" => reply.text("Hello World"),
        b"integer" => reply.int(12345),
        b"double" => reply.double(3.141),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"map" => {
            reply.map(3);
            for n in 0..3 {
                reply.int(n);
                reply.bool(n == 1);
            }
        }
        b"attrib" => {
            if reply.proto() == Proto::V3 {
                reply.encoder().raw(b"|1\r\n");
                reply.text("key-popularity");
                reply.array(2);
                reply.text("key:123");
                reply.int(90);
            }
            reply.text("Some real reply following the attribute");
        }
        b"push" => {
            if reply.proto() == Proto::V2 {
                return Err(Fault::Text("ERR RESP2 is not supported by this command"));
            }
            reply.push(2);
            reply.text("server-cpu-usage");
            reply.int(42);
            reply.text("Some real reply following the push reply");
        }
        b"verbatim" => reply.verbatim("txt", b"This is a verbatim\nstring"),
        b"true" => reply.bool(true),
        b"false" => reply.bool(false),
        _ => return Err(WRONG_TYPE_NAME),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use crate::testing::Harness;

    #[test]
    fn only_where_it_is_allowed() {
        for (value, allowed) in [("no", false), ("yes", true), ("local", true)] {
            let reply = Harness::with_config(&[("enable-debug-command", value)]).run("DEBUG SLEEP 0");
            assert_eq!(reply == "+OK", allowed, "{reply}");
            assert!(allowed || reply.starts_with("-ERR DEBUG command not allowed. If the "), "{reply}");
        }
    }

    #[test]
    fn digests_are_those_of_redis() {
        let mut harness = Harness::with_config(&[("enable-debug-command", "yes")]);
        harness.check("RPUSH l a b c", ":3");
        let value = "8bf72d812571eea9b927f3c11beb0c4165a6ff89";
        harness.check("DEBUG DIGEST-VALUE l nokey", &format!("[+{value} +{}]", "0".repeat(40)));
        harness.check("DEBUG DIGEST", "+625aa282e03653452879ea5bf1ee7a453f83f55b");
        harness.check("DEBUG RELOAD", "+OK");
        harness.check("DEBUG DIGEST", "+625aa282e03653452879ea5bf1ee7a453f83f55b");
        harness.check("FLUSHALL", "+OK");
        harness.check("DEBUG DIGEST", &format!("+{}", "0".repeat(40)));
    }

    #[test]
    fn a_new_replication_id_is_told() {
        let mut harness = Harness::with_config(&[("enable-debug-command", "yes")]);
        let id = |harness: &mut Harness| {
            let info = harness.run("INFO replication");
            info.lines().find_map(|line| Some(line.strip_prefix("master_replid:")?.trim().to_owned()))
        };
        let before = id(&mut harness);
        harness.check("DEBUG CHANGE-REPL-ID", "+OK");
        let after = id(&mut harness).expect("INFO tells it");
        assert!(Some(&after) != before.as_ref() && after.len() == 40, "{after}");
    }

    #[test]
    fn tools_for_tests() {
        let mut harness = Harness::with_config(&[("enable-debug-command", "yes")]);
        for (line, expected) in [
            ("DEBUG", "-ERR wrong number of arguments for 'debug' command"),
            ("DEBUG FOO", "-ERR unknown subcommand or wrong number of arguments for 'FOO'. Try DEBUG HELP."),
            (
                "DEBUG SLEEP",
                "-ERR unknown subcommand or wrong number of arguments for 'SLEEP'. Try DEBUG HELP.",
            ),
            ("DEBUG SLEEP x", "+OK"),
            ("DEBUG ERROR \"MY own\\nerror\"", "-MY own error"),
            ("DEBUG POPULATE x", "-ERR value is out of range, must be positive"),
            ("DEBUG POPULATE 2 p -1", "-ERR value is out of range, must be positive"),
            ("SET key:1 mine", "+OK"),
            ("DEBUG POPULATE 3", "+OK"),
            ("MGET key:0 key:1 key:2 key:3", "[value:0 mine value:2 (nil)]"),
            ("DEBUG POPULATE 1 p 5", "+OK"),
            ("GET p:0", "value"),
            ("DEBUG POPULATE 1 q 9", "+OK"),
            ("GET q:0", "value:0\0\0"),
            ("DEBUG OBJECT missing", "-ERR no such key"),
            ("RPUSH list a 1 bc", ":3"),
            ("DEBUG LISTPACK list", "+Listpack structure printed on stdout"),
            ("DEBUG QUICKLIST list", "-ERR Not a quicklist encoded object."),
            ("DEBUG LISTPACK key:1", "-ERR Not a listpack encoded object."),
            (
                "DEBUG HTSTATS-KEY list",
                "-ERR The value stored at the specified key is not represented using an hash table",
            ),
            ("DEBUG HTSTATS 99", "-ERR Out of range database"),
            ("SADD set a b c d", ":4"),
            (
                "DEBUG SDSLEN key:1",
                "+key_sds_len:5, key_sds_avail:0, key_zmalloc: 5, val_sds_len:4, val_sds_avail:0, val_zmalloc: 4",
            ),
            ("DEBUG SDSLEN set", "-ERR Not an sds encoded string."),
            ("DEBUG QUICKLIST-PACKED-THRESHOLD 100b", "+OK"),
            (
                "DEBUG QUICKLIST-PACKED-THRESHOLD 4gb",
                "-ERR argument must be a memory value bigger than 1 and smaller than 4gb",
            ),
            ("DEBUG REPLYBUFFER PEAK-RESET-TIME never", "+OK"),
            ("DEBUG REPLYBUFFER PEAK-RESET-TIME x", "-ERR value is not an integer or out of range"),
            ("DEBUG REPLYBUFFER RESIZING 0", "+OK"),
            ("DEBUG DICT-RESIZING 0", "+OK"),
            ("DEBUG STRINGMATCH-LEN a*c abc", ":1"),
            ("DEBUG STRINGMATCH-TEST", "+Apparently Redis did not crash: test passed"),
            ("DEBUG LOG hello", "+OK"),
            ("DEBUG RELOAD", "+OK"),
            ("DEBUG RELOAD WHAT", "-ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options."),
            ("LRANGE list 0 -1", "[a 1 bc]"),
            ("DEL list set", ":2"),
            ("DEBUG PROTOCOL push", "-ERR RESP2 is not supported by this command"),
            ("DEBUG PROTOCOL map", "[:0 :0 :1 :1 :2 :0]"),
        ] {
            harness.check(line, expected);
        }
        harness.advance_ms(3000);
        let object = harness.run("DEBUG OBJECT p:0");
        assert!(
            object.contains(" encoding:embstr serializedlength:6 lru:") && object.ends_with("_idle:3"),
            "{object}"
        );
        harness.check("DEBUG SET-ACTIVE-EXPIRE 0", "+OK");
        assert!(!harness.server.active_expire.load(Relaxed));
        harness.check("DEBUG SET-ACTIVE-EXPIRE 1", "+OK");
        assert!(harness.server.active_expire.load(Relaxed));
        let mut harness = harness.resp3();
        for (line, expected) in [
            ("DEBUG PROTOCOL map", "%{:0=#false :1=#true :2=#false}"),
            ("DEBUG PROTOCOL push", ">[server-cpu-usage :42] Some real reply following the push reply"),
            ("DEBUG PROTOCOL bignum", "(1234567999999999999999999999999999999"),
            ("DEBUG PROTOCOL attrib", "Some real reply following the attribute"),
        ] {
            harness.check(line, expected);
        }
    }
}
