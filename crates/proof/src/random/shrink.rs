//! Makes a failing sequence short: drops commands as long as some disagreement stays.

use std::time::{Duration, Instant};

use super::run::check_sequence;
use crate::duo::Args;
use crate::server::Pair;

/// Replays a shrink may take.
const TRIES_MAX: usize = 300;
/// Time a shrink may take: a sequence that hangs the server costs a timeout each try.
const TIME_MAX: Duration = Duration::from_secs(30);

/// A shorter sequence that still disagrees; the given one when nothing could be dropped (or when it does
/// not fail again: random members differ from run to run).
pub fn shrink(pair: &Pair, commands: &[Args], protocol: u8) -> Vec<Args> {
    let fails = |candidate: &[Args]| {
        let outcome = check_sequence(pair, candidate, protocol).ok()?;
        outcome.failure.map(|(index, _)| index)
    };
    let mut shortest = commands.to_vec();
    if fails(&shortest).is_none() {
        return shortest;
    }
    // First the commands that name a key of the last one, with all that changes what keys mean.
    if let Some(last) = shortest.last().cloned() {
        let related: Vec<Args> = shortest.iter().filter(|args| touches(args, &last)).cloned().collect();
        if fails(&related).is_some() {
            shortest = related;
        }
    }
    let deadline = Instant::now() + TIME_MAX;
    let mut budget = TRIES_MAX;
    let mut piece = shortest.len().div_ceil(2);
    while piece > 0 && budget > 0 {
        let mut at = 0;
        let mut dropped = false;
        while at < shortest.len() && budget > 0 {
            budget = if Instant::now() < deadline { budget - 1 } else { 0 };
            let end = (at + piece).min(shortest.len());
            let candidate = [&shortest[..at], &shortest[end..]].concat();
            match fails(&candidate) {
                Some(index) if !candidate.is_empty() => {
                    shortest = candidate[..=index.min(candidate.len() - 1)].to_vec();
                    dropped = true;
                }
                _ => at = end,
            }
        }
        if !dropped || piece > 1 {
            piece /= 2;
        }
    }
    shortest
}

/// Whether two commands share an argument that may be a key, or the first concerns whole databases.
pub fn touches(args: &Args, other: &Args) -> bool {
    let whole = [&b"SELECT"[..], b"SWAPDB", b"FLUSHDB", b"FLUSHALL", b"CONFIG"];
    whole.contains(&args[0].to_ascii_uppercase().as_slice())
        || args.iter().skip(1).any(|arg| other.iter().skip(1).any(|word| word == arg && looks_like_key(arg)))
}

fn looks_like_key(arg: &[u8]) -> bool {
    arg.first().is_some_and(|first| b"k{ol".contains(first)) && arg.len() <= 8
}
