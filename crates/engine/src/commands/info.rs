//! INFO: what the server is, does and has done.
//!
//! Costs the same with any number of keys and clients, and reads no file: monitoring polls it. Names and order
//! are those of Redis 7.4. What this server does not have (forks, modules, replicas) is shown with the
//! values of a Redis that never used it, because tools look for the fields.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use std::fmt::{Display, Write};

use crate::acl::Reason;
use crate::args::Args;
use crate::commands::info_counts;
use crate::commands::memory::MemoryFigures;
use crate::commands::replication::info as replication;
use crate::commands::sentinel;
use crate::ctx::Ctx;
use crate::fault::CmdResult;
use crate::pubsub::Space;
use crate::reply::Reply;
use crate::scripting::{Scripting, vm};
use crate::server::{REDIS_VERSION, Server};
use crate::stats::{Counter, WorkerStats};
use base::clock::Now;

/// The text so far.
pub(crate) struct Fields(pub(crate) String);

impl Fields {
    /// Begins a section.
    fn section(&mut self, title: &str) {
        if !self.0.is_empty() {
            self.0.push_str("\r\n");
        }
        self.0.push_str("# ");
        self.0.push_str(title);
        self.0.push_str("\r\n");
    }

    /// Adds a field.
    pub fn add(&mut self, name: &str, value: impl Display) {
        self.0.push_str(name);
        // Writing to a string cannot fail.
        let _ = write!(self.0, ":{value}\r\n");
    }

    fn add_zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.add(name, 0));
    }

    /// Adds a number of bytes, plainly and again for people.
    fn add_bytes(&mut self, name: &str, human_name: &str, bytes: u64) {
        self.add(name, bytes);
        self.add(human_name, Human(bytes));
    }

    pub(crate) fn add_fixed(&mut self, name: &str, value: f64) {
        self.0.push_str(name);
        let _ = write!(self.0, ":{value:.2}\r\n");
    }
}

/// Bytes for people, as Redis writes them: `512B`, `1.06M`.
struct Human(u64);

impl Display for Human {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 < 1024 {
            return write!(f, "{}B", self.0);
        }
        let exponent = (self.0.ilog2() / 10).min(5);
        let unit = ["B", "K", "M", "G", "T", "P"][exponent as usize];
        write!(f, "{:.2}{unit}", self.0 as f64 / (1u64 << (10 * exponent)) as f64)
    }
}

/// What a section is made from.
pub(crate) struct Source<'a> {
    /// The server.
    pub server: &'a Server,
    /// The instant of the command.
    pub now: Now,
}

struct Section {
    title: &'static str,
    /// Shown without being asked for.
    is_default: bool,
    fill: fn(&Source<'_>, &mut Fields),
}

/// All sections, in the order in which they are shown. A section is asked for by its title in lower case.
const SECTIONS: &[Section] = &[
    Section { title: "Server", is_default: true, fill: server },
    Section { title: "Clients", is_default: true, fill: clients },
    Section { title: "Memory", is_default: true, fill: memory },
    Section { title: "Persistence", is_default: true, fill: persistence },
    Section { title: "Stats", is_default: true, fill: stats },
    Section { title: "Replication", is_default: true, fill: replication::section },
    Section { title: "CPU", is_default: true, fill: cpu },
    Section { title: "Modules", is_default: true, fill: |_, _| () },
    Section { title: "Commandstats", is_default: false, fill: info_counts::commands },
    Section { title: "Errorstats", is_default: true, fill: info_counts::errors },
    Section { title: "Latencystats", is_default: false, fill: info_counts::latencies },
    Section { title: "Placement", is_default: false, fill: placement },
    Section { title: "Cluster", is_default: true, fill: cluster },
    Section { title: "Keyspace", is_default: true, fill: info_counts::keyspace },
];

/// INFO [section ...]: a section's name, `default`, `all` or `everything`, any number of them.
pub(crate) fn info(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let source = Source { server: ctx.server(), now: ctx.now() };
    let asks = |word: &str| args.from(1).iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let all = asks("all") || asks("everything");
    let default = args.len() == 1 || asks("default");
    let mut fields = Fields(String::with_capacity(if all { 32 * 1024 } else { 8 * 1024 }));
    for section in SECTIONS {
        if all || (default && section.is_default) || asks(section.title) {
            fields.section(section.title);
            (section.fill)(&source, &mut fields);
        }
    }
    if sentinel::came_to_port(ctx.server(), ctx.session_ref()) {
        fields.0 = fields.0.replacen("redis_mode:cluster", "redis_mode:sentinel", 1);
        if args.len() == 1 || all || asks("sentinel") {
            fields.0.push_str("\r\n");
            fields.0.push_str(&sentinel::info(ctx.server()));
        }
    }
    reply.verbatim("txt", fields.0.as_bytes());
    Ok(())
}

fn server(source: &Source<'_>, fields: &mut Fields) {
    let Source { server, now } = source;
    let (config, process) = (&server.config, &server.process);
    let uptime_s = now.mono_us.saturating_sub(server.started.mono_us) / 1_000_000;
    let port = config.int("port");
    fields.add("redis_version", REDIS_VERSION);
    fields.add("redis_git_sha1", "00000000");
    fields.add("redis_git_dirty", 0);
    fields.add("redis_build_id", "0000000000000000");
    fields.add("redis_mode", if server.cluster.enabled { "cluster" } else { "standalone" });
    fields.add("server_name", "halcyon");
    fields.add("halcyon_version", env!("CARGO_PKG_VERSION"));
    fields.add("os", &process.os);
    fields.add("arch_bits", usize::BITS);
    fields.add("monotonic_clock", "POSIX clock_gettime");
    fields.add("multiplexing_api", process.multiplexing_api);
    fields.add("atomicvar_api", "c11-builtin");
    fields.add("gcc_version", "0.0.0");
    fields.add("process_id", process.pid);
    fields.add("process_supervised", "no");
    fields.add("run_id", &process.run_id);
    fields.add("tcp_port", if port == 0 { config.int("tls-port") } else { port });
    fields.add("server_time_usec", now.unix_us);
    fields.add("uptime_in_seconds", uptime_s);
    fields.add("uptime_in_days", uptime_s / 86_400);
    let hz = config.hot().hz();
    fields.add("hz", hz);
    fields.add("configured_hz", hz);
    fields.add("lru_clock", store::access::recency(now.unix_ms));
    fields.add("executable", &process.executable);
    fields.add("config_file", config.config_file().unwrap_or("".as_ref()).display());
    if let Some(left_ms) = server.shutdown.left_ms(now.unix_ms) {
        fields.add("shutdown_in_milliseconds", left_ms);
    }
    fields.add("io_threads_active", u8::from(process.workers > 1));
    fields.add("worker_threads", process.workers);
    fields.add("no_fork", u8::from(process.is_fork_forbidden));
    listeners(source, port, fields);
}

fn listeners(source: &Source<'_>, port: i64, fields: &mut Fields) {
    let config = &source.server.config;
    let binds =
        config.list("bind").into_iter().map(|bind| format!("bind={},", String::from_utf8_lossy(&bind)));
    let binds: String = binds.collect();
    // As Redis numbers them: by kind, whether or not the others are there.
    if port != 0 {
        fields.add("listener0", format_args!("name=tcp,{binds}port={port}"));
    }
    let unix = config.string("unixsocket");
    if !unix.is_empty() {
        fields.add("listener1", format_args!("name=unix,bind={unix}"));
    }
    let tls_port = config.int("tls-port");
    if tls_port != 0 {
        fields.add("listener2", format_args!("name=tls,{binds}port={tls_port}"));
    }
}

fn clients(source: &Source<'_>, fields: &mut Fields) {
    let server = source.server;
    let replicas = server.replication.replicas.count() as u64;
    fields.add("connected_clients", server.clients.connected().saturating_sub(replicas));
    fields.add("cluster_connections", 0);
    fields.add("maxclients", server.config.int("maxclients"));
    fields.add("client_recent_max_input_buffer", server.clients.memory.recent_input.max());
    fields.add("client_recent_max_output_buffer", server.clients.memory.recent_output.max());
    fields.add("blocked_clients", server.clients.blocked());
    fields.add("tracking_clients", server.tracking.clients());
    fields.add("pubsub_clients", server.channels.clients.load(Relaxed));
    fields.add("watching_clients", 0);
    fields.add("clients_in_timeout_table", 0);
    fields.add("total_watched_keys", server.watches.key_count());
    fields.add("total_blocking_keys", server.waiters.key_count());
    fields.add("total_blocking_keys_on_nokey", 0);
}

fn memory(source: &Source<'_>, fields: &mut Fields) {
    let server = source.server;
    let memory = MemoryFigures::of(server, source.now.unix_ms);
    fields.add_bytes("used_memory", "used_memory_human", memory.used);
    fields.add_bytes("used_memory_rss", "used_memory_rss_human", memory.resident);
    fields.add_bytes("used_memory_peak", "used_memory_peak_human", memory.peak);
    fields.add("used_memory_peak_perc", format_args!("{:.2}%", memory.peak_percent()));
    fields.add("used_memory_overhead", memory.overhead());
    fields.add("used_memory_startup", memory.startup);
    fields.add("used_memory_dataset", memory.dataset());
    fields.add("used_memory_dataset_perc", format_args!("{:.2}%", memory.dataset_percent()));
    fields.add("allocator_allocated", memory.used);
    fields.add("allocator_active", memory.used);
    fields.add("allocator_resident", memory.resident);
    fields.add("allocator_muzzy", 0);
    let total = server.process.system_memory_bytes;
    fields.add_bytes("total_system_memory", "total_system_memory_human", total);
    scripting_memory(&server.scripting, fields);
    fields.add_bytes("maxmemory", "maxmemory_human", server.config.hot().maxmemory_bytes());
    fields.add("maxmemory_policy", server.config.string("maxmemory-policy"));
    fields.add_fixed("allocator_frag_ratio", 1.0);
    fields.add("allocator_frag_bytes", 0);
    fields.add_fixed("allocator_rss_ratio", memory.fragmentation());
    fields.add("allocator_rss_bytes", memory.fragmentation_bytes());
    fields.add_fixed("rss_overhead_ratio", 1.0);
    fields.add("rss_overhead_bytes", 0);
    fields.add_fixed("mem_fragmentation_ratio", memory.fragmentation());
    fields.add("mem_fragmentation_bytes", memory.fragmentation_bytes());
    let kept_bytes = if server.is_log_kept() { server.log.kept_bytes() } else { 0 };
    fields.add("mem_not_counted_for_evict", server.replication.replicas.kept_bytes());
    fields.add("mem_replication_backlog", kept_bytes.min(server.backlog_bytes()));
    fields.add("mem_total_replication_buffers", kept_bytes);
    let replica_bytes = server.replication.replicas.memory_bytes();
    fields.add("mem_clients_slaves", replica_bytes);
    fields.add("mem_clients_normal", memory.clients.saturating_sub(replica_bytes));
    fields.add_zeros(&["mem_cluster_links", "mem_aof_buffer"]);
    fields.add("mem_allocator", "mimalloc");
    fields.add("mem_overhead_db_hashtable_rehashing", 0);
    fields.add("active_defrag_running", 0);
    fields.add("lazyfree_pending_objects", server.keyspace.garbage_pending());
}

/// The scripts that the server knows, and the Lua states of all threads together.
fn scripting_memory(scripting: &Scripting, fields: &mut Fields) {
    let states = vm::states_bytes();
    let (scripts, functions) = (scripting.scripts.bytes(), scripting.functions.bytes());
    let set = scripting.functions.current();
    fields.add("used_memory_lua", states);
    fields.add("used_memory_vm_eval", states);
    fields.add("used_memory_lua_human", Human(states));
    fields.add("used_memory_scripts_eval", scripts);
    fields.add("number_of_cached_scripts", scripting.scripts.len());
    fields.add("number_of_functions", set.function_count());
    fields.add("number_of_libraries", set.libraries.len());
    fields.add("used_memory_vm_functions", 0);
    fields.add_bytes("used_memory_vm_total", "used_memory_vm_total_human", states);
    fields.add("used_memory_functions", functions);
    fields.add_bytes("used_memory_scripts", "used_memory_scripts_human", scripts + functions);
}

fn persistence(source: &Source<'_>, fields: &mut Fields) {
    let server = source.server;
    let state = &server.persistence;
    let is_saving = state.is_saving();
    let is_running = state.running().is_some();
    let while_saving = |counter: &AtomicU64| if is_running { counter.load(Relaxed) } else { 0 };
    fields.add("loading", u8::from(state.is_loading()));
    fields.add("async_loading", 0);
    if state.is_loading() {
        loading(source, fields);
    }
    fields.add("current_cow_peak", while_saving(&state.kept_peak_bytes));
    fields.add("current_cow_size", server.keyspace.kept_bytes());
    fields.add("current_cow_size_age", 0);
    // Writers wait while so much is kept.
    fields.add("current_cow_size_max", if is_saving { server.keyspace.kept_bytes_max() } else { 0 });
    let (written, total) = (while_saving(&state.keys_written), while_saving(&state.keys_total));
    fields.add_fixed("current_fork_perc", written as f64 * 100.0 / total.max(1) as f64);
    fields.add("current_save_keys_processed", written);
    fields.add("current_save_keys_total", total);
    fields.add("rdb_changes_since_last_save", server.unsaved_changes());
    fields.add("rdb_bgsave_in_progress", u8::from(is_saving));
    fields.add("rdb_last_save_time", state.saved_at_s());
    fields.add("rdb_last_bgsave_status", if state.cannot_save() { "err" } else { "ok" });
    fields.add("rdb_last_bgsave_time_sec", state.last_took_s());
    let running_for_s = state.running_for_s(source.now.unix_ms / 1000).filter(|_| is_saving);
    fields.add("rdb_current_bgsave_time_sec", running_for_s.unwrap_or(-1));
    fields.add("rdb_saves", state.saves());
    fields.add("rdb_last_cow_size", state.kept_peak_bytes.load(Relaxed));
    fields.add("rdb_last_load_keys_expired", state.loading.keys_expired.load(Relaxed));
    fields.add("rdb_last_load_keys_loaded", state.loading.keys_loaded.load(Relaxed));
    append_only_files(source, fields);
    info_counts::durability(source, fields);
}

fn append_only_files(source: &Source<'_>, fields: &mut Fields) {
    let server = source.server;
    let (files, rewriting) = (&server.persistence.files, &server.persistence.rewriting);
    let status = |is_bad| if is_bad { "err" } else { "ok" };
    let is_rewriting = server.persistence.is_rewriting();
    let running_for_s = server.persistence.running_for_s(source.now.unix_ms / 1000);
    let are_enabled = server.config.bool("appendonly");
    fields.add("aof_enabled", u8::from(are_enabled));
    fields.add("aof_rewrite_in_progress", u8::from(is_rewriting));
    fields.add("aof_rewrite_scheduled", u8::from(rewriting.is_scheduled()));
    fields.add("aof_last_rewrite_time_sec", rewriting.last_took_s());
    fields.add("aof_current_rewrite_time_sec", running_for_s.filter(|_| is_rewriting).unwrap_or(-1));
    fields.add("aof_last_bgrewrite_status", status(rewriting.has_failed()));
    fields.add("aof_rewrites", rewriting.count());
    fields.add("aof_rewrites_consecutive_failures", rewriting.failures_in_a_row());
    fields.add("aof_last_write_status", status(files.error().is_some()));
    fields.add("aof_last_cow_size", rewriting.kept_peak_bytes());
    fields.add_zeros(&["module_fork_in_progress", "module_fork_last_cow_size"]);
    if are_enabled {
        let sizes = files.sizes();
        let written_to = files.watermarks().map_or(u64::MAX, |watermarks| watermarks.written_to());
        fields.add("aof_current_size", sizes.current_bytes);
        fields.add("aof_base_size", sizes.base_bytes);
        fields.add("aof_pending_rewrite", u8::from(rewriting.is_scheduled()));
        fields.add("aof_buffer_length", server.log.end().saturating_sub(written_to));
        fields.add("aof_pending_bio_fsync", u8::from(files.is_syncing()));
        fields.add("aof_delayed_fsync", files.syncs_delayed());
    }
}

fn loading(source: &Source<'_>, fields: &mut Fields) {
    let state = &source.server.persistence.loading;
    let (total, loaded) = (state.total_bytes.load(Relaxed), state.loaded_bytes.load(Relaxed));
    let (started_s, now_s) = (state.started_at_s.load(Relaxed), source.now.unix_ms / 1000);
    let elapsed_s = (now_s - started_s).max(1) as u64;
    fields.add("loading_start_time", started_s);
    fields.add("loading_total_bytes", total);
    fields.add("loading_loaded_bytes", loaded);
    fields.add_fixed("loading_loaded_perc", loaded as f64 * 100.0 / total.max(1) as f64);
    fields.add("loading_eta_seconds", total.saturating_sub(loaded) / (loaded / elapsed_s).max(1));
}

fn stats(source: &Source<'_>, fields: &mut Fields) {
    let server = source.server;
    let keyspace = &server.keyspace;
    let (commands_per_s, input_per_s, output_per_s) = {
        let rates = server.rates.lock();
        (rates.commands.per_second(), rates.input.per_second(), rates.output.per_second())
    };
    fields.add("total_connections_received", server.total(|stats| &stats.connections));
    fields.add("total_commands_processed", server.total(|stats| &stats.commands));
    fields.add("instantaneous_ops_per_sec", commands_per_s);
    fields.add("total_net_input_bytes", server.total(|stats| &stats.input_bytes));
    fields.add("total_net_output_bytes", server.total(|stats| &stats.output_bytes));
    fields.add("total_net_repl_input_bytes", 0);
    let sent_bytes = server.replication.replicas.sent_bytes.load(Relaxed);
    fields.add("total_net_repl_output_bytes", sent_bytes);
    fields.add_fixed("instantaneous_input_kbps", input_per_s as f64 / 1024.0);
    fields.add_fixed("instantaneous_output_kbps", output_per_s as f64 / 1024.0);
    fields.add_fixed("instantaneous_input_repl_kbps", 0.0);
    fields.add_fixed("instantaneous_output_repl_kbps", 0.0);
    fields.add("rejected_connections", server.total(|stats| &stats.rejected_connections));
    replication::stats(source, fields);
    fields.add("expired_subkeys", keyspace.expired_fields());
    fields.add("expired_keys", keyspace.expired_keys());
    fields.add_fixed("expired_stale_perc", 0.0);
    fields.add("expired_time_cap_reached_count", keyspace.expired_time_cap_reached());
    fields.add("expire_cycle_cpu_milliseconds", 0);
    fields.add("evicted_keys", server.total(|stats| &stats.evicted_keys));
    fields.add("evicted_clients", server.total(|stats| &stats.evicted_clients));
    fields.add("evicted_scripts", server.scripting.scripts.evicted());
    let exceeded = server.exceeded.times(source.now.mono_us);
    fields.add("total_eviction_exceeded_time", exceeded.total_ms);
    fields.add("current_eviction_exceeded_time", exceeded.current_ms);
    fields.add("keyspace_hits", server.total(|stats| &stats.keyspace_hits));
    fields.add("keyspace_misses", server.total(|stats| &stats.keyspace_misses));
    fields.add("pubsub_channels", server.channels.used(Space::Channel));
    fields.add("pubsub_patterns", server.channels.used(Space::Pattern));
    fields.add("pubsubshard_channels", server.channels.used(Space::Shard));
    fields.add_zeros(&["latest_fork_usec", "total_forks"]);
    fields.add("migrate_cached_sockets", server.links.len());
    fields.add_zeros(&[
        "slave_expires_tracked_keys",
        "active_defrag_hits",
        "active_defrag_misses",
        "active_defrag_key_hits",
        "active_defrag_key_misses",
        "total_active_defrag_time",
        "current_active_defrag_time",
    ]);
    fields.add("tracking_total_keys", server.tracking.keys());
    fields.add("tracking_total_items", server.tracking.items());
    fields.add("tracking_total_prefixes", server.tracking.prefixes());
    fields.add("unexpected_error_replies", server.replication.following.errors.load(Relaxed));
    fields.add("total_error_replies", server.total(|stats| &stats.errors));
    fields.add("dump_payload_sanitizations", 0);
    fields.add("total_reads_processed", server.total(|stats| &stats.reads));
    fields.add("total_writes_processed", server.total(|stats| &stats.writes));
    fields.add_zeros(&["io_threaded_reads_processed", "io_threaded_writes_processed"]);
    let disconnections = server.total(|stats| &stats.limit_disconnections);
    fields.add("client_query_buffer_limit_disconnections", disconnections);
    let disconnections = server.total(|stats| &stats.output_limit_disconnections);
    fields.add("client_output_buffer_limit_disconnections", disconnections);
    fields.add("client_output_pauses", server.total(|stats| &stats.output_pauses));
    fields.add_zeros(&["reply_buffer_shrinks", "reply_buffer_expands"]);
    fields.add("eventloop_cycles", server.total(|stats| &stats.loop_turns));
    fields.add("acl_access_denied_auth", server.acl.denials(Reason::Auth));
    fields.add("acl_access_denied_cmd", server.acl.denials(Reason::Command));
    fields.add("acl_access_denied_key", server.acl.denials(Reason::Key));
    fields.add("acl_access_denied_channel", server.acl.denials(Reason::Channel));
}

fn cpu(source: &Source<'_>, fields: &mut Fields) {
    let used = source.server.host.cpu_seconds();
    // Nobody is forked: children use none.
    for (name, seconds) in [
        ("used_cpu_sys", used.system),
        ("used_cpu_user", used.user),
        ("used_cpu_sys_children", 0.0),
        ("used_cpu_user_children", 0.0),
    ] {
        fields.add(name, format_args!("{seconds:.6}"));
    }
}

/// Where the threads run, and why: for those who look into a machine, so only where it is asked for.
fn placement(source: &Source<'_>, fields: &mut Fields) {
    source.server.host.tell_placement(&mut |name, value| fields.add(name, value));
}

fn cluster(source: &Source<'_>, fields: &mut Fields) {
    let cluster = &source.server.cluster;
    fields.add("cluster_enabled", u8::from(cluster.enabled));
    if !cluster.enabled {
        return;
    }
    let redirects = &cluster.redirects;
    fields.add("cluster_redirects", source.server.config.string("cluster-redirects"));
    fields.add("cluster_late_clients", redirects.known());
    fields.add("cluster_forwarded_requests", redirects.forwarded.load(Relaxed));
    fields.add("cluster_forwarded_lost", redirects.lost.load(Relaxed));
    fields.add("cluster_redirects_told", redirects.told.load(Relaxed));
    fields.add("cluster_redirects_told_at_once", redirects.told_at_once.load(Relaxed));
    let total = |counter: fn(&WorkerStats) -> &Counter| source.server.total(counter);
    fields.add("cluster_relays", total(|stats| &stats.relays));
    fields.add("cluster_relays_waiting_requests", total(|stats| &stats.relays_waiting_requests));
    fields.add("cluster_relays_waiting_bytes", total(|stats| &stats.relays_waiting_bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Harness;

    fn sections(info: &str) -> Vec<&str> {
        info.lines().filter_map(|line| line.strip_prefix("# ")).collect()
    }

    #[test]
    fn sections_are_chosen_by_name() {
        let mut harness = Harness::new();
        let default =
            "Server Clients Memory Persistence Stats Replication CPU Modules Errorstats Cluster Keyspace";
        let all = "Server Clients Memory Persistence Stats Replication CPU Modules Commandstats Errorstats Latencystats Placement \
                   Cluster Keyspace";
        for (line, expected) in [
            ("INFO", default),
            ("INFO default", default),
            ("INFO ALL", all),
            ("INFO everything", all),
            ("INFO keyspace nosuch SERVER server", "Server Keyspace"),
            ("INFO commandstats default cpu", &all.replace("Latencystats Placement ", "")),
            ("INFO placement", "Placement"),
            ("INFO nosuch", ""),
        ] {
            assert_eq!(sections(&harness.run(line)).join(" "), expected, "{line}");
        }
        assert_eq!(
            harness.run("INFO cluster modules"),
            "# Modules\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n"
        );
    }

    #[test]
    fn every_line_is_a_field() {
        let mut harness = Harness::new();
        harness.run("SET k v");
        let info = harness.run("INFO everything");
        let mut names = Vec::new();
        for line in info.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with("# ")) {
            names.push(line.split_once(':').unwrap_or_else(|| panic!("no field: {line}")).0);
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a field appears twice");
        // What tools read, beyond what every line shows.
        for name in [
            "redis_version",
            "redis_mode",
            "run_id",
            "tcp_port",
            "uptime_in_seconds",
            "connected_clients",
            "blocked_clients",
            "maxclients",
            "used_memory",
            "used_memory_rss",
            "used_memory_peak",
            "mem_fragmentation_ratio",
            "maxmemory_policy",
            "loading",
            "rdb_bgsave_in_progress",
            "aof_rewrite_in_progress",
            "rdb_last_save_time",
            "total_connections_received",
            "total_commands_processed",
            "instantaneous_ops_per_sec",
            "expired_keys",
            "evicted_keys",
            "keyspace_hits",
            "rejected_connections",
            "role",
            "connected_slaves",
            "master_repl_offset",
            "used_cpu_user",
            "cluster_enabled",
            "db0",
            "cmdstat_set",
            "latency_percentiles_usec_set",
        ] {
            assert!(names.contains(&name), "{name} is missing");
        }
    }

    #[test]
    fn figures_follow_what_happens() {
        let mut harness = Harness::new();
        harness.advance_ms(90_061_000);
        for (line, field) in [
            ("SET k v", "rdb_changes_since_last_save:1"),
            ("SET e v EX 100", "db0:keys=2,expires=1,avg_ttl="),
            ("GET k", "keyspace_hits:1"),
            ("GET missing", "keyspace_misses:1"),
            ("NOSUCH", "errorstat_ERR:count=1"),
            ("LPUSH k a", "errorstat_WRONGTYPE:count=1"),
            ("PING", "total_error_replies:2"),
            ("PING", "uptime_in_days:1"),
            ("PING", "connected_clients:1"),
            ("CONFIG SET maxmemory 1gb", "maxmemory_human:1.00G"),
        ] {
            harness.run(line);
            let info = harness.run("INFO");
            assert!(info.lines().any(|found| found.starts_with(field)), "{line}: {field} in {info}");
        }
        assert!(!harness.run("INFO").contains("db1:"));
    }

    #[test]
    fn bytes_for_people() {
        for (bytes, expected) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1_113_848, "1.06M"),
            (25_276_502_016, "23.54G"),
            (1 << 42, "4.00T"),
            (u64::MAX, "16384.00P"),
        ] {
            assert_eq!(Human(bytes).to_string(), expected);
        }
    }
}
