//! The table, indexed: from a command's name to its row, its number and its keys.

use std::sync::OnceLock;

use resp::Args;

use super::{Begin, Categories, Command, Find, Flags, KeyAccess, KeySpec};
use crate::config::Config;
use crate::fault::{Fault, QUOTE_BYTES_MAX, quotable};

/// Index of a command (or subcommand) in the registry: what statistics are kept by.
pub type CommandId = usize;

/// How a command's keys are found without reading its specs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRule {
    /// No key.
    None,
    /// One key, at this argument.
    One(usize),
    /// From `first` every `step`th up to the last argument less `tail`, or just to `last`.
    Many {
        /// First key.
        first: usize,
        /// Last key; negative: from the end.
        last: isize,
        /// Distance between keys.
        step: usize,
    },
    /// Read the specs.
    Specs,
}

/// The keys of a command in three numbers, as clients that know no key specs want them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LegacyKeys {
    /// First key; 0: none that can be told so.
    pub first: i64,
    /// Last key; negative: from the end.
    pub last: i64,
    /// Distance between keys.
    pub step: i64,
    /// There are, or may be, other keys.
    pub movable: bool,
}

/// A command as the server uses it.
pub struct CommandInfo {
    /// Its number.
    pub id: CommandId,
    /// Its row.
    pub spec: &'static Command,
    /// `get`, or `config|get` for a subcommand.
    pub full_name: String,
    /// How to find its keys.
    pub keys: KeyRule,
    /// Its keys as `COMMAND` tells them.
    pub legacy_keys: LegacyKeys,
    /// Numbers of its subcommands, in table order.
    pub subcommands: Vec<CommandId>,
    /// The container's number, for a subcommand.
    pub container: Option<CommandId>,
    /// What clients call it: `rename-command` may have changed that. Empty: nobody may.
    called: String,
}

/// All commands.
pub struct Registry {
    commands: Vec<CommandInfo>,
    top_level: Vec<CommandId>,
    /// SENTINEL, which only some connections can run.
    sentinel: CommandId,
    /// Open addressing by [`name_slot`].
    names: Vec<Name>,
    /// Commands that were given a name too long for that.
    long_names: Vec<CommandId>,
    encoded: [OnceLock<Vec<u8>>; ENCODED_REPLIES],
}

/// Replies of COMMAND that tell of all commands, in all shapes and protocol versions.
pub const ENCODED_REPLIES: usize = 6;

/// A place in the table of names.
#[derive(Clone, Copy, Default)]
struct Name {
    folded: u128,
    /// The command's number plus one; 0 is an empty place.
    id: u16,
    /// The name has bytes that are no letters, of which folding is not exact.
    inexact: bool,
}

const NAME_BYTES_MAX: usize = 16;
const NAME_SLOTS: usize = 1024;

/// Every family's rows.
const FAMILIES: &[&[Command]] = &[
    super::acl::ROWS,
    super::bitmaps::ROWS,
    super::cluster::ROWS,
    super::command::ROWS,
    super::connection::ROWS,
    super::following::ROWS,
    super::geo::ROWS,
    super::hashes::ROWS,
    super::hyperloglog::ROWS,
    super::keys::ROWS,
    super::lists::ROWS,
    super::pubsub::ROWS,
    super::replication::ROWS,
    super::scripting::ROWS,
    super::server::ROWS,
    super::sets::ROWS,
    super::streams::ROWS,
    super::strings::ROWS,
    super::transactions::ROWS,
    super::zsets::ROWS,
];

/// The registry of all commands.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut registry = Registry::build(FAMILIES);
        registry.index_names();
        registry
    })
}

/// The registry of all commands under the names that `rename-command` gives them. The error says which line
/// of the configuration cannot be followed, and why.
pub fn registry_for(config: &Config) -> Result<&'static Registry, String> {
    let renames = config.repeated("rename-command");
    if renames.is_empty() {
        return Ok(registry());
    }
    let mut registry = Registry::build(FAMILIES);
    for line in renames {
        let [from, to] = line else { unreachable!("the configuration takes two arguments") };
        let (from, to) = (String::from_utf8_lossy(from), String::from_utf8_lossy(to));
        registry.rename(&from, &to).map_err(|why| format!("rename-command {from} '{to}': {why}"))?;
    }
    registry.index_names();
    // Lives as long as the process, as the registry without renames does.
    Ok(Box::leak(Box::new(registry)))
}

/// A name as one number: lower-cased by setting bit 5 of each byte. For a letter, only its other case
/// gives the same; for other bytes a hit has to be compared again.
#[inline]
fn fold(name: &[u8]) -> u128 {
    let mut folded = 0;
    for byte in name.iter().rev() {
        folded = folded << 8 | u128::from(*byte | 0x20);
    }
    folded
}

#[inline]
fn name_slot(folded: u128) -> usize {
    let mixed = (folded as u64 ^ ((folded >> 64) as u64).rotate_left(25)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 54) as usize % NAME_SLOTS
}

impl Registry {
    fn build(families: &[&'static [Command]]) -> Registry {
        let mut registry = Registry {
            commands: Vec::new(),
            top_level: Vec::new(),
            sentinel: 0,
            names: vec![Name::default(); NAME_SLOTS],
            long_names: Vec::new(),
            encoded: [const { OnceLock::new() }; ENCODED_REPLIES],
        };
        for spec in families.iter().copied().flatten() {
            let id = registry.add(spec, None);
            registry.top_level.push(id);
            registry.commands[id].subcommands =
                spec.subcommands.iter().map(|sub| registry.add(sub, Some(id))).collect();
        }
        let spec = &super::sentinel::ROW;
        registry.sentinel = registry.add(spec, None);
        registry.commands[registry.sentinel].subcommands =
            spec.subcommands.iter().map(|sub| registry.add(sub, Some(registry.sentinel))).collect();
        registry
    }

    /// Gives a command another name, or none if that is empty.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), &'static str> {
        let is_called = |name: &str, id: &CommandId| {
            !name.is_empty() && self.commands[*id].called.eq_ignore_ascii_case(name)
        };
        let from = self.top_level.iter().copied().find(|id| is_called(from, id));
        let from = from.ok_or("No such command in rename-command")?;
        if self.top_level.iter().any(|id| is_called(to, id)) {
            return Err("Target command name already exists");
        }
        self.commands[from].called = to.to_owned();
        Ok(())
    }

    /// Fills the table of names; commands without one are left out of everything.
    fn index_names(&mut self) {
        self.top_level.retain(|id| !self.commands[*id].called.is_empty());
        for id in &self.top_level {
            let called = &self.commands[*id].called;
            if called.len() > NAME_BYTES_MAX {
                self.long_names.push(*id);
                continue;
            }
            let folded = fold(called.as_bytes());
            let mut slot = name_slot(folded);
            while self.names[slot].id != 0 {
                slot = (slot + 1) % NAME_SLOTS;
            }
            let inexact = !called.bytes().all(|byte| byte.is_ascii_alphabetic());
            self.names[slot] = Name { folded, id: *id as u16 + 1, inexact };
        }
    }

    fn add(&mut self, spec: &'static Command, container: Option<CommandId>) -> CommandId {
        let id = self.commands.len();
        let full_name = match container {
            Some(container) => format!("{}|{}", self.commands[container].spec.name, spec.name),
            None => spec.name.to_owned(),
        };
        let (keys, legacy_keys) = (key_rule(spec), legacy_keys(spec.keys));
        let subcommands = Vec::new();
        let called = if container.is_none() { spec.name.to_owned() } else { String::new() };
        let info = CommandInfo { id, spec, full_name, keys, legacy_keys, subcommands, container, called };
        self.commands.push(info);
        id
    }

    /// Commands and subcommands together.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Never: there is always PING.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The command of a number.
    #[inline]
    pub fn get(&self, id: CommandId) -> &CommandInfo {
        &self.commands[id]
    }

    /// Top-level commands, in table order.
    pub fn top_level(&self) -> impl Iterator<Item = &CommandInfo> {
        self.top_level.iter().map(|id| &self.commands[*id])
    }

    /// A reply that depends on nothing but the table: made when first asked for, then copied.
    pub fn encoded_once(&self, index: usize, encode: impl FnOnce() -> Vec<u8>) -> &[u8] {
        self.encoded[index].get_or_init(encode)
    }

    /// Every command and subcommand that clients may run, each after its container.
    pub fn callable(&self) -> impl Iterator<Item = &CommandInfo> {
        let with_subs = |info: &'_ CommandInfo| std::iter::once(info.id).chain(info.subcommands.clone());
        self.top_level().flat_map(with_subs).map(|id| &self.commands[id])
    }

    /// Every command and subcommand.
    pub fn all(&self) -> impl Iterator<Item = &CommandInfo> {
        self.commands.iter()
    }

    /// Every command and subcommand but SENTINEL, which stands behind all others.
    pub fn listed(&self) -> impl Iterator<Item = &CommandInfo> {
        self.commands[..self.sentinel].iter()
    }

    /// The command of this name, in any case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&CommandInfo> {
        if name.len() > NAME_BYTES_MAX {
            return self.find_long(name);
        }
        let folded = fold(name);
        let mut slot = name_slot(folded);
        loop {
            let held = self.names[slot];
            if held.id == 0 {
                return None;
            }
            if held.folded == folded {
                let info = &self.commands[held.id as usize - 1];
                let same = !held.inexact || info.called.as_bytes().eq_ignore_ascii_case(name);
                if same {
                    return Some(info);
                }
            }
            slot = (slot + 1) % NAME_SLOTS;
        }
    }

    #[cold]
    fn find_long(&self, name: &[u8]) -> Option<&CommandInfo> {
        let mut infos = self.long_names.iter().map(|id| &self.commands[*id]);
        infos.find(|info| info.called.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The subcommand of a container, in any case.
    pub fn find_sub(&self, container: &CommandInfo, name: &[u8]) -> Option<&CommandInfo> {
        let mut subs = container.subcommands.iter().map(|id| &self.commands[*id]);
        subs.find(|sub| sub.spec.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The command that `name` or `container|sub` names.
    pub fn find_full(&self, full_name: &[u8]) -> Option<&CommandInfo> {
        match full_name.iter().position(|byte| *byte == b'|') {
            None => self.find(full_name),
            Some(bar) => self.find_sub(self.find(&full_name[..bar])?, &full_name[bar + 1..]),
        }
    }

    /// The row that runs these arguments: the command, or its subcommand. Errors are Redis's texts.
    #[inline]
    pub fn resolve(&self, args: Args<'_>) -> Result<&CommandInfo, Fault> {
        let Some(info) = self.find(&args[0]) else { return Err(unknown_command(args)) };
        let info = if info.subcommands.is_empty() { info } else { self.resolve_sub(info, args)? };
        if !info.arity_fits(args.len()) {
            return Err(Fault::wrong_arity(&info.full_name));
        }
        Ok(info)
    }

    /// As [`Registry::resolve`], of SENTINEL.
    #[cold]
    pub(crate) fn resolve_sentinel(&self, args: Args<'_>) -> Result<&CommandInfo, Fault> {
        let info = self.resolve_sub(&self.commands[self.sentinel], args)?;
        if info.arity_fits(args.len()) { Ok(info) } else { Err(Fault::wrong_arity(&info.full_name)) }
    }

    #[cold]
    fn resolve_sub<'r>(&'r self, info: &'r CommandInfo, args: Args<'_>) -> Result<&'r CommandInfo, Fault> {
        let Some(word) = args.get(1) else {
            return if info.runs_alone() { Ok(info) } else { Err(Fault::wrong_arity(info.spec.name)) };
        };
        self.find_sub(info, word).ok_or_else(|| Fault::unknown_subcommand(&info.called.to_uppercase(), word))
    }
}

/// `ERR unknown command 'x', with args beginning with: 'a' 'b' `: bounded as Redis bounds it.
fn unknown_command(args: Args<'_>) -> Fault {
    let mut shown = Vec::new();
    for arg in args.iter().skip(1) {
        if shown.len() >= QUOTE_BYTES_MAX {
            break;
        }
        let room = QUOTE_BYTES_MAX - shown.len();
        shown.extend_from_slice(&[b"'", quotable(arg, room), b"' "].concat());
    }
    let name = quotable(&args[0], QUOTE_BYTES_MAX);
    let text = [b"ERR unknown command '", name, b"', with args beginning with: ", &shown].concat();
    Fault::Quoting(text)
}

fn key_rule(spec: &Command) -> KeyRule {
    let index_range = |key: &KeySpec| match (key.begin, key.find) {
        (Begin::Index(first), Find::Range { last, step, limit: 0 }) => {
            Some((first as usize, last as isize, step as usize))
        }
        _ => None,
    };
    match spec.keys {
        [] => KeyRule::None,
        [key] if key.access.contains(KeyAccess::NOT_KEY) => KeyRule::None,
        [key] => match index_range(key) {
            Some((first, 0, _)) => KeyRule::One(first),
            Some((first, last, step)) => {
                KeyRule::Many { first, last: if last < 0 { last } else { first as isize + last }, step }
            }
            None => KeyRule::Specs,
        },
        _ => KeyRule::Specs,
    }
}

/// Three numbers from key specs, as Redis 7 does: specs in a row make one range, any other makes the keys
/// movable.
fn legacy_keys(specs: &[KeySpec]) -> LegacyKeys {
    let mut keys = LegacyKeys::default();
    for spec in specs {
        keys.movable |= spec.access.contains(KeyAccess::INCOMPLETE);
        let (Begin::Index(begin), Find::Range { last, step, .. }) = (spec.begin, spec.find) else {
            keys.movable = true;
            continue;
        };
        let (begin, last) = (i64::from(begin), i64::from(last));
        let last = if last < 0 { last } else { begin + last };
        if keys.first == 0 {
            keys = LegacyKeys { first: begin, last, step: step.into(), ..keys };
        } else if step == 1 && keys.step == 1 && keys.last == begin - 1 {
            keys.last = last;
        } else {
            keys.movable = true;
        }
    }
    keys
}

impl CommandInfo {
    /// True if it takes this many arguments, its name included.
    #[inline]
    pub fn arity_fits(&self, len: usize) -> bool {
        let (arity, len) = (i64::from(self.spec.arity), len as i64);
        if arity > 0 { len == arity } else { len >= -arity }
    }

    /// True for a command, and for the few containers that are one, such as COMMAND.
    pub fn runs_alone(&self) -> bool {
        self.subcommands.is_empty() || self.spec.arity == -1
    }

    /// The key of a command that has one, at a place that does not depend on its arguments. Their number is right.
    #[inline]
    pub fn only_key<'a>(&self, args: Args<'a>) -> Option<&'a [u8]> {
        match self.keys {
            KeyRule::One(at) => Some(args.at(at)),
            _ => None,
        }
    }

    /// True if it may have keys.
    pub fn has_keys(&self) -> bool {
        let is_key = |spec: &KeySpec| !spec.access.contains(KeyAccess::NOT_KEY);
        self.spec.find_keys.is_some() || self.spec.keys.iter().any(is_key)
    }

    /// True if the command is for anyone to run before AUTH.
    #[inline]
    pub fn needs_auth(&self) -> bool {
        !self.spec.flags.contains(Flags::NO_AUTH)
    }

    /// True if it runs holding every stripe, because of what it is or of these arguments.
    #[inline]
    pub fn needs_all_stripes(&self, args: Args<'_>) -> bool {
        self.spec.flags.contains(Flags::ALL_STRIPES)
            || self.spec.reaches_beyond.is_some_and(|reaches_beyond| reaches_beyond(args))
    }

    /// True if it may touch more than the keys that it names, so that whoever runs it beside others has to hold every
    /// stripe.
    #[inline]
    pub fn may_touch_any_key(&self, args: Args<'_>) -> bool {
        self.needs_all_stripes(args)
            || self.spec.flags.contains(Flags::WHOLE_KEYSPACE)
            || self.spec.categories.contains(Categories::SCRIPTING)
    }

    /// Calls `each` with every argument that is a key, and what is done to it. An error if a spec that
    /// counts its keys is not satisfied by the arguments.
    pub fn each_key(
        &self,
        args: Args<'_>,
        each: &mut dyn FnMut(usize, KeyAccess),
    ) -> Result<(), InvalidKeys> {
        if let Some(find_keys) = self.spec.find_keys {
            return find_keys(args, each);
        }
        let keyless = self.spec.flags.contains(Flags::NO_MANDATORY_KEYS);
        // Redis finds keys in another way where their number is oddly written: those that it counts come first.
        let is_odd = |spec: &&KeySpec| counts_oddly(spec, args);
        let (odd, plain) =
            (self.spec.keys.iter().filter(is_odd), self.spec.keys.iter().filter(|spec| !is_odd(spec)));
        odd.chain(plain).try_for_each(|spec| spec_keys(spec, args, keyless, each))
    }
}

/// The arguments do not have the keys that they announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidKeys;

/// How many keys an argument says there are, and whether it says so as an integer is written. What starts with one
/// counts too: Redis finds keys by it, though no command takes it.
fn key_count(text: &[u8]) -> (i64, bool) {
    if let Some(count) = base::num::parse_i64(text) {
        return (count, true);
    }
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    (
        digits.fold(0_i64, |count, digit| count.saturating_mul(10).saturating_add(i64::from(digit - b'0'))),
        false,
    )
}

/// True if the spec counts its keys by an argument that is not written as an integer is.
fn counts_oddly(spec: &KeySpec, args: Args<'_>) -> bool {
    let (Begin::Index(begin), Find::KeyNum { num_at, .. }) = (spec.begin, spec.find) else { return false };
    args.get(usize::from(begin) + usize::from(num_at)).is_some_and(|text| !key_count(text).1)
}

fn spec_keys(
    spec: &KeySpec,
    args: Args<'_>,
    keyless: bool,
    each: &mut dyn FnMut(usize, KeyAccess),
) -> Result<(), InvalidKeys> {
    let begin = match spec.begin {
        Begin::Index(index) => usize::from(index),
        Begin::Keyword(word, from) => match keyword(args, word, from) {
            Some(at) => at + 1,
            None => return Ok(()),
        },
        Begin::Unknown => return Ok(()),
    };
    if begin >= args.len() {
        return Ok(());
    }
    let (first, last, step) = match spec.find {
        Find::Range { last, step, limit } => {
            let end = if last >= 0 {
                begin + last as usize
            } else if limit <= 1 {
                (args.len() as i64 + i64::from(last)).max(0) as usize
            } else {
                begin + (args.len() - begin) / usize::from(limit) - 1
            };
            (begin, end, step)
        }
        Find::KeyNum { num_at, first, step } => {
            let count = args.get(begin + usize::from(num_at)).map_or(-1, |text| key_count(text).0);
            let count =
                Some(count).filter(|count| (0..i64::from(i32::MAX)).contains(count)).ok_or(InvalidKeys)?;
            if count == 0 {
                // EVAL may have none; what needs one reports it, and knows no key until then.
                return if keyless { Ok(()) } else { Err(InvalidKeys) };
            }
            let first = begin + usize::from(first);
            (first, first + (count as usize - 1) * usize::from(step), step)
        }
        Find::Unknown => return Ok(()),
    };
    if last >= args.len() {
        return Err(InvalidKeys);
    }
    (first..=last).step_by(usize::from(step.max(1))).for_each(|index| each(index, spec.access));
    Ok(())
}

fn keyword(args: Args<'_>, word: &str, from: i8) -> Option<usize> {
    let is_word = |index: &usize| args[*index].eq_ignore_ascii_case(word.as_bytes());
    if from >= 0 {
        (from as usize..args.len()).find(is_word)
    } else {
        (1..=args.len().saturating_sub(usize::from(from.unsigned_abs()))).rev().find(is_word)
    }
}
