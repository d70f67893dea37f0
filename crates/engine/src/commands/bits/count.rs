//! BITCOUNT and BITPOS: looking through a range of bits.

use base::limits::{BIG_INPUT_ELEMENTS, BYTES_PER_ELEMENT_OF_WORK};

use crate::args::{Args, int, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::lane::Lane;
use crate::reply::Reply;
use crate::value::Str;

const BIT_NOT_BINARY: Fault = Fault::Text("ERR The bit argument must be 1 or 0.");

/// What bounds are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Byte,
    Bit,
}

impl Unit {
    fn parse(word: Option<&[u8]>) -> CmdResult<Unit> {
        match word {
            None => Ok(Unit::Byte),
            Some(word) if is(word, "BIT") => Ok(Unit::Bit),
            Some(word) if is(word, "BYTE") => Ok(Unit::Byte),
            Some(_) => Err(Fault::SYNTAX),
        }
    }
}

/// Bits from `first` to `last`, both included; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    first: u64,
    last: u64,
}

impl Span {
    /// The bits of a string of `length_bytes` between two bounds, which count from the end if they are negative.
    fn new(start: i64, end: i64, unit: Unit, length_bytes: usize) -> Option<Span> {
        let total = length_bytes as i64 * if unit == Unit::Bit { 8 } else { 1 };
        let from_start = |bound: i64| if bound < 0 { bound.saturating_add(total).max(0) } else { bound };
        let (start, end) = (from_start(start), from_start(end).min(total - 1));
        if start > end {
            return None;
        }
        let (start, end) = (start as u64, end as u64);
        Some(match unit {
            Unit::Bit => Span { first: start, last: end },
            Unit::Byte => Span { first: start * 8, last: end * 8 + 7 },
        })
    }

    fn bytes(self) -> std::ops::Range<usize> {
        (self.first >> 3) as usize..(self.last >> 3) as usize + 1
    }

    /// The bits of the first byte that lie before the span.
    fn before(self) -> u8 {
        !(0xff >> (self.first & 7))
    }

    /// The bits of the last byte that lie after the span.
    fn after(self) -> u8 {
        0x7f_u8.checked_shr((self.last & 7) as u32).unwrap_or(0)
    }

    fn work(self) -> usize {
        self.bytes().len() / BYTES_PER_ELEMENT_OF_WORK
    }
}

/// BITCOUNT key [start end [BYTE | BIT]]
pub(crate) fn bitcount(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (start, end, unit) = match args.len() {
        2 => (0, -1, Unit::Byte),
        4 | 5 => (int(&args[2])?, int(&args[3])?, Unit::parse(args.get(4))?),
        _ => return Err(Fault::SYNTAX),
    };
    let Some(text) = ctx.read_str(&args[1])? else {
        reply.int(0);
        return Ok(());
    };
    // Two bounds from the end that are the wrong way round are empty even where both lie before the start.
    let is_reversed = start < 0 && end < 0 && start > end;
    let Some(span) = Span::new(start, end, unit, text.len()).filter(|_| !is_reversed) else {
        reply.int(0);
        return Ok(());
    };
    if let Some(job) = look_through(text, span, reply, move |text| count(text, span) as i64) {
        ctx.defer(job);
    }
    Ok(())
}

/// Replies with what `look` finds in a string. If the span is long, returns the job of doing so instead.
fn look_through(
    text: Str<'_>,
    span: Span,
    reply: &mut Reply<'_>,
    look: impl Fn(Str<'_>) -> i64 + Send + 'static,
) -> Option<impl FnOnce(&mut Lane<'_>) -> CmdResult + Send + 'static> {
    if span.work() <= BIG_INPUT_ELEMENTS {
        reply.int(look(text));
        return None;
    }
    let text = text.to_owned();
    Some(move |lane: &mut Lane<'_>| {
        lane.reply().int(look(text.as_str()));
        Ok(())
    })
}

fn count(text: Str<'_>, span: Span) -> u64 {
    let bytes = span.bytes();
    let all: u64 = text.pieces(bytes.clone()).map(count_ones).sum();
    let ([first], [last]) = (text.window(bytes.start), text.window(bytes.end - 1));
    all - u64::from((first & span.before()).count_ones()) - u64::from((last & span.after()).count_ones())
}

fn count_ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let in_words: u64 = words.iter().map(|word| u64::from(u64::from_le_bytes(*word).count_ones())).sum();
    in_words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// BITPOS key bit [start [end [BYTE | BIT]]]
pub(crate) fn bitpos(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let wanted = match int(&args[2])? {
        bit @ 0..=1 => bit == 1,
        _ => return Err(BIT_NOT_BINARY),
    };
    if args.len() > 6 {
        return Err(Fault::SYNTAX);
    }
    let start = args.get(3).map_or(Ok(0), int)?;
    let unit = Unit::parse(args.get(5))?;
    let end = args.get(4).map(int).transpose()?;
    // A string is followed by zeros without end, unless the range has one.
    let is_open = !wanted && end.is_none();
    let Some(text) = ctx.read_str(&args[1])? else {
        reply.int(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let Some(span) = Span::new(start, end.unwrap_or(-1), unit, text.len()) else {
        reply.int(-1);
        return Ok(());
    };
    let past_end = is_open.then_some(span.last + 1);
    let look = move |text: Str<'_>| find(text, span, wanted).or(past_end).map_or(-1, |at| at as i64);
    if let Some(job) = look_through(text, span, reply, look) {
        ctx.defer(job);
    }
    Ok(())
}

/// The first bit of the span that is `wanted`.
fn find(text: Str<'_>, span: Span, wanted: bool) -> Option<u64> {
    // Bits that are looked for show as ones.
    let flip = if wanted { 0 } else { 0xff };
    let bytes = span.bytes();
    let [first] = text.window(bytes.start);
    let shown = (first ^ flip) & !span.before();
    let found = match shown {
        0 => {
            let mut at = bytes.start + 1;
            text.pieces(at..bytes.end).find_map(|piece| {
                let found = find_other(piece, flip).map(|within| at + within);
                at += piece.len();
                found.map(|at| (at as u64 * 8, piece_byte(text, at) ^ flip))
            })
        }
        shown => Some((bytes.start as u64 * 8, shown)),
    };
    let at = found.map(|(byte_start, shown)| byte_start + u64::from(shown.leading_zeros()))?;
    (at <= span.last).then_some(at)
}

fn piece_byte(text: Str<'_>, at: usize) -> u8 {
    let [byte] = text.window(at);
    byte
}

/// The first byte that is not `same`.
fn find_other(bytes: &[u8], same: u8) -> Option<usize> {
    let words = u64::from_le_bytes([same; 8]);
    let skipped =
        bytes.as_chunks::<8>().0.iter().take_while(|word| u64::from_le_bytes(**word) == words).count();
    let start = skipped * 8;
    bytes[start..].iter().position(|byte| *byte != same).map(|within| start + within)
}

#[cfg(test)]
mod tests {
    use store::LongString;

    use super::*;

    /// Bit by bit.
    fn model(bytes: &[u8], span: Span, wanted: bool) -> (u64, Option<u64>) {
        let is_wanted = |at: &u64| (bytes[(at >> 3) as usize] << (at & 7) & 0x80 != 0) == wanted;
        let ones = |at: &u64| bytes[(at >> 3) as usize] << (at & 7) & 0x80 != 0;
        let bits = span.first..=span.last;
        (bits.clone().filter(ones).count() as u64, bits.clone().find(is_wanted))
    }

    #[test]
    fn spans_are_counted_and_searched_as_bit_by_bit() {
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..2_000 {
            let len = if round % 10 == 0 { random.usize(16_000..50_000) } else { random.usize(1..40) };
            let fill = if random.bool() { 0xff } else { 0 };
            let mut bytes = vec![fill; len];
            for _ in 0..random.usize(0..6) {
                bytes[random.usize(..len)] = random.u8(..);
            }
            let long = LongString::from_slice(&bytes);
            let text = if round % 2 == 0 { Str::Long(&long) } else { Str::Inline(&bytes) };
            let unit = if random.bool() { Unit::Bit } else { Unit::Byte };
            let bound = |random: &mut fastrand::Rng| random.i64(-(len as i64) * 9..len as i64 * 9);
            let (start, end) = (bound(&mut random), bound(&mut random));
            let Some(span) = Span::new(start, end, unit, len) else { continue };
            let wanted = random.bool();
            let (ones, first) = model(&bytes, span, wanted);
            assert_eq!(count(text, span), ones, "{span:?} of {len}");
            assert_eq!(find(text, span, wanted), first, "{span:?} of {len}, {wanted}");
        }
    }
}
