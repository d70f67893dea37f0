//! Whether two servers have told their replicas the same.
//!
//! What Redis itself tells in one form or another is brought into one form. Random members, and what the clock decides, may
//! differ.

use super::feed::Effect;
use crate::duo::{Args, Disagreement};
use crate::words;

/// Two clocks may be read so far apart.
const APART_MS: u64 = 5_000;
/// Numbers from here on are taken for times in milliseconds.
const TIME_MS_MIN: u64 = 100_000_000_000;

/// The first disagreement about what `command` has left, if there is one.
pub fn compare(
    command: &[u8],
    about: &str,
    oracle: Vec<Effect>,
    halcyon: Vec<Effect>,
) -> Option<Disagreement> {
    let show = |effects: &[Effect]| {
        let shown: Vec<String> = effects
            .iter()
            .map(|effect| format!("[{}] {}", effect.database, words::join(&effect.words)))
            .collect();
        if shown.is_empty() { "(nothing)".to_owned() } else { shown.join(" | ") }
    };
    let told = (show(&oracle), show(&halcyon));
    let (oracle, halcyon) = (in_one_form(command, oracle), in_one_form(command, halcyon));
    let agree = |oracle: &[Effect], halcyon: &[Effect]| {
        oracle.len() == halcyon.len() && oracle.iter().zip(halcyon).all(|(a, b)| same(a, b))
    };
    let agree = agree(&oracle, &halcyon)
        || oracle.is_empty() && is_forgotten(command, &halcyon)
        // Which command finds that a key has expired is not the same everywhere; that it is told is seen by the copies.
        || !removes(command) && agree(&without_removals(oracle), &without_removals(halcyon));
    (!agree).then(|| Disagreement { about: about.to_owned(), oracle: told.0, halcyon: told.1 })
}

fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

/// What Redis changes without telling its replicas: a string grows for a field that then does not fit, and a sketch is
/// written before it is found to be damaged.
fn is_forgotten(command: &[u8], halcyon: &[Effect]) -> bool {
    let [effect] = halcyon else { return false };
    let is_sketch = is(command, "pfadd") && is(&effect.words[0], "set");
    is_sketch || is(command, "bitfield") && is(&effect.words[0], "bitfield")
}

/// Commands whose own effect may be the removal of a key.
fn removes(command: &[u8]) -> bool {
    const REMOVING: &[&str] = &[
        "del",
        "unlink",
        "getdel",
        "getex",
        "spop",
        "expire",
        "pexpire",
        "expireat",
        "pexpireat",
        "restore",
        "restore-asking",
        "eval",
        "fcall",
    ];
    REMOVING.iter().any(|name| is(command, name))
}

fn without_removals(effects: Vec<Effect>) -> Vec<Effect> {
    let mut kept = Vec::new();
    for effect in effects {
        if !is(&effect.words[0], "del") && !is(&effect.words[0], "unlink") {
            kept.push(effect);
            unwrap_single(&mut kept);
        }
    }
    kept
}

fn in_one_form(command: &[u8], effects: Vec<Effect>) -> Vec<Effect> {
    let mut formed: Vec<Effect> = Vec::new();
    for mut effect in effects {
        let words = &mut effect.words;
        if is_group_fact(command, words) {
            continue;
        }
        if is(&words[0], "xadd") || is(&words[0], "xtrim") {
            exact_bound(words);
        }
        if is(&words[0], "restore") || is(&words[0], "restore-asking") {
            words[0].truncate("restore".len());
            words[4..].sort();
        }
        // Of several members that were popped, 7.0 tells one by one.
        if let Some(last) = formed.last_mut()
            && is(&words[0], "srem")
            && is(command, "spop")
            && last.words.get(..2) == words.get(..2)
        {
            last.words.extend(words.drain(2..));
            continue;
        }
        formed.push(effect);
        unwrap_single(&mut formed);
    }
    // Entries that are taken over are told in the order of the request, or those that are gone after the others.
    let is_claim = |effect: &Effect| is(&effect.words[0], "xclaim");
    for run in formed.chunk_by_mut(|a, b| is_claim(a) && is_claim(b)) {
        run.sort_by(|a, b| a.words.get(5).cmp(&b.words.get(5)));
    }
    formed
}

/// Facts about groups beside what is pending: Redis 7.0 does not tell how many entries a group has read by reading, and
/// makes no consumer that it has nothing to give.
fn is_group_fact(command: &[u8], words: &[Vec<u8>]) -> bool {
    let is_sub = |name| words.get(1).is_some_and(|word| is(word, name));
    let is_consumer = is_sub("createconsumer") || is_sub("delconsumer");
    is(&words[0], "xgroup") && (is_consumer || is_sub("setid") && !is(command, "xgroup"))
}

/// `MAXLEN = 2` and `MAXLEN 2` mean the same, and `LIMIT` means nothing to a replica.
fn exact_bound(words: &mut Args) {
    let Some(at) = words.iter().position(|word| is(word, "maxlen") || is(word, "minid")) else { return };
    if words.get(at + 1).is_some_and(|word| word == b"=") {
        words.remove(at + 1);
    }
    if words.get(at + 2).is_some_and(|word| is(word, "limit")) {
        words.drain(at + 2..at + 4);
    }
}

/// A transaction of one command, or of none, is none.
fn unwrap_single(formed: &mut Vec<Effect>) {
    let Some(last) = formed.last().filter(|last| is(&last.words[0], "exec")) else { return };
    debug_assert_eq!(last.words.len(), 1);
    let Some(begin) = formed.iter().rposition(|effect| is(&effect.words[0], "multi")) else { return };
    if formed.len() - begin <= 3 {
        formed.pop();
        formed.remove(begin);
    }
}

fn same(one: &Effect, other: &Effect) -> bool {
    // What a MULTI or EXEC is for depends on what is in it.
    let is_bracket = one.words.len() == 1;
    (is_bracket || one.database == other.database)
        && one.words.len() == other.words.len()
        && one.words.iter().zip(&other.words).all(|(a, b)| same_word(a, b))
}

fn same_word(one: &[u8], other: &[u8]) -> bool {
    if one.eq_ignore_ascii_case(other) {
        return true;
    }
    let (Ok(one), Ok(other)) = (std::str::from_utf8(one), std::str::from_utf8(other)) else { return false };
    let near = |one: &str, other: &str| match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one >= TIME_MS_MIN && one.abs_diff(other) <= APART_MS,
        _ => false,
    };
    // The first entry of a millisecond.
    if other.strip_suffix("-0") == Some(one) {
        return true;
    }
    match (one.split_once('-'), other.split_once('-')) {
        // The id of an entry that got the time for one.
        (Some((one_ms, _)), Some((other_ms, _))) if near(one_ms, other_ms) => true,
        _ => near(one, other) || matches!((one.parse::<f64>(), other.parse()), (Ok(a), Ok(b)) if a == b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effects(text: &str) -> Vec<Effect> {
        let words = |command: &str| command.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let commands = text.split('|').filter(|command| !command.is_empty());
        commands.map(|command| Effect { database: 0, words: words(command) }).collect()
    }

    #[test]
    fn what_is_the_same() {
        for (command, oracle, halcyon, agree) in [
            ("set", "SET k v", "set k v", true),
            ("set", "SET k v", "SET k w", false),
            ("set", "SET k v", "", false),
            ("expire", "PEXPIREAT k 1795326617460", "PEXPIREAT k 1795326617461", true),
            ("expire", "PEXPIREAT k 1795326617460", "PEXPIREAT k 1795326717461", false),
            ("xadd", "XADD x MAXLEN 2 1795326617460-0 a b", "XADD x MAXLEN = 2 1795326617461-0 a b", true),
            ("xadd", "XADD x MINID = 1-1 LIMIT 10 5-1 a b", "XADD x MINID = 1-1 5-1 a b", true),
            ("spop", "MULTI|SREM s a|SREM s b|EXEC", "SREM s a b", true),
            ("spop", "MULTI|SREM s a|SREM s b|EXEC", "SREM s a c", false),
            ("exec", "MULTI|SREM s a|SREM s b|EXEC", "SREM s a b", false),
            ("xreadgroup", "XCLAIM x g", "MULTI|XCLAIM x g|XGROUP SETID x g 1-1 ENTRIESREAD 1|EXEC", true),
            ("xgroup", "XGROUP SETID x g 1-1", "", false),
            ("set", "MULTI|DEL k|SET k v|EXEC", "SET k v", true),
            ("del", "DEL k", "", false),
            ("pfadd", "", "SET k v KEEPTTL", true),
            ("xclaim", "XCLAIM x g c 0 1", "XCLAIM x g c 0 1-0", true),
            ("zadd", "zadd z 3.5e3 a", "ZADD z 3500 a", true),
            ("exec", "MULTI|SET a 1|SET b 1|EXEC", "SET a 1|SET b 1", false),
        ] {
            let found = compare(command.as_bytes(), "", effects(oracle), effects(halcyon));
            assert_eq!(found.is_none(), agree, "{oracle} and {halcyon}");
        }
    }
}
