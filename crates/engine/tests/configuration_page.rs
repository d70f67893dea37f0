//! `docs/configuration.md` is made from the table of directives and checked here, so that it cannot lie. To make it anew:
//! `HALCYON_WRITE_DOCS=1 cargo test -p engine --test configuration_page`.

use std::fmt::Write;
use std::path::Path;

use engine::config::Config;
use engine::config::directives::{DIRECTIVES, Directive, Effect, FILE_DIRECTIVES, Flags, Kind};

const HEAD: &str = "\
# Configuration

Made from the table of directives; a test holds it to that. Names, defaults, bounds and the texts of errors are those of
Redis 7.4, and the differential suite compares each directive with a real server. A file that Redis starts with is a file
that Halcyon starts with, but for `daemonize yes`.

- *changes*: `yes` - by CONFIG SET; `guarded` - by CONFIG SET where `enable-protected-configs` allows it; `at start` - only
  by the file and the command line.
- *effect*: `yes` - it does what Redis's documentation says; `not yet` - it is kept and answered, and waits for what it is
  about; `none` - it is kept and answered, and what it is about does not exist here.

| directive | value | default | changes | effect |
|---|---|---|---|---|
";

fn value(row: &Directive) -> String {
    let range = |min: i128, max: i128| match max {
        max if max >= i128::from(i32::MAX) => format!("from {min}"),
        max => format!("{min} to {max}"),
    };
    match row.kind {
        Kind::Bool(_) => "yes, no".to_owned(),
        Kind::Int { min, max, .. } if min <= i64::from(i32::MIN) => {
            range(i128::MIN, max.into()).replace(&i128::MIN.to_string(), "any number")
        }
        Kind::Int { min, max, .. } => format!("number {}", range(min.into(), max.into())),
        Kind::Octal { max, .. } => format!("octal number to {max:o}"),
        Kind::Memory { min, max, .. } => format!("bytes {}", range(min.into(), max.into())),
        Kind::MemoryOrPercent { .. } => "bytes, or percent of `maxmemory`".to_owned(),
        Kind::Text { .. } => "text".to_owned(),
        Kind::Enum { words, .. } => words.join(", "),
        Kind::List { .. } => "list".to_owned(),
    }
}

fn row(config: &Config, row: &Directive) -> String {
    let aliases: Vec<String> = row.aliases.iter().map(|alias| format!("`{alias}`")).collect();
    let also = if aliases.is_empty() { String::new() } else { format!(" (also {})", aliases.join(", ")) };
    let default = match row.name {
        "dir" => "where the process is started".to_owned(),
        name => match config.string(name) {
            empty if empty.is_empty() => String::new(),
            text => format!("`{text}`"),
        },
    };
    let changes = match row.flags {
        flags if flags.contains(Flags::IMMUTABLE) => "at start",
        flags if flags.contains(Flags::PROTECTED) => "guarded",
        _ => "yes",
    };
    format!("| `{}`{also} | {} | {default} | {changes} | {} |\n", row.name, value(row), effect(row.effect))
}

fn effect(effect: Effect) -> String {
    match effect {
        Effect::Live => "yes".to_owned(),
        Effect::Awaits(what) => format!("not yet: {what}"),
        Effect::Needless(why) => format!("none: {why}"),
    }
}

fn page() -> String {
    let config = Config::defaults();
    let mut page = HEAD.to_owned();
    page.extend(DIRECTIVES.iter().map(|directive| row(&config, directive)));
    page.push_str("\nIn files and on the command line only, and as often as wanted:\n\n| directive | effect |\n|---|---|\n");
    page.push_str("| `include` | yes |\n");
    for directive in FILE_DIRECTIVES {
        let _ = writeln!(page, "| `{}` | {} |", directive.name, effect(directive.effect));
    }
    page
}

#[test]
fn the_page_says_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = page();
    if std::env::var_os("HALCYON_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("docs/configuration.md can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/configuration.md is old: HALCYON_WRITE_DOCS=1 cargo test -p engine --test configuration_page"
    );
}
