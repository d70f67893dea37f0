//! Rows of the commands that see strings as arrays of bits.

use super::{
    Categories, Command, Flags, Group, InvalidKeys, KeyAccess, KeySpec, ONE_RO_ACCESS, ONE_RW_ACCESS_UPDATE,
};
use crate::args::{Args, is};
use crate::commands::bits;

const RO_ACCESS: KeyAccess = KeyAccess::RO.union(KeyAccess::ACCESS);
const RW_ACCESS_UPDATE: KeyAccess = KeyAccess::RW.union(KeyAccess::ACCESS).union(KeyAccess::UPDATE);
const BITOP_KEYS: &[KeySpec] =
    &[KeySpec::one(KeyAccess::OW.union(KeyAccess::UPDATE), 2), KeySpec::range(RO_ACCESS, 3, -1, 1)];
const BITFIELD_KEY: &[KeySpec] = &[KeySpec {
    notes: "Counts as a write although it may consist of GET alone",
    ..KeySpec::one(RW_ACCESS_UPDATE.union(KeyAccess::VARIABLE_FLAGS), 1)
}];

/// BITFIELD with nothing but GET only reads.
fn find_bitfield_key(args: Args<'_>, each: &mut dyn FnMut(usize, KeyAccess)) -> Result<(), InvalidKeys> {
    let mut at = 2;
    let mut reads = true;
    while let Some(word) = args.get(at) {
        let left = args.len() - at - 1;
        at += match left {
            2.. if is(word, "GET") => 3,
            1.. if is(word, "OVERFLOW") => 2,
            // It writes, or is a mistake.
            _ => {
                reads = false;
                break;
            }
        };
    }
    each(1, if reads { RO_ACCESS } else { RW_ACCESS_UPDATE });
    Ok(())
}

/// The bitmap commands.
pub const ROWS: &[Command] = &[
    Command {
        name: "bitcount",
        arity: -2,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        categories: Categories::BITMAP,
        group: Group::Bitmap,
        since: "2.6.0",
        complexity: "O(N) in the bytes looked at",
        summary: "Counts the bits that are set in a string, or in part of it.",
        syntax: "key [start end [BYTE | BIT]]",
        run: bits::bitcount,
        ..Command::BLANK
    },
    Command {
        name: "bitfield",
        arity: -2,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: BITFIELD_KEY,
        find_keys: Some(find_bitfield_key),
        categories: Categories::BITMAP,
        group: Group::Bitmap,
        since: "3.2.0",
        complexity: "O(1) for each operation",
        summary: "Reads and writes integers of any width at any bit of a string.",
        syntax: "key [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | INCRBY encoding offset increment>] ...",
        run: bits::bitfield,
        ..Command::BLANK
    },
    Command {
        name: "bitfield_ro",
        arity: -2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        categories: Categories::BITMAP,
        group: Group::Bitmap,
        since: "6.0.0",
        complexity: "O(1) for each operation",
        summary: "Reads integers of any width at any bit of a string.",
        syntax: "key [GET encoding offset [GET encoding offset ...]]",
        run: bits::bitfield_ro,
        ..Command::BLANK
    },
    Command {
        name: "bitop",
        arity: -4,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: BITOP_KEYS,
        categories: Categories::BITMAP,
        group: Group::Bitmap,
        since: "2.6.0",
        complexity: "O(N) in the bytes of all sources",
        summary: "Combines strings bit by bit and stores the result.",
        syntax: "<AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey key [key ...]",
        run: bits::bitop,
        ..Command::BLANK
    },
    Command {
        name: "bitpos",
        arity: -3,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        categories: Categories::BITMAP,
        group: Group::Bitmap,
        since: "2.8.7",
        complexity: "O(N) in the bytes looked at",
        summary: "Finds the first bit of a string that is set, or that is not.",
        syntax: "key bit [start [end [BYTE | BIT]]]",
        run: bits::bitpos,
        ..Command::BLANK
    },
    Command {
        name: "getbit",
        arity: 3,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        categories: Categories::BITMAP,
        group: Group::Bitmap,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Reads one bit of a string.",
        syntax: "key offset",
        run: bits::getbit,
        ..Command::BLANK
    },
    Command {
        name: "setbit",
        arity: 4,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::BRIEF),
        keys: ONE_RW_ACCESS_UPDATE,
        categories: Categories::BITMAP,
        group: Group::Bitmap,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Sets or clears one bit of a string, and answers what it was.",
        syntax: "key offset value:integer",
        run: bits::setbit,
        ..Command::BLANK
    },
];
