//! The one table of configuration directives: every name that `redis.conf` of Redis 7.4 may hold, and
//! Halcyon's own few. Parsing, `CONFIG GET`, `CONFIG SET`, `CONFIG REWRITE` and start-up notices all derive
//! from it; a fact about a directive stands nowhere else.

use std::collections::HashMap;
use std::sync::OnceLock;

use bitflags::bitflags;

bitflags! {
    /// What may be done with a directive, and by whom.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Flags: u8 {
        /// Refused by `CONFIG SET`: read once, at start.
        const IMMUTABLE = 1 << 0;
        /// `CONFIG SET` needs `enable-protected-configs`.
        const PROTECTED = 1 << 1;
        /// A secret: its value must not reach logs, the slow log or monitors.
        const SENSITIVE = 1 << 2;
        /// Answers to its exact name only, never to a glob.
        const HIDDEN = 1 << 3;
        /// Takes a list of words: a line of several arguments, or one string cut at single spaces.
        const WORDS = 1 << 4;
        /// An empty value means "not set", and is then absent from a rewritten file.
        const UNSET_WHEN_EMPTY = 1 << 5;
        /// Names a file or directory: setting it takes effect even if the name is the same, for the content may not be.
        const VOLATILE = 1 << 6;
    }
}

/// Whether a directive changes anything yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It does what Redis's documentation says.
    Live,
    /// Accepted, kept and answered, without any effect so far.
    NotYet,
}

/// A further rule on a text value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRule {
    /// Anything goes.
    Any,
    /// A file name without a directory; the flag says whether empty is allowed.
    BaseName {
        /// The noun of Redis's error text: `filename` or `dirname`.
        noun: &'static str,
        /// Whether an empty name is accepted.
        empty_allowed: bool,
    },
    /// Letters, digits, hyphens and dots, fewer than 256.
    Hostname,
    /// A name without characters that would break a line of `CLUSTER NODES`.
    NodeName,
    /// A title template made of known `{variables}`.
    TitleTemplate,
    /// `auto`, or CPU numbers in Redis's syntax.
    CpuList,
    /// An existing directory; kept as its absolute path.
    Directory,
    /// Letters that select keyspace events; kept in Redis's order.
    KeyspaceEvents,
}

/// A list value with its own grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListRule {
    /// Up to 16 addresses.
    Bind,
    /// Pairs of seconds and changes.
    Save,
    /// Four words a client class: name, hard bytes, soft bytes, soft seconds.
    OutputBufferLimit,
    /// Three numbers from -2000 to 2000.
    OomScores,
    /// Host and port, or `no one`.
    ReplicaOf,
    /// Numbers from 0 to 100.
    Percentiles,
    /// Shutdown options that may be combined.
    ShutdownOptions,
}

/// The type of a directive's value, with its default.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// `yes` or `no`.
    Bool(bool),
    /// A plain integer within inclusive bounds.
    Int {
        /// Smallest value accepted.
        min: i64,
        /// Largest value accepted.
        max: i64,
        /// Value at start.
        default: i64,
    },
    /// An octal integer within inclusive bounds.
    Octal {
        /// Largest value accepted; the smallest is 0.
        max: i64,
        /// Value at start.
        default: i64,
    },
    /// Bytes, with units (`1k` = 1000, `1kb` = 1024, likewise `m`, `g`).
    Memory {
        /// Smallest number of bytes accepted.
        min: u64,
        /// Largest number of bytes accepted.
        max: u64,
        /// Bytes at start.
        default: u64,
    },
    /// Bytes with units, or a percentage (kept as a negative number).
    MemoryOrPercent {
        /// Bytes at start.
        default: u64,
    },
    /// Free text under a rule.
    Text {
        /// Value at start.
        default: &'static str,
        /// What it must look like.
        rule: TextRule,
    },
    /// One of some words.
    Enum {
        /// The words, in the order in which an error lists them.
        words: &'static [&'static str],
        /// Value at start.
        default: &'static str,
    },
    /// A list of words under a rule; the default is as `CONFIG GET` prints it.
    List {
        /// Value at start, words separated by one space.
        default: &'static str,
        /// What the words must be.
        rule: ListRule,
    },
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Directive {
    /// The name under which it is documented and rewritten.
    pub name: &'static str,
    /// Older or foreign names that mean the same.
    pub aliases: &'static [&'static str],
    /// Type, bounds and default.
    pub kind: Kind,
    /// Rights and peculiarities.
    pub flags: Flags,
    /// Whether it has an effect yet.
    pub effect: Effect,
}

impl Directive {
    const fn new(name: &'static str, kind: Kind) -> Directive {
        Directive { name, aliases: &[], kind, flags: Flags::empty(), effect: Effect::NotYet }
    }

    const fn with(mut self, flags: Flags) -> Directive {
        self.flags = self.flags.union(flags);
        self
    }

    const fn live(mut self) -> Directive {
        self.effect = Effect::Live;
        self
    }

    const fn also(mut self, aliases: &'static [&'static str]) -> Directive {
        self.aliases = aliases;
        self
    }

    const fn immutable(self) -> Directive {
        self.with(Flags::IMMUTABLE)
    }

    const fn hidden(self) -> Directive {
        self.with(Flags::HIDDEN)
    }

    const fn sensitive(self) -> Directive {
        self.with(Flags::SENSITIVE)
    }

    const fn protected(self) -> Directive {
        self.with(Flags::PROTECTED)
    }
}

const fn yes(name: &'static str) -> Directive {
    Directive::new(name, Kind::Bool(true))
}

const fn no(name: &'static str) -> Directive {
    Directive::new(name, Kind::Bool(false))
}

const fn int(name: &'static str, min: i64, max: i64, default: i64) -> Directive {
    Directive::new(name, Kind::Int { min, max, default })
}

const fn memory(name: &'static str, min: u64, max: u64, default: u64) -> Directive {
    Directive::new(name, Kind::Memory { min, max, default })
}

/// Text of which an empty value is a value.
const fn text(name: &'static str, default: &'static str) -> Directive {
    Directive::new(name, Kind::Text { default, rule: TextRule::Any })
}

/// Text of which an empty value means "not set".
const fn optional(name: &'static str) -> Directive {
    text(name, "").with(Flags::UNSET_WHEN_EMPTY)
}

/// The name of a file or directory that is read when it is set.
const fn file(name: &'static str) -> Directive {
    optional(name).with(Flags::VOLATILE)
}

const fn ruled(name: &'static str, default: &'static str, rule: TextRule) -> Directive {
    Directive::new(name, Kind::Text { default, rule })
}

const fn word(name: &'static str, words: &'static [&'static str], default: &'static str) -> Directive {
    Directive::new(name, Kind::Enum { words, default })
}

const fn list(name: &'static str, default: &'static str, rule: ListRule) -> Directive {
    Directive::new(name, Kind::List { default, rule }).with(Flags::WORDS)
}

const I32: i64 = i32::MAX as i64;
const I64: i64 = i64::MAX;
const LONG: u64 = i64::MAX as u64;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const PORT: i64 = 65535;

const POLICIES: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];
const FACILITIES: &[&str] =
    &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"];
const LOG_LEVELS: &[&str] = &["debug", "verbose", "notice", "warning"];
const SUPERVISORS: &[&str] = &["upstart", "systemd", "auto", "no"];
const FSYNC_MODES: &[&str] = &["everysec", "always", "no"];
const DISKLESS_LOADS: &[&str] = &["disabled", "on-empty-db", "swapdb"];
const TLS_AUTH: &[&str] = &["no", "yes", "optional"];
const OOM_MODES: &[&str] = &["no", "yes", "relative", "absolute"];
const CHANNEL_DEFAULTS: &[&str] = &["allchannels", "resetchannels"];
const SANITIZE_MODES: &[&str] = &["no", "yes", "clients"];
const GUARDS: &[&str] = &["no", "yes", "local"];
const ENDPOINTS: &[&str] = &["ip", "hostname", "unknown-endpoint"];
const ERROR_BEHAVIORS: &[&str] = &["ignore", "panic", "panic-on-replicas"];
/// The words of `shutdown-on-sigint` and `shutdown-on-sigterm`.
pub(super) const SHUTDOWN_WORDS: &[&str] = &["default", "save", "nosave", "now", "force"];
const CLIENT_COMPAT: &[&str] = &["auto", "modern", "legacy"];
const LOG_FORMATS: &[&str] = &["text", "json"];
const CLUSTER_AGES: &[&str] = &["cluster-slave-validity-factor"];

/// Every directive. `CONFIG GET` with a glob answers in this order.
pub static DIRECTIVES: &[Directive] = &[
    // Halcyon's own.
    int("threads", 0, 256, 0).also(&["io-threads"]).immutable().live(),
    ruled("server-cpulist", "", TextRule::CpuList)
        .also(&["server_cpulist"])
        .with(Flags::UNSET_WHEN_EMPTY)
        .immutable()
        .live(),
    word("client-compat", CLIENT_COMPAT, "auto").live(),
    word("log-format", LOG_FORMATS, "text").immutable().live(),
    // Network.
    int("port", 0, PORT, 6379).live(),
    list("bind", "* -::*", ListRule::Bind).live(),
    optional("bind-source-addr"),
    optional("unixsocket").immutable().live(),
    Directive::new("unixsocketperm", Kind::Octal { max: 0o777, default: 0 }).immutable().live(),
    int("tcp-backlog", 0, I32, 511).immutable().live(),
    int("timeout", 0, I32, 0).live(),
    int("tcp-keepalive", 0, I32, 300).live(),
    int("maxclients", 1, u32::MAX as i64, 10000).live(),
    yes("protected-mode").live(),
    int("socket-mark-id", 0, u32::MAX as i64, 0).immutable(),
    int("max-new-connections-per-cycle", 1, 1000, 10),
    int("max-new-tls-connections-per-cycle", 1, 1000, 1),
    no("io-threads-do-reads").immutable(),
    memory("proto-max-bulk-len", MIB, LONG, 512 * MIB).live(),
    memory("client-query-buffer-limit", MIB, LONG, 1024 * MIB).live(),
    list(
        "client-output-buffer-limit",
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        ListRule::OutputBufferLimit,
    )
    .live(),
    // The process.
    int("databases", 1, I32, 16).immutable().live(),
    ruled("dir", "", TextRule::Directory).protected().live(),
    text("logfile", "").immutable().live(),
    word("loglevel", LOG_LEVELS, "notice").live(),
    no("daemonize").immutable().live(),
    optional("pidfile").immutable().live(),
    word("supervised", SUPERVISORS, "no").immutable(),
    no("syslog-enabled").immutable().live(),
    text("syslog-ident", "redis").immutable().live(),
    word("syslog-facility", FACILITIES, "local0").immutable().live(),
    no("always-show-logo").immutable().live(),
    yes("set-proc-title").immutable().live(),
    ruled("proc-title-template", "{title} {listen-addr} {server-mode}", TextRule::TitleTemplate),
    text("locale-collate", ""),
    yes("crash-log-enabled"),
    yes("crash-memcheck-enabled"),
    no("use-exit-on-panic").hidden(),
    int("watchdog-period", 0, I32, 0).hidden(),
    yes("disable-thp").immutable(),
    word("oom-score-adj", OOM_MODES, "no"),
    list("oom-score-adj-values", "0 200 800", ListRule::OomScores),
    optional("bio-cpulist").also(&["bio_cpulist"]).immutable(),
    optional("aof-rewrite-cpulist").also(&["aof_rewrite_cpulist"]).immutable(),
    optional("bgsave-cpulist").also(&["bgsave_cpulist"]).immutable(),
    text("ignore-warnings", ""),
    int("shutdown-timeout", 0, I32, 10),
    list("shutdown-on-sigint", "default", ListRule::ShutdownOptions),
    list("shutdown-on-sigterm", "default", ListRule::ShutdownOptions),
    // Who may do what.
    optional("requirepass").sensitive().live(),
    text("aclfile", "").immutable().live(),
    int("acllog-max-len", 0, I64, 128).live(),
    word("acl-pubsub-default", CHANNEL_DEFAULTS, "resetchannels").live(),
    word("enable-protected-configs", GUARDS, "no").immutable().live(),
    word("enable-debug-command", GUARDS, "no").immutable().live(),
    word("enable-module-command", GUARDS, "no").immutable().live(),
    no("enable-debug-assert").immutable().hidden(),
    // Memory and expiry.
    memory("maxmemory", 0, u64::MAX, 0).live(),
    word("maxmemory-policy", POLICIES, "noeviction").live(),
    int("maxmemory-samples", 1, I32, 5).live(),
    int("maxmemory-eviction-tenacity", 0, 100, 10).live(),
    Directive::new("maxmemory-clients", Kind::MemoryOrPercent { default: 0 }).live(),
    int("lfu-log-factor", 0, I32, 10).live(),
    int("lfu-decay-time", 0, I32, 1).live(),
    int("hz", 0, I32, 10).live(),
    yes("dynamic-hz").live(),
    int("active-expire-effort", 1, 10, 1).live(),
    yes("activerehashing"),
    yes("lazyexpire-nested-arbitrary-keys").hidden(),
    no("lazyfree-lazy-eviction").live(),
    no("lazyfree-lazy-expire").live(),
    no("lazyfree-lazy-server-del").live(),
    no("lazyfree-lazy-user-del").live(),
    no("lazyfree-lazy-user-flush").live(),
    yes("jemalloc-bg-thread"),
    no("activedefrag"),
    memory("active-defrag-ignore-bytes", 1, LONG, 100 * MIB),
    int("active-defrag-threshold-lower", 0, 1000, 10),
    int("active-defrag-threshold-upper", 0, 1000, 100),
    int("active-defrag-cycle-min", 1, 99, 1),
    int("active-defrag-cycle-max", 1, 99, 25),
    int("active-defrag-max-scan-fields", 1, I64, 1000),
    int("tracking-table-max-keys", 0, I64, 1_000_000).live(),
    // Encodings.
    int("list-max-listpack-size", i32::MIN as i64, I32, -2).also(&["list-max-ziplist-size"]).live(),
    int("list-compress-depth", 0, I32, 0),
    int("hash-max-listpack-entries", 0, I64, 512).also(&["hash-max-ziplist-entries"]).live(),
    memory("hash-max-listpack-value", 0, LONG, 64).also(&["hash-max-ziplist-value"]).live(),
    int("set-max-intset-entries", 0, I64, 512).live(),
    int("set-max-listpack-entries", 0, I64, 128).live(),
    memory("set-max-listpack-value", 0, LONG, 64).live(),
    int("zset-max-listpack-entries", 0, I64, 128).also(&["zset-max-ziplist-entries"]).live(),
    memory("zset-max-listpack-value", 0, LONG, 64).also(&["zset-max-ziplist-value"]).live(),
    memory("hll-sparse-max-bytes", 0, LONG, 3000).live(),
    memory("stream-node-max-bytes", 0, LONG, 4 * KIB).live(),
    int("stream-node-max-entries", 0, I64, 100).live(),
    // Watching the server.
    int("slowlog-log-slower-than", -1, I64, 10000).live(),
    int("slowlog-max-len", 0, I64, 128).live(),
    int("latency-monitor-threshold", 0, I64, 0).live(),
    yes("latency-tracking").live(),
    list("latency-tracking-info-percentiles", "50 99 99.9", ListRule::Percentiles).live(),
    ruled("notify-keyspace-events", "", TextRule::KeyspaceEvents).live(),
    int("busy-reply-threshold", 0, I64, 5000).also(&["lua-time-limit"]).live(),
    // Cluster.
    no("cluster-enabled").immutable().live(),
    text("cluster-config-file", "nodes.conf").immutable().live(),
    int("cluster-node-timeout", 0, I64, 15000).live(),
    int("cluster-port", 0, PORT, 0).immutable(),
    yes("cluster-require-full-coverage").live(),
    optional("cluster-announce-ip").live(),
    int("cluster-announce-port", 0, PORT, 0).live(),
    int("cluster-announce-tls-port", 0, PORT, 0).live(),
    int("cluster-announce-bus-port", 0, PORT, 0).live(),
    ruled("cluster-announce-hostname", "", TextRule::Hostname).with(Flags::UNSET_WHEN_EMPTY).live(),
    ruled("cluster-announce-human-nodename", "", TextRule::NodeName).with(Flags::UNSET_WHEN_EMPTY).live(),
    word("cluster-preferred-endpoint-type", ENDPOINTS, "ip").live(),
    int("cluster-migration-barrier", 0, I32, 1),
    int("cluster-replica-validity-factor", 0, I32, 10).also(CLUSTER_AGES),
    no("cluster-replica-no-failover").also(&["cluster-slave-no-failover"]),
    no("cluster-allow-reads-when-down"),
    yes("cluster-allow-pubsubshard-when-down"),
    yes("cluster-allow-replica-migration"),
    memory("cluster-link-sendbuf-limit", 0, u64::MAX, 0),
    // Files.
    list("save", "3600 1 300 100 60 10000", ListRule::Save),
    ruled("dbfilename", "dump.rdb", TextRule::BaseName { noun: "filename", empty_allowed: true }).protected(),
    yes("rdbcompression"),
    yes("rdbchecksum").immutable(),
    no("rdb-del-sync-files"),
    yes("rdb-save-incremental-fsync"),
    int("rdb-key-save-delay", i32::MIN as i64, I32, 0).hidden(),
    int("key-load-delay", i32::MIN as i64, I32, 0).hidden(),
    memory("loading-process-events-interval-bytes", KIB, I32 as u64, 2 * MIB).hidden(),
    word("sanitize-dump-payload", SANITIZE_MODES, "no"),
    yes("stop-writes-on-bgsave-error"),
    no("appendonly"),
    ruled("appendfilename", "appendonly.aof", TextRule::BaseName { noun: "filename", empty_allowed: false })
        .immutable(),
    ruled("appenddirname", "appendonlydir", TextRule::BaseName { noun: "dirname", empty_allowed: false })
        .immutable(),
    word("appendfsync", FSYNC_MODES, "everysec"),
    no("no-appendfsync-on-rewrite"),
    int("auto-aof-rewrite-percentage", 0, I32, 100),
    memory("auto-aof-rewrite-min-size", 0, LONG, 64 * MIB),
    yes("aof-load-truncated"),
    yes("aof-use-rdb-preamble"),
    no("aof-timestamp-enabled"),
    no("aof-disable-auto-gc"),
    yes("aof-rewrite-incremental-fsync"),
    // Replication.
    list("replicaof", "", ListRule::ReplicaOf).also(&["slaveof"]).with(Flags::UNSET_WHEN_EMPTY).immutable(),
    optional("masterauth").sensitive(),
    optional("masteruser").sensitive(),
    yes("replica-serve-stale-data").also(&["slave-serve-stale-data"]),
    yes("replica-read-only").also(&["slave-read-only"]),
    yes("replica-ignore-maxmemory").also(&["slave-ignore-maxmemory"]),
    no("replica-ignore-disk-write-errors"),
    no("replica-lazy-flush").also(&["slave-lazy-flush"]),
    int("replica-priority", 0, I32, 100).also(&["slave-priority"]),
    yes("replica-announced"),
    optional("replica-announce-ip").also(&["slave-announce-ip"]),
    int("replica-announce-port", 0, PORT, 0).also(&["slave-announce-port"]),
    int("min-replicas-to-write", 0, I32, 0).also(&["min-slaves-to-write"]),
    int("min-replicas-max-lag", 0, I32, 10).also(&["min-slaves-max-lag"]),
    no("repl-disable-tcp-nodelay"),
    yes("repl-diskless-sync"),
    int("repl-diskless-sync-delay", 0, I32, 5),
    int("repl-diskless-sync-max-replicas", 0, I32, 0),
    word("repl-diskless-load", DISKLESS_LOADS, "disabled"),
    memory("repl-backlog-size", 1, LONG, MIB),
    int("repl-backlog-ttl", 0, I64, 3600),
    int("repl-timeout", 1, I32, 60),
    int("repl-ping-replica-period", 1, I32, 10).also(&["repl-ping-slave-period"]),
    word("propagation-error-behavior", ERROR_BEHAVIORS, "ignore"),
    // TLS.
    int("tls-port", 0, PORT, 0).live(),
    no("tls-cluster").live(),
    no("tls-replication").live(),
    word("tls-auth-clients", TLS_AUTH, "yes").live(),
    no("tls-prefer-server-ciphers").live(),
    yes("tls-session-caching").live(),
    int("tls-session-cache-size", 0, I32, 20480).live(),
    int("tls-session-cache-timeout", 0, I32, 300).live(),
    file("tls-cert-file").live(),
    file("tls-key-file").live(),
    optional("tls-key-file-pass").sensitive().live(),
    file("tls-client-cert-file").live(),
    file("tls-client-key-file").live(),
    optional("tls-client-key-file-pass").sensitive().live(),
    file("tls-dh-params-file"),
    file("tls-ca-cert-file").live(),
    file("tls-ca-cert-dir").live(),
    optional("tls-protocols").live(),
    optional("tls-ciphers").live(),
    optional("tls-ciphersuites").live(),
];

/// A directive that stands in files and on the command line only: repeated, kept as words, unknown to `CONFIG`.
#[derive(Debug, Clone, Copy)]
pub struct FileDirective {
    /// Its name.
    pub name: &'static str,
    /// How many arguments it takes, inclusive.
    pub arguments: (usize, usize),
    /// Whether anything comes of it.
    pub effect: Effect,
}

/// The repeated directives of a file. `include` is dealt with by the reader itself.
pub static FILE_DIRECTIVES: &[FileDirective] = &[
    FileDirective { name: "user", arguments: (1, usize::MAX), effect: Effect::Live },
    FileDirective { name: "rename-command", arguments: (2, 2), effect: Effect::Live },
    FileDirective { name: "loadmodule", arguments: (1, usize::MAX), effect: Effect::NotYet },
    FileDirective { name: "list-max-ziplist-entries", arguments: (1, 1), effect: Effect::NotYet },
    FileDirective { name: "list-max-ziplist-value", arguments: (1, 1), effect: Effect::NotYet },
    FileDirective { name: "lua-replicate-commands", arguments: (1, 1), effect: Effect::NotYet },
];

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
