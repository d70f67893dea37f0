//! The command table: the one place where a command's arity, flags, keys, categories and docs stand.
//!
//! Rows are data, one file per family. Routing, key locking, `COMMAND`, `COMMAND DOCS`, cluster checks
//! and statistics derive from them.

mod acl;
mod bitmaps;
mod cluster;
mod command;
mod connection;
mod following;
mod geo;
mod hashes;
mod hyperloglog;
mod keys;
mod lists;
mod pubsub;
mod registry;
mod replication;
mod scripting;
mod sentinel;
mod server;
mod sets;
mod streams;
mod strings;
pub mod syntax;
mod transactions;
mod zsets;

use bitflags::bitflags;

use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use resp::Args;

pub use registry::{
    CommandId, CommandInfo, ENCODED_REPLIES, InvalidKeys, KeyRule, LegacyKeys, Registry, registry,
    registry_for,
};

/// What runs a command.
pub type Run = fn(&mut Ctx<'_>, Args<'_>, &mut Reply<'_>) -> CmdResult;

bitflags! {
    /// Properties of a command; those below `INTERNAL` are printed by `COMMAND`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Flags: u32 {
        /// May change keys.
        const WRITE = 1;
        /// Only reads keys.
        const READONLY = 1 << 1;
        /// Refused when memory is full.
        const DENYOOM = 1 << 2;
        /// For administrators.
        const ADMIN = 1 << 3;
        /// Belongs to publish/subscribe.
        const PUBSUB = 1 << 4;
        /// Not for scripts.
        const NOSCRIPT = 1 << 5;
        /// May block its client.
        const BLOCKING = 1 << 6;
        /// Allowed while a data set is loaded.
        const LOADING = 1 << 7;
        /// Allowed on a replica that lost its primary.
        const STALE = 1 << 8;
        /// Not shown by MONITOR.
        const SKIP_MONITOR = 1 << 9;
        /// Not logged as slow.
        const SKIP_SLOWLOG = 1 << 10;
        /// Served during a slot's import without ASKING.
        const ASKING = 1 << 11;
        /// O(1) or O(log n).
        const FAST = 1 << 12;
        /// Allowed before authentication.
        const NO_AUTH = 1 << 13;
        /// May be replicated though it writes no key. `COMMAND` does not tell: Redis hides it.
        const MAY_REPLICATE = 1 << 14;
        /// Refused while a data set is loaded in the background.
        const NO_ASYNC_LOADING = 1 << 15;
        /// Not inside MULTI.
        const NO_MULTI = 1 << 16;
        /// Its keys may be none.
        const NO_MANDATORY_KEYS = 1 << 17;
        /// Allowed while a script is busy.
        const ALLOW_BUSY = 1 << 18;
        /// Runs holding every stripe.
        const ALL_STRIPES = 1 << 24;
        /// Locks what it visits by itself, a stripe at a time; inside a transaction or script, every stripe is held.
        const WHOLE_KEYSPACE = 1 << 26;
        /// Runs at once, not queued, between MULTI and EXEC.
        const OUTSIDE_MULTI = 1 << 27;
        /// Allowed on a RESP2 connection that has subscribed.
        const SUBSCRIBED = 1 << 28;
        /// Waits for another server, and so never runs on a worker.
        const OUTGOING = 1 << 29;
        /// As quick as what `FAST` marks, though Redis does not mark it: timed with its batch, not alone.
        const BRIEF = 1 << 25;
    }

    /// ACL categories.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Categories: u32 {
        /// `@keyspace`
        const KEYSPACE = 1;
        /// `@read`
        const READ = 1 << 1;
        /// `@write`
        const WRITE = 1 << 2;
        /// `@set`
        const SET = 1 << 3;
        /// `@sortedset`
        const SORTEDSET = 1 << 4;
        /// `@list`
        const LIST = 1 << 5;
        /// `@hash`
        const HASH = 1 << 6;
        /// `@string`
        const STRING = 1 << 7;
        /// `@bitmap`
        const BITMAP = 1 << 8;
        /// `@hyperloglog`
        const HYPERLOGLOG = 1 << 9;
        /// `@geo`
        const GEO = 1 << 10;
        /// `@stream`
        const STREAM = 1 << 11;
        /// `@pubsub`
        const PUBSUB = 1 << 12;
        /// `@admin`
        const ADMIN = 1 << 13;
        /// `@fast`
        const FAST = 1 << 14;
        /// `@slow`
        const SLOW = 1 << 15;
        /// `@blocking`
        const BLOCKING = 1 << 16;
        /// `@dangerous`
        const DANGEROUS = 1 << 17;
        /// `@connection`
        const CONNECTION = 1 << 18;
        /// `@transaction`
        const TRANSACTION = 1 << 19;
        /// `@scripting`
        const SCRIPTING = 1 << 20;
    }

    /// What a command does to a key, as `COMMAND GETKEYSANDFLAGS` prints it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct KeyAccess: u32 {
        /// Reads the key.
        const RO = 1;
        /// Reads and writes it.
        const RW = 1 << 1;
        /// Overwrites it.
        const OW = 1 << 2;
        /// Removes it.
        const RM = 1 << 3;
        /// Returns or copies its data.
        const ACCESS = 1 << 4;
        /// Changes its data.
        const UPDATE = 1 << 5;
        /// Adds data to it.
        const INSERT = 1 << 6;
        /// Deletes data from it.
        const DELETE = 1 << 7;
        /// Looks like a key and is none.
        const NOT_KEY = 1 << 8;
        /// The specs do not tell all keys.
        const INCOMPLETE = 1 << 9;
        /// The other flags depend on the arguments.
        const VARIABLE_FLAGS = 1 << 10;
    }
}

/// The words of flags, as `COMMAND` prints them.
pub const FLAG_WORDS: &[(Flags, &str)] = &[
    (Flags::WRITE, "write"),
    (Flags::READONLY, "readonly"),
    (Flags::DENYOOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::PUBSUB, "pubsub"),
    (Flags::NOSCRIPT, "noscript"),
    (Flags::BLOCKING, "blocking"),
    (Flags::LOADING, "loading"),
    (Flags::STALE, "stale"),
    (Flags::SKIP_MONITOR, "skip_monitor"),
    (Flags::SKIP_SLOWLOG, "skip_slowlog"),
    (Flags::ASKING, "asking"),
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (Flags::NO_ASYNC_LOADING, "no_async_loading"),
    (Flags::NO_MULTI, "no_multi"),
    (Flags::ALLOW_BUSY, "allow_busy"),
];

/// The words of categories; `COMMAND` prints them after an `@`.
pub const CATEGORY_WORDS: &[(Categories, &str)] = &[
    (Categories::KEYSPACE, "keyspace"),
    (Categories::READ, "read"),
    (Categories::WRITE, "write"),
    (Categories::SET, "set"),
    (Categories::SORTEDSET, "sortedset"),
    (Categories::LIST, "list"),
    (Categories::HASH, "hash"),
    (Categories::STRING, "string"),
    (Categories::BITMAP, "bitmap"),
    (Categories::HYPERLOGLOG, "hyperloglog"),
    (Categories::GEO, "geo"),
    (Categories::STREAM, "stream"),
    (Categories::PUBSUB, "pubsub"),
    (Categories::ADMIN, "admin"),
    (Categories::FAST, "fast"),
    (Categories::SLOW, "slow"),
    (Categories::BLOCKING, "blocking"),
    (Categories::DANGEROUS, "dangerous"),
    (Categories::CONNECTION, "connection"),
    (Categories::TRANSACTION, "transaction"),
    (Categories::SCRIPTING, "scripting"),
];

/// The words of what is done to keys.
pub const ACCESS_WORDS: &[(KeyAccess, &str)] = &[
    (KeyAccess::RO, "RO"),
    (KeyAccess::RW, "RW"),
    (KeyAccess::OW, "OW"),
    (KeyAccess::RM, "RM"),
    (KeyAccess::ACCESS, "access"),
    (KeyAccess::UPDATE, "update"),
    (KeyAccess::INSERT, "insert"),
    (KeyAccess::DELETE, "delete"),
    (KeyAccess::NOT_KEY, "not_key"),
    (KeyAccess::INCOMPLETE, "incomplete"),
    (KeyAccess::VARIABLE_FLAGS, "variable_flags"),
];

/// Calls its second argument with each key's place and what is done to it.
pub type FindKeys = fn(Args<'_>, &mut dyn FnMut(usize, KeyAccess)) -> Result<(), InvalidKeys>;

/// What became of a command that should no longer be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deprecated {
    /// The Redis version that gave it up.
    pub since: &'static str,
    /// What to use instead.
    pub replaced_by: &'static str,
}

/// Where the keys of a command begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this argument.
    Index(u8),
    /// After this word, searched from argument `1..` on, or from the end if negative.
    Keyword(&'static str, i8),
    /// Cannot be told.
    Unknown,
}

/// Which arguments from the beginning on are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Every `step`th up to `last` (relative to the begin; negative: from the end of the arguments),
    /// and of the rest only one `limit`th, if `limit` is not 0.
    Range {
        /// Last key, relative to the first; -1 is the last argument.
        last: i16,
        /// Distance between keys.
        step: u8,
        /// Fraction of the remaining arguments that are keys.
        limit: u8,
    },
    /// As many as the argument at `num_at` says.
    KeyNum {
        /// Where the number stands, relative to the begin.
        num_at: u8,
        /// Where the first key stands, relative to the begin.
        first: u8,
        /// Distance between keys.
        step: u8,
    },
    /// Cannot be told.
    Unknown,
}

/// One group of a command's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// What is done to them.
    pub access: KeyAccess,
    /// Where they begin.
    pub begin: Begin,
    /// Which of the following arguments they are.
    pub find: Find,
    /// A remark that COMMAND DOCS shows; usually empty.
    pub notes: &'static str,
}

impl KeySpec {
    /// One key at argument `index`.
    pub const fn one(access: KeyAccess, index: u8) -> KeySpec {
        KeySpec::range(access, index, 0, 1)
    }

    /// Keys from argument `index` to `last` (relative; -1 is the end), every `step`th.
    pub const fn range(access: KeyAccess, index: u8, last: i16, step: u8) -> KeySpec {
        KeySpec { access, begin: Begin::Index(index), find: Find::Range { last, step, limit: 0 }, notes: "" }
    }

    /// A number of keys at argument `index`, then the keys.
    pub const fn counted(access: KeyAccess, index: u8) -> KeySpec {
        let find = Find::KeyNum { num_at: 0, first: 1, step: 1 };
        KeySpec { access, begin: Begin::Index(index), find, notes: "" }
    }
}

/// The part of the documentation a command stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Group {
    Generic,
    String,
    List,
    Set,
    SortedSet,
    Hash,
    PubSub,
    Transactions,
    Connection,
    Server,
    Scripting,
    HyperLogLog,
    Cluster,
    Geo,
    Stream,
    Bitmap,
    Sentinel,
}

impl Group {
    /// The word in `COMMAND DOCS`.
    pub fn as_str(self) -> &'static str {
        match self {
            Group::Generic => "generic",
            Group::String => "string",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Hash => "hash",
            Group::PubSub => "pubsub",
            Group::Transactions => "transactions",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Scripting => "scripting",
            Group::HyperLogLog => "hyperloglog",
            Group::Cluster => "cluster",
            Group::Geo => "geo",
            Group::Stream => "stream",
            Group::Bitmap => "bitmap",
            Group::Sentinel => "sentinel",
        }
    }
}

/// Which arguments of a command are channels that it publishes or subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSpec {
    /// The first of them.
    pub first: usize,
    /// The argument after the last of them; `usize::MAX`: all that follow are.
    pub end: usize,
    /// They are patterns.
    pub are_patterns: bool,
}

impl ChannelSpec {
    /// What PUBLISH has: one channel, at the first argument.
    pub const ONE: Option<ChannelSpec> = Some(ChannelSpec { first: 1, end: 2, are_patterns: false });
    /// What SUBSCRIBE has: all arguments are channels.
    pub const ALL: Option<ChannelSpec> = Some(ChannelSpec { first: 1, end: usize::MAX, are_patterns: false });
    /// What PSUBSCRIBE has: all arguments are patterns.
    pub const ALL_PATTERNS: Option<ChannelSpec> =
        Some(ChannelSpec { first: 1, end: usize::MAX, are_patterns: true });
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Command {
    /// Lower case. A subcommand holds only its own word.
    pub name: &'static str,
    /// Number of arguments with the name; negative: at least as many.
    pub arity: i16,
    /// Properties.
    pub flags: Flags,
    /// Where its keys are.
    pub keys: &'static [KeySpec],
    /// Finds the keys where the specs alone cannot: SORT's STORE, or flags that depend on arguments.
    pub find_keys: Option<FindKeys>,
    /// Its channels, if ACL rules are to look at any.
    pub channels: Option<ChannelSpec>,
    /// True if these arguments make it touch keys that neither specs nor arguments name: it then runs holding every
    /// stripe.
    pub reaches_beyond: Option<fn(Args<'_>) -> bool>,
    /// ACL categories beyond those that the flags imply.
    pub categories: Categories,
    /// Hints for clients and proxies.
    pub tips: &'static [&'static str],
    /// Part of the documentation.
    pub group: Group,
    /// First Redis version that has it.
    pub since: &'static str,
    /// What it costs.
    pub complexity: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Its arguments, as in `key value [NX | XX]`.
    pub syntax: &'static str,
    /// For a command that should no longer be used.
    pub deprecated: Option<Deprecated>,
    /// The commands of a container, such as CONFIG.
    pub subcommands: &'static [Command],
    /// What runs it. A container without subcommand is never run.
    pub run: Run,
}

impl Command {
    /// For `..Command::BLANK`.
    pub const BLANK: Command = Command {
        name: "",
        arity: 0,
        flags: Flags::empty(),
        keys: &[],
        find_keys: None,
        channels: None,
        reaches_beyond: None,
        categories: Categories::empty(),
        tips: &[],
        group: Group::Generic,
        since: "1.0.0",
        complexity: "",
        summary: "",
        syntax: "",
        deprecated: None,
        subcommands: &[],
        run: container,
    };

    /// All ACL categories, those that flags imply included.
    pub fn all_categories(&self) -> Categories {
        let mut all = self.categories;
        all.set(Categories::WRITE, self.flags.contains(Flags::WRITE) || all.contains(Categories::WRITE));
        let reads = self.flags.contains(Flags::READONLY) && !all.contains(Categories::SCRIPTING);
        all.set(Categories::READ, reads || all.contains(Categories::READ));
        if self.flags.contains(Flags::ADMIN) {
            all |= Categories::ADMIN | Categories::DANGEROUS;
        }
        if self.flags.contains(Flags::PUBSUB) {
            all |= Categories::PUBSUB;
        }
        if self.flags.contains(Flags::BLOCKING) {
            all |= Categories::BLOCKING;
        }
        let fast = self.flags.contains(Flags::FAST);
        all | if fast { Categories::FAST } else { Categories::SLOW }
    }
}

/// The `run` of a container, which only ever runs through its subcommands.
fn container(_: &mut Ctx<'_>, _: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    Err(Fault::SYNTAX)
}

/// One read-only key at the first argument.
pub const ONE_RO: &[KeySpec] = &[KeySpec::one(KeyAccess::RO, 1)];
/// As [`ONE_RO`], returning its data.
pub const ONE_RO_ACCESS: &[KeySpec] = &[KeySpec::one(KeyAccess::RO.union(KeyAccess::ACCESS), 1)];
/// One key that is overwritten.
pub const ONE_OW_UPDATE: &[KeySpec] = &[KeySpec::one(KeyAccess::OW.union(KeyAccess::UPDATE), 1)];
/// One key whose data changes.
pub const ONE_RW_UPDATE: &[KeySpec] = &[KeySpec::one(KeyAccess::RW.union(KeyAccess::UPDATE), 1)];
/// One key whose data changes and is returned.
pub const ONE_RW_ACCESS_UPDATE: &[KeySpec] =
    &[KeySpec::one(KeyAccess::RW.union(KeyAccess::ACCESS).union(KeyAccess::UPDATE), 1)];
/// One key that gets more data.
pub const ONE_RW_INSERT: &[KeySpec] = &[KeySpec::one(KeyAccess::RW.union(KeyAccess::INSERT), 1)];
/// One key that loses data.
pub const ONE_RW_DELETE: &[KeySpec] = &[KeySpec::one(KeyAccess::RW.union(KeyAccess::DELETE), 1)];
/// One key that loses data, which is returned.
pub const ONE_RW_ACCESS_DELETE: &[KeySpec] =
    &[KeySpec::one(KeyAccess::RW.union(KeyAccess::ACCESS).union(KeyAccess::DELETE), 1)];

#[cfg(test)]
mod tests;
