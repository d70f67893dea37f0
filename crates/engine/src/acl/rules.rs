//! The modifiers of ACL SETUSER, of `user` lines and of the ACL file: text in, permissions out.

use sha2::{Digest, Sha256};

use super::selector::{KeyPattern, Selector};
use crate::config::split_words;
use crate::fault::quotable;
use crate::table::{CATEGORY_WORDS, Categories, CommandInfo, Registry};

/// The SHA-256 of a password: passwords themselves are not kept.
pub(super) type PasswordHash = [u8; 32];

/// What modifiers are read against.
#[derive(Clone, Copy)]
pub(super) struct Grammar {
    pub(super) registry: &'static Registry,
    /// `acl-pubsub-default allchannels`.
    pub(super) all_channels: bool,
}

/// Everything that may be said of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub(super) is_on: bool,
    /// Any password will do.
    pub(super) needs_no_password: bool,
    /// `skip-sanitize-payload`: RESTORE trusts this user.
    pub(super) skips_sanitizing: bool,
    pub(super) passwords: Vec<PasswordHash>,
    pub(super) root: Selector,
    pub(super) selectors: Vec<Selector>,
}

/// Why a modifier is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invalid {
    Syntax,
    UnknownCommand,
    KeysAfterAll,
    ChannelsAfterAll,
    NoSuchPassword,
    NotAHash,
    FirstArgOfSubcommand,
    DuplicateUser,
}

impl Invalid {
    pub(super) fn text(self) -> &'static str {
        match self {
            Invalid::Syntax => "Syntax error",
            Invalid::UnknownCommand => "Unknown command or category name in ACL",
            Invalid::KeysAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Invalid::ChannelsAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Invalid::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Invalid::NotAHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Invalid::FirstArgOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Invalid::DuplicateUser => "Duplicate user found. A user can only be defined once in config files",
        }
    }
}

/// The first modifier of a list that is refused, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// This modifier.
    Modifier(Vec<u8>, Invalid),
    /// The selector that begins with this word has no end.
    Unmatched(Vec<u8>),
}

impl Refused {
    /// The error of ACL SETUSER, without its `ERR`.
    pub(super) fn text(&self) -> Vec<u8> {
        let whole = |word: &[u8]| quotable(word, usize::MAX).to_vec();
        match self {
            Refused::Modifier(modifier, why) => {
                [b"Error in ACL SETUSER modifier '", &whole(modifier)[..], b"': ", why.text().as_bytes()]
                    .concat()
            }
            Refused::Unmatched(word) => {
                [b"Unmatched parenthesis in acl selector starting at '", &whole(word)[..], b"'."].concat()
            }
        }
    }
}

/// The hash of a password.
pub(super) fn hash_of(password: &[u8]) -> PasswordHash {
    Sha256::digest(password).into()
}

/// Equality in a time that depends on nothing.
fn same_hash(a: &PasswordHash, b: &PasswordHash) -> bool {
    a.iter().zip(b).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

/// As lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_hash(text: &[u8]) -> Result<PasswordHash, Invalid> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut hash = [0; 32];
    if text.len() != 2 * hash.len() {
        return Err(Invalid::NotAHash);
    }
    for (byte, pair) in hash.iter_mut().zip(text.chunks(2)) {
        let (high, low) = (digit(pair[0]), digit(pair[1]));
        *byte = high.zip(low).map(|(high, low)| high << 4 | low).ok_or(Invalid::NotAHash)?;
    }
    Ok(hash)
}

/// Names and patterns must not break the lines they are written in.
pub(crate) fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b))
}

fn is(modifier: &[u8], word: &str) -> bool {
    modifier.eq_ignore_ascii_case(word.as_bytes())
}

/// Joins the words of selectors: `(+get`, `~a)` is one modifier. The error is the word whose selector has no end.
pub(super) fn join_selectors<W: AsRef<[u8]>>(words: &[W]) -> Result<Vec<Vec<u8>>, Refused> {
    let mut joined: Vec<Vec<u8>> = Vec::with_capacity(words.len());
    let mut open: Option<&[u8]> = None;
    for word in words.iter().map(AsRef::as_ref) {
        let begins = word.starts_with(b"(") && !word.ends_with(b")");
        if open.is_none() {
            joined.push(word.to_vec());
        } else if begins {
            // As in Redis, a selector that begins within another takes its place.
            joined.pop();
            joined.push(word.to_vec());
        } else {
            let selector = joined.last_mut().expect("open-selector: its first word was taken");
            selector.push(b' ');
            selector.extend_from_slice(word);
        }
        if word.ends_with(b")") {
            open = None;
        } else if begins {
            open = Some(word);
        }
    }
    match open {
        Some(word) => Err(Refused::Unmatched(word.to_vec())),
        None => Ok(joined),
    }
}

impl Rules {
    /// A new user: off, without a password, allowed nothing.
    pub(super) fn new(grammar: Grammar) -> Rules {
        Rules {
            is_on: false,
            needs_no_password: false,
            skips_sanitizing: false,
            passwords: Vec::new(),
            root: Selector::new(grammar.all_channels),
            selectors: Vec::new(),
        }
    }

    /// The default user as long as nobody says otherwise: allowed everything, without a password.
    pub(super) fn open() -> Rules {
        let mut root = Selector::new(true);
        root.set_all_commands(true);
        root.all_keys = true;
        Rules {
            is_on: true,
            needs_no_password: true,
            skips_sanitizing: false,
            passwords: Vec::new(),
            root,
            selectors: Vec::new(),
        }
    }

    /// Applies modifiers in order, up to the first that is refused.
    pub(super) fn apply_all<W: AsRef<[u8]>>(&mut self, words: &[W], grammar: Grammar) -> Result<(), Refused> {
        for modifier in join_selectors(words)? {
            self.apply(&modifier, grammar).map_err(|why| Refused::Modifier(modifier, why))?;
        }
        Ok(())
    }

    /// Applies one modifier.
    pub(super) fn apply(&mut self, modifier: &[u8], grammar: Grammar) -> Result<(), Invalid> {
        match modifier {
            [] => {}
            word if is(word, "on") => self.is_on = true,
            word if is(word, "off") => self.is_on = false,
            word if is(word, "skip-sanitize-payload") => self.skips_sanitizing = true,
            word if is(word, "sanitize-payload") => self.skips_sanitizing = false,
            word if is(word, "nopass") => {
                self.needs_no_password = true;
                self.passwords.clear();
            }
            word if is(word, "resetpass") => {
                self.needs_no_password = false;
                self.passwords.clear();
            }
            word if is(word, "clearselectors") => self.selectors.clear(),
            word if is(word, "reset") => *self = Rules::new(grammar),
            [b'>', password @ ..] => self.add_password(hash_of(password)),
            [b'#', hash @ ..] => self.add_password(parse_hash(hash)?),
            [b'<', password @ ..] => self.remove_password(hash_of(password))?,
            [b'!', hash @ ..] => self.remove_password(parse_hash(hash)?)?,
            [b'(', inner @ .., b')'] => {
                let mut selector = Selector::new(grammar.all_channels);
                for word in split_words(inner).unwrap_or_default() {
                    apply_to(&mut selector, &word, grammar.registry)?;
                }
                self.selectors.push(selector);
            }
            _ => apply_to(&mut self.root, modifier, grammar.registry)?,
        }
        Ok(())
    }

    fn add_password(&mut self, hash: PasswordHash) {
        self.needs_no_password = false;
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
    }

    fn remove_password(&mut self, hash: PasswordHash) -> Result<(), Invalid> {
        let at = self.passwords.iter().position(|known| *known == hash).ok_or(Invalid::NoSuchPassword)?;
        self.passwords.remove(at);
        Ok(())
    }

    /// Whether a connection may become this user with this password.
    pub(super) fn admits(&self, password: &[u8]) -> bool {
        let given = hash_of(password);
        // Every password is compared, so that the time does not tell which one it was.
        let matched = self.passwords.iter().fold(false, |matched, hash| matched | same_hash(hash, &given));
        self.is_on && (self.needs_no_password || matched)
    }

    /// All selectors, the root first.
    pub(super) fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// The words of ACL GETUSER's `flags`.
    pub(super) fn flag_words(&self) -> Vec<&'static str> {
        let mut words = vec![if self.is_on { "on" } else { "off" }];
        words.extend(self.needs_no_password.then_some("nopass"));
        words.push(if self.skips_sanitizing { "skip-sanitize-payload" } else { "sanitize-payload" });
        words
    }

    /// All rules, such that [`Rules::apply_all`] on a new user gives them back.
    pub(super) fn describe(&self) -> Vec<u8> {
        let mut parts: Vec<Vec<u8>> = self.flag_words().into_iter().map(Vec::from).collect();
        parts.extend(self.passwords.iter().map(|hash| format!("#{}", hex(hash)).into_bytes()));
        parts.push(self.root.describe());
        parts.extend(self.selectors.iter().map(|selector| [b"(", &selector.describe()[..], b")"].concat()));
        parts.join(&b' ')
    }
}

/// Applies a modifier about commands, keys or channels.
fn apply_to(selector: &mut Selector, modifier: &[u8], registry: &Registry) -> Result<(), Invalid> {
    match modifier {
        word if is(word, "allkeys") || word == b"~*" => set_keys(selector, true),
        word if is(word, "resetkeys") => set_keys(selector, false),
        word if is(word, "allchannels") || word == b"&*" => set_channels(selector, true),
        word if is(word, "resetchannels") => set_channels(selector, false),
        word if is(word, "allcommands") || is(word, "+@all") => selector.set_all_commands(true),
        word if is(word, "nocommands") || is(word, "-@all") => selector.set_all_commands(false),
        [b'~' | b'%', ..] => add_key_pattern(selector, modifier)?,
        [b'&', glob @ ..] => add_channel(selector, glob)?,
        [sign @ (b'+' | b'-'), b'@', category @ ..] => {
            set_category(selector, category, *sign == b'+', registry)?;
        }
        [b'+', name @ ..] => allow_command(selector, name, registry)?,
        [b'-', name @ ..] => {
            let info = command_of(registry, name).ok_or(Invalid::UnknownCommand)?;
            selector.set_command(info, false);
            selector.keep_rule(info.full_name.as_bytes(), false);
        }
        _ => return Err(Invalid::Syntax),
    }
    Ok(())
}

fn set_keys(selector: &mut Selector, all: bool) {
    selector.all_keys = all;
    selector.keys.clear();
}

fn set_channels(selector: &mut Selector, all: bool) {
    selector.all_channels = all;
    selector.channels.clear();
}

/// `~glob`, `%R~glob`, `%W~glob` or `%RW~glob`.
fn add_key_pattern(selector: &mut Selector, modifier: &[u8]) -> Result<(), Invalid> {
    if selector.all_keys {
        return Err(Invalid::KeysAfterAll);
    }
    let (mut may_read, mut may_write) = (false, false);
    let mut glob = &modifier[1..];
    if modifier[0] == b'~' {
        (may_read, may_write) = (true, true);
    } else {
        while let [letter, rest @ ..] = glob {
            glob = rest;
            match letter.to_ascii_uppercase() {
                b'R' if !may_read => may_read = true,
                b'W' if !may_write => may_write = true,
                b'~' => break,
                _ => return Err(Invalid::Syntax),
            }
        }
    }
    if !(may_read || may_write) || has_spaces(glob) {
        return Err(Invalid::Syntax);
    }
    match selector.keys.iter_mut().find(|known| known.glob == glob) {
        Some(known) => {
            known.may_read |= may_read;
            known.may_write |= may_write;
        }
        None => selector.keys.push(KeyPattern { glob: glob.to_vec(), may_read, may_write }),
    }
    Ok(())
}

fn add_channel(selector: &mut Selector, glob: &[u8]) -> Result<(), Invalid> {
    if selector.all_channels {
        return Err(Invalid::ChannelsAfterAll);
    }
    if has_spaces(glob) {
        return Err(Invalid::Syntax);
    }
    if !selector.channels.iter().any(|known| known == glob) {
        selector.channels.push(glob.to_vec());
    }
    Ok(())
}

/// The category of this name, in any case.
pub(crate) fn category_of(name: &[u8]) -> Option<Categories> {
    CATEGORY_WORDS.iter().find(|(_, word)| is(name, word)).map(|(category, _)| *category)
}

fn set_category(
    selector: &mut Selector,
    name: &[u8],
    allow: bool,
    registry: &Registry,
) -> Result<(), Invalid> {
    let category = category_of(name).ok_or(Invalid::UnknownCommand)?;
    for info in registry.all().filter(|info| info.spec.all_categories().intersects(category)) {
        selector.set_command(info, allow);
    }
    selector.keep_rule(&[b"@", name].concat(), allow);
    Ok(())
}

/// The command that a rule names: by its own name, whatever `rename-command` calls it.
fn command_of<'r>(registry: &'r Registry, name: &[u8]) -> Option<&'r CommandInfo> {
    registry.all().find(|info| info.full_name.as_bytes().eq_ignore_ascii_case(name))
}

/// `name`, `container|sub`, or `name|first-argument`.
fn allow_command(selector: &mut Selector, name: &[u8], registry: &Registry) -> Result<(), Invalid> {
    let Some(bar) = name.iter().rposition(|byte| *byte == b'|') else {
        let info = command_of(registry, name).ok_or(Invalid::UnknownCommand)?;
        selector.set_command(info, true);
        selector.keep_rule(info.full_name.as_bytes(), true);
        return Ok(());
    };
    let (before, after) = (&name[..bar], &name[bar + 1..]);
    let info = command_of(registry, before).ok_or(Invalid::UnknownCommand)?;
    if info.container.is_some() {
        return Err(Invalid::FirstArgOfSubcommand);
    }
    if after.is_empty() || has_spaces(after) {
        return Err(Invalid::Syntax);
    }
    if info.subcommands.is_empty() {
        selector.allow_first_arg(info.id, after);
    } else {
        selector.set_command(command_of(registry, name).ok_or(Invalid::UnknownCommand)?, true);
    }
    selector.keep_rule(name, true);
    Ok(())
}
