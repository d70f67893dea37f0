//! Who may do what: users, their permissions, and the log of refusals.
//!
//! A connection holds a [`User`]. [`admit`] is asked before each of its commands, and costs one branch as long as the
//! user is allowed everything. [`check`] asks the same for a user without a connection: scripts and ACL DRYRUN do.

mod file;
mod log;
mod rules;
mod selector;
mod user;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::{Mutex, RwLock};
use resp::Args;

use crate::clients::Client;
use crate::config::{Config, quoted, split_words};
use crate::fault::{CmdResult, Fault};
use crate::server::Server;
use crate::session::Session;
use crate::table::{CommandInfo, Registry};

pub use log::{Context, Entry};
pub use rules::Rules;
pub(crate) use rules::{category_of, has_spaces, hex};
pub use user::{Account, User, UserId};

use log::Log;
use rules::Grammar;

/// The user that every connection is at first.
pub const DEFAULT_USER: &[u8] = b"default";

/// What a user lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The command.
    Command,
    /// A key.
    Key,
    /// The password, or the right to log in at all.
    Auth,
    /// A channel.
    Channel,
}

impl Reason {
    /// The word in ACL LOG.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Auth => "auth",
            Reason::Channel => "channel",
        }
    }
}

/// A refusal. The greater of two came further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Denied {
    /// What is missing.
    pub reason: Reason,
    /// The argument that may not be used; 0 for the command itself.
    pub at: usize,
}

impl Denied {
    fn text(self, user: &User, info: &CommandInfo, named: Option<&[u8]>) -> Vec<u8> {
        let about_user = |what: &str, object: &[u8], kind: &str| {
            let end = format!("' {kind}");
            [
                b"User ",
                user.name(),
                b" has no permissions to ",
                what.as_bytes(),
                b" '",
                object,
                end.as_bytes(),
            ]
            .concat()
        };
        match (self.reason, named) {
            (Reason::Key, Some(key)) => about_user("access the", key, "key"),
            (Reason::Key, None) => b"No permissions to access a key".to_vec(),
            (Reason::Channel, Some(channel)) => about_user("access the", channel, "channel"),
            (Reason::Channel, None) => b"No permissions to access a channel".to_vec(),
            (Reason::Command | Reason::Auth, _) => {
                about_user("run the", info.full_name.as_bytes(), "command")
            }
        }
    }

    /// What a client is answered.
    pub fn fault(self, user: &User, info: &CommandInfo) -> Fault {
        Fault::Quoting([b"NOPERM ", &self.text(user, info, None)[..]].concat())
    }

    /// What a script's call is answered.
    pub fn fault_in_script(self, user: &User, info: &CommandInfo) -> Fault {
        Fault::Quoting([b"NOPERM ACL failure in script: ", &self.text(user, info, None)[..]].concat())
    }

    /// What EXEC answers for a command that was allowed when it was queued.
    pub fn fault_at_exec(self) -> Fault {
        Fault::owned(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
             command is no longer allowed for the following reason: {}",
            match self.reason {
                Reason::Command | Reason::Auth => "no permission to execute the command or subcommand",
                Reason::Key => "no permission to touch the specified keys",
                Reason::Channel =>
                    "no permission to access one of the channels used as arguments to the command",
            }
        ))
    }

    /// What ACL DRYRUN answers: it names the key or channel.
    pub(crate) fn explanation(self, user: &User, info: &CommandInfo, args: Args<'_>) -> Vec<u8> {
        self.text(user, info, Some(&args[self.at]))
    }
}

/// Whether `user` may run a command with these arguments; the command's name is the first of them. Nothing is logged.
pub fn check(_: &Server, user: &User, info: &CommandInfo, args: Args<'_>) -> Result<(), Denied> {
    if user.is_unrestricted() {
        return Ok(());
    }
    // A script may hold a user that was changed while it ran.
    match user.is_outdated().then(|| user.renewed()).flatten() {
        Some(renewed) => renewed.check(info, args),
        None => user.check(info, args),
    }
}

/// Whether `user` may use all of these channels, or patterns of channels, to publish or subscribe. The first that
/// it may not is refused by its place, counted from `first_at`.
pub fn check_channels<'a>(
    user: &User,
    channels: impl IntoIterator<Item = &'a [u8]>,
    are_patterns: bool,
    first_at: usize,
) -> Result<(), Denied> {
    let refused = channels.into_iter().position(|channel| !user.may_use_channel(channel, are_patterns));
    refused.map_or(Ok(()), |place| Err(Denied { reason: Reason::Channel, at: first_at + place }))
}

/// Whether a connection may run a command; a refusal is logged.
#[inline]
pub fn admit(
    server: &Server,
    session: &mut Session,
    info: &CommandInfo,
    args: Args<'_>,
    context: Context,
) -> CmdResult {
    if session.user.is_unrestricted() {
        return Ok(());
    }
    match refusal(server, session, info, args, context)? {
        None => Ok(()),
        Some(denied) => Err(denied.fault(&session.user, info)),
    }
}

/// As [`admit`], for a command of a transaction that was admitted when it was queued.
pub fn admit_queued(server: &Server, session: &mut Session, info: &CommandInfo, args: Args<'_>) -> CmdResult {
    if session.user.is_unrestricted() {
        return Ok(());
    }
    refusal(server, session, info, args, Context::Multi)?.map_or(Ok(()), |denied| Err(denied.fault_at_exec()))
}

/// Why a connection may not run a command, after entering that in the log.
#[inline(never)]
fn refusal(
    server: &Server,
    session: &mut Session,
    info: &CommandInfo,
    args: Args<'_>,
    context: Context,
) -> CmdResult<Option<Denied>> {
    if session.user.is_outdated() {
        let Some(user) = session.user.renewed() else {
            // Deleted: the connection is about to be closed, and is nobody until then.
            session.close_after_reply = true;
            return Err(Fault::NO_AUTH);
        };
        session.user = user;
        // Whoever made the change on the long lane was not looked at with the others.
        session.close_after_reply |= session.listens_unduly();
    }
    let user = &session.user;
    let denied = user.check(info, args).err();
    if let Some(denied) = denied {
        session.client.last_command.store(info.id as u16 + 1, Relaxed);
        log_denied(server, &session.client, user, info, args, denied, context);
    }
    Ok(denied)
}

/// Enters a refused command in the log.
pub fn log_denied(
    server: &Server,
    client: &Client,
    user: &User,
    info: &CommandInfo,
    args: Args<'_>,
    denied: Denied,
    context: Context,
) {
    let object = match denied.reason {
        Reason::Command => info.full_name.as_bytes(),
        _ => args.get(denied.at).unwrap_or_default(),
    };
    server.acl.log(server, client, denied.reason, context, user.name(), object);
}

/// Users whose connections have to be looked at after a change.
#[derive(Debug, Default)]
pub(crate) struct Concerned {
    /// They are no more: their connections are closed.
    pub(crate) deleted: Vec<UserId>,
    /// They may use fewer channels than before: those that listen to others are closed.
    pub(crate) narrowed: Vec<UserId>,
}

impl Concerned {
    pub(crate) fn is_nobody(&self) -> bool {
        self.deleted.is_empty() && self.narrowed.is_empty()
    }
}

/// All users, and what was refused to them.
pub struct Acl {
    users: RwLock<Users>,
    default: Arc<Account>,
    /// Whether a new connection is the default user without a password.
    default_is_open: AtomicBool,
    /// Held for the whole of a change.
    changing: Mutex<()>,
    log: Log,
    /// Refusals by [`Reason`].
    denials: [AtomicU64; 4],
    registry: &'static Registry,
    config: Arc<Config>,
}

#[derive(Default)]
struct Users {
    by_name: BTreeMap<Vec<u8>, Arc<Account>>,
    names: HashMap<UserId, Arc<[u8]>>,
    next_id: UserId,
}

impl Users {
    fn add(&mut self, name: &[u8], rules: Rules) -> Arc<Account> {
        let account = Account::new(self.next_id, name, rules);
        self.next_id += 1;
        self.names.insert(account.id(), account.name().clone());
        self.by_name.insert(name.to_vec(), account.clone());
        account
    }

    fn remove(&mut self, name: &[u8]) -> Option<Arc<Account>> {
        let account = self.by_name.remove(name)?;
        self.names.remove(&account.id());
        account.change(None);
        Some(account)
    }
}

impl Acl {
    /// The users of the configuration or of its ACL file. The error is for the administrator.
    pub(crate) fn new(config: &Arc<Config>, registry: &'static Registry) -> Result<Acl, String> {
        let mut users = Users::default();
        let default = users.add(DEFAULT_USER, Rules::open());
        let acl = Acl {
            users: RwLock::new(users),
            default,
            default_is_open: AtomicBool::new(true),
            changing: Mutex::new(()),
            log: Log::default(),
            denials: Default::default(),
            registry,
            config: config.clone(),
        };
        acl.follow_requirepass();
        let lines = config.repeated("user");
        if !lines.is_empty() && acl.file().is_some() {
            return Err("Configuring Redis with users defined in redis.conf and at the same setting an ACL file path \
                        is invalid. This setup is very likely to lead to configuration errors and security holes, \
                        please define either an ACL file or declare users directly in your redis.conf, but not both."
                .to_owned());
        }
        for (name, rules) in file::from_config(&lines, acl.grammar())? {
            acl.put(&name, rules);
        }
        if let Some(path) = acl.file() {
            let loaded = file::load(&path, acl.grammar()).map_err(|errors| {
                let errors = String::from_utf8_lossy(&errors).into_owned();
                format!("Aborting Redis startup because of ACL errors: {errors}")
            })?;
            acl.replace_all(loaded);
        }
        Ok(acl)
    }

    fn grammar(&self) -> Grammar {
        let all_channels = self.config.string("acl-pubsub-default") == "allchannels";
        Grammar { registry: self.registry, all_channels }
    }

    /// `aclfile`, if it is set.
    fn file(&self) -> Option<String> {
        Some(self.config.string("aclfile")).filter(|path| !path.is_empty())
    }

    /// The user of new connections.
    pub fn default_user(&self) -> Arc<User> {
        self.default.current().expect("default-user: it cannot be deleted")
    }

    /// Whether a new connection is the default user without a password.
    #[inline]
    pub fn default_is_open(&self) -> bool {
        self.default_is_open.load(Relaxed)
    }

    /// The user of this name.
    pub fn find(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.read().by_name.get(name)?.current()
    }

    /// The user, if this is its password and it may log in.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        self.find(name).filter(|user| user.rules().admits(password))
    }

    /// All users, by name.
    pub fn list(&self) -> Vec<Arc<User>> {
        self.users.read().by_name.values().filter_map(|account| account.current()).collect()
    }

    /// The name of a user by its number: of one that was deleted, the default user's.
    pub fn name_of(&self, id: UserId) -> Arc<[u8]> {
        let users = self.users.read();
        users.names.get(&id).unwrap_or(self.default.name()).clone()
    }

    /// ACL SETUSER: makes a user or changes one, by all modifiers or none. The error is the reply without `ERR`.
    pub(crate) fn set_user(&self, name: &[u8], modifiers: Args<'_>) -> Result<Concerned, Vec<u8>> {
        let _changing = self.changing.lock();
        let mut rules = match self.find(name) {
            Some(user) => user.rules().clone(),
            None => Rules::new(self.grammar()),
        };
        let modifiers: Vec<&[u8]> = modifiers.iter().collect();
        rules.apply_all(&modifiers, self.grammar()).map_err(|refused| refused.text())?;
        let narrowed = self.put(name, rules);
        Ok(Concerned { deleted: Vec::new(), narrowed: Vec::from_iter(narrowed) })
    }

    /// ACL DELUSER for one user: its connections have lost it at once. The answer is its number.
    pub(crate) fn delete(&self, name: &[u8]) -> Option<UserId> {
        assert!(name != DEFAULT_USER, "default-user: it cannot be deleted");
        let _changing = self.changing.lock();
        self.users.write().remove(name).map(|account| account.id())
    }

    /// Makes the default user's password that of `requirepass`, or lets it in without one.
    pub(crate) fn follow_requirepass(&self) {
        let _changing = self.changing.lock();
        let password = self.config.bytes("requirepass");
        let modifier = if password.is_empty() { b"nopass".to_vec() } else { [b">", &password[..]].concat() };
        let mut rules = self.default_user().rules().clone();
        rules
            .apply_all(&[b"resetpass".to_vec(), modifier], self.grammar())
            .expect("acl-grammar: passwords may be anything");
        self.put(DEFAULT_USER, rules);
    }

    /// Makes a user, or changes one; its number if it may use fewer channels than before.
    fn put(&self, name: &[u8], rules: Rules) -> Option<UserId> {
        let known = self.users.read().by_name.get(name).cloned();
        let narrowed = match known {
            Some(account) => {
                let before = account.current();
                account.change(Some(rules));
                before.zip(account.current()).filter(|(before, now)| now.narrows_channels(before))
            }
            None => {
                self.users.write().add(name, rules);
                None
            }
        };
        self.default_is_open.store(self.default_user().is_open(), Relaxed);
        narrowed.map(|(before, _)| before.id())
    }

    /// Makes these users all there are; the default user is there in any case.
    fn replace_all(&self, mut loaded: file::RulesByName) -> Concerned {
        let _changing = self.changing.lock();
        loaded.entry(DEFAULT_USER.to_vec()).or_insert_with(Rules::open);
        let gone: Vec<Vec<u8>> = {
            let users = self.users.read();
            let names = users.by_name.keys();
            names.filter(|name| !loaded.contains_key(*name)).cloned().collect()
        };
        let narrowed = loaded.into_iter().filter_map(|(name, rules)| self.put(&name, rules)).collect();
        let mut users = self.users.write();
        let deleted = gone.iter().filter_map(|name| users.remove(name)).map(|account| account.id()).collect();
        Concerned { deleted, narrowed }
    }

    /// ACL LOAD: reads the disk. The error is the reply without `ERR`.
    pub(crate) fn load(&self) -> Result<Concerned, Vec<u8>> {
        let path = self.file().ok_or(NO_FILE)?;
        Ok(self.replace_all(file::load(&path, self.grammar())?))
    }

    /// ACL SAVE: writes to the disk. The error is the reply without `ERR`; `log` is told why.
    pub(crate) fn save(&self, log: impl FnOnce(&str)) -> Result<(), Vec<u8>> {
        let path = self.file().ok_or(NO_FILE)?;
        let lines: Vec<Vec<u8>> = self.list().iter().map(|user| line_of(user)).collect();
        file::save(&path, &lines).map_err(|error| {
            log(&format!("ACL SAVE: writing '{path}' failed: {error}"));
            b"There was an error trying to save the ACLs. Please check the server logs for more information"
                .to_vec()
        })
    }

    /// The `user` lines that the configuration file should have. None if an ACL file has the users, nor if there is but
    /// the default user as `requirepass` alone makes it.
    pub(crate) fn config_lines(&self) -> Vec<Vec<u8>> {
        let users = self.list();
        let mut plain = Rules::open();
        let password = self.config.bytes("requirepass");
        if !password.is_empty() {
            let applied = plain.apply(&[b">", &password[..]].concat(), self.grammar());
            applied.expect("acl-grammar: passwords may be anything");
        }
        let is_plain = users.len() == 1 && *users[0].rules() == plain;
        if self.file().is_some() || (is_plain && self.config.repeated("user").is_empty()) {
            return Vec::new();
        }
        let quoted_word = |word: &[u8]| match split_words(word) {
            Some(words) if words == [word] => word.to_vec(),
            _ => quoted(word),
        };
        let quoted_line =
            |line: Vec<u8>| line.split(|byte| *byte == b' ').map(quoted_word).collect::<Vec<_>>().join(&b' ');
        users.iter().map(|user| quoted_line(line_of(user))).collect()
    }

    /// The newest entries of the log.
    pub(crate) fn log_entries(&self, count: usize) -> Vec<Entry> {
        self.log.newest(count)
    }

    /// ACL LOG RESET.
    pub(crate) fn clear_log(&self) {
        self.log.clear();
    }

    /// Enters a refusal in the log, and counts it. `user` is whom the client was, or said it was.
    pub(crate) fn log(
        &self,
        server: &Server,
        client: &Client,
        reason: Reason,
        context: Context,
        user: &[u8],
        object: &[u8],
    ) {
        self.denials[reason as usize].fetch_add(1, Relaxed);
        let now_ms = server.clock.now().unix_ms;
        let entry = Entry {
            id: 0,
            count: 1,
            reason,
            context,
            object: object.to_vec(),
            user: user.into(),
            client: crate::commands::client_list::line(server, client, now_ms),
            created_ms: now_ms,
            updated_ms: now_ms,
        };
        self.log.push(entry, self.config.int("acllog-max-len") as usize);
    }

    /// Refusals for this reason so far.
    pub(crate) fn denials(&self, reason: Reason) -> u64 {
        self.denials[reason as usize].load(Relaxed)
    }

    /// CONFIG RESETSTAT.
    pub(crate) fn reset_stats(&self) {
        self.denials.iter().for_each(|count| count.store(0, Relaxed));
    }
}

const NO_FILE: &[u8] =
    b"This Redis instance is not configured to use an ACL file. You may want to specify users via \
      the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in \
      order to store users in the Redis configuration.";

/// The line that makes a user what it is, as ACL LIST prints it.
pub(crate) fn line_of(user: &User) -> Vec<u8> {
    file::line(user.name(), user.rules())
}
