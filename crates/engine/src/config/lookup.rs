//! Finding a directive by the name that somebody wrote.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::directives::{DIRECTIVES, Directive, FILE_DIRECTIVES, Flags};

/// Position of a directive in [`DIRECTIVES`], by any of its names in any case.
pub fn index_of(name: &[u8]) -> Option<usize> {
    static INDEX: OnceLock<HashMap<&'static str, usize>> = OnceLock::new();
    let index = INDEX.get_or_init(|| {
        let rows = DIRECTIVES.iter().enumerate();
        rows.flat_map(|(at, row)| names(row).map(move |name| (name, at))).collect()
    });
    let lower = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
    index.get(lower.as_str()).copied()
}

/// The row of a directive, by any of its names in any case.
pub fn find(name: &[u8]) -> Option<&'static Directive> {
    index_of(name).map(|at| &DIRECTIVES[at])
}

/// All names of a row: its own first, then its aliases.
pub fn names(row: &'static Directive) -> impl Iterator<Item = &'static str> {
    std::iter::once(row.name).chain(row.aliases.iter().copied())
}

/// The known name nearest to a misspelt one, if any is near enough to be meant.
pub fn nearest(unknown: &[u8]) -> Option<&'static str> {
    let unknown = unknown.to_ascii_lowercase();
    if unknown.len() > 64 {
        return None;
    }
    let file_names = FILE_DIRECTIVES.iter().map(|row| row.name).chain(["include"]);
    let known = DIRECTIVES.iter().filter(|row| !row.flags.contains(Flags::HIDDEN)).flat_map(names);
    let (edits, name) =
        known.chain(file_names).map(|name| (edit_distance(&unknown, name.as_bytes()), name)).min()?;
    (edits <= 1 + unknown.len() / 5 && edits < unknown.len()).then_some(name)
}

/// Insertions, removals, replacements and swaps of neighbours that lead from `a` to `b`.
fn edit_distance(a: &[u8], b: &[u8]) -> usize {
    let mut before_last: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_unique_and_lower_case() {
        let mut all: Vec<&str> = DIRECTIVES.iter().flat_map(names).collect();
        all.extend(FILE_DIRECTIVES.iter().map(|row| row.name));
        assert!(all.iter().all(|name| *name == name.to_ascii_lowercase()));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn lookup_takes_aliases_and_any_case() {
        for (asked, expected) in [
            ("port", "port"),
            ("PORT", "port"),
            ("slaveof", "replicaof"),
            ("io-threads", "threads"),
            ("server_cpulist", "server-cpulist"),
            ("Hash-Max-Ziplist-Value", "hash-max-listpack-value"),
        ] {
            assert_eq!(find(asked.as_bytes()).map(|row| row.name), Some(expected), "{asked}");
        }
        assert!(find(b"prot").is_none());
        assert!(find(b"\xff").is_none());
    }

    #[test]
    fn nearest_names_what_was_meant_or_nothing() {
        for (asked, expected) in [
            ("prot", Some("port")),
            ("PROT", Some("port")),
            ("max-memory", Some("maxmemory")),
            ("maxmemory-polcy", Some("maxmemory-policy")),
            ("includ", Some("include")),
            ("zzzzzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(asked.as_bytes()), expected, "{asked}");
        }
    }
}
