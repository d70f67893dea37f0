//! Scripts: files of commands in redis-cli quoting, run on both sides.
//!
//! ```text
//! # comment
//! @setups default small cluster  where the file runs (first lines; `default small` when not given)
//! @plain-only                    not sent inside transactions and scripts, as the other files are, too
//! @own-events                    keyspace events are not compared: the file listens to them itself, or keeps them back
//! @section name                  what follows starts with empty databases and a new connection
//! @resp 3                        the rest of the section speaks RESP3 (2: RESP2)
//! @connect                       a new connection to each side
//! @sleep MS                      lets time pass
//! @each FIRST LAST COMMAND       runs COMMAND with `%` replaced by each number
//! @on N                          goes on with connection N (the first is 0), opened if it is new
//! @send COMMAND                  sends without waiting for the reply, which an `@receive` reads
//! @receive                       compares what comes next on this connection
//! @nothing                       nothing comes on this connection for a while
//! @raw "BYTES"                   sends bytes on a new connection and compares all that comes until the close
//! ```
//! These hold for the next command only:
//! ```text
//! @unordered, @unordered-pairs   the order of an array (of pairs) is open
//! @type-only, @shape             only the reply's type, or its types and lengths at every depth
//! @scan-all                      compares a full iteration
//! @expect REPLY                  the reply is this, on Halcyon; the oracle is not asked. RESP2 forms follow
//!                                from it (a map `%` becomes an array, `,1.5` and `_` what RESP2 has)
//! @expect2 REPLY, @expect3 REPLY the same for one protocol; both may stand before a command
//! @skip-oracle                   Halcyon only; any reply that is no error
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use resp::Value;

use crate::duo::Args;
use crate::rules::Rule;
use crate::words;

/// A script file, parsed.
#[derive(Debug)]
pub struct Script {
    /// The file's name without its ending.
    pub family: String,
    pub path: PathBuf,
    /// Names of the setups it runs under.
    pub setups: Vec<String>,
    /// Its commands mean something else inside a transaction or a script.
    pub plain_only: bool,
    /// Keyspace events are not compared while it runs.
    pub own_events: bool,
    pub steps: Vec<Step>,
}

/// One line that does something.
#[derive(Debug)]
pub struct Step {
    pub line: usize,
    pub action: Action,
}

/// What a line does.
#[derive(Debug, PartialEq)]
pub enum Action {
    Section(String),
    Protocol(u8),
    Connect,
    On(u64),
    Send(Args),
    Receive,
    Nothing,
    SleepMs(u64),
    Raw(Vec<u8>),
    Run { args: Args, check: Check },
}

/// How a command's reply is judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Check {
    /// Compared with the oracle's under the command's own rule.
    #[default]
    Own,
    /// Compared under a directive's rule.
    As(Rule),
    /// Halcyon's reply in RESP2 and RESP3.
    Expect { resp2: Option<Value>, resp3: Option<Value> },
    /// Halcyon only; no error.
    SkipOracle,
}

/// Reads every `*.txt` of a directory, in order of names.
pub fn read_all(directory: &Path) -> io::Result<Vec<Script>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", directory.display())))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> io::Result<Script> {
    let text = fs::read(path)?;
    let family = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut script = Script {
        family,
        path: path.to_path_buf(),
        setups: vec!["default".into(), "small".into()],
        plain_only: false,
        own_events: false,
        steps: Vec::new(),
    };
    let mut check = Check::Own;
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        parse_line(&mut script, &mut check, index + 1, line)
            .map_err(|why| io::Error::other(format!("{}:{}: {why}", path.display(), index + 1)))?;
    }
    if check != Check::Own {
        return Err(io::Error::other(format!("{}: a directive without a command", path.display())));
    }
    Ok(script)
}

fn parse_line(script: &mut Script, check: &mut Check, line: usize, text: &[u8]) -> Result<(), String> {
    let Some(directive) = text.strip_prefix(b"@") else {
        let args = words::split(text).ok_or("quotes are not balanced")?;
        script.steps.push(Step { line, action: Action::Run { args, check: std::mem::take(check) } });
        return Ok(());
    };
    let split = directive.iter().position(u8::is_ascii_whitespace).unwrap_or(directive.len());
    let (name, rest) = (&directive[..split], directive[split..].trim_ascii());
    let rest_text = String::from_utf8_lossy(rest).into_owned();
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
    let action = match name {
        b"setups" => {
            script.setups = rest_text.split_whitespace().map(str::to_owned).collect();
            return Ok(());
        }
        b"plain-only" => {
            script.plain_only = true;
            return Ok(());
        }
        b"own-events" => {
            script.own_events = true;
            return Ok(());
        }
        b"section" => Action::Section(rest_text),
        b"resp" => Action::Protocol(if rest_text == "3" { 3 } else { 2 }),
        b"connect" => Action::Connect,
        b"on" => Action::On(number(&rest_text)?),
        b"send" => Action::Send(words::split(rest).ok_or("quotes are not balanced")?),
        b"receive" => Action::Receive,
        b"nothing" => Action::Nothing,
        b"sleep" => Action::SleepMs(number(&rest_text)?),
        b"raw" => {
            let words = words::split(rest).ok_or("quotes are not balanced")?;
            Action::Raw(words.concat())
        }
        b"each" => {
            let mut parts = rest_text.splitn(3, ' ');
            let first = number(parts.next().unwrap_or_default())?;
            let last = number(parts.next().unwrap_or_default())?;
            let template = parts.next().ok_or("no command")?;
            for index in first..=last {
                let command = template.replace('%', &index.to_string());
                let args = words::split(command.as_bytes()).ok_or("quotes are not balanced")?;
                script.steps.push(Step { line, action: Action::Run { args, check: Check::Own } });
            }
            return Ok(());
        }
        _ => {
            *check = parse_check(std::mem::take(check), name, rest)?;
            return Ok(());
        }
    };
    script.steps.push(Step { line, action });
    Ok(())
}

fn parse_check(before: Check, name: &[u8], rest: &[u8]) -> Result<Check, String> {
    let (mut resp2, mut resp3) = match before {
        Check::Expect { resp2, resp3 } => (resp2, resp3),
        _ => (None, None),
    };
    Ok(match name {
        b"unordered" => Check::As(Rule::Unordered),
        b"unordered-pairs" => Check::As(Rule::UnorderedPairs),
        b"type-only" => Check::As(Rule::TypeOnly),
        b"shape" => Check::As(Rule::Shape),
        b"scan-all" => Check::As(Rule::ScanAll),
        b"skip-oracle" => Check::SkipOracle,
        b"expect" | b"expect2" | b"expect3" => {
            let reply = parse_reply(rest)?;
            if name != b"expect3" {
                resp2 = Some(as_resp2(&reply, name == b"expect"));
            }
            if name != b"expect2" {
                resp3 = Some(if name == b"expect" { as_resp3(&reply) } else { reply });
            }
            Check::Expect { resp2, resp3 }
        }
        _ => return Err(format!("unknown directive @{}", String::from_utf8_lossy(name))),
    })
}

/// A reply in compact notation.
fn parse_reply(text: &[u8]) -> Result<Value, String> {
    match text.split_first() {
        Some((b'+', rest)) => return Ok(Value::Simple(rest.to_vec())),
        Some((b'-', rest)) => return Ok(Value::Error(rest.to_vec())),
        _ => {}
    }
    let mut tokens = Vec::new();
    let mut rest = text;
    while !rest.trim_ascii_start().is_empty() {
        rest = rest.trim_ascii_start();
        let end = token_end(rest).ok_or("quotes are not balanced")?;
        tokens.push(&rest[..end]);
        rest = &rest[end..];
    }
    let mut tokens = tokens.into_iter();
    let value = parse_token(&mut tokens)?;
    match tokens.next() {
        None => Ok(value),
        Some(token) => Err(format!("`{}` is too much", String::from_utf8_lossy(token))),
    }
}

/// Where a blank outside double quotes ends the first token.
fn token_end(text: &[u8]) -> Option<usize> {
    let mut quoted = false;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            byte if byte.is_ascii_whitespace() && !quoted => return Some(at),
            _ => {}
        }
        at += 1;
    }
    (!quoted).then_some(text.len())
}

fn parse_token<'a>(tokens: &mut impl Iterator<Item = &'a [u8]>) -> Result<Value, String> {
    let token = tokens.next().ok_or("a reply ends too early")?;
    let (sigil, rest) = token.split_first().ok_or("an empty reply")?;
    let text = String::from_utf8_lossy(rest).into_owned();
    let number = || text.parse::<i64>().map_err(|_| format!("`{text}` is no number"));
    Ok(match sigil {
        b'+' => Value::Simple(rest.to_vec()),
        b'-' => Value::Error(rest.to_vec()),
        b':' => Value::Int(number()?),
        b',' => Value::Double(rest.to_vec()),
        b'_' => Value::Null,
        b'#' => Value::Bool(rest == b"t"),
        b'$' if rest == b"-1" => Value::NullBulk,
        b'$' => match words::split(rest).as_deref() {
            Some([word]) => Value::Bulk(word.clone()),
            _ => return Err(format!("`{text}` is no bulk string")),
        },
        b'*' if rest == b"-1" => Value::NullArray,
        b'*' => Value::Array((0..number()?).map(|_| parse_token(tokens)).collect::<Result<_, _>>()?),
        b'~' => Value::Set((0..number()?).map(|_| parse_token(tokens)).collect::<Result<_, _>>()?),
        b'%' => Value::Map(
            (0..number()?)
                .map(|_| Ok((parse_token(tokens)?, parse_token(tokens)?)))
                .collect::<Result<_, String>>()?,
        ),
        _ => return Err(format!("`{}` is no reply", String::from_utf8_lossy(token))),
    })
}

/// What RESP2 makes of a RESP3 reply.
fn as_resp2(value: &Value, nulls: bool) -> Value {
    match value {
        Value::Null if nulls => Value::NullBulk,
        Value::Double(text) => Value::Bulk(text.clone()),
        Value::Bool(yes) => Value::Int(i64::from(*yes)),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            Value::Array(items.iter().map(|item| as_resp2(item, nulls)).collect())
        }
        Value::Map(pairs) => Value::Array(
            pairs.iter().flat_map(|(key, value)| [as_resp2(key, nulls), as_resp2(value, nulls)]).collect(),
        ),
        other => other.clone(),
    }
}

/// What RESP3 makes of the nulls of RESP2.
fn as_resp3(value: &Value) -> Value {
    match value {
        Value::NullBulk | Value::NullArray => Value::Null,
        Value::Array(items) => Value::Array(items.iter().map(as_resp3).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Reply;

    #[test]
    fn expectations_have_both_protocols() {
        let check = |notation: &str, resp2: &str, resp3: &str| {
            let parsed = parse_check(Check::Own, b"expect", notation.as_bytes()).expect(notation);
            let Check::Expect { resp2: Some(two), resp3: Some(three) } = parsed else {
                panic!("{notation}: {parsed:?}")
            };
            assert_eq!((two.notation().as_str(), three.notation().as_str()), (resp2, resp3));
        };
        check(":1", ":1", ":1");
        check("-ERR no such thing", "-ERR no such thing", "-ERR no such thing");
        check("*2 $a $\"b c\"", "*2 $a $\"b c\"", "*2 $a $\"b c\"");
        check("_", "$-1", "_");
        check("*-1", "*-1", "_");
        check("*2 :1 ,2.5", "*2 :1 $2.5", "*2 :1 ,2.5");
        check("%1 $a :1", "*2 $a :1", "%1 $a :1");
        check("~1 $a", "*1 $a", "~1 $a");
        assert!(parse_check(Check::Own, b"expect", b"*2 $a").is_err());
        assert!(parse_check(Check::Own, b"expect", b":x").is_err());
        assert!(parse_check(Check::Own, b"nonsense", b"").is_err());
    }
}
