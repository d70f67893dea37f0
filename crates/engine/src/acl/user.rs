//! A user as connections hold it.
//!
//! A [`User`] never changes. A change makes another one, which its [`Account`] holds from then on, and marks the old
//! one as outdated; a connection that holds an outdated one trades it in before its next command. So nothing is
//! locked or counted on the way of a command, and a change is in force everywhere once it has been answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Acquire, Ordering::Release};

use parking_lot::RwLock;
use resp::Args;

use super::rules::{Rules, hex};
use super::selector::Selector;
use super::{DEFAULT_USER, Denied};
use crate::table::{CommandInfo, KeyAccess};

/// Tells the users of all times apart, those of one name too.
pub type UserId = u32;

/// Allowed everything, and not outdated.
const UNRESTRICTED: u8 = 1;
/// Another one has taken its place, or none.
const OUTDATED: u8 = 2;

/// A user as it was when the connection last looked.
pub struct User {
    account: Arc<Account>,
    rules: Rules,
    state: AtomicU8,
}

/// A user in words.
pub(crate) struct Description {
    pub(crate) flags: Vec<&'static str>,
    pub(crate) passwords: Vec<String>,
    /// Fields and rules of each selector, the root first.
    pub(crate) selectors: Vec<[(&'static str, Vec<u8>); 3]>,
}

/// The place of a user, which outlives its changes.
pub struct Account {
    id: UserId,
    name: Arc<[u8]>,
    /// `None` once the user is deleted.
    current: RwLock<Option<Arc<User>>>,
}

impl Account {
    /// A user with these rules.
    pub(super) fn new(id: UserId, name: &[u8], rules: Rules) -> Arc<Account> {
        let account = Arc::new(Account { id, name: name.into(), current: RwLock::new(None) });
        account.change(Some(rules));
        account
    }

    /// The user as it is now; `None` if it was deleted.
    pub fn current(&self) -> Option<Arc<User>> {
        self.current.read().clone()
    }

    /// Its number.
    pub fn id(&self) -> UserId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &Arc<[u8]> {
        &self.name
    }

    /// Gives the user other rules, or deletes it.
    pub(super) fn change(self: &Arc<Account>, rules: Option<Rules>) {
        let user = rules.map(|rules| {
            let is_unrestricted = rules.all_selectors().any(Selector::is_unrestricted);
            let state = AtomicU8::new(if is_unrestricted { UNRESTRICTED } else { 0 });
            Arc::new(User { account: self.clone(), rules, state })
        });
        let old = std::mem::replace(&mut *self.current.write(), user);
        // After the new one is in its place: whoever sees the mark finds it there.
        old.into_iter().for_each(|old| old.state.store(OUTDATED, Release));
    }
}

impl User {
    /// A user that may do everything, of no server: for tests of what is around the engine.
    pub fn of_no_server() -> Arc<User> {
        let account = Account::new(0, DEFAULT_USER, Rules::open());
        account.current().expect("new-account: it has a user")
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        self.account.name()
    }

    /// Its number.
    pub fn id(&self) -> UserId {
        self.account.id
    }

    /// Whether it is allowed everything, and still is: the one question that most commands ask.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.state.load(Acquire) == UNRESTRICTED
    }

    /// Whether the user was changed or deleted since.
    #[inline]
    pub fn is_outdated(&self) -> bool {
        self.state.load(Acquire) == OUTDATED
    }

    /// The user as it is now; `None` if it was deleted.
    pub fn renewed(&self) -> Option<Arc<User>> {
        self.account.current()
    }

    /// What it may do, and how one becomes it.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Everything about it, as ACL GETUSER tells it.
    pub(crate) fn describe(&self) -> Description {
        let fields = |selector: &Selector| {
            [
                ("commands", selector.describe_commands()),
                ("keys", selector.describe_keys()),
                ("channels", selector.describe_channels()),
            ]
        };
        Description {
            flags: self.rules.flag_words(),
            passwords: self.rules.passwords.iter().map(|hash| hex(hash)).collect(),
            selectors: self.rules.all_selectors().map(fields).collect(),
        }
    }

    /// Whether a new connection is this user without a password.
    pub fn is_open(&self) -> bool {
        self.rules.is_on && self.rules.needs_no_password
    }

    /// Whether any password will do.
    pub fn needs_no_password(&self) -> bool {
        self.rules.needs_no_password
    }

    /// Whether RESTORE must check payloads of this user, where `sanitize-dump-payload` leaves it to the user.
    pub fn sanitizes_payloads(&self) -> bool {
        !self.rules.skips_sanitizing
    }

    /// Whether one selector allows the command with all of its arguments; if not, what to report of it.
    pub(super) fn check(&self, info: &CommandInfo, args: Args<'_>) -> Result<(), Denied> {
        let mut worst = None;
        for selector in self.rules.all_selectors() {
            match selector.check(info, args) {
                Ok(()) => return Ok(()),
                // The refusal that came furthest tells most.
                Err(denied) => worst = worst.max(Some(denied)),
            }
        }
        worst.map_or(Ok(()), Err)
    }

    /// Whether a selector that allows the command also allows this to be done to every key: for SORT, whose patterns
    /// may name any.
    pub fn may_use_every_key(&self, info: &CommandInfo, args: Args<'_>, access: KeyAccess) -> bool {
        let may =
            |selector: &Selector| selector.check(info, args).is_ok() && selector.may_use_every_key(access);
        self.is_unrestricted() || self.rules.all_selectors().any(may)
    }

    /// Whether a subscription that `before` allowed might be refused by this user.
    pub(super) fn narrows_channels(&self, before: &User) -> bool {
        let keeps = |glob: &Vec<u8>| self.rules.all_selectors().any(|now| now.channels.contains(glob));
        let keeps_all = |was: &Selector| !was.all_channels && was.channels.iter().all(keeps);
        let allows_all = self.rules.all_selectors().any(|selector| selector.all_channels);
        !allows_all && !before.rules.all_selectors().all(keeps_all)
    }

    /// Whether this may be done to a key.
    pub fn may_use_key(&self, key: &[u8], access: KeyAccess) -> bool {
        self.rules.all_selectors().any(|selector| selector.may_use_key(key, access))
    }

    /// Whether a channel, or channels by a pattern, may be published or subscribed to.
    pub fn may_use_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.rules.all_selectors().any(|selector| selector.may_use_channel(channel, is_pattern))
    }
}
