//! The value of a directive: read from text by its row of the table, printed as `CONFIG GET` prints it.

use std::path::Path;

use base::num::parse_i64;

use super::directives::{Directive, Flags, Kind, ListRule, SHUTDOWN_WORDS, TextRule};
use super::text::{lenient_integer, memory_bytes, os_error_text, percentage, percentile_text};

/// What a directive is set to, in canonical form: equal values print equally.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `yes` or `no`.
    Bool(bool),
    /// An integer or a number of bytes; a percentage is negative. Wide enough for all of i64 and u64.
    Number(i128),
    /// Free text.
    Text(Vec<u8>),
    /// A word of the row's list.
    Word(&'static str),
    /// Words, each canonical.
    List(Vec<Vec<u8>>),
}

impl Value {
    /// The row's value at start. `dir` starts as the directory the process stands in, which the caller sets.
    pub(super) fn default_of(row: &Directive) -> Value {
        match row.kind {
            Kind::Bool(on) => Value::Bool(on),
            Kind::Int { default, .. } | Kind::Octal { default, .. } => Value::Number(default.into()),
            Kind::Memory { default, .. } | Kind::MemoryOrPercent { default } => Value::Number(default.into()),
            Kind::Text { default, .. } => Value::Text(default.into()),
            Kind::Enum { default, .. } => Value::Word(default),
            Kind::List { default, .. } => {
                Value::List(default.split_ascii_whitespace().map(|word| word.into()).collect())
            }
        }
    }

    /// Reads the value given by `words` (the arguments of a line, or what [`words_of`] makes of one string).
    /// `current` is what it replaces; `base` is where relative paths start. The error is Redis's text.
    pub(super) fn parse(
        row: &Directive,
        words: &[Vec<u8>],
        current: &Value,
        base: &Path,
    ) -> Result<Value, String> {
        if let Kind::List { rule, .. } = row.kind {
            return list(rule, words, current).map(Value::List);
        }
        let [word] = words else {
            return Err("wrong number of arguments".into());
        };
        match row.kind {
            Kind::Bool(_) => match &word.to_ascii_lowercase()[..] {
                b"yes" => Ok(Value::Bool(true)),
                b"no" => Ok(Value::Bool(false)),
                _ => Err("argument must be 'yes' or 'no'".into()),
            },
            Kind::Int { min, max, .. } => {
                let number = parse_i64(word).ok_or("argument couldn't be parsed into an integer")?;
                within(number.into(), min.into(), max.into())
            }
            Kind::Octal { max, .. } => {
                let number =
                    lenient_integer(word, 8).ok_or("argument couldn't be parsed as an octal number")?;
                if !(0..=max).contains(&number) {
                    return Err(format!("argument must be between 0 and {max:o} inclusive"));
                }
                Ok(Value::Number(number.into()))
            }
            Kind::Memory { min, max, .. } => {
                let bytes = memory_bytes(word).ok_or("argument must be a memory value")?;
                within(bytes.into(), min.into(), max.into())
            }
            Kind::MemoryOrPercent { .. } => {
                if let Some(bytes) = memory_bytes(word) {
                    return within(bytes.into(), -100, i64::MAX.into());
                }
                match percentage(word).ok_or("argument must be a memory or percent value")? {
                    percent if percent > 100 => {
                        Err("percentage argument must be less or equal to 100".into())
                    }
                    percent => Ok(Value::Number(-i128::from(percent))),
                }
            }
            Kind::Enum { words, .. } => words
                .iter()
                .find(|known| known.as_bytes().eq_ignore_ascii_case(word))
                .map(|known| Value::Word(canonical(row, known)))
                .ok_or_else(|| one_of(words)),
            Kind::Text { rule, .. } => text(row, rule, word, base).map(Value::Text),
            Kind::List { .. } => unreachable!("lists were handled above"),
        }
    }

    /// The value as `CONFIG GET` prints it.
    pub(super) fn print(&self, row: &Directive) -> Vec<u8> {
        match self {
            Value::Bool(on) => if *on { "yes" } else { "no" }.into(),
            Value::Number(number) => match row.kind {
                Kind::Octal { .. } => format!("{number:o}").into(),
                Kind::MemoryOrPercent { .. } if *number < 0 => format!("{}%", -number).into(),
                _ => number.to_string().into(),
            },
            Value::Text(bytes) => bytes.clone(),
            Value::Word(word) => (*word).into(),
            Value::List(words) => words.join(&b' '),
        }
    }

    /// The number in it; 0 for what is not a number.
    pub(super) fn number(&self) -> i128 {
        if let Value::Number(number) = self { *number } else { 0 }
    }

    /// Whether it stands for "not set".
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Value::Text(bytes) => bytes.is_empty(),
            Value::List(words) => words.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::Word(_) => false,
        }
    }
}

/// Cuts the one string of `CONFIG SET` into the words that a line of a file would have had.
pub(super) fn words_of(row: &Directive, given: &[u8]) -> Vec<Vec<u8>> {
    if !row.flags.contains(Flags::WORDS) {
        return vec![given.to_vec()];
    }
    if given.is_empty() {
        return Vec::new();
    }
    given.split(|byte| *byte == b' ').map(<[u8]>::to_vec).collect()
}

fn within(number: i128, min: i128, max: i128) -> Result<Value, String> {
    if number < min || number > max {
        return Err(format!("argument must be between {min} and {max} inclusive"));
    }
    Ok(Value::Number(number))
}

/// The word of several with one meaning that is printed.
fn canonical(row: &Directive, word: &'static str) -> &'static str {
    if row.name == "oom-score-adj" && word == "relative" { "yes" } else { word }
}

fn one_of(words: &[&str]) -> String {
    format!("argument(s) must be one of the following: {}", words.join(", "))
}

fn text(row: &Directive, rule: TextRule, given: &[u8], base: &Path) -> Result<Vec<u8>, String> {
    let name = row.name;
    match rule {
        TextRule::Any => {}
        TextRule::BaseName { noun, empty_allowed } => {
            if given.is_empty() && !empty_allowed {
                return Err(format!("{name} can't be empty"));
            }
            if given.iter().any(|byte| matches!(byte, b'/' | b'\\')) {
                return Err(format!("{name} can't be a path, just a {noun}"));
            }
        }
        TextRule::Locale => {
            if !["", "C", "POSIX", "C.UTF-8", "C.utf8"].iter().any(|name| name.as_bytes() == given) {
                return Err("Invalid locale name".into());
            }
        }
        TextRule::Hostname => {
            if given.len() >= 256 {
                return Err("Hostnames must be less than 256 characters".into());
            }
            if !given.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')) {
                return Err("Hostnames may only contain alphanumeric characters, hyphens or dots".into());
            }
        }
        TextRule::NodeName => {
            let breaks_line = |byte: &u8| byte.is_ascii_control() || b"!#$%&()*+:;<>?@[]^{|}~".contains(byte);
            if given.iter().any(breaks_line) {
                return Err("Announced human node name contained invalid character".into());
            }
        }
        TextRule::ClusterName if !is_plain_name(given) => {
            return Err("must be 1 to 64 letters, digits, dots, hyphens or underscores".into());
        }
        TextRule::ZoneName if !given.is_empty() && !is_plain_name(given) => {
            return Err("must be up to 64 letters, digits, dots, hyphens or underscores".into());
        }
        TextRule::ShardPlace if !given.is_empty() && given != b"auto" && !is_id(given) => {
            return Err("must be 'auto' or the 40 hex digits of a shard".into());
        }
        TextRule::ClusterName | TextRule::ZoneName | TextRule::ShardPlace => {}
        TextRule::TitleTemplate => {
            if !is_title_template(given) {
                return Err("template format is invalid or contains unknown variables".into());
            }
        }
        TextRule::Directory => return directory(given, base),
        TextRule::KeyspaceEvents => return keyspace_events(given),
    }
    Ok(given.to_vec())
}

fn directory(given: &[u8], base: &Path) -> Result<Vec<u8>, String> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    if given.is_empty() || given.contains(&0) {
        return Err("No such file or directory".into());
    }
    let path = base.join(std::ffi::OsStr::from_bytes(given));
    let absolute = path.canonicalize().map_err(|error| os_error_text(&error))?;
    if !absolute.is_dir() {
        return Err("Not a directory".into());
    }
    Ok(absolute.into_os_string().into_vec())
}

/// 1 to 64 characters that stand in a path and on a command line as they are.
fn is_plain_name(given: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=64).contains(&given.len()) && given.iter().all(is_plain)
}

/// A name as nodes and shards have.
fn is_id(given: &[u8]) -> bool {
    given.len() == 40 && given.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// As Redis: known variables only, and something besides blanks even where those stay empty that may.
fn is_title_template(given: &[u8]) -> bool {
    const NEVER_EMPTY: &[&str] = &["listen-addr", "port", "tls-port"];
    const MAYBE_EMPTY: &[&str] = &["title", "server-mode", "unixsocket", "config-file"];
    let Ok(mut rest) = std::str::from_utf8(given) else {
        return false;
    };
    let mut shows = false;
    while let Some(open) = rest.find('{') {
        shows |= !rest[..open].trim_matches(' ').is_empty();
        let after = &rest[open + 1..];
        if let Some(literal) = after.strip_prefix('{') {
            (shows, rest) = (true, literal);
            continue;
        }
        match after.split_once('}') {
            Some((variable, tail)) if NEVER_EMPTY.contains(&variable) => (shows, rest) = (true, tail),
            Some((variable, tail)) if MAYBE_EMPTY.contains(&variable) => rest = tail,
            _ => return false,
        }
    }
    shows || !rest.trim_matches(' ').is_empty()
}

/// The classes that `A` stands for, in the order in which they are printed.
const EVENT_CLASSES_OF_ALL: &[u8] = b"g$lshzxetd";

fn keyspace_events(given: &[u8]) -> Result<Vec<u8>, String> {
    let known = |byte: &u8| EVENT_CLASSES_OF_ALL.contains(byte) || b"AKEmn".contains(byte);
    if !given.iter().all(known) {
        return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into());
    }
    let has = |byte: &u8| given.contains(byte);
    let mut printed = Vec::new();
    if has(&b'A') || EVENT_CLASSES_OF_ALL.iter().all(has) {
        printed.push(b'A');
    } else {
        printed.extend(EVENT_CLASSES_OF_ALL.iter().copied().filter(has));
    }
    // Redis leaves `n` out beside `A`, and so forgets it at the next start.
    printed.extend(b"nKEm".iter().copied().filter(has));
    Ok(printed)
}

fn list(rule: ListRule, words: &[Vec<u8>], current: &Value) -> Result<Vec<Vec<u8>>, String> {
    // One empty argument is how an empty list is written in a file.
    let words = if let [only] = words { if only.is_empty() { &[] } else { words } } else { words };
    match rule {
        ListRule::Bind if words.len() > 16 => Err("Too many bind addresses specified.".into()),
        ListRule::Bind => Ok(words.to_vec()),
        ListRule::Save => save_points(words),
        ListRule::OutputBufferLimit => output_buffer_limits(words, current),
        ListRule::OomScores => {
            if words.len() != 3 {
                return Err("wrong number of arguments".into());
            }
            let score = |word: &Vec<u8>| {
                lenient_integer(word, 10)
                    .filter(|score| (-2000..=2000).contains(score))
                    .map(|score| score.to_string().into_bytes())
            };
            words.iter().map(score).collect::<Option<_>>().ok_or_else(|| {
                "Invalid oom-score-adj-values, elements must be between -2000 and 2000.".into()
            })
        }
        ListRule::ReplicaOf => {
            let [host, port] = words else {
                return Err("wrong number of arguments".into());
            };
            if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
                return Ok(Vec::new());
            }
            let port = lenient_integer(port, 10).filter(|port| (0..=65535).contains(port));
            let port = port.ok_or("Invalid master port")?;
            Ok(vec![host.clone(), port.to_string().into_bytes()])
        }
        ListRule::Percentiles => words.iter().map(|word| percentile_text(word)).collect(),
        ListRule::ShutdownOptions => shutdown_options(words),
    }
}

fn save_points(words: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
    let wrong = || "Invalid save parameters".to_string();
    if !words.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let mut points = Vec::with_capacity(words.len());
    for (at, word) in words.iter().enumerate() {
        let is_seconds = at % 2 == 0;
        let number = lenient_integer(word, 10).filter(|number| *number >= i64::from(is_seconds));
        points.push(number.ok_or_else(wrong)?.to_string().into_bytes());
    }
    Ok(points)
}

/// Client classes in the order in which their limits are printed.
pub(super) const OUTPUT_BUFFER_CLASSES: [&[u8]; 3] = [b"normal", b"slave", b"pubsub"];

fn output_buffer_limits(words: &[Vec<u8>], current: &Value) -> Result<Vec<Vec<u8>>, String> {
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let Value::List(current) = current else { unreachable!("buffer limits are a list in the table") };
    let mut limits = current.clone();
    for quad in words.chunks_exact(4) {
        let class: &[u8] = match &quad[0].to_ascii_lowercase()[..] {
            b"replica" => b"slave",
            other => OUTPUT_BUFFER_CLASSES
                .iter()
                .find(|class| **class == other)
                .ok_or("Invalid client class specified in buffer limit configuration.")?,
        };
        let read = || {
            let seconds = lenient_integer(&quad[3], 10).filter(|seconds| *seconds >= 0)?;
            Some([memory_bytes(&quad[1])?, memory_bytes(&quad[2])?, seconds.try_into().ok()?])
        };
        let numbers: [u64; 3] =
            read().ok_or("Error in hard, soft or soft_seconds setting in buffer limit configuration.")?;
        let at = OUTPUT_BUFFER_CLASSES.iter().position(|known| *known == class).unwrap_or(0) * 4;
        for (offset, number) in numbers.iter().enumerate() {
            limits[at + 1 + offset] = number.to_string().into_bytes();
        }
    }
    Ok(limits)
}

fn shutdown_options(words: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
    let known =
        |word: &Vec<u8>| SHUTDOWN_WORDS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(word));
    if words.is_empty() || !words.iter().all(known) {
        return Err(one_of(SHUTDOWN_WORDS));
    }
    let given = |option: &&str| words.iter().any(|word| word.eq_ignore_ascii_case(option.as_bytes()));
    if given(&"save") && given(&"nosave") {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    let options: Vec<Vec<u8>> =
        SHUTDOWN_WORDS[1..].iter().filter(|option| given(option)).map(|option| (*option).into()).collect();
    Ok(if options.is_empty() { vec![SHUTDOWN_WORDS[0].into()] } else { options })
}
