//! The one table of configuration directives: every name that `redis.conf` of Redis 7.4 may hold, and
//! Halcyon's own few. Parsing, `CONFIG GET`, `CONFIG SET`, `CONFIG REWRITE` and start-up notices all derive
//! from it; a fact about a directive stands nowhere else.

use base::limits::REPL_BACKLOG_DISK_BYTES_DEFAULT;
use bitflags::bitflags;

pub use super::lookup::{find, index_of, names, nearest};

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
        /// `CONFIG SET` refuses to switch it on, as a Redis does that was built without it.
        const UNAVAILABLE = 1 << 7;
    }
}

/// Whether a directive changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It does what Redis's documentation says.
    Live,
    /// Accepted, kept and answered, without any effect until this is here.
    Awaits(&'static str),
    /// Accepted, kept and answered, without any effect: this is why.
    Needless(&'static str),
}

/// A further rule on a text value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRule {
    /// Anything goes.
    Any,
    /// The locale C, by one of its names.
    Locale,
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
    /// The name of a cluster: letters, digits, dots, hyphens and underscores.
    ClusterName,
    /// `auto`, the 40 hex digits of a shard, or empty: a shard of its own.
    ShardPlace,
    /// The name of a place: as a cluster's, or empty.
    ZoneName,
    /// A title template made of known `{variables}`.
    TitleTemplate,
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
    /// Whether it has an effect.
    pub effect: Effect,
}

impl Directive {
    const fn new(name: &'static str, kind: Kind) -> Directive {
        Directive { name, aliases: &[], kind, flags: Flags::empty(), effect: Effect::Live }
    }

    const fn with(mut self, flags: Flags) -> Directive {
        self.flags = self.flags.union(flags);
        self
    }

    const fn awaits(mut self, what: &'static str) -> Directive {
        self.effect = Effect::Awaits(what);
        self
    }

    const fn needless(mut self, why: &'static str) -> Directive {
        self.effect = Effect::Needless(why);
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

const NO_BUS: &str = "nodes do not talk to each other: etcd tells who is there";
const NO_OWN_MOVES: &str = "replicas that change their shard by themselves";
const NO_DEFRAG: &str = "what lies in memory is not moved to close gaps";

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
const LOG_LEVELS: &[&str] = &["debug", "verbose", "notice", "warning", "nothing"];
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
const DURABILITIES: &[&str] = &["auto", "none", "everysec", "always", "quorum"];
const LOG_FORMATS: &[&str] = &["text", "json"];
const REDIRECTS: &[&str] = &["damped", "plain"];
const CLUSTER_AGES: &[&str] = &["cluster-slave-validity-factor"];

/// Every directive. `CONFIG GET` with a glob answers in this order.
pub static DIRECTIVES: &[Directive] = &[
    // Halcyon's own.
    int("threads", 0, 256, 0).also(&["io-threads"]).immutable(),
    optional("server-cpulist").also(&["server_cpulist"]).immutable(),
    text("machine-root", "/").hidden().immutable(),
    word("client-compat", CLIENT_COMPAT, "auto"),
    int("sentinel-port", 0, PORT, 0),
    text("sentinel-master-name", "mymaster"),
    word("cluster-redirects", REDIRECTS, "damped"),
    int("cluster-redirect-rate", 0, 1_000_000, 200),
    memory("cluster-migration-max-bytes-per-second", 0, u64::MAX, 0),
    word("log-format", LOG_FORMATS, "text").immutable(),
    yes("no-fork").immutable(),
    word("durability", DURABILITIES, "auto"),
    // Network.
    int("port", 0, PORT, 6379),
    list("bind", "* -::*", ListRule::Bind),
    optional("bind-source-addr"),
    optional("unixsocket").immutable(),
    Directive::new("unixsocketperm", Kind::Octal { max: 0o777, default: 0 }).immutable(),
    int("tcp-backlog", 0, I32, 511).immutable(),
    int("timeout", 0, I32, 0),
    int("tcp-keepalive", 0, I32, 300),
    int("maxclients", 1, u32::MAX as i64, 10000),
    yes("protected-mode"),
    int("socket-mark-id", 0, u32::MAX as i64, 0).immutable(),
    int("max-new-connections-per-cycle", 1, 1000, 10).needless("a turn accepts a bounded number anyway"),
    int("max-new-tls-connections-per-cycle", 1, 1000, 1)
        .needless("a turn shakes hands for a bounded time anyway"),
    no("io-threads-do-reads").immutable().needless("every worker reads its own connections"),
    memory("proto-max-bulk-len", MIB, LONG, 512 * MIB),
    memory("client-query-buffer-limit", MIB, LONG, 1024 * MIB),
    list(
        "client-output-buffer-limit",
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        ListRule::OutputBufferLimit,
    ),
    // The process.
    int("databases", 1, I32, 16).immutable(),
    ruled("dir", "", TextRule::Directory).protected(),
    text("logfile", "").immutable(),
    word("loglevel", LOG_LEVELS, "notice"),
    no("daemonize").immutable().needless("the process never forks, and refuses to start with `yes`"),
    optional("pidfile").immutable(),
    word("supervised", SUPERVISORS, "no").immutable(),
    no("syslog-enabled")
        .immutable()
        .needless("the log goes to a file or to standard output, which a service manager can pass on"),
    text("syslog-ident", "redis").immutable().needless("see syslog-enabled"),
    word("syslog-facility", FACILITIES, "local0").immutable().needless("see syslog-enabled"),
    no("always-show-logo").immutable().needless("there is no logo"),
    yes("set-proc-title").immutable().needless("the title is the command line"),
    ruled("proc-title-template", "{title} {listen-addr} {server-mode}", TextRule::TitleTemplate)
        .needless("the title is the command line"),
    ruled("locale-collate", "", TextRule::Locale).needless("text is sorted by its bytes, as in the locale C"),
    yes("crash-log-enabled").needless("a thread that fails is logged with its place"),
    yes("crash-memcheck-enabled").needless("memory is not tested after a crash"),
    no("use-exit-on-panic").hidden().needless("a thread that fails ends the process in order"),
    int("watchdog-period", 0, I32, 0).hidden().needless("no one loop can hold up all connections"),
    yes("disable-thp").immutable().needless("the process never forks, so large pages are never copied"),
    word("oom-score-adj", OOM_MODES, "no"),
    list("oom-score-adj-values", "0 200 800", ListRule::OomScores),
    optional("bio-cpulist").also(&["bio_cpulist"]).immutable(),
    optional("aof-rewrite-cpulist").also(&["aof_rewrite_cpulist"]).immutable(),
    optional("bgsave-cpulist").also(&["bgsave_cpulist"]).immutable(),
    text("ignore-warnings", "").needless("no warning needs to be put off"),
    int("shutdown-timeout", 0, I32, 10),
    list("shutdown-on-sigint", "default", ListRule::ShutdownOptions),
    list("shutdown-on-sigterm", "default", ListRule::ShutdownOptions),
    // Who may do what.
    optional("requirepass").sensitive(),
    text("aclfile", "").immutable(),
    int("acllog-max-len", 0, I64, 128),
    word("acl-pubsub-default", CHANNEL_DEFAULTS, "resetchannels"),
    word("enable-protected-configs", GUARDS, "no").immutable(),
    word("enable-debug-command", GUARDS, "no").immutable(),
    word("enable-module-command", GUARDS, "no").immutable().needless("modules cannot be loaded"),
    no("enable-debug-assert").immutable().hidden().needless("DEBUG has no ASSERT"),
    // Memory and expiry.
    memory("maxmemory", 0, u64::MAX, 0),
    word("maxmemory-policy", POLICIES, "noeviction"),
    int("maxmemory-samples", 1, I32, 5),
    int("maxmemory-eviction-tenacity", 0, 100, 10),
    Directive::new("maxmemory-clients", Kind::MemoryOrPercent { default: 0 }),
    int("lfu-log-factor", 0, I32, 10),
    int("lfu-decay-time", 0, I32, 1),
    int("hz", 0, I32, 10),
    yes("dynamic-hz"),
    int("active-expire-effort", 1, 10, 1),
    yes("activerehashing").needless("no table is ever rehashed"),
    yes("lazyexpire-nested-arbitrary-keys").hidden().needless("an expired key is removed wherever it is met"),
    no("lazyfree-lazy-eviction"),
    no("lazyfree-lazy-expire"),
    no("lazyfree-lazy-server-del"),
    no("lazyfree-lazy-user-del"),
    no("lazyfree-lazy-user-flush"),
    yes("jemalloc-bg-thread").needless("the allocator is mimalloc"),
    no("activedefrag").with(Flags::UNAVAILABLE).needless(NO_DEFRAG),
    memory("active-defrag-ignore-bytes", 1, LONG, 100 * MIB).needless(NO_DEFRAG),
    int("active-defrag-threshold-lower", 0, 1000, 10).needless(NO_DEFRAG),
    int("active-defrag-threshold-upper", 0, 1000, 100).needless(NO_DEFRAG),
    int("active-defrag-cycle-min", 1, 99, 1).needless(NO_DEFRAG),
    int("active-defrag-cycle-max", 1, 99, 25).needless(NO_DEFRAG),
    int("active-defrag-max-scan-fields", 1, I64, 1000).needless(NO_DEFRAG),
    int("tracking-table-max-keys", 0, I64, 1_000_000),
    // Encodings.
    int("list-max-listpack-size", i32::MIN as i64, I32, -2).also(&["list-max-ziplist-size"]),
    int("list-compress-depth", 0, I32, 0).needless("nodes of lists are not compressed"),
    int("hash-max-listpack-entries", 0, I64, 512).also(&["hash-max-ziplist-entries"]),
    memory("hash-max-listpack-value", 0, LONG, 64).also(&["hash-max-ziplist-value"]),
    int("set-max-intset-entries", 0, I64, 512),
    int("set-max-listpack-entries", 0, I64, 128),
    int("set-max-listpack-value", 0, I64, 64),
    int("zset-max-listpack-entries", 0, I64, 128).also(&["zset-max-ziplist-entries"]),
    memory("zset-max-listpack-value", 0, LONG, 64).also(&["zset-max-ziplist-value"]),
    memory("hll-sparse-max-bytes", 0, LONG, 3000),
    memory("stream-node-max-bytes", 0, LONG, 4 * KIB),
    int("stream-node-max-entries", 0, I64, 100),
    // Watching the server.
    int("slowlog-log-slower-than", -1, I64, 10000).also(&["commandlog-execution-slower-than"]),
    int("slowlog-max-len", 0, I64, 128).also(&["commandlog-slow-execution-max-len"]),
    int("latency-monitor-threshold", 0, I64, 0),
    yes("latency-tracking"),
    list("latency-tracking-info-percentiles", "50 99 99.9", ListRule::Percentiles),
    ruled("notify-keyspace-events", "", TextRule::KeyspaceEvents),
    int("busy-reply-threshold", 0, I64, 5000).also(&["lua-time-limit"]),
    no("hide-user-data-from-log").needless("keys and values are never logged"),
    // Cluster.
    no("cluster-enabled").immutable(),
    text("cluster-config-file", "nodes.conf").immutable(),
    optional("cluster-etcd").immutable(),
    ruled("cluster-name", "default", TextRule::ClusterName).immutable(),
    ruled("cluster-shard", "", TextRule::ShardPlace).with(Flags::UNSET_WHEN_EMPTY).immutable(),
    optional("cluster-etcd-username").immutable(),
    optional("cluster-etcd-password").sensitive().immutable(),
    file("cluster-etcd-ca-cert-file").immutable(),
    file("cluster-etcd-cert-file").immutable(),
    file("cluster-etcd-key-file").immutable(),
    ruled("zone", "", TextRule::ZoneName).with(Flags::UNSET_WHEN_EMPTY).immutable(),
    int("cluster-min-in-sync", 1, 255, 2).immutable(),
    int("cluster-replicas-wanted", 0, 255, 2).immutable(),
    int("cluster-node-timeout", 0, I64, 15000).needless(NO_BUS),
    int("cluster-port", 0, PORT, 0).immutable().needless(NO_BUS),
    yes("cluster-require-full-coverage"),
    optional("cluster-announce-ip"),
    int("cluster-announce-port", 0, PORT, 0),
    int("cluster-announce-tls-port", 0, PORT, 0),
    int("cluster-announce-bus-port", 0, PORT, 0),
    ruled("cluster-announce-hostname", "", TextRule::Hostname).with(Flags::UNSET_WHEN_EMPTY),
    ruled("cluster-announce-human-nodename", "", TextRule::NodeName)
        .with(Flags::UNSET_WHEN_EMPTY)
        .awaits("names of nodes in CLUSTER NODES"),
    word("cluster-preferred-endpoint-type", ENDPOINTS, "ip"),
    int("cluster-migration-barrier", 0, I32, 1).awaits(NO_OWN_MOVES),
    int("cluster-replica-validity-factor", 0, I32, 10).also(CLUSTER_AGES).needless("who is in sync may lead"),
    no("cluster-replica-no-failover")
        .also(&["cluster-slave-no-failover"])
        .awaits("replicas that are never to lead"),
    no("cluster-allow-reads-when-down"),
    yes("cluster-allow-pubsubshard-when-down"),
    yes("cluster-allow-replica-migration").awaits(NO_OWN_MOVES),
    memory("cluster-link-sendbuf-limit", 0, u64::MAX, 0).needless(NO_BUS),
    int("cluster-compatibility-sample-ratio", 0, 100, 0)
        .needless("commands are not sampled for what a cluster would refuse"),
    // Files.
    list("save", "3600 1 300 100 60 10000", ListRule::Save),
    ruled("dbfilename", "dump.rdb", TextRule::BaseName { noun: "filename", empty_allowed: true }).protected(),
    yes("rdbcompression"),
    yes("rdbchecksum").immutable(),
    no("rdb-del-sync-files").needless("a full synchronization leaves no file behind"),
    yes("rdb-save-incremental-fsync"),
    int("rdb-key-save-delay", i32::MIN as i64, I32, 0).hidden(),
    int("key-load-delay", i32::MIN as i64, I32, 0).hidden(),
    int("loading-process-events-interval-bytes", KIB as i64, I32, 2 * MIB as i64)
        .hidden()
        .needless("whoever loads serves no clients: others do"),
    word("sanitize-dump-payload", SANITIZE_MODES, "no").needless("every payload is checked"),
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
    optional("masterauth").also(&["primaryauth"]).sensitive(),
    optional("masteruser").also(&["primaryuser"]).sensitive(),
    yes("replica-serve-stale-data").also(&["slave-serve-stale-data"]),
    yes("replica-read-only").also(&["slave-read-only"]),
    yes("replica-ignore-maxmemory").also(&["slave-ignore-maxmemory"]),
    no("replica-ignore-disk-write-errors"),
    no("replica-lazy-flush")
        .also(&["slave-lazy-flush"])
        .needless("what is replaced is always freed in the background"),
    int("replica-priority", 0, I32, 100).also(&["slave-priority"]),
    yes("replica-announced"),
    int("replica-max-staleness-ms", 0, I32, 0),
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
    memory("repl-backlog-disk-size", 0, LONG, REPL_BACKLOG_DISK_BYTES_DEFAULT),
    int("repl-backlog-ttl", 0, I64, 3600),
    int("repl-timeout", 1, I32, 60),
    int("repl-ping-replica-period", 1, I32, 10).also(&["repl-ping-slave-period"]),
    memory("replica-full-sync-buffer-limit", 0, LONG, 0)
        .needless("what is written during a full synchronization waits with the primary, on its disk"),
    word("propagation-error-behavior", ERROR_BEHAVIORS, "ignore"),
    // TLS.
    int("tls-port", 0, PORT, 0),
    no("tls-cluster"),
    no("tls-replication"),
    word("tls-auth-clients", TLS_AUTH, "yes"),
    no("tls-prefer-server-ciphers"),
    yes("tls-session-caching"),
    int("tls-session-cache-size", 0, I32, 20480),
    int("tls-session-cache-timeout", 0, I32, 300),
    file("tls-cert-file"),
    file("tls-key-file"),
    optional("tls-key-file-pass").sensitive(),
    file("tls-client-cert-file"),
    file("tls-client-key-file"),
    optional("tls-client-key-file-pass").sensitive(),
    file("tls-dh-params-file").needless("keys are agreed upon over elliptic curves only"),
    file("tls-ca-cert-file"),
    file("tls-ca-cert-dir"),
    optional("tls-protocols"),
    optional("tls-ciphers"),
    optional("tls-ciphersuites"),
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
    FileDirective { name: "loadmodule", ..ignored("modules cannot be loaded", usize::MAX) },
    FileDirective { name: "list-max-ziplist-entries", ..ignored("it is obsolete", 1) },
    FileDirective { name: "list-max-ziplist-value", ..ignored("it is obsolete", 1) },
    FileDirective { name: "lua-replicate-commands", ..ignored("it is obsolete", 1) },
    // Valkey's own, of its `valkey.conf`.
    FileDirective {
        name: "rdb-version-check",
        ..ignored("which versions of files are read does not depend on it", 1)
    },
    FileDirective {
        name: "dual-channel-replication-enabled",
        ..ignored("what is written during a full synchronization waits with the primary, on its disk", 1)
    },
    FileDirective { name: "commandlog-request-larger-than", ..ignored(COMMANDLOG, 1) },
    FileDirective { name: "commandlog-large-request-max-len", ..ignored(COMMANDLOG, 1) },
    FileDirective { name: "commandlog-reply-larger-than", ..ignored(COMMANDLOG, 1) },
    FileDirective { name: "commandlog-large-reply-max-len", ..ignored(COMMANDLOG, 1) },
];

const COMMANDLOG: &str = "there is a slow log, but no log of large requests and replies";

/// A directive of that many arguments at the most, without effect.
const fn ignored(why: &'static str, arguments_max: usize) -> FileDirective {
    FileDirective { name: "", arguments: (1, arguments_max), effect: Effect::Needless(why) }
}
