//! One set of permissions: commands, keys and channels. A user has a root selector and may have others; each
//! command must be allowed by one of them alone.

use base::glob;
use resp::Args;

use super::{Denied, Reason};
use crate::table::{CommandId, CommandInfo, Flags, KeyAccess};

/// What a user may do to the keys that match a glob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPattern {
    pub(super) glob: Vec<u8>,
    pub(super) may_read: bool,
    pub(super) may_write: bool,
}

impl KeyPattern {
    fn allows(&self, access: KeyAccess) -> bool {
        let (reads, writes) = needs(access);
        (self.may_read || !reads) && (self.may_write || !writes)
    }

    /// As a modifier: `~glob`, `%R~glob` or `%W~glob`.
    fn describe(&self) -> Vec<u8> {
        let mark: &[u8] = match (self.may_read, self.may_write) {
            (true, true) => b"~",
            (true, false) => b"%R~",
            _ => b"%W~",
        };
        [mark, &self.glob].concat()
    }
}

/// Whether this access to a key's data reads it, and whether it writes it. EXISTS, say, does neither.
fn needs(access: KeyAccess) -> (bool, bool) {
    let changes = KeyAccess::INSERT | KeyAccess::DELETE | KeyAccess::UPDATE;
    (access.contains(KeyAccess::ACCESS), access.intersects(changes))
}

/// One set of permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selector {
    /// One bit a command, by its number.
    commands: Vec<u64>,
    /// Every command, without a look at its bit.
    pub(super) all_commands: bool,
    /// The rules began with `+@all`: what they do not name is allowed.
    allows_unnamed: bool,
    /// The modifiers that gave the bits, in order: what ACL LIST prints after `+@all` or `-@all`.
    command_rules: Vec<Vec<u8>>,
    /// First arguments with which a command is allowed that otherwise is not, as in `+select|0`.
    first_args: Vec<(CommandId, Vec<u8>)>,
    pub(super) all_keys: bool,
    pub(super) keys: Vec<KeyPattern>,
    pub(super) all_channels: bool,
    pub(super) channels: Vec<Vec<u8>>,
}

impl Selector {
    /// Allows nothing, but all channels if `acl-pubsub-default` says so.
    pub(super) fn new(all_channels: bool) -> Selector {
        Selector { all_channels, ..Selector::default() }
    }

    /// `+@all` or `-@all`: forgets every rule about commands.
    pub(super) fn set_all_commands(&mut self, allow: bool) {
        self.commands.clear();
        self.command_rules.clear();
        self.first_args.clear();
        self.all_commands = allow;
        self.allows_unnamed = allow;
    }

    /// Allows a command or takes it away, with its subcommands. The rule is not kept by this.
    pub(super) fn set_command(&mut self, info: &CommandInfo, allow: bool) {
        self.first_args.retain(|(id, _)| *id != info.id);
        self.all_commands &= allow;
        for id in std::iter::once(info.id).chain(info.subcommands.iter().copied()) {
            self.set_bit(id, allow);
        }
    }

    fn set_bit(&mut self, id: CommandId, allow: bool) {
        // Commands beyond the last word are as `+@all` or `-@all` said.
        while self.commands.len() <= id / 64 {
            self.commands.push(if self.allows_unnamed { u64::MAX } else { 0 });
        }
        let (word, bit) = (&mut self.commands[id / 64], 1 << (id % 64));
        if allow { *word |= bit } else { *word &= !bit }
    }

    /// Allows a command with this first argument.
    pub(super) fn allow_first_arg(&mut self, id: CommandId, first_arg: &[u8]) {
        let is_known =
            |known: &(CommandId, Vec<u8>)| known.0 == id && known.1.eq_ignore_ascii_case(first_arg);
        if !self.first_args.iter().any(is_known) {
            self.first_args.push((id, first_arg.to_vec()));
        }
    }

    /// Keeps a rule, `name` being a command, `container|sub` or `@category`. It takes the place of what was said of the
    /// same name before, and of its subcommands.
    pub(super) fn keep_rule(&mut self, name: &[u8], allow: bool) {
        let name = name.to_ascii_lowercase();
        self.command_rules.retain(|rule| {
            let rest = rule[1..].strip_prefix(&name[..]);
            !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"|"))
        });
        self.command_rules.push([if allow { b"+" } else { b"-" }, &name[..]].concat());
    }

    /// Whether nothing is refused.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels
    }

    /// Whether the command may run with these arguments.
    pub(super) fn check(&self, info: &CommandInfo, args: Args<'_>) -> Result<(), Denied> {
        if !self.may_run(info, args) {
            return Err(Denied { reason: Reason::Command, at: 0 });
        }
        if !self.all_keys && info.has_keys() {
            self.check_keys(info, args)?;
        }
        if !self.all_channels
            && let Some(rule) = info.spec.channels
        {
            for at in rule.first..args.len().min(rule.end) {
                if !self.may_use_channel(&args[at], rule.are_patterns) {
                    return Err(Denied { reason: Reason::Channel, at });
                }
            }
        }
        Ok(())
    }

    fn may_run(&self, info: &CommandInfo, args: Args<'_>) -> bool {
        if self.all_commands || info.spec.flags.contains(Flags::NO_AUTH) {
            return true;
        }
        let word = self.commands.get(info.id / 64);
        if word.map_or(self.allows_unnamed, |word| word >> (info.id % 64) & 1 == 1) {
            return true;
        }
        let allowed_with = |first: &[u8]| {
            self.first_args.iter().any(|(id, arg)| *id == info.id && arg.eq_ignore_ascii_case(first))
        };
        !self.first_args.is_empty() && args.get(1).is_some_and(allowed_with)
    }

    fn check_keys(&self, info: &CommandInfo, args: Args<'_>) -> Result<(), Denied> {
        let mut denied = None;
        let found = info.each_key(args, &mut |at, access| {
            let is_key = !access.contains(KeyAccess::NOT_KEY);
            if is_key && denied.is_none() && !self.may_use_key(&args[at], access) {
                denied = Some(Denied { reason: Reason::Key, at });
            }
        });
        // Arguments that do not have the keys they announce are the command's own error to report.
        match (found, denied) {
            (Ok(()), Some(denied)) => Err(denied),
            _ => Ok(()),
        }
    }

    /// Whether this may be done to a key.
    pub(super) fn may_use_key(&self, key: &[u8], access: KeyAccess) -> bool {
        let allows =
            |pattern: &KeyPattern| pattern.allows(access) && glob::matches(&pattern.glob, key, false);
        self.all_keys || self.keys.iter().any(allows)
    }

    /// Whether this may be done to any key there is.
    pub(super) fn may_use_every_key(&self, access: KeyAccess) -> bool {
        self.all_keys || self.keys.iter().any(|pattern| pattern.glob == b"*" && pattern.allows(access))
    }

    /// Whether a channel may be published or subscribed to. A pattern must be one of the selector's, letter by letter.
    pub(super) fn may_use_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let allows = |glob: &Vec<u8>| {
            if is_pattern { glob == channel } else { glob::matches(glob, channel, false) }
        };
        self.all_channels || self.channels.iter().any(allows)
    }

    /// The rules about commands, as ACL GETUSER prints them.
    pub(super) fn describe_commands(&self) -> Vec<u8> {
        let base: &[u8] = if self.allows_unnamed { b"+@all" } else { b"-@all" };
        let rules = self.command_rules.iter().map(Vec::as_slice);
        std::iter::once(base).chain(rules).collect::<Vec<_>>().join(&b' ')
    }

    /// The rules about keys, likewise.
    pub(super) fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        self.keys.iter().map(KeyPattern::describe).collect::<Vec<_>>().join(&b' ')
    }

    /// The rules about channels, likewise.
    pub(super) fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let channels = self.channels.iter().map(|glob| [b"&", &glob[..]].concat());
        channels.collect::<Vec<_>>().join(&b' ')
    }

    /// All rules, as ACL LIST prints them and [`super::rules`] reads them.
    pub(super) fn describe(&self) -> Vec<u8> {
        let mut channels = self.describe_channels();
        if !self.all_channels {
            let blank: &[u8] = if channels.is_empty() { b"" } else { b" " };
            channels = [b"resetchannels", blank, &channels].concat();
        }
        let parts = [self.describe_keys(), channels, self.describe_commands()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&b' ')
    }
}
