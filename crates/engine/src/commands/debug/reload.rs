//! DEBUG RELOAD: every value is written as RDB and read back, key by key. The keyspace is never empty meanwhile, and a
//! value that is written to meanwhile stays as its writer left it.

use rdb::Compression;
use rdb::payload::{self, Checksum};
use store::{Hash, List, OwnedEntry, OwnedValue, Set, Stream, Typed, Value, ZSet};

use crate::args::{Args, is};
use crate::commands::keys::dump::compression;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::lane::Lane;
use crate::reply::Reply;

/// Keys that are cloned together, under the lock of their stripe.
const STEP_KEYS: usize = 256;

/// DEBUG RELOAD [MERGE] [NOFLUSH]
pub(super) fn reload(ctx: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    for word in args.from(2).iter() {
        if is(word, "NOSAVE") {
            return Err(Fault::Text("ERR DEBUG RELOAD NOSAVE is not available: there is no file to load"));
        }
        if !is(word, "MERGE") && !is(word, "NOFLUSH") {
            return Err(Fault::Text("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options."));
        }
    }
    let (now_ms, compression) = (ctx.now_ms(), compression(ctx.server()));
    ctx.defer(move |lane| {
        for db in 0..lane.server().keyspace.databases() {
            reload_database(lane, db, now_ms, compression)?;
        }
        lane.reply().ok();
        Ok(())
    });
    Ok(())
}

/// DEBUG LOADAOF
pub(super) fn load_aof(ctx: &mut Ctx<'_>, _: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    ctx.defer_script(|lane| {
        let server = lane.server();
        server.host.reload_files(server).map_err(|reason| {
            server.host.log(&format!("DEBUG LOADAOF: {reason}"));
            Fault::Text("ERR Error trying to load the AOF files, check server logs.")
        })?;
        lane.reply().ok();
        Ok(())
    });
    Ok(())
}

fn reload_database(lane: &mut Lane<'_>, db: usize, now_ms: i64, compression: Compression) -> CmdResult {
    let mut cursor = 0;
    loop {
        let mut found: Vec<(Vec<u8>, OwnedEntry)> = Vec::new();
        let keyspace = &lane.server().keyspace;
        cursor = keyspace.scan(lane.held(), db, cursor, STEP_KEYS, now_ms, &mut |key, view| {
            found.push((key.to_vec(), view.to_owned()));
        });
        for (key, entry) in found {
            reload_key(lane, db, &key, entry, compression)?;
        }
        if cursor == 0 {
            return Ok(());
        }
    }
}

fn reload_key(
    lane: &mut Lane<'_>,
    db: usize,
    key: &[u8],
    before: OwnedEntry,
    compression: Compression,
) -> CmdResult {
    let written = payload::encode(&before.value, compression);
    let body = payload::body(&written, Checksum::Checked).expect("payload-reads: its own checksum");
    let value = payload::value(body, &lane.server().thresholds()).expect("payload-reads: its own value");
    lane.with_keys(&[key], |ctx, _| {
        let is_unchanged = ctx.visit(db, key, |view| {
            view.is_some_and(|view| {
                let now = view.to_owned();
                now.expire_at_ms == before.expire_at_ms && is_same(&now.value, &before.value)
            })
        });
        if is_unchanged {
            ctx.put_entry(db, key, &OwnedEntry { value, expire_at_ms: before.expire_at_ms });
        }
        Ok(())
    })
}

fn is_same(now: &OwnedValue, before: &OwnedValue) -> bool {
    match (now, before) {
        (OwnedValue::Inline(now, _), OwnedValue::Inline(before, _)) => now == before,
        (OwnedValue::Object(now), OwnedValue::Object(before)) => match (now, before) {
            (Value::Str(now), Value::Str(before)) => now.is_same(before),
            _ => {
                is_same_collection(now, before, List::is_same)
                    || is_same_collection(now, before, Set::is_same)
                    || is_same_collection(now, before, ZSet::is_same)
                    || is_same_collection(now, before, Hash::is_same)
                    || is_same_collection(now, before, Stream::is_same)
            }
        },
        _ => false,
    }
}

fn is_same_collection<T: Typed>(now: &Value, before: &Value, is_same: impl Fn(&T, &T) -> bool) -> bool {
    T::of(now).zip(T::of(before)).is_some_and(|(now, before)| is_same(now, before))
}
