//! What a reviewer would otherwise have to say again and again: the rules of ARCHITECTURE.md and CONTRIBUTING.md that
//! a look at the repository's files can decide. Each check collects all that it finds before it fails.

use std::fs;
use std::path::{Path, PathBuf};

/// Longest source file that is accepted, and what to aim for.
const FILE_LINES_MAX: usize = 800;
const FILE_LINES_AIMED_AT: usize = 600;
/// The comment that proves an unsafe block stands at most so many lines above it: statements may be long.
const SAFETY_LINES_MAX: usize = 6;

/// Directories with nothing in them that was written here, by name; those that start with a dot are passed over too.
const FOREIGN_DIRECTORIES: [&str; 4] = ["target", "data", "node_modules", "__pycache__"];
const PROGRAM_EXTENSIONS: [&str; 8] = ["rs", "py", "sh", "go", "java", "c", "mjs", "toml"];
const TEXT_EXTENSIONS: [&str; 2] = ["md", "txt"];
/// Go's formatter indents by tabs, and a Makefile means something by them.
const TAB_EXTENSIONS: [&str; 1] = ["go"];

// In pieces, so that this file passes its own check.
const UNFINISHED_WORDS: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];
const UNFINISHED_MACROS: [&str; 3] =
    [concat!("dbg", "!("), concat!("to", "do!("), concat!("unimple", "mented!(")];

struct File {
    /// From the repository's root, with `/`.
    path: String,
    text: String,
}

impl File {
    fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|extension| extension.to_str()).unwrap_or("")
    }

    fn is_program(&self) -> bool {
        let scripts = ["scripts/", "Makefile"];
        PROGRAM_EXTENSIONS.contains(&self.extension())
            || scripts.iter().any(|start| self.path.starts_with(start))
    }

    fn is_rust(&self) -> bool {
        self.extension() == "rs"
    }

    /// Lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| (at + 1, line))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All programs and texts of the repository.
fn files() -> Vec<File> {
    let (root, mut found) = (root(), Vec::new());
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory that was just listed") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_dir() {
                if !name.starts_with('.') && !FOREIGN_DIRECTORIES.contains(&&*name) {
                    directories.push(path);
                }
                continue;
            }
            let relative =
                path.strip_prefix(&root).expect("it lies below").to_string_lossy().replace('\\', "/");
            let mut file = File { path: relative, text: String::new() };
            if file.is_program() || TEXT_EXTENSIONS.contains(&file.extension()) {
                file.text =
                    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", file.path));
                found.push(file);
            }
        }
    }
    assert!(found.len() > 100, "only {} files found below {}", found.len(), root.display());
    found
}

/// Runs `check` on all files and fails with everything it reported.
fn check(rule: &str, mut check: impl FnMut(&File, &mut Vec<String>)) {
    let mut findings = Vec::new();
    for file in files() {
        check(&file, &mut findings);
    }
    findings.sort();
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}

/// The line without its comment, and without what its string literals hold. Good enough for formatted code: a
/// literal over several lines is not followed.
fn code_of(line: &str) -> String {
    let (mut code, mut in_string, mut characters) = (String::new(), false, line.chars().peekable());
    while let Some(character) = characters.next() {
        match character {
            '\\' if in_string => drop(characters.next()),
            // A quote as a character literal opens nothing.
            '"' if !in_string && code.ends_with('\'') => {}
            '"' => in_string = !in_string,
            '/' if !in_string && characters.peek() == Some(&'/') => break,
            _ if in_string => {}
            _ => code.push(character),
        }
    }
    code
}

/// True if `word` stands in `text` by itself.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

#[test]
fn unsafe_code_stands_in_two_crates_alone_and_with_its_proof() {
    check(
        "unsafe code needs a place in crates/store or crates/journal and a SAFETY comment",
        |file, findings| {
            if !file.is_rust() {
                return;
            }
            let lines: Vec<&str> = file.text.lines().collect();
            for (number, line) in file.lines() {
                let code = code_of(line);
                if !has_word(&code, "unsafe") {
                    continue;
                }
                if !["crates/store/", "crates/journal/"].iter().any(|place| file.path.starts_with(place)) {
                    findings.push(format!("{}:{number}: unsafe in a crate that has none", file.path));
                }
                // A function's contract stands in its documentation, which clippy asks for.
                let opens = code.contains("unsafe {") || code.contains("unsafe impl");
                let before = &lines[(number - 1).saturating_sub(SAFETY_LINES_MAX)..number];
                if opens && !before.iter().any(|line| line.contains("// SAFETY:")) {
                    findings.push(format!("{}:{number}: no SAFETY comment above", file.path));
                }
            }
        },
    );
}

#[test]
fn nothing_is_left_unfinished() {
    check("finish it, or leave it out", |file, findings| {
        for (number, line) in file.lines().filter(|_| file.is_program()) {
            let word = UNFINISHED_WORDS.iter().find(|word| has_word(line, word));
            let call = UNFINISHED_MACROS.iter().find(|call| file.is_rust() && line.contains(**call));
            if let Some(found) = word.or(call) {
                findings.push(format!("{}:{number}: {found}", file.path));
            }
        }
    });
}

#[test]
fn files_stay_short_enough_to_be_read() {
    let lines = |file: &File| file.text.lines().count();
    let is_source =
        |file: &File| file.is_rust() && file.path.starts_with("crates/") && file.path.contains("/src/");
    let mut long = files();
    long.retain(|file| is_source(file) && lines(file) > FILE_LINES_AIMED_AT);
    long.sort_by_key(|file| std::cmp::Reverse(lines(file)));
    let list: Vec<String> = long.iter().map(|file| format!("{}: {} lines", file.path, lines(file))).collect();
    assert!(
        long.iter().all(|file| lines(file) <= FILE_LINES_MAX),
        "more than {FILE_LINES_MAX} lines are too many, split by subject. Above {FILE_LINES_AIMED_AT}:\n  {}",
        list.join("\n  ")
    );
}

#[test]
fn the_server_prints_only_what_its_command_line_asks_for() {
    check("log it, or reply it", |file, findings| {
        let parts: Vec<&str> = file.path.split('/').collect();
        let [crates, name, src, .., last] = parts[..] else { return };
        // What people run and read: `halcyon cluster`.
        let is_tool = file.path.starts_with("crates/halcyon/src/cluster_tool");
        if (crates, src) != ("crates", "src")
            || name == "proof"
            || last == "main.rs"
            || is_tool
            || !file.is_rust()
        {
            return;
        }
        for (number, line) in file.lines() {
            if code_of(line).contains("print!(") || code_of(line).contains("println!(") {
                findings.push(format!("{}:{number}", file.path));
            }
        }
    });
}

#[test]
fn every_source_file_says_what_it_is_for() {
    check("the first line is a //! comment", |file, findings| {
        if file.is_rust() && !file.text.starts_with("//! ") {
            findings.push(file.path.clone());
        }
    });
}

#[test]
fn white_space_is_plain() {
    check("white space", |file, findings| {
        let may_indent_by_tabs = TAB_EXTENSIONS.contains(&file.extension()) || file.path == "Makefile";
        for (number, line) in file.lines() {
            if line.ends_with([' ', '\t', '\r']) {
                findings.push(format!("{}:{number}: at the end of the line", file.path));
            }
            if line.contains('\t') && !may_indent_by_tabs {
                findings.push(format!("{}:{number}: a tab", file.path));
            }
        }
        if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
            findings.push(format!("{}: does not end in one newline", file.path));
        }
    });
}

/// The crates in the order of ARCHITECTURE.md's table: each may depend on those before it.
fn rooms() -> Vec<String> {
    let text = read("ARCHITECTURE.md");
    let table = text.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    let rows = table.take_while(|line| line.starts_with("| `"));
    rows.filter_map(|row| Some(row.strip_prefix("| `")?.split('`').next()?.to_owned())).collect()
}

#[test]
fn crates_depend_only_on_those_above_them() {
    let rooms = rooms();
    let mut named = rooms.clone();
    named.sort();
    let crates = fs::read_dir(root().join("crates"))
        .expect("crates")
        .map(|entry| entry.expect("an entry").file_name());
    let mut there: Vec<String> = crates.map(|name| name.to_string_lossy().into_owned()).collect();
    there.sort();
    assert_eq!(named, there, "ARCHITECTURE.md's table names the crates that there are");
    for (at, name) in rooms.iter().enumerate() {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let mut in_dependencies = false;
        for line in manifest.lines() {
            if line.starts_with('[') {
                in_dependencies = line.contains("dependencies");
            }
            let dependency = line.split(['.', '=', ' ']).next().unwrap_or("");
            let Some(below) = rooms.iter().position(|room| room == dependency).filter(|_| in_dependencies)
            else {
                continue;
            };
            assert!(
                below < at,
                "crates/{name} depends on {dependency}, which stands below it in ARCHITECTURE.md"
            );
            let speaks_only_the_protocol = name != "proof" || ["base", "resp", "rdb"].contains(&dependency);
            assert!(
                speaks_only_the_protocol,
                "crates/proof knows {dependency}: it is to see replies, not the inside"
            );
        }
    }
}

/// What of a Markdown text is code: spans between backticks, and lines of fenced or indented blocks.
fn code_in(markdown: &str) -> Vec<&str> {
    let (mut code, mut fenced) = (Vec::new(), false);
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced || line.starts_with("    ") {
            code.push(line.trim());
        } else {
            code.extend(line.split('`').skip(1).step_by(2));
        }
    }
    code
}

#[test]
fn documents_name_targets_and_files_that_exist() {
    let makefile = read("Makefile");
    let is_target = |name: &str| makefile.lines().any(|line| line.starts_with(&format!("{name}:")));
    check("documents tell of things as they are", |file, findings| {
        if file.extension() != "md" {
            return;
        }
        for code in code_in(&file.text) {
            let Some(rest) = code.trim_start_matches("$ ").strip_prefix("make ") else { continue };
            let target: String =
                rest.chars().take_while(|character| character.is_ascii_lowercase()).collect();
            if !target.is_empty() && !is_target(&target) {
                findings.push(format!("{}: `make {target}` is not in the Makefile", file.path));
            }
        }
        let directory = Path::new(&file.path).parent().map(|parent| root().join(parent)).unwrap_or_default();
        for (at, _) in file.text.match_indices("](") {
            let link = file.text[at + 2..].split([')', '#']).next().unwrap_or("");
            if !link.is_empty() && !link.contains(':') && !directory.join(link).exists() {
                findings.push(format!("{}: {link} does not exist", file.path));
            }
        }
    });
}

#[test]
fn the_checks_see_what_they_are_for() {
    assert_eq!(code_of("call(\"unsafe \\\" // {}\", x); // unsafe"), "call(, x); ");
    assert!(has_word("let x = unsafe { y };", "unsafe"));
    assert!(!has_word("#![allow(unsafe_code)]", "unsafe"));
    assert_eq!(
        code_in("run `make a` and `b`\n\n    make c\n\n```\nmake d\n```\nmake e\n"),
        ["make a", "b", "make c", "make d"]
    );
}
