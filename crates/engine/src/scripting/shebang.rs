//! The first line of a script or library: `#!lua name=x flags=a,b`.

use bitflags::bitflags;

use crate::fault::Fault;

bitflags! {
    /// What a script says of itself.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ScriptFlags: u8 {
        /// It writes nothing.
        const NO_WRITES = 1;
        /// It runs when memory is full.
        const ALLOW_OOM = 1 << 1;
        /// It runs on a replica that lost its primary.
        const ALLOW_STALE = 1 << 2;
        /// It does not run in cluster mode.
        const NO_CLUSTER = 1 << 3;
        /// Its keys may lie in several slots.
        const ALLOW_CROSS_SLOT = 1 << 4;
        /// It has no first line to say anything: it is treated as scripts were before.
        const COMPAT = 1 << 5;
    }
}

/// The words of flags, in the order that FUNCTION LIST shows them.
pub const FLAG_WORDS: &[(ScriptFlags, &str)] = &[
    (ScriptFlags::NO_WRITES, "no-writes"),
    (ScriptFlags::ALLOW_OOM, "allow-oom"),
    (ScriptFlags::ALLOW_STALE, "allow-stale"),
    (ScriptFlags::NO_CLUSTER, "no-cluster"),
    (ScriptFlags::ALLOW_CROSS_SLOT, "allow-cross-slot-keys"),
];

/// The flag that a word names.
pub fn flag(word: &[u8]) -> Option<ScriptFlags> {
    FLAG_WORDS.iter().find(|(_, known)| known.as_bytes() == word).map(|(flag, _)| *flag)
}

/// What an EVAL script's first line says, and where its code begins: at that line's end, so that lines keep their
/// numbers.
pub fn of_script(source: &[u8]) -> Result<(ScriptFlags, usize), Fault> {
    if !source.starts_with(b"#!") {
        return Ok((ScriptFlags::COMPAT, 0));
    }
    let Some(end) = source.iter().position(|byte| *byte == b'\n') else {
        return Err(Fault::Text("ERR Invalid script shebang"));
    };
    let mut words = source[..end].split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err(Fault::quoting("ERR Unexpected engine in script shebang: ", engine, ""));
    }
    let mut flags = ScriptFlags::empty();
    for word in words {
        let Some(list) = word.strip_prefix(b"flags=") else {
            return Err(Fault::quoting("ERR Unknown lua shebang option: ", word, ""));
        };
        if list.is_empty() {
            continue;
        }
        for name in list.split(|byte| *byte == b',') {
            let unknown = || Fault::quoting("ERR Unexpected flag in script shebang: ", name, "");
            flags |= flag(name).ok_or_else(unknown)?;
        }
    }
    Ok((flags, end))
}

/// The engine and name that a library's first line gives, and where its code begins.
pub fn of_library(source: &[u8]) -> Result<(Vec<u8>, Vec<u8>, usize), Fault> {
    const MISSING: Fault = Fault::Text("ERR Missing library metadata");
    const INVALID: Fault = Fault::Text("ERR Invalid library metadata");
    if !source.starts_with(b"#!") {
        return Err(MISSING);
    }
    let end = source.iter().position(|byte| *byte == b'\n').ok_or(INVALID)?;
    let words = crate::config::text::split_words(&source[..end]).ok_or(INVALID)?;
    let (engine, words) = words.split_first().ok_or(INVALID)?;
    let mut name: Option<Vec<u8>> = None;
    for word in words {
        let Some(value) = word.strip_prefix(b"name=") else {
            return Err(Fault::quoting("ERR Invalid metadata value given: ", word, ""));
        };
        if name.replace(value.to_vec()).is_some() {
            return Err(Fault::Text("ERR Invalid metadata value, name argument was given multiple times"));
        }
    }
    let name = name.ok_or(Fault::Text("ERR Library name was not given"))?;
    Ok((engine[2..].to_vec(), name, end))
}

/// True for the name of a library or function.
pub fn is_valid_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
