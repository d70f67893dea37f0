//! What two versions tell of users and of what was refused to them, without what they tell each in its own way.

use resp::Value;

use crate::rules::sorted;
use crate::value::Reply;

/// Facts of ACL LOG about times and about the connection.
const OF_THE_MOMENT: &[&[u8]] =
    &[b"age-seconds", b"client-info", b"entry-id", b"timestamp-created", b"timestamp-last-updated"];
/// The fact of ACL GETUSER that 7.0 reduces by its own table; what it means is asked by ACL DRYRUN.
const OF_THE_TABLE: &[&[u8]] = &[b"commands"];
/// The flag that new users have since 7.2.
const NEW_FLAG: &str = "sanitize-payload";

/// Whether two replies of ACL LOG tell of the same refusals.
pub fn logs_agree(oracle: &Value, halcyon: &Value) -> bool {
    without(oracle, OF_THE_MOMENT) == without(halcyon, OF_THE_MOMENT)
}

/// Whether two replies of ACL GETUSER or ACL LIST tell of the same users, but for rules about commands.
pub fn users_agree(oracle: &Value, halcyon: &Value) -> bool {
    let [oracle, halcyon] = [oracle, halcyon].map(|value| sorted(&without(value, OF_THE_TABLE), 0));
    oracle == halcyon
}

/// The reply without the labelled facts, the new flag, and rules about commands within a line.
fn without(value: &Value, labels: &[&[u8]]) -> Value {
    let is_left_out = |label: &Value| labels.contains(&label.text().unwrap_or_default().as_slice());
    let is_new_flag = |value: &Value| value.text().is_some_and(|text| text == NEW_FLAG.as_bytes());
    let kept = |items: &[Value]| {
        let mut kept = Vec::new();
        let mut items = items.iter();
        while let Some(item) = items.next() {
            if is_left_out(item) {
                items.next();
            } else if !is_new_flag(item) {
                kept.push(without(item, labels));
            }
        }
        kept
    };
    match value {
        Value::Array(items) => Value::Array(kept(items)),
        Value::Set(items) => Value::Set(kept(items)),
        Value::Map(pairs) => {
            let pairs = pairs.iter().filter(|(label, _)| !is_left_out(label));
            Value::Map(pairs.map(|(label, fact)| (label.clone(), without(fact, labels))).collect())
        }
        Value::Bulk(text) if text.starts_with(b"user ") => Value::Bulk(line(text)),
        other => other.clone(),
    }
}

/// A line of ACL LIST without rules about commands.
fn line(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut words = Vec::new();
    for word in text.split(' ').filter(|word| *word != NEW_FLAG) {
        let (open, rest) = word.strip_prefix('(').map_or(("", word), |rest| ("(", rest));
        if !rest.starts_with(['+', '-']) {
            words.push(word.to_owned());
        } else if !open.is_empty() || rest.ends_with(')') {
            words.push(format!("{open}{}", if rest.ends_with(')') { ")" } else { "" }));
        }
    }
    words.join(" ").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lose_rules_about_commands_and_nothing_else() {
        for (given, expected) in [
            ("user u on sanitize-payload ~a &b -@all +get", "user u on ~a &b"),
            ("user u off (~a -@all +get) (%R~b -@all)", "user u off (~a ) (%R~b )"),
            ("user u on #abc (+get)", "user u on #abc ()"),
        ] {
            assert_eq!(line(given.as_bytes()), expected.as_bytes());
        }
    }
}
