//! Users as text: `user` lines of the configuration, and the ACL file.

use std::collections::BTreeMap;
use std::fs;

use super::rules::{Grammar, Invalid, Refused, Rules, has_spaces, join_selectors};
use crate::config::text::os_error_text;

/// Users by name.
pub(super) type RulesByName = BTreeMap<Vec<u8>, Rules>;

/// The line that makes a user what it is.
pub(super) fn line(name: &[u8], rules: &Rules) -> Vec<u8> {
    [b"user ", name, b" ", &rules.describe()[..]].concat()
}

/// The users of `user` lines: each line's words after the first. The error is a line for the administrator.
pub(super) fn from_config(lines: &[&[Vec<u8>]], grammar: Grammar) -> Result<RulesByName, String> {
    let mut users = RulesByName::new();
    let shown = String::from_utf8_lossy;
    for words in lines {
        let (name, modifiers) = (&words[0], &words[1..]);
        if has_spaces(name) {
            return Err("Spaces not allowed in ACL usernames".to_owned());
        }
        let mut rules = Rules::new(grammar);
        let applied = match users.contains_key(name) {
            true => Err(Refused::Modifier(name.clone(), Invalid::DuplicateUser)),
            false => rules.apply_all(modifiers, grammar),
        };
        applied.map_err(|refused| match refused {
            Refused::Modifier(modifier, why @ Invalid::UnknownCommand) => format!(
                "Error loading ACL rule '{}' for the user named '{}': {}",
                shown(&modifier),
                shown(name),
                why.text()
            ),
            Refused::Modifier(word, why) => {
                format!("Error in user declaration '{}': {}", shown(&word), why.text())
            }
            unmatched => shown(&unmatched.text()).into_owned(),
        })?;
        users.insert(name.clone(), rules);
    }
    Ok(users)
}

/// The users of an ACL file. The error tells everything that is wrong with it, in one line.
pub(super) fn load(path: &str, grammar: Grammar) -> Result<RulesByName, Vec<u8>> {
    let text = fs::read(path).map_err(|error| {
        format!("Error loading ACLs, opening file '{path}': {}", os_error_text(&error)).into_bytes()
    })?;
    parse(&text, path, grammar)
}

fn parse(text: &[u8], path: &str, grammar: Grammar) -> Result<RulesByName, Vec<u8>> {
    let mut users = RulesByName::new();
    let mut errors = Vec::new();
    for (at, raw) in text.split(|byte| *byte == b'\n').enumerate() {
        let place = format!("{path}:{}", at + 1);
        let line = trimmed(raw, b" \t\r\n");
        if line.is_empty() {
            continue;
        }
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [b"user", name, modifiers @ ..] = &words[..] else {
            let text = format!("{place} should start with user keyword followed by the username. ");
            errors.extend(text.into_bytes());
            continue;
        };
        if has_spaces(name) {
            let parts = [b"'", place.as_bytes(), b": username '", name, b"' contains invalid characters. "];
            errors.extend(parts.concat());
            continue;
        }
        if users.contains_key(*name) {
            let line = format!("' found on line {}. ", at + 1);
            errors.extend([b"WARNING: Duplicate user '", *name, line.as_bytes()].concat());
            continue;
        }
        let mut rules = Rules::new(grammar);
        apply_line(&mut rules, modifiers, &place, grammar, &mut errors);
        users.insert(name.to_vec(), rules);
    }
    if errors.is_empty() {
        return Ok(users);
    }
    errors
        .extend(b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
    Err(errors)
}

/// Applies the modifiers of a line: every unknown command is told of, but only the first other mistake, which may
/// well be the cause of those that follow. What may be a secret is not shown.
fn apply_line(rules: &mut Rules, modifiers: &[&[u8]], place: &str, grammar: Grammar, errors: &mut Vec<u8>) {
    let Ok(modifiers) = join_selectors(modifiers) else {
        errors.extend(format!("{place}: Unmatched parenthesis in selector definition.").into_bytes());
        return;
    };
    let mut has_failed = false;
    for modifier in &modifiers {
        let modifier = trimmed(modifier, b"\t\r\n");
        match rules.apply(modifier, grammar) {
            Ok(()) => {}
            Err(why @ Invalid::UnknownCommand) => {
                let before = format!("{place}: Error in applying operation '");
                let after = format!("': {}. ", why.text());
                errors.extend([before.as_bytes(), modifier, after.as_bytes()].concat());
            }
            Err(why) if !has_failed => {
                errors.extend(format!("{place}: {}. ", why.text()).into_bytes());
                has_failed = true;
            }
            Err(_) => {}
        }
    }
}

fn trimmed<'t>(text: &'t [u8], blanks: &[u8]) -> &'t [u8] {
    let is_text = |byte: &u8| !blanks.contains(byte);
    let start = text.iter().position(is_text).unwrap_or(text.len());
    let end = text.iter().rposition(is_text).map_or(start, |last| last + 1);
    &text[start..end]
}

/// Writes an ACL file; it appears at once and whole, or not at all.
pub(super) fn save(path: &str, lines: &[Vec<u8>]) -> std::io::Result<()> {
    let text: Vec<u8> = lines.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect();
    crate::config::replace_file(&std::path::absolute(path)?, &text)
}
