//! `docs/commands.md` is made from the command table and checked here, so that it cannot lie. To make it anew:
//! `HALCYON_WRITE_DOCS=1 cargo test -p engine --test commands_page`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use engine::table::{CommandInfo, registry};

/// Commands that Redis 7.2 and 7.4 added to those of 7.0.
const ADDED_BY_7_4: &[&str] = &[
    "client|no-touch",
    "client|setinfo",
    "cluster|myshardid",
    "hexpire",
    "hexpireat",
    "hexpiretime",
    "hpersist",
    "hpexpire",
    "hpexpireat",
    "hpexpiretime",
    "hpttl",
    "httl",
    "waitaof",
];

/// Commands of Redis 7.4 that are not here yet, or never will be, and why.
const MISSING: &[(&str, &[&str])] = &[
    (
        "load code into the server, which has no modules",
        &["module", "module|help", "module|list", "module|load", "module|loadex", "module|unload"],
    ),
    (
        "are for Redis's own tests and tools",
        &["pfdebug", "pfselftest", "restore-asking", "script|debug", "latency|doctor"],
    ),
];

/// The names of Redis's commands and subcommands.
fn redis_names() -> BTreeSet<String> {
    let of_7_0 = include_str!("data/redis-7.0.15-commands.txt").lines().filter(|line| !line.starts_with('#'));
    let of_7_0 = of_7_0.filter_map(|line| line.split(' ').next()).map(str::to_owned);
    of_7_0.chain(ADDED_BY_7_4.iter().map(|name| (*name).to_owned())).collect()
}

fn row(info: &CommandInfo, ours: bool) -> String {
    let name = info.full_name.replace('|', " ").to_uppercase();
    let since = if ours { "Halcyon or later Redis" } else { info.spec.since };
    format!("| {name} | {} | {since} | {} |\n", info.spec.arity, info.spec.summary)
}

fn page() -> String {
    let redis = redis_names();
    let mut groups: BTreeMap<&str, String> = BTreeMap::new();
    let (mut here, mut beyond) = (0, 0);
    for info in registry().callable() {
        let is_ours = !redis.contains(&info.full_name);
        here += usize::from(!is_ours);
        beyond += usize::from(is_ours);
        groups.entry(info.spec.group.as_str()).or_default().push_str(&row(info, is_ours));
    }
    let mut page = format!(
        "# Commands\n\nMade from the command table; a test holds it to that. Of the {} commands and subcommands of Redis 7.4's core, {here} \
         are here,\nand {beyond} that Redis 7.4 does not have.\n",
        redis.len()
    );
    page.push_str("\n## Not here\n\n");
    for (why, names) in MISSING {
        let missing: Vec<String> = names
            .iter()
            .filter(|name| redis.contains(**name) && registry().find_full(name.as_bytes()).is_none())
            .map(|name| name.replace('|', " ").to_uppercase())
            .collect();
        if !missing.is_empty() {
            let _ = writeln!(page, "- {} {why}.", missing.join(", "));
        }
    }
    for (group, rows) in groups {
        let _ = write!(
            page,
            "\n## {group}\n\n| command | arity | since | what it does |\n|---|--:|---|---|\n{rows}"
        );
    }
    page
}

#[test]
fn every_command_of_redis_is_here_or_is_said_to_be_missing() {
    let said: BTreeSet<&str> = MISSING.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let silent: Vec<String> = redis_names()
        .into_iter()
        .filter(|name| registry().find_full(name.as_bytes()).is_none() && !said.contains(name.as_str()))
        .collect();
    assert!(silent.is_empty(), "neither here nor said to be missing: {silent:?}");
}

#[test]
fn the_page_says_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let page = page();
    if std::env::var_os("HALCYON_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("docs/commands.md can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/commands.md is old: HALCYON_WRITE_DOCS=1 cargo test -p engine --test commands_page"
    );
}
