//! A command as COMMAND, COMMAND INFO and COMMAND DOCS describe it.

use resp::Encoder;

use crate::compat::Shape;
use crate::table::{
    ACCESS_WORDS, Begin, CATEGORY_WORDS, CommandInfo, FLAG_WORDS, Find, Flags, KeyAccess, KeySpec,
    LegacyKeys, Registry, syntax,
};

/// Appends the entry of a command: Redis 7's ten elements, or the six that Redis 5 had.
pub fn entry(out: &mut Encoder<'_>, registry: &Registry, info: &CommandInfo, shape: Shape) {
    let (flags, keys) = match shape {
        Shape::Modern => (info.spec.flags, info.legacy_keys),
        Shape::Legacy => legacy_facts(registry, info),
    };
    out.array(if shape == Shape::Modern { 10 } else { 6 });
    out.bulk(info.full_name.as_bytes());
    out.int(info.spec.arity.into());
    let words = FLAG_WORDS.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, word)| *word);
    let words: Vec<&str> = words.chain(keys.movable.then_some("movablekeys")).collect();
    words_set(out, &words);
    out.int(keys.first);
    out.int(keys.last);
    out.int(keys.step);
    if shape == Shape::Legacy {
        return;
    }
    let categories = info.spec.all_categories();
    let words = CATEGORY_WORDS.iter().filter(|(category, _)| categories.contains(*category));
    let words: Vec<String> = words.map(|(_, word)| format!("@{word}")).collect();
    words_set(out, &words);
    out.set(info.spec.tips.len());
    info.spec.tips.iter().for_each(|tip| out.bulk(tip.as_bytes()));
    out.set(info.spec.keys.len());
    info.spec.keys.iter().for_each(|spec| key_spec(out, spec));
    // Redis answers an array where there are subcommands, and an empty set where there are none.
    match info.subcommands.len() {
        0 => out.set(0),
        count => out.array(count),
    }
    info.subcommands.iter().for_each(|id| entry(out, registry, registry.get(*id), shape));
}

/// What an entry of Redis 5 said of a container: the flags and keys of its subcommands together. If not all
/// of them have the same keys, they are to be asked for (MEMORY); HELP does not count.
fn legacy_facts(registry: &Registry, info: &CommandInfo) -> (Flags, LegacyKeys) {
    const ALL_MUST: Flags = Flags::LOADING
        .union(Flags::STALE)
        .union(Flags::FAST)
        .union(Flags::NOSCRIPT)
        .union(Flags::NO_ASYNC_LOADING);
    let is_help = |sub: &&CommandInfo| sub.spec.name == "help";
    let subs: Vec<&CommandInfo> = info.subcommands.iter().map(|id| registry.get(*id)).collect();
    let working: Vec<&CommandInfo> = subs.into_iter().filter(|sub| !is_help(sub)).collect();
    let Some(first) = working.first() else { return (info.spec.flags, info.legacy_keys) };
    let any = working.iter().fold(info.spec.flags, |flags, sub| flags | (sub.spec.flags - ALL_MUST));
    let all = working.iter().fold(ALL_MUST, |flags, sub| flags & sub.spec.flags);
    let mut keys = info.legacy_keys;
    if working.iter().all(|sub| sub.legacy_keys == first.legacy_keys) {
        keys = first.legacy_keys;
    } else if working.iter().any(|sub| sub.has_keys()) {
        keys.movable = true;
    }
    (any | all, keys)
}

fn words_set<W: AsRef<str>>(out: &mut Encoder<'_>, words: &[W]) {
    out.set(words.len());
    words.iter().for_each(|word| out.simple(word.as_ref()));
}

/// Appends what is done to a key, as a set of words.
pub fn access(out: &mut Encoder<'_>, access: KeyAccess) {
    let words = ACCESS_WORDS.iter().filter(|(flag, _)| access.contains(*flag)).map(|(_, word)| *word);
    words_set(out, &words.collect::<Vec<_>>());
}

fn key_spec(out: &mut Encoder<'_>, spec: &KeySpec) {
    out.map(if spec.notes.is_empty() { 3 } else { 4 });
    if !spec.notes.is_empty() {
        out.bulk(b"notes");
        out.bulk(spec.notes.as_bytes());
    }
    out.bulk(b"flags");
    access(out, spec.access);
    out.bulk(b"begin_search");
    match spec.begin {
        Begin::Index(index) => typed(out, "index", &[("index", index.into())]),
        Begin::Keyword(word, from) => {
            typed_head(out, "keyword", 2);
            out.bulk(b"keyword");
            out.bulk(word.as_bytes());
            out.bulk(b"startfrom");
            out.int(from.into());
        }
        Begin::Unknown => typed(out, "unknown", &[]),
    }
    out.bulk(b"find_keys");
    match spec.find {
        Find::Range { last, step, limit } => {
            let limit = limit.into();
            typed(out, "range", &[("lastkey", last.into()), ("keystep", step.into()), ("limit", limit)]);
        }
        Find::KeyNum { num_at, first, step } => {
            let (num_at, step) = (num_at.into(), step.into());
            typed(out, "keynum", &[("keynumidx", num_at), ("firstkey", first.into()), ("keystep", step)]);
        }
        Find::Unknown => typed(out, "unknown", &[]),
    }
}

fn typed_head(out: &mut Encoder<'_>, kind: &str, fields: usize) {
    out.map(2);
    out.bulk(b"type");
    out.bulk(kind.as_bytes());
    out.bulk(b"spec");
    out.map(fields);
}

fn typed(out: &mut Encoder<'_>, kind: &str, fields: &[(&str, i64)]) {
    typed_head(out, kind, fields.len());
    for (name, value) in fields {
        out.bulk(name.as_bytes());
        out.int(*value);
    }
}

/// Appends the documentation of a command: its full name, and a map.
pub fn docs(out: &mut Encoder<'_>, registry: &Registry, info: &CommandInfo) {
    let spec = info.spec;
    let first = if info.container.is_some() { 2 } else { 1 };
    let arguments = syntax::arguments_of(spec, first)
        .unwrap_or_else(|why| unreachable!("table-syntax: {}: {why}", info.full_name));
    let texts = [
        ("summary", spec.summary),
        ("since", spec.since),
        ("group", spec.group.as_str()),
        ("complexity", spec.complexity),
    ];
    out.bulk(info.full_name.as_bytes());
    out.map(
        texts.len()
            + 3 * usize::from(spec.deprecated.is_some())
            + usize::from(!arguments.is_empty())
            + usize::from(!info.subcommands.is_empty()),
    );
    for (name, text) in texts {
        out.bulk(name.as_bytes());
        out.bulk(text.as_bytes());
    }
    if let Some(deprecated) = spec.deprecated {
        out.bulk(b"doc_flags");
        words_set(out, &["deprecated"]);
        out.bulk(b"deprecated_since");
        out.bulk(deprecated.since.as_bytes());
        out.bulk(b"replaced_by");
        out.bulk(deprecated.replaced_by.as_bytes());
    }
    if !arguments.is_empty() {
        out.bulk(b"arguments");
        syntax::encode_all(&arguments, out);
    }
    if !info.subcommands.is_empty() {
        out.bulk(b"subcommands");
        out.map(info.subcommands.len());
        info.subcommands.iter().for_each(|id| docs(out, registry, registry.get(*id)));
    }
}
