//! All that a server holds, as far as a file has to keep it.

use std::collections::BTreeMap;
use std::io;

use resp::Value;

use crate::dump::{self, DATABASES};
use crate::duo::{Args, args_of};
use crate::link::Link;
use crate::rules;
use crate::value::Reply;
use crate::words;

/// Requests that are sent together.
const PIPELINE: usize = 64;
/// What XINFO STREAM FULL tells of the inside of a stream, of what versions count in their own way, and of what only
/// versions after 7.0 save.
const LEFT_OUT: &[&[u8]] =
    &[b"radix-tree-keys", b"radix-tree-nodes", b"active-time", b"idle", b"inactive", b"lag"];

/// A key: its database and name.
type Place = (u8, Vec<u8>);

/// What is told of a key.
struct Told {
    /// Type, end and content.
    facts: [String; 3],
    digest: Value,
}

/// Which digests are compared.
#[derive(Clone, Copy)]
pub enum Digests {
    /// That of all there is.
    Whole,
    /// Those of the keys that are not of these types.
    But(&'static [&'static str]),
}

/// What a server holds.
pub struct State {
    digest: Value,
    keys: BTreeMap<Place, Told>,
    libraries: Vec<Vec<u8>>,
    /// Some score is the zero below zero, which a sorted set loses when it becomes small: in Redis, while it is loaded.
    has_negative_zero: bool,
}

impl State {
    /// Asks for all of it.
    pub fn of(link: &mut Link) -> io::Result<State> {
        let (mut keys, mut has_negative_zero) = (BTreeMap::new(), false);
        for database in 0..DATABASES {
            link.call(&["SELECT", &database.to_string()])?;
            let names = link.call(&["KEYS", "*"])?.leaves();
            for (key, told) in names.iter().zip(told_of(link, &names)?) {
                has_negative_zero |= told.1;
                keys.insert((database, key.clone()), told.0);
            }
        }
        let libraries = link.call(&["FUNCTION", "LIST", "WITHCODE"])?.leaves();
        let follows_label = |pair: &[Vec<u8>]| (pair[0] == b"library_code").then(|| pair[1].clone());
        let mut libraries: Vec<Vec<u8>> = libraries.windows(2).filter_map(follows_label).collect();
        libraries.sort();
        Ok(State { digest: link.call(&["DEBUG", "DIGEST"])?, keys, libraries, has_negative_zero })
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// What another server has otherwise, if anything: about what, what there is here, and there.
    pub fn differs(&self, other: &State, digests: Digests) -> Option<[String; 3]> {
        let digests = match digests {
            Digests::Whole if self.has_negative_zero => Digests::But(&["+zset"]),
            digests => digests,
        };
        let places = self.keys.keys().chain(other.keys.keys().filter(|key| !self.keys.contains_key(*key)));
        for place in places {
            let [here, there] = [self, other].map(|state| state.keys.get(place));
            let about = format!("key {} of database {}", words::quote(&place.1), place.0);
            let facts = [here, there].map(|told| told.map(|told| &told.facts));
            if facts[0] != facts[1] {
                return Some([about, format!("{:?}", facts[0]), format!("{:?}", facts[1])]);
            }
            if let (Digests::But(types), Some(here), Some(there)) = (digests, here, there)
                && !types.contains(&&here.facts[0][..])
                && here.digest != there.digest
            {
                let about = format!("the digest of {about}: {}", here.facts[2]);
                return Some([about, here.digest.notation(), there.digest.notation()]);
            }
        }
        if self.libraries != other.libraries {
            let [here, there] = [self, other].map(|state| words::join(&state.libraries));
            return Some(["the libraries".to_owned(), here, there]);
        }
        if matches!(digests, Digests::Whole) && self.digest != other.digest {
            let [here, there] = [self, other].map(|state| state.digest.notation());
            return Some(["DEBUG DIGEST".to_owned(), here, there]);
        }
        None
    }
}

/// What is told of each key of the selected database, and whether it has a score of -0.
fn told_of(link: &mut Link, keys: &[Vec<u8>]) -> io::Result<Vec<(Told, bool)>> {
    let asked: Vec<Args> = keys
        .iter()
        .flat_map(|key| {
            [
                args_of(&[b"TYPE", key]),
                args_of(&[b"PEXPIRETIME", key]),
                args_of(&[b"DEBUG", b"DIGEST-VALUE", key]),
            ]
        })
        .collect();
    let heads = exchange(link, &asked)?;
    let asked: Vec<Args> =
        keys.iter().zip(heads.chunks(3)).map(|(key, head)| dump::reading(key, &head[0])).collect();
    let contents = exchange(link, &asked)?;
    let mut told = Vec::new();
    for (((key, head), asked), content) in keys.iter().zip(heads.chunks(3)).zip(&asked).zip(&contents) {
        let mut has_negative_zero = false;
        let content = match &asked[0][..] {
            b"HGETALL" => with_ends(link, key, content)?,
            b"ZRANGE" => {
                let (text, has_one) = scored(content);
                has_negative_zero = has_one;
                text
            }
            b"SMEMBERS" => rules::sorted(content, 1).notation(),
            b"XINFO" => rules::sorted(&without_inside(content), 0).notation(),
            _ => content.notation(),
        };
        let facts = [head[0].notation(), head[1].notation(), content];
        told.push((Told { facts, digest: head[2].clone() }, has_negative_zero));
    }
    Ok(told)
}

/// Members and scores, as numbers: servers write their digits in ways of their own. True if one is -0, which is told as 0.
fn scored(content: &Value) -> (String, bool) {
    let (mut text, mut has_negative_zero) = (String::new(), false);
    for pair in content.leaves().chunks(2) {
        let score: Option<f64> = pair.get(1).and_then(|score| std::str::from_utf8(score).ok()?.parse().ok());
        has_negative_zero |= score.is_some_and(|score| score == 0.0 && score.is_sign_negative());
        text += &format!(" {} {:?}", words::quote(&pair[0]), score.map(|score| score + 0.0));
    }
    (text, has_negative_zero)
}

/// The fields of a hash with their values and, where the server knows of any, their ends.
fn with_ends(link: &mut Link, key: &[u8], content: &Value) -> io::Result<String> {
    let content = rules::sorted(content, 2);
    let leaves = content.leaves();
    let fields: Vec<&[u8]> = leaves.iter().step_by(2).map(Vec::as_slice).collect();
    let count = fields.len().to_string();
    let asked = [&[b"HPEXPIRETIME", key, b"FIELDS", count.as_bytes()], &fields[..]].concat();
    let ends = link.run(&args_of(&asked))?;
    let has_any = ends.children().unwrap_or_default().iter().any(|end| end.int().is_some_and(|end| end >= 0));
    Ok(if has_any { format!("{} ends {}", content.notation(), ends.notation()) } else { content.notation() })
}

/// A reply without the facts that are left out, each with its name.
fn without_inside(value: &Value) -> Value {
    let Value::Array(items) = value else { return value.clone() };
    let (mut kept, mut items) = (Vec::new(), items.iter());
    while let Some(item) = items.next() {
        match item {
            Value::Bulk(label) if LEFT_OUT.contains(&&label[..]) => drop(items.next()),
            item => kept.push(without_inside(item)),
        }
    }
    Value::Array(kept)
}

fn exchange(link: &mut Link, commands: &[Args]) -> io::Result<Vec<Value>> {
    let mut replies = Vec::new();
    for batch in commands.chunks(PIPELINE) {
        link.send(batch)?;
        for _ in batch {
            replies.push(link.reply()?);
        }
    }
    Ok(replies)
}
