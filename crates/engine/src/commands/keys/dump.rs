//! DUMP and RESTORE: a value as bytes that other servers read too.
//!
//! A big value is encoded from a clone, twice: once on the long lane for its length, which comes first in the reply,
//! and once piece by piece as the client reads it. So nobody holds the whole payload. A big payload is decoded on the
//! long lane, without locks.

use base::limits::{BIG_INPUT_ELEMENTS, BIG_PAYLOAD_BYTES};
use rdb::Compression;
use rdb::payload::{self, Checksum, PayloadEncoder};
use resp::Encoder;
use store::{OwnedEntry, OwnedValue, Thresholds, View, access};

use crate::args::{Args, int, is};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::server::Server;

const BUSY_KEY: Fault = Fault::Text("BUSYKEY Target key name already exists.");
const NEGATIVE_TTL: Fault = Fault::Text("ERR Invalid TTL value, must be >= 0");
const NEGATIVE_IDLE_TIME: Fault = Fault::Text("ERR Invalid IDLETIME value, must be >= 0");
const WRONG_FREQUENCY: Fault = Fault::Text("ERR Invalid FREQ value, must be >= 0 and <= 255");
const WRONG_FOOTER: Fault = Fault::Text("ERR DUMP payload version or checksum are wrong");
const WRONG_BODY: Fault = Fault::Text("ERR Bad data format");

/// How this server writes values.
pub(crate) fn compression(server: &Server) -> Compression {
    if server.config.bool("rdbcompression") { Compression::On } else { Compression::Off }
}

/// True if a value is to be encoded by the long lane.
pub(crate) fn is_big(value: &OwnedValue) -> bool {
    match value {
        OwnedValue::Inline(..) => false,
        OwnedValue::Object(value) => {
            value.memory_bytes() > BIG_PAYLOAD_BYTES || value.weight() > BIG_INPUT_ELEMENTS
        }
    }
}

pub(crate) fn dump(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let Some(OwnedEntry { value, .. }) = ctx.read_any(&args[1]).map(View::to_owned) else {
        reply.null();
        return Ok(());
    };
    let compression = compression(ctx.server());
    if !is_big(&value) {
        reply.bulk(&payload::encode(&value, compression));
        return Ok(());
    }
    ctx.defer(move |lane| {
        let len = payload::len(&value, compression);
        let (mut encoder, mut piece) = (PayloadEncoder::new(&value, compression), Vec::new());
        let mut reply = lane.reply();
        reply.encoder().bulk_header(len);
        reply.stream(move |out: &mut Encoder<'_>| {
            piece.clear();
            let more = encoder.fill(&mut piece);
            out.raw(&piece);
            if !more {
                out.raw(b"\r\n");
            }
            more
        });
        Ok(())
    });
    Ok(())
}

/// What RESTORE was asked for beside the value.
#[derive(Clone, Copy, Default)]
struct Options {
    ttl_ms: i64,
    is_absolute: bool,
    replaces: bool,
    idle_s: Option<i64>,
    frequency: Option<u8>,
}

impl Options {
    /// All but the time to live, which is looked at only where the key may be written.
    fn parse(args: Args<'_>) -> CmdResult<Options> {
        let mut options = Options::default();
        let mut at = 4;
        while let Some(word) = args.get(at) {
            let value = args.get(at + 1);
            at += 1;
            match value {
                _ if is(word, "REPLACE") => options.replaces = true,
                _ if is(word, "ABSTTL") => options.is_absolute = true,
                Some(value) if is(word, "IDLETIME") && options.frequency.is_none() => {
                    options.idle_s = Some(int(value)?);
                    if options.idle_s.is_some_and(i64::is_negative) {
                        return Err(NEGATIVE_IDLE_TIME);
                    }
                    at += 1;
                }
                Some(value) if is(word, "FREQ") && options.idle_s.is_none() => {
                    options.frequency = Some(u8::try_from(int(value)?).map_err(|_| WRONG_FREQUENCY)?);
                    at += 1;
                }
                _ => return Err(Fault::SYNTAX),
            }
        }
        Ok(options)
    }

    fn expire_at_ms(self, now_ms: i64) -> Option<i64> {
        let base_ms = if self.is_absolute { 0 } else { now_ms };
        (self.ttl_ms != 0).then(|| base_ms.saturating_add(self.ttl_ms))
    }

    /// What the access clock is told to be; the option that the eviction policy has no use for is ignored.
    fn access_clock(self, ctx: &Ctx<'_>) -> Option<u32> {
        let now_ms = ctx.now_ms();
        if ctx.server().config.hot().maxmemory_policy().judges_by_frequency() {
            return self.frequency.map(|count| access::frequency(count, now_ms));
        }
        let used_at_ms = |idle_s: i64| now_ms.saturating_sub(idle_s.saturating_mul(1000)).max(0);
        self.idle_s.map(|idle_s| access::recency(used_at_ms(idle_s)))
    }

    fn may_write(self, ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult {
        if !self.replaces && ctx.exists_in(ctx.db(), key) { Err(BUSY_KEY) } else { Ok(()) }
    }
}

/// RESTORE and RESTORE-ASKING.
pub(crate) fn restore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let mut options = Options::parse(args)?;
    let (key, payload) = (&args[1], &args[3]);
    options.may_write(ctx, key)?;
    options.ttl_ms = int(&args[2])?;
    if options.ttl_ms < 0 {
        return Err(NEGATIVE_TTL);
    }
    let (thresholds, checksum) = (ctx.thresholds(), ctx.server().debug.payload_checksum());
    if payload.len() <= BIG_PAYLOAD_BYTES {
        let value = decode(payload, checksum, &thresholds)?;
        return store(ctx, reply, (key, payload), value, options);
    }
    let (key, payload) = (key.to_vec(), payload.to_vec());
    ctx.defer(move |lane| {
        let value = decode(&payload, checksum, &thresholds)?;
        lane.with_keys(&[&key], |ctx, reply| {
            options.may_write(ctx, &key)?;
            store(ctx, reply, (&key, &payload), value, options)
        })
    });
    Ok(())
}

fn decode(payload: &[u8], checksum: Checksum, thresholds: &Thresholds) -> CmdResult<OwnedValue> {
    let body = payload::body(payload, checksum).ok_or(WRONG_FOOTER)?;
    payload::value(body, thresholds).map_err(|_| WRONG_BODY)
}

fn store(
    ctx: &mut Ctx<'_>,
    reply: &mut Reply<'_>,
    (key, payload): (&[u8], &[u8]),
    value: OwnedValue,
    options: Options,
) -> CmdResult {
    let expire_at_ms = options.expire_at_ms(ctx.now_ms());
    if expire_at_ms.is_some_and(|at_ms| at_ms <= ctx.ends_now_ms()) {
        if ctx.delete(key) {
            ctx.notify(Event::Generic, "del", key);
            ctx.effect(&[b"DEL", key]);
        }
    } else {
        ctx.put_in_place(ctx.db(), key, &OwnedEntry { value, expire_at_ms });
        if let Some(clock) = options.access_clock(ctx) {
            ctx.set_access_clock(key, clock);
        }
        ctx.notify(Event::Generic, "restore", key);
        if ctx.is_journaled() {
            tell(ctx, (key, payload), expire_at_ms, options);
        }
    }
    reply.ok();
    Ok(())
}

/// The effect of RESTORE: itself, with its end as a time.
fn tell(ctx: &mut Ctx<'_>, (key, payload): (&[u8], &[u8]), expire_at_ms: Option<i64>, options: Options) {
    let at_ms = expire_at_ms.unwrap_or(0).to_string();
    let (idle_s, frequency) =
        (options.idle_s.map(|s| s.to_string()), options.frequency.map(|f| f.to_string()));
    let mut words: Vec<&[u8]> = vec![b"RESTORE", key, at_ms.as_bytes(), payload];
    if options.replaces {
        words.push(b"REPLACE");
    }
    if let Some(idle_s) = &idle_s {
        words.extend([b"IDLETIME", idle_s.as_bytes()]);
    }
    if let Some(frequency) = &frequency {
        words.extend([b"FREQ", frequency.as_bytes()]);
    }
    if expire_at_ms.is_some() {
        words.push(b"ABSTTL");
    }
    ctx.effect(&words);
}
