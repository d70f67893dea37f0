//! DEBUG on single values: how they are kept, and how large they are where Redis would keep them.

use rdb::payload;
use store::{Encoding, OwnedEntry, OwnedValue, Value, View, access};

use crate::args::{Args, int};
use crate::commands::keys::dump::{compression, is_big};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// What a payload has beside its value: the type's code, the version and the checksum.
const FRAME_BYTES: usize = 1 + payload::FOOTER_BYTES;

/// A key's value, cloned, with its access clock and encoding.
struct Found {
    entry: OwnedEntry,
    clock: u32,
    encoding: Encoding,
}

fn find(ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult<Found> {
    let db = ctx.db();
    let found =
        |view: View<'_>| Found { entry: view.to_owned(), clock: view.clock(), encoding: view.encoding() };
    ctx.visit(db, key, |view| view.map(found)).ok_or(Fault::NO_SUCH_KEY)
}

/// DEBUG OBJECT key [fast]: what takes time to find out is left out with `fast`, as in Valkey.
pub(super) fn object(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (found, now_ms) = (find(ctx, &args[2])?, ctx.now_ms());
    let compression = compression(ctx.server());
    let nodes_max = ctx.thresholds().list_max_listpack_size;
    let is_fast = args.get(3).is_some();
    let text = move |found: &Found| {
        let idle_s = access::idle_s(found.clock, now_ms);
        let mut text = format!("Value at:0x0 refcount:1 encoding:{}", found.encoding.as_str());
        if !is_fast {
            let len = payload::len(&found.entry.value, compression) - FRAME_BYTES;
            text.push_str(&format!(" serializedlength:{len}"));
        }
        text.push_str(&format!(" lru:{} lru_seconds_idle:{idle_s}", found.clock));
        if let (Encoding::Quicklist, OwnedValue::Object(Value::List(list))) =
            (found.encoding, &found.entry.value)
            && !is_fast
        {
            let (nodes, bytes) = list.listpack_nodes();
            text.push_str(&format!(
                " ql_nodes:{nodes} ql_avg_node:{:.2} ql_listpack_max:{nodes_max} ql_compressed:0 \
                 ql_uncompressed_size:{bytes}",
                list.len() as f64 / nodes as f64,
            ));
        }
        text
    };
    if is_big(&found.entry.value) && !is_fast {
        ctx.defer(move |lane| {
            lane.reply().simple(&text(&found));
            Ok(())
        });
    } else {
        reply.simple(&text(&found));
    }
    Ok(())
}

/// DEBUG LISTPACK key
pub(super) fn listpack(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let found = find(ctx, &args[2])?;
    if found.encoding != Encoding::Listpack {
        return Err(Fault::Text("ERR Not a listpack encoded object."));
    }
    let len = payload::len(&found.entry.value, rdb::Compression::Off) - FRAME_BYTES;
    log_shape(ctx, &args[2], &found, &format!("{len} bytes"));
    reply.simple("Listpack structure printed on stdout");
    Ok(())
}

/// DEBUG QUICKLIST key [0|1]
pub(super) fn quicklist(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let found = find(ctx, &args[2])?;
    if found.encoding != Encoding::Quicklist {
        return Err(Fault::Text("ERR Not a quicklist encoded object."));
    }
    log_shape(ctx, &args[2], &found, "in a tree of packed leaves");
    reply.simple("Quicklist structure printed on stdout");
    Ok(())
}

fn log_shape(ctx: &Ctx<'_>, key: &[u8], found: &Found, shape: &str) {
    let elements = match &found.entry.value {
        OwnedValue::Inline(..) => 1,
        OwnedValue::Object(value) => value.len(),
    };
    let encoding = found.encoding.as_str();
    let line = format!("DEBUG: {} is a {encoding} of {elements} elements, {shape}", key.escape_ascii());
    ctx.server().host.log(&line);
}

/// DEBUG SDSLEN key: strings are kept without room to grow, and never with less than they need.
pub(super) fn sdslen(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let found = find(ctx, &args[2])?;
    let len = match (&found.entry.value, found.encoding) {
        (_, Encoding::Int) => None,
        (OwnedValue::Inline(bytes, _), _) => Some(bytes.len()),
        (OwnedValue::Object(Value::Str(long)), _) => Some(long.len()),
        _ => None,
    };
    let len = len.ok_or(Fault::Text("ERR Not an sds encoded string."))?;
    let key_len = args[2].len();
    reply.simple(&format!(
        "key_sds_len:{key_len}, key_sds_avail:0, key_zmalloc: {key_len}, val_sds_len:{len}, val_sds_avail:0, \
         val_zmalloc: {len}"
    ));
    Ok(())
}

/// DEBUG HTSTATS db [full]
pub(super) fn htstats(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let keyspace = &ctx.server().keyspace;
    let db = usize::try_from(int(&args[2])?).ok().filter(|db| *db < keyspace.databases());
    let size = keyspace.size(db.ok_or(Fault::Text("ERR Out of range database"))?, ctx.now_ms());
    let is_full = args.get(3).is_some();
    let text = format!(
        "[Dictionary HT]\n{}[Expires HT]\n{}",
        table_text(size.keys, is_full),
        table_text(size.expires, is_full)
    );
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// DEBUG HTSTATS-KEY key [full]
pub(super) fn htstats_key(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let found = find(ctx, &args[2])?;
    let elements = match (&found.entry.value, found.encoding) {
        (OwnedValue::Object(value), Encoding::Hashtable | Encoding::Skiplist) => value.len(),
        _ => {
            return Err(Fault::Text(
                "ERR The value stored at the specified key is not represented using an hash table",
            ));
        }
    };
    reply.verbatim("txt", table_text(elements, args.get(3).is_some()).as_bytes());
    Ok(())
}

/// A table of so many elements in the words of Redis's. Ours has no chains: every element has a slot of its own.
fn table_text(elements: usize, is_full: bool) -> String {
    let head = "Hash table 0 stats (main hash table):\n";
    if elements == 0 {
        return format!("{head}No stats available for empty dictionaries\n");
    }
    let slots = elements.next_power_of_two().max(4);
    let mut text = format!("{head} table size: {slots}\n number of elements: {elements}\n");
    if is_full {
        let share = |part: usize| 100.0 * part as f64 / slots as f64;
        let free = slots - elements;
        text.push_str(&format!(
            " different slots: {elements}\n max chain length: 1\n avg chain length (counted): 1.00\n \
             avg chain length (computed): 1.00\n Chain length distribution:\n   0: {free} ({:.2}%)\n   1: {elements} \
             ({:.2}%)\n",
            share(free),
            share(elements),
        ));
    }
    text
}
