//! Reading a configuration: the command line, the file it names, what that includes, and standard input.

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use base::glob;

use super::directives::{
    DIRECTIVES, Effect, FILE_DIRECTIVES, FileDirective, Flags, Kind, ListRule, find, index_of, nearest,
};
use super::text::{os_error_text, quoted, split_words};
use super::value::{Value, words_of};
use super::{Config, directory_in, position, settled};

/// Files within files that are followed.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Why a configuration cannot be used. Prints as one line that names file, line and text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// `FILE:LINE`, `command line`, or empty where neither applies.
    pub location: String,
    /// The line at fault, or empty. Secrets are left out.
    pub line: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("*** FATAL CONFIG FILE ERROR *** ")?;
        if !self.location.is_empty() {
            write!(f, "{}: ", self.location)?;
        }
        if !self.line.is_empty() {
            write!(f, "'{}': ", self.line)?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for ConfigError {}

/// Something that the configuration asks for and does not get. At most one for each directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The directive concerned.
    pub directive: &'static str,
    /// Where it was last set: `FILE:LINE` or `command line`.
    pub location: String,
    /// Whether it only asks for what happens anyway (its default, or not to save), so that nobody misses anything.
    pub at_default: bool,
    /// What there is to say.
    pub text: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.text)
    }
}

/// See [`Config::load`].
pub(super) fn load(args: &[Vec<u8>], config: Config) -> Result<(Config, Vec<Notice>), ConfigError> {
    let command_line = CommandLine::read(args);
    let mut loader = Loader::new(config);
    if let Some(name) = command_line.file {
        let path = loader.config.start_dir.join(path_of(name));
        let content = read_file(&path).map_err(|reason| ConfigError {
            location: String::new(),
            line: String::new(),
            reason,
        })?;
        loader.config.file = Some(path.canonicalize().unwrap_or(path));
        loader.read_text(&content, &String::from_utf8_lossy(name), 0)?;
    }
    if command_line.from_stdin {
        let mut content = Vec::new();
        std::io::stdin().read_to_end(&mut content).map_err(|error| ConfigError {
            location: "standard input".into(),
            line: String::new(),
            reason: os_error_text(&error),
        })?;
        loader.read_text(&content, "standard input", 0)?;
    }
    for words in command_line.options {
        let line = Line { shown: format!("--{}", shown(&words)), location: "command line".into() };
        loader.take(&words, &line, 0)?;
    }
    loader.finish()
}

/// What a file of this content would configure if `config` were fresh, and whether it mentions `save`.
pub(super) fn load_text(content: &[u8], label: &str, config: Config) -> Result<(Config, bool), ConfigError> {
    let mut loader = Loader::new(config);
    loader.read_text(content, label, 0)?;
    let save_seen = loader.save_seen;
    Ok((loader.finish()?.0, save_seen))
}

/// The parts of a command line.
struct CommandLine<'a> {
    file: Option<&'a [u8]>,
    from_stdin: bool,
    /// Each option with its values, as the words of a line.
    options: Vec<Vec<Vec<u8>>>,
}

impl<'a> CommandLine<'a> {
    fn read(args: &'a [Vec<u8>]) -> CommandLine<'a> {
        let mut read = CommandLine { file: None, from_stdin: false, options: Vec::new() };
        let mut at = 0;
        if let Some(first) = args.first()
            && !first.starts_with(b"-")
        {
            read.file = Some(first);
            at = 1;
        }
        // What follows a bare option name is its value, even if it starts with two hyphens.
        let mut value_expected = false;
        while let Some(arg) = args.get(at) {
            let is_last = at + 1 == args.len();
            if arg == b"-" && (at == 0 || is_last) {
                read.from_stdin = true;
            } else if let Some(option) = arg.strip_prefix(b"--")
                && !value_expected
            {
                let mut words = split_words(option).unwrap_or_else(|| vec![option.to_vec()]);
                value_expected = words.len() == 1;
                let ends_here = is_last || args[at + 1].starts_with(b"--");
                if value_expected && words[0].eq_ignore_ascii_case(b"save") && ends_here {
                    words.push(Vec::new());
                    value_expected = false;
                }
                read.options.push(words);
            } else {
                match read.options.last_mut() {
                    Some(words) => words.push(arg.clone()),
                    None => read.options.push(vec![arg.clone()]),
                }
                value_expected = false;
            }
            at += 1;
        }
        read
    }
}

/// A line as errors and notices show it.
struct Line {
    location: String,
    shown: String,
}

impl Line {
    fn error(&self, reason: impl Into<String>) -> ConfigError {
        ConfigError { location: self.location.clone(), line: self.shown.clone(), reason: reason.into() }
    }
}

struct Loader {
    config: Config,
    /// Rows and file directives with no effect that were mentioned, in order, with the last place.
    without_effect: Vec<(&'static str, String)>,
    /// Whether the default save points were given up.
    save_seen: bool,
}

impl Loader {
    fn new(config: Config) -> Loader {
        Loader { config, without_effect: Vec::new(), save_seen: false }
    }

    fn read_text(&mut self, content: &[u8], label: &str, depth: usize) -> Result<(), ConfigError> {
        for (at, raw) in content.split(|byte| *byte == b'\n').enumerate() {
            let trimmed = raw.trim_ascii();
            if trimmed.is_empty() || trimmed.starts_with(b"#") {
                continue;
            }
            let words = split_words(trimmed);
            let shown = match &words {
                Some(words) if !is_secret(words) => String::from_utf8_lossy(trimmed).into_owned(),
                Some(words) => shown(words),
                None => shown(&first_word_only(trimmed)),
            };
            let line = Line { location: format!("{label}:{}", at + 1), shown };
            let words = words.ok_or_else(|| line.error("unbalanced quotes"))?;
            if !words.is_empty() {
                self.take(&words, &line, depth)?;
            }
        }
        Ok(())
    }

    /// Carries out one line.
    fn take(&mut self, words: &[Vec<u8>], line: &Line, depth: usize) -> Result<(), ConfigError> {
        let (name, arguments) = (&words[0], &words[1..]);
        if let Some(at) = index_of(name) {
            return self.set(at, arguments, line);
        }
        if name.eq_ignore_ascii_case(b"include") {
            let [pattern] = arguments else {
                return Err(line.error("wrong number of arguments"));
            };
            return self.include(pattern, line, depth);
        }
        if let Some(row) = FILE_DIRECTIVES.iter().find(|row| row.name.as_bytes().eq_ignore_ascii_case(name)) {
            if arguments.len() < row.arguments.0 || arguments.len() > row.arguments.1 {
                return Err(line.error("wrong number of arguments"));
            }
            self.remember(row.name, row.effect, line);
            self.config.repeated.push((row.name, arguments.to_vec()));
            return Ok(());
        }
        if name.eq_ignore_ascii_case(b"sentinel") {
            return Err(line.error("sentinel mode is not available"));
        }
        Err(line.error(match nearest(name) {
            Some(meant) => format!("unknown directive. Did you mean '{meant}'?"),
            None => "unknown directive".to_string(),
        }))
    }

    fn set(&mut self, at: usize, arguments: &[Vec<u8>], line: &Line) -> Result<(), ConfigError> {
        let row = &DIRECTIVES[at];
        // Several words may be given as one: `--save "60 1 300 10"`, `--replicaof "10.0.0.1 6379"`.
        let parts: Vec<Vec<u8>>;
        let arguments = match arguments {
            [words] if row.flags.contains(Flags::WORDS) && !words.is_empty() => {
                parts = words_of(row, words);
                &parts
            }
            _ => arguments,
        };
        let mut values = self.config.values.write();
        let base = directory_in(&values);
        let mut value =
            Value::parse(row, arguments, &values[at], &base).map_err(|reason| line.error(reason))?;
        if let (Kind::List { rule: ListRule::Save, .. }, Value::List(points)) = (row.kind, &mut value) {
            // The first line replaces the defaults, further ones add to it, an empty one starts over.
            if let (true, false, Value::List(before)) = (self.save_seen, points.is_empty(), &values[at]) {
                *points = before.iter().chain(points.iter()).cloned().collect();
            }
            self.save_seen = true;
        }
        values[at] = settled(row, value);
        drop(values);
        self.remember(row.name, row.effect, line);
        Ok(())
    }

    fn remember(&mut self, name: &'static str, effect: Effect, line: &Line) {
        if effect == Effect::Live {
            return;
        }
        match self.without_effect.iter_mut().find(|known| known.0 == name) {
            Some(known) => known.1.clone_from(&line.location),
            None => self.without_effect.push((name, line.location.clone())),
        }
    }

    /// Reads the named file, or all files that a glob matches, from the directory that is `dir` at this line.
    fn include(&mut self, pattern: &[u8], line: &Line, depth: usize) -> Result<(), ConfigError> {
        if depth == INCLUDE_DEPTH_MAX {
            return Err(line.error(format!("files are included more than {INCLUDE_DEPTH_MAX} deep")));
        }
        let base = directory_in(&self.config.values.read());
        let has_wildcard = pattern.iter().any(|byte| b"*?[".contains(byte));
        let paths = if has_wildcard { expand(&base, pattern) } else { vec![base.join(path_of(pattern))] };
        for path in paths {
            let content = read_file(&path).map_err(|reason| line.error(reason))?;
            let label = path.strip_prefix(&base).unwrap_or(&path).display().to_string();
            self.read_text(&content, &label, depth + 1)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<(Config, Vec<Notice>), ConfigError> {
        let Loader { config, without_effect, .. } = self;
        let values = config.values.read();
        let is_cluster = values[position("cluster-enabled")] == Value::Bool(true);
        if is_cluster && !values[position("replicaof")].is_empty() {
            return Err(ConfigError {
                location: String::new(),
                line: String::new(),
                reason: "replicaof is not allowed in cluster mode".into(),
            });
        }
        if let Some(reason) = super::contradiction(&values) {
            return Err(ConfigError { location: String::new(), line: String::new(), reason });
        }
        config.hot.refresh(&values);
        let mut notices = Vec::new();
        for (name, location) in without_effect {
            if let Some(at) = index_of(name.as_bytes()) {
                // Not saving is what happens anyway.
                let saves_nothing = name == "save" && values[at].is_empty();
                let at_default = saves_nothing || values[at] == Value::default_of(&DIRECTIVES[at]);
                let mut printed = values[at].print(&DIRECTIVES[at]);
                if printed.is_empty() {
                    printed = quoted(&printed);
                }
                let text = match name {
                    "daemonize" if at_default => continue,
                    "daemonize" => "'daemonize yes' is ignored: the process never forks and stays in the \
                                    foreground, where a service manager can watch it"
                        .to_string(),
                    _ if is_secret(&[name.into(), printed.clone()]) => {
                        format!("'{name}' {}", without(DIRECTIVES[at].effect))
                    }
                    _ => {
                        let shown = String::from_utf8_lossy(&printed);
                        format!("'{name} {shown}' {}", without(DIRECTIVES[at].effect))
                    }
                };
                notices.push(Notice { directive: name, location, at_default, text });
            } else if let Some(row) = FILE_DIRECTIVES.iter().find(|row| row.name == name) {
                notices.push(Notice { directive: name, location, at_default: false, text: file_notice(row) });
            }
        }
        drop(values);
        Ok((config, notices))
    }
}

/// What is said of a directive without effect.
fn without(effect: Effect) -> String {
    match effect {
        Effect::Needless(why) => format!("has no effect: {why}"),
        Effect::Live | Effect::Awaits(_) => "has no effect yet".to_owned(),
    }
}

fn file_notice(row: &FileDirective) -> String {
    match row.effect {
        Effect::Needless(why) => format!("'{}' is ignored: {why}", row.name),
        Effect::Live | Effect::Awaits(_) => format!("'{}' has no effect yet", row.name),
    }
}

/// Whether the value of a line must not be shown.
fn is_secret(words: &[Vec<u8>]) -> bool {
    words.first().is_some_and(|name| {
        name.eq_ignore_ascii_case(b"user")
            || find(name).is_some_and(|row| row.flags.contains(Flags::SENSITIVE))
    })
}

fn shown(words: &[Vec<u8>]) -> String {
    if is_secret(words) {
        return format!("{} ...", String::from_utf8_lossy(&words[0]));
    }
    String::from_utf8_lossy(&words.join(&b' ')).into_owned()
}

/// The name of a line whose quotes do not close, as a line without its value if that is a secret.
fn first_word_only(line: &[u8]) -> Vec<Vec<u8>> {
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    vec![line[..end].to_vec(), line[end..].trim_ascii().to_vec()]
}

fn path_of(name: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(name))
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path)
        .map_err(|error| format!("can't open config file '{}': {}", path.display(), os_error_text(&error)))
}

/// The files that match a pattern, in the order of their names. Wildcards do not match a leading dot.
fn expand(base: &Path, pattern: &[u8]) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut found = vec![if pattern.starts_with(b"/") { PathBuf::from("/") } else { base.to_path_buf() }];
    for part in pattern.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for directory in &found {
            if !part.iter().any(|byte| b"*?[".contains(byte)) {
                next.push(directory.join(path_of(part)));
                continue;
            }
            let Ok(entries) = fs::read_dir(directory) else {
                continue;
            };
            let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
            let matching = names.filter(|name| {
                let name = name.as_bytes();
                (part.starts_with(b".") || !name.starts_with(b".")) && glob::matches(part, name, false)
            });
            next.extend(matching.map(|name| directory.join(name)));
        }
        found = next;
    }
    found.retain(|path| path.is_file());
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_fall_into_file_and_options() {
        let check = |args: &[&str], file: Option<&str>, stdin: bool, options: &[&[&str]]| {
            let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
            let read = CommandLine::read(&args);
            assert_eq!(read.file, file.map(str::as_bytes), "{args:?}");
            assert_eq!(read.from_stdin, stdin, "{args:?}");
            let expected: Vec<Vec<Vec<u8>>> = options
                .iter()
                .map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect())
                .collect();
            assert_eq!(read.options, expected, "{args:?}");
        };
        check(&[], None, false, &[]);
        check(&["a.conf"], Some("a.conf"), false, &[]);
        check(&["-"], None, true, &[]);
        check(&["a.conf", "-"], Some("a.conf"), true, &[]);
        check(&["-", "--port", "1"], None, true, &[&["port", "1"]]);
        check(&["a.conf", "--port", "1", "-"], Some("a.conf"), true, &[&["port", "1"]]);
        check(&["--port", "1", "--bind", "a", "b"], None, false, &[&["port", "1"], &["bind", "a", "b"]]);
        check(&["--port 1"], None, false, &[&["port", "1"]]);
        check(&["--save 60 1", "--port", "1"], None, false, &[&["save", "60", "1"], &["port", "1"]]);
        check(&["--save", "", "--port", "1"], None, false, &[&["save", ""], &["port", "1"]]);
        check(&["--save", "--port", "1"], None, false, &[&["save", ""], &["port", "1"]]);
        check(&["--save"], None, false, &[&["save", ""]]);
        check(&["--requirepass", "--secret"], None, false, &[&["requirepass", "--secret"]]);
        check(&["--logfile", "", "-x"], None, false, &[&["logfile", "", "-x"]]);
        check(&["a.conf", "b.conf"], Some("a.conf"), false, &[&["b.conf"]]);
    }
}
