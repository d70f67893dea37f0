//! BITOP: strings combined bit by bit.

use store::entry::{Form, INLINE_BYTES_MAX, OwnedEntry, OwnedValue};
use store::rope::CHUNK_BYTES;
use store::{LongString, Value};

use crate::args::{Args, is};
use crate::commands::algebra;
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::value::OwnedStr;

const NOT_TAKES_ONE: Fault = Fault::Text("ERR BITOP NOT must be called with a single source key.");

/// What is computed from the sources' bits at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// In the first, and in no other.
    Diff,
    /// In any other, and not in the first.
    Diff1,
    /// In the first and in any other.
    AndOr,
    /// In exactly one.
    One,
}

const OPERATIONS: [(&str, Operation); 8] = [
    ("AND", Operation::And),
    ("OR", Operation::Or),
    ("XOR", Operation::Xor),
    ("NOT", Operation::Not),
    ("DIFF", Operation::Diff),
    ("DIFF1", Operation::Diff1),
    ("ANDOR", Operation::AndOr),
    ("ONE", Operation::One),
];

impl Operation {
    fn parse(word: &[u8], source_count: usize) -> CmdResult<Operation> {
        let known = OPERATIONS.iter().find(|(name, _)| is(word, name));
        let (name, operation) = known.ok_or(Fault::SYNTAX)?;
        match operation {
            Operation::Not if source_count != 1 => Err(NOT_TAKES_ONE),
            Operation::Diff | Operation::Diff1 | Operation::AndOr if source_count < 2 => {
                Err(Fault::owned(format!("ERR BITOP {name} must be called with at least two source keys.")))
            }
            operation => Ok(*operation),
        }
    }
}

/// One block of the result, and what has to be known of the sources seen so far.
struct Block {
    /// The first source, then the result.
    bits: [u8; CHUNK_BYTES],
    /// What is set in any other source, or for ONE in more than one.
    others: [u8; CHUNK_BYTES],
    len: usize,
}

impl Block {
    fn start(&mut self, source: &[u8], len: usize) {
        self.len = len;
        self.bits[..source.len()].copy_from_slice(source);
        self.bits[source.len()..].fill(0);
        self.others.fill(0);
    }

    /// Takes in another source; beyond its end it is zero.
    fn add(&mut self, operation: Operation, source: &[u8]) {
        let bits = self.bits.iter_mut();
        match operation {
            Operation::And => {
                bits.zip(source).for_each(|(bits, byte)| *bits &= byte);
                self.bits[source.len()..].fill(0);
            }
            Operation::Or => bits.zip(source).for_each(|(bits, byte)| *bits |= byte),
            Operation::Xor => bits.zip(source).for_each(|(bits, byte)| *bits ^= byte),
            Operation::Diff | Operation::Diff1 | Operation::AndOr => {
                self.others.iter_mut().zip(source).for_each(|(others, byte)| *others |= byte);
            }
            Operation::One => {
                bits.zip(&mut self.others).zip(source).for_each(|((bits, others), byte)| {
                    *others |= *bits & byte;
                    *bits |= byte;
                });
            }
            Operation::Not => {}
        }
    }

    fn finish(&mut self, operation: Operation) -> &[u8] {
        let pairs = self.bits.iter_mut().zip(&self.others);
        match operation {
            Operation::And | Operation::Or | Operation::Xor => {}
            Operation::Not => self.bits.iter_mut().for_each(|bits| *bits = !*bits),
            Operation::Diff | Operation::One => pairs.for_each(|(bits, others)| *bits &= !others),
            Operation::Diff1 => pairs.for_each(|(bits, others)| *bits = !*bits & others),
            Operation::AndOr => pairs.for_each(|(bits, others)| *bits &= others),
        }
        &self.bits[..self.len]
    }
}

fn compute(operation: Operation, sources: &[Option<OwnedStr>]) -> LongString {
    let length_bytes = sources.iter().flatten().map(OwnedStr::len).max().unwrap_or(0);
    let mut block = Box::new(Block { bits: [0; CHUNK_BYTES], others: [0; CHUNK_BYTES], len: 0 });
    let mut result = LongString::new();
    // Blocks are chunks: of each source they are one piece.
    for start in (0..length_bytes).step_by(CHUNK_BYTES) {
        let mut pieces = sources.iter().map(|source| match source {
            Some(source) if source.len() > start => source.as_str().piece(start),
            _ => &[],
        });
        block.start(pieces.next().unwrap_or_default(), CHUNK_BYTES.min(length_bytes - start));
        pieces.for_each(|piece| block.add(operation, piece));
        let bytes = block.finish(operation);
        if bytes.iter().all(|byte| *byte == 0) {
            result.append_zeros(bytes.len());
        } else {
            result.append(bytes);
        }
    }
    result
}

/// BITOP operation destination key [key ...]
pub(crate) fn bitop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let operation = Operation::parse(&args[1], args.len() - 3)?;
    algebra::derive(
        ctx,
        reply,
        args.at(2),
        args.from(3).iter(),
        |sources: &[Option<OwnedStr>]| algebra::elements(sources),
        move |sources| compute(operation, sources),
        store,
    )
}

fn store(ctx: &mut Ctx<'_>, reply: &mut Reply<'_>, destination: &[u8], result: LongString) -> CmdResult {
    let length_bytes = result.len();
    if length_bytes > 0 {
        let value = if length_bytes <= INLINE_BYTES_MAX {
            OwnedValue::Inline(result.to_vec().into(), Form::Raw)
        } else {
            OwnedValue::Object(Value::Str(result))
        };
        ctx.put_entry(ctx.db(), destination, &OwnedEntry { value, expire_at_ms: None });
        ctx.notify(Event::String, "set", destination);
    } else if ctx.delete(destination) {
        ctx.notify(Event::Generic, "del", destination);
    }
    reply.int(length_bytes as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_agree_with_bytes() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..200 {
            let mut texts: Vec<Vec<u8>> = Vec::new();
            for _ in 0..random.usize(1..5) {
                let len = if random.bool() { random.usize(0..60) } else { random.usize(16_000..40_000) };
                texts.push((0..len).map(|_| random.u8(..)).collect());
            }
            let sources: Vec<Option<OwnedStr>> = texts
                .iter()
                .map(|text| match text.len() {
                    0 => None,
                    1..4_000 => Some(OwnedStr::Short(text.as_slice().into())),
                    _ => Some(OwnedStr::Long(LongString::from_slice(text))),
                })
                .collect();
            let len = texts.iter().map(Vec::len).max().unwrap_or(0);
            for (name, operation) in OPERATIONS {
                let byte = |at: usize| {
                    let all: Vec<u8> = texts.iter().map(|text| text.get(at).copied().unwrap_or(0)).collect();
                    let others = all[1..].iter().fold(0, |any, byte| any | byte);
                    match operation {
                        Operation::And => all.iter().fold(0xff, |and, byte| and & byte),
                        Operation::Or => all[0] | others,
                        Operation::Xor => all.iter().fold(0, |xor, byte| xor ^ byte),
                        Operation::Not => !all[0],
                        Operation::Diff => all[0] & !others,
                        Operation::Diff1 => !all[0] & others,
                        Operation::AndOr => all[0] & others,
                        Operation::One => (0..8)
                            .filter(|bit| all.iter().filter(|byte| **byte >> bit & 1 == 1).count() == 1)
                            .fold(0, |byte, bit| byte | 1 << bit),
                    }
                };
                let expected: Vec<u8> = (0..len).map(byte).collect();
                assert!(compute(operation, &sources).to_vec() == expected, "{name} of {len} bytes");
            }
        }
    }
}
