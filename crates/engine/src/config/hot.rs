//! The values that commands and loops read all the time: plain atomics, written by whoever changes the
//! configuration, read by every thread without a lock. Each is read alone; none depends on another.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

use store::Thresholds;

use super::directives::DIRECTIVES;
use super::value::Value;
use crate::eviction::{AtomicPolicy, Policy};
use crate::pubsub::EventMask;

macro_rules! hot_values {
    ($($(#[$doc:meta])* $field:ident: $atomic:ident => $plain:ty, $directive:literal;)*) => {
        /// Lock-free copies of the values read on hot paths.
        #[derive(Debug, Default)]
        pub struct Hot {
            $($field: $atomic,)*
        }

        impl Hot {
            $($(#[$doc])*
            #[inline]
            pub fn $field(&self) -> $plain {
                self.$field.load(Relaxed)
            })*

            /// Takes over every value; `values` stand in the order of [`DIRECTIVES`].
            pub(super) fn refresh(&self, values: &[Value]) {
                for (row, value) in DIRECTIVES.iter().zip(values) {
                    match row.name {
                        $($directive => self.$field.store(<$plain as FromValue>::from_value(value), Relaxed),)*
                        _ => {}
                    }
                }
            }

            /// The directives that have a copy here.
            #[cfg(test)]
            pub(super) const NAMES: &'static [&'static str] = &[$($directive),*];
        }
    };
}

hot_values! {
    /// Microseconds above which a command enters the slow log; negative: never, 0: always.
    slowlog_log_slower_than_us: AtomicI64 => i64, "slowlog-log-slower-than";
    /// Entries that the slow log keeps.
    slowlog_len_max: AtomicU64 => u64, "slowlog-max-len";
    /// Milliseconds from which an event is kept by the latency monitor; 0: it is off.
    latency_monitor_threshold_ms: AtomicI64 => i64, "latency-monitor-threshold";
    /// Whether each command's latency goes into its histogram.
    latency_tracking: AtomicBool => bool, "latency-tracking";
    /// Bytes up to which a HyperLogLog is sparse, its header included.
    hll_sparse_bytes_max: AtomicU64 => u64, "hll-sparse-max-bytes";
    /// Bytes that one argument may have.
    proto_max_bulk_bytes: AtomicU64 => u64, "proto-max-bulk-len";
    /// Bytes of unparsed input at which a client is closed.
    query_buffer_bytes_max: AtomicU64 => u64, "client-query-buffer-limit";
    /// Bytes of memory that may be used; 0: no limit.
    maxmemory_bytes: AtomicU64 => u64, "maxmemory";
    /// Which keys go when memory is full.
    maxmemory_policy: AtomicPolicy => Policy, "maxmemory-policy";
    /// How long one slice of eviction may take, from 0 to 100.
    maxmemory_eviction_tenacity: AtomicU64 => u64, "maxmemory-eviction-tenacity";
    /// Bytes that clients may use together; negative: percent of `maxmemory`; 0: no limit.
    maxmemory_clients: AtomicI64 => i64, "maxmemory-clients";
    /// Milliseconds after which commands that wait for a script are refused; 0: they wait.
    busy_reply_threshold_ms: AtomicU64 => u64, "busy-reply-threshold";
    /// Keys looked at for each eviction.
    maxmemory_samples: AtomicU64 => u64, "maxmemory-samples";
    /// Clients that may be connected.
    maxclients: AtomicU64 => u64, "maxclients";
    /// Seconds after which an idle client is closed; 0: never.
    timeout_s: AtomicU64 => u64, "timeout";
    /// Seconds between TCP keep-alive probes; 0: none.
    tcp_keepalive_s: AtomicU64 => u64, "tcp-keepalive";
    /// Whether only local clients are served while no password is set.
    protected_mode: AtomicBool => bool, "protected-mode";
    /// How hard active expiry works, 1 to 10.
    active_expire_effort: AtomicU64 => u64, "active-expire-effort";
    /// Rounds of background work a second, 1 to 500.
    hz: AtomicU64 => u64, "hz";
    /// Whether that rate adapts to the number of clients.
    dynamic_hz: AtomicBool => bool, "dynamic-hz";
    /// Whether evicted values are freed in the background.
    lazyfree_lazy_eviction: AtomicBool => bool, "lazyfree-lazy-eviction";
    /// Whether expired values are freed in the background.
    lazyfree_lazy_expire: AtomicBool => bool, "lazyfree-lazy-expire";
    /// Whether values that a command replaces are freed in the background.
    lazyfree_lazy_server_del: AtomicBool => bool, "lazyfree-lazy-server-del";
    /// Whether DEL acts as UNLINK.
    lazyfree_lazy_user_del: AtomicBool => bool, "lazyfree-lazy-user-del";
    /// Whether FLUSHALL and FLUSHDB without ASYNC or SYNC act as ASYNC.
    lazyfree_lazy_user_flush: AtomicBool => bool, "lazyfree-lazy-user-flush";
    /// How slowly the access counter saturates.
    lfu_log_factor: AtomicU64 => u64, "lfu-log-factor";
    /// Minutes for the access counter to lose one; 0: it never does.
    lfu_decay_time_min: AtomicU64 => u64, "lfu-decay-time";
    /// Replicas that have to follow for writes to be accepted; 0: none.
    replicas_to_write_min: AtomicU64 => u64, "min-replicas-to-write";
    /// Milliseconds that a replica's data may be older than its primary's, in a cluster; 0: any.
    replica_staleness_ms_max: AtomicU64 => u64, "replica-max-staleness-ms";
    /// Whether a cluster node with uncovered slots refuses all keys.
    cluster_require_full_coverage: AtomicBool => bool, "cluster-require-full-coverage";
    /// Keys that are remembered for client-side caching; 0: no limit.
    tracking_table_max_keys: AtomicU64 => u64, "tracking-table-max-keys";
    /// The events that are published: see [`Hot::event_mask`].
    event_mask_bits: AtomicU64 => u64, "notify-keyspace-events";
    /// See [`Thresholds`].
    list_max_listpack_size: AtomicI64 => i64, "list-max-listpack-size";
    /// See [`Thresholds`].
    hash_max_listpack_entries: AtomicU64 => u64, "hash-max-listpack-entries";
    /// See [`Thresholds`].
    hash_max_listpack_value: AtomicU64 => u64, "hash-max-listpack-value";
    /// See [`Thresholds`].
    set_max_intset_entries: AtomicU64 => u64, "set-max-intset-entries";
    /// See [`Thresholds`].
    set_max_listpack_entries: AtomicU64 => u64, "set-max-listpack-entries";
    /// See [`Thresholds`].
    set_max_listpack_value: AtomicU64 => u64, "set-max-listpack-value";
    /// See [`Thresholds`].
    zset_max_listpack_entries: AtomicU64 => u64, "zset-max-listpack-entries";
    /// See [`Thresholds`].
    zset_max_listpack_value: AtomicU64 => u64, "zset-max-listpack-value";
    /// See [`Thresholds`].
    stream_node_max_bytes: AtomicU64 => u64, "stream-node-max-bytes";
    /// See [`Thresholds`].
    stream_node_max_entries: AtomicU64 => u64, "stream-node-max-entries";
}

impl Hot {
    /// The events that are published.
    #[inline]
    pub fn event_mask(&self) -> EventMask {
        EventMask::from_bits_retain(self.event_mask_bits())
    }

    /// The encoding thresholds, as of now.
    #[inline]
    pub fn thresholds(&self) -> Thresholds {
        Thresholds {
            list_max_listpack_size: self.list_max_listpack_size(),
            hash_max_listpack_entries: self.hash_max_listpack_entries() as usize,
            hash_max_listpack_value: self.hash_max_listpack_value() as usize,
            set_max_intset_entries: self.set_max_intset_entries() as usize,
            set_max_listpack_entries: self.set_max_listpack_entries() as usize,
            set_max_listpack_value: self.set_max_listpack_value() as usize,
            zset_max_listpack_entries: self.zset_max_listpack_entries() as usize,
            zset_max_listpack_value: self.zset_max_listpack_value() as usize,
            stream_node_max_bytes: self.stream_node_max_bytes() as usize,
            stream_node_max_entries: self.stream_node_max_entries() as usize,
        }
    }
}

/// How a hot copy is made from a stored value. The table's kinds and bounds make each conversion exact.
trait FromValue {
    fn from_value(value: &Value) -> Self;
}

impl FromValue for i64 {
    fn from_value(value: &Value) -> i64 {
        i64::try_from(value.number()).expect("hot signed values are bounded by i64 in the table")
    }
}

impl FromValue for u64 {
    fn from_value(value: &Value) -> u64 {
        if let Value::Text(letters) = value {
            return EventMask::of_letters(letters).bits();
        }
        u64::try_from(value.number()).expect("hot unsigned values are bounded by u64 in the table")
    }
}

impl FromValue for Policy {
    fn from_value(value: &Value) -> Policy {
        let Value::Word(word) = value else { unreachable!("a policy is a word of the table") };
        Policy::of(word).expect("policy-words: the table's words are the policies")
    }
}

impl FromValue for bool {
    fn from_value(value: &Value) -> bool {
        matches!(value, Value::Bool(true))
    }
}
