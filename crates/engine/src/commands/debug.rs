//! DEBUG: for those who test the server and its clients. Refused unless `enable-debug-command` allows it.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base::num::parse_f64;
use resp::Proto;
use store::{Expiry, Instant, ValueRef};

use crate::args::{Args, is, natural};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::lane::Lane;
use crate::reply::Reply;
use crate::worker::{access_clock, idle_seconds};

const NOT_ALLOWED: Fault = Fault::Text(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local \
     connection, otherwise you need to set this option in the configuration file, and then restart the server.",
);

/// Bytes that are looked at to read a number.
const NUMBER_BYTES_MAX: usize = 64;

const HELP: &[&str] = &[
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ERROR <text>",
    "    Reply with <text> as an error.",
    "OBJECT <key>",
    "    Tell how the value of <key> is kept.",
    "POPULATE <count> [<prefix>] [<size>]",
    "    Create <count> strings called <prefix>:<number> (default prefix: key), of <size> bytes",
    "    if that is given. Keys that exist stay as they are.",
    "PROTOCOL <type>",
    "    Reply with a value of <type>: string, integer, double, bignum, null, array, set, map,",
    "    attrib, push, verbatim, true, false.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Stop, or start again, the removal of expired keys that nobody asks for.",
    "SLEEP <seconds>",
    "    Reply after <seconds>, which may have decimals. Other connections are served meanwhile.",
    "HELP",
    "    Print this text.",
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
    let known: [(&str, std::ops::RangeInclusive<usize>, crate::table::Run); 8] = [
        ("HELP", 2..=2, help),
        ("SLEEP", 3..=3, sleep),
        ("OBJECT", 3..=4, object),
        ("POPULATE", 3..=5, populate),
        ("SET-ACTIVE-EXPIRE", 3..=3, set_active_expire),
        ("ERROR", 3..=3, error),
        ("PROTOCOL", 3..=3, protocol),
        ("JMAP", 2..=3, jmap),
    ];
    match known.iter().find(|(name, len, _)| is(&args[1], name) && len.contains(&args.len())) {
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

fn set_active_expire(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    ctx.server().active_expire.store(leading_number(&args[2]).trunc() != 0.0, Relaxed);
    reply.ok();
    Ok(())
}

/// DEBUG OBJECT key. There is no serialized form to measure yet: its length is that of a string's text, and
/// for other types that of the value in memory.
fn object(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, db, now_ms) = (&args[2], ctx.db(), ctx.now_ms());
    let keyspace = &ctx.server().keyspace;
    let position = keyspace.position(key);
    // DEBUG names no key in its row, so that its stripe is not locked yet.
    let mut locked = keyspace.lock(position);
    let view = locked.get(db, position, key, Instant { now_ms, touch: None }).ok_or(Fault::NO_SUCH_KEY)?;
    let length = match view.value() {
        ValueRef::Inline(bytes) => bytes.len() + 1,
        ValueRef::Object(value) => value.memory_bytes(),
    };
    let idle_s = idle_seconds(view.clock(), now_ms);
    let text = format!(
        "Value at:0x0 refcount:1 encoding:{} serializedlength:{length} lru:{} lru_seconds_idle:{idle_s}",
        view.encoding().as_str(),
        access_clock(now_ms).wrapping_sub(idle_s) & 0xff_ffff,
    );
    reply.simple(&text);
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
