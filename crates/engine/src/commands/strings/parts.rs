//! Parts of strings: APPEND, GETRANGE, SETRANGE.

use store::entry::{INLINE_BYTES_MAX, OwnedEntry, OwnedValue};
use store::rope::CHUNK_BYTES;
use store::{Expiry, LongString, Value};

use crate::args::{Args, int};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::value::Str;

const OFFSET_NEGATIVE: Fault = Fault::Text("ERR offset is out of range");

pub(crate) fn append(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, tail) = (&args[1], &args[2]);
    let length_max_bytes = ctx.server().config.hot().proto_max_bulk_bytes();
    let length_bytes = match ctx.peek_str(key)? {
        None => {
            ctx.put_str(key, tail, Expiry::Clear);
            tail.len()
        }
        Some(Str::Inline(head)) => {
            check_length(head.len(), tail.len(), length_max_bytes)?;
            let joined = [head, tail].concat();
            ctx.put_raw_str(key, &joined);
            joined.len()
        }
        Some(Str::Long(head)) => {
            let length_bytes = check_length(head.len(), tail.len(), length_max_bytes)?;
            ctx.edit_long(key, |text| text.append(tail));
            length_bytes
        }
    };
    ctx.notify(Event::String, "append", key);
    reply.int(length_bytes as i64);
    Ok(())
}

pub(crate) fn getrange(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (first, last) = (int(&args[2])?, int(&args[3])?);
    let value = ctx.read_str(&args[1])?;
    let length_bytes = value.map_or(0, Str::len);
    match (value, span(first, last, length_bytes)) {
        (Some(Str::Inline(text)), Some((start, end))) => reply.bulk(&text[start..end]),
        (Some(Str::Long(text)), Some((start, end))) => answer_range(text, start, end, reply),
        _ => reply.bulk(b""),
    }
    Ok(())
}

/// Answers part of a long string. Chunks that lie wholly within it are shared with the store, not copied.
fn answer_range(text: &LongString, start: usize, end: usize, reply: &mut Reply<'_>) {
    let shared_start = start.next_multiple_of(CHUNK_BYTES);
    let shared_count = (end / CHUNK_BYTES).saturating_sub(shared_start / CHUNK_BYTES);
    if shared_count == 0 {
        reply.bulk(&text.read(start..end));
        return;
    }
    reply.encoder().bulk_header(end - start);
    let out = reply.output();
    out.tail().extend_from_slice(&text.read(start..shared_start));
    text.chunks(shared_start).take(shared_count).for_each(|chunk| out.push_chunk(chunk));
    out.tail().extend_from_slice(&text.read(shared_start + shared_count * CHUNK_BYTES..end));
    out.tail().extend_from_slice(b"\r\n");
}

/// The half-open range that inclusive bounds mean, negative ones counting from the end; `None` when it is
/// empty.
fn span(first: i64, last: i64, length: usize) -> Option<(usize, usize)> {
    if first < 0 && last < 0 && first > last {
        return None;
    }
    let length = length as i64;
    let from_start = |bound: i64| if bound < 0 { (bound + length).max(0) } else { bound };
    let (first, last) = (from_start(first), from_start(last).min(length - 1));
    (first <= last).then(|| (first as usize, last as usize + 1))
}

pub(crate) fn setrange(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, patch) = (&args[1], &args[3]);
    let offset = usize::try_from(int(&args[2])?).map_err(|_| OFFSET_NEGATIVE)?;
    let length_max_bytes = ctx.server().config.hot().proto_max_bulk_bytes();
    let value = ctx.peek_str(key)?;
    let length_bytes = value.map_or(0, Str::len);
    if patch.is_empty() {
        reply.int(length_bytes as i64);
        return Ok(());
    }
    let end = check_length(offset, patch.len(), length_max_bytes)?;
    match value {
        Some(Str::Long(_)) => {
            ctx.edit_long(key, |text| text.write_at(offset, patch));
        }
        short if end <= INLINE_BYTES_MAX => {
            let mut bytes = short.map_or(Vec::new(), Str::to_vec);
            bytes.resize(length_bytes.max(end), 0);
            bytes[offset..end].copy_from_slice(patch);
            ctx.put_raw_str(key, &bytes);
        }
        short => {
            // A long string fills a gap without writing it.
            let mut text = LongString::from_slice(&short.map_or(Vec::new(), Str::to_vec));
            text.write_at(offset, patch);
            let expire_at_ms = ctx.expire_at_ms(key).flatten();
            let value = OwnedValue::Object(Value::Str(text));
            ctx.put_entry(ctx.db(), key, &OwnedEntry { value, expire_at_ms });
        }
    }
    ctx.notify(Event::String, "setrange", key);
    reply.int(length_bytes.max(end) as i64);
    Ok(())
}

/// The sum of two lengths, unless a string may not grow that long.
fn check_length(bytes: usize, more_bytes: usize, length_max_bytes: u64) -> CmdResult<usize> {
    bytes.checked_add(more_bytes).filter(|sum| *sum as u64 <= length_max_bytes).ok_or(Fault::STRING_TOO_LONG)
}
