//! Every bound of the server, in one place, with what must hold between them. Sizes are in bytes unless the name
//! says otherwise.

/// Most arguments of one command, its name included. Redis 7.0 itself refuses only above `i32::MAX` (older ones above
/// 1,048,576, the figure in its documentation); more than this is a broken client, and is told so with
/// `invalid multibulk length`.
pub const MULTIBULK_ARGS_MAX: u32 = 1_048_576;

/// Longest line: an inline command, or the `*<count>` and `$<length>` lines of an array.
pub const INLINE_BYTES_MAX: usize = 64 * KIB;

/// Most arguments of one command before the client has authenticated, where a password is set.
pub const UNAUTH_ARGS_MAX: u32 = 10;

/// Longest argument before the client has authenticated, where a password is set.
pub const UNAUTH_BULK_BYTES_MAX: u64 = 16_384;

/// Longest argument, unless `proto-max-bulk-len` says otherwise.
pub const PROTO_MAX_BULK_BYTES_DEFAULT: u64 = 512 * MIB;

/// Longest command, unless `client-query-buffer-limit` says otherwise.
pub const QUERY_BUFFER_BYTES_DEFAULT: u64 = 1024 * MIB;

/// With more unsent reply bytes than this, a connection's commands wait and its socket is not read.
pub const OUTPUT_HIGH_WATER_BYTES: usize = 256 * KIB;

/// A paused connection goes on when its unsent reply bytes have fallen below this.
pub const OUTPUT_LOW_WATER_BYTES: usize = 64 * KIB;

/// What one read from a socket asks for, unless a large argument is known to be on its way.
pub const READ_BUFFER_BYTES: usize = 64 * KIB;

/// Most commands one connection runs before the others of its worker have their turn.
pub const TURN_COMMANDS_MAX: usize = 1024;

/// Time after which a connection leaves the rest of its commands for its next turn, in microseconds.
pub const TURN_US: u64 = 1_000;

/// Commands that are decoded, hashed and prefetched together before the first of them runs.
pub const BATCH_COMMANDS: usize = 16;

/// A value of at least this size is sent from where it lies instead of being copied into an output buffer.
pub const SHARE_BYTES_MIN: usize = 16 * KIB;

const KIB: usize = 1024;
const MIB: u64 = 1024 * 1024;

const _: () = {
    assert!(MULTIBULK_ARGS_MAX <= i32::MAX as u32);
    assert!(UNAUTH_ARGS_MAX < MULTIBULK_ARGS_MAX);
    assert!(UNAUTH_BULK_BYTES_MAX < PROTO_MAX_BULK_BYTES_DEFAULT);
    assert!(
        PROTO_MAX_BULK_BYTES_DEFAULT < QUERY_BUFFER_BYTES_DEFAULT,
        "the longest argument must fit in a command"
    );
    assert!((INLINE_BYTES_MAX as u64) < QUERY_BUFFER_BYTES_DEFAULT);
    assert!(
        OUTPUT_LOW_WATER_BYTES < OUTPUT_HIGH_WATER_BYTES,
        "a paused connection must have something to drain"
    );
    assert!(BATCH_COMMANDS <= TURN_COMMANDS_MAX);
    assert!(
        SHARE_BYTES_MIN < OUTPUT_LOW_WATER_BYTES,
        "what is copied into the buffer must not pass the mark at once"
    );
};

/// Size of the buffer that replies are collected in.
pub const OUTPUT_BUFFER_BYTES: usize = 16 * KIB;

/// Bytes after which a buffer of replies is closed and a new one begun.
pub const OUTPUT_PART_BYTES: usize = 14 * KIB;

/// Places in one connection's unsent replies at which it is known what the log has to reach before they leave: with more,
/// several wait for the last of them.
pub const OUTPUT_GATES_MAX: usize = 32;

/// Writes by key that a stripe remembers until they are safe: with more, all of its keys wait for the newest.
pub const UNSYNCED_KEYS_MAX: usize = 64;

/// Keys of one record that are remembered one by one: with more, all keys wait for it.
pub const RECORD_KEYS_MAX: usize = 4096;

/// Keys of records that a worker keeps memory for.
pub const RECORD_KEYS_KEPT_MAX: usize = 256;

/// How much of a large reply is made at a time.
pub const STREAM_PIECE_BYTES: usize = 32 * KIB;

/// Inputs with more elements than this are worked on by the long lane, not by a worker.
pub const BIG_INPUT_ELEMENTS: usize = 10_000;

/// Bytes of a string that are as much work as one element of a collection, where a command visits them all.
pub const BYTES_PER_ELEMENT_OF_WORK: usize = 32;

/// Latest end of a hash's field, in unix milliseconds: what Redis lets a client ask for.
pub const FIELD_END_MS_MAX: i64 = (1 << 46) - 1;

/// A value of more bytes than this is turned into a payload, or made from one, by the long lane.
pub const BIG_PAYLOAD_BYTES: usize = 64 * KIB;
/// Scripts that EVAL brought and that the server remembers: with one more, the one not used for longest is forgotten.
pub const EVAL_SCRIPTS_MAX: usize = 500;

/// Functions that one thread keeps compiled.
pub const LUA_COMPILED_MAX: usize = 1024;

/// Compiled scripts that one thread finds by their text, without a digest.
pub const LUA_RECENT_MAX: usize = 8;

/// Change of the memory of a thread's Lua that others are told of.
pub const LUA_COUNT_STEP_BYTES: u64 = 32 * KIB as u64;

/// A thread's Lua of fewer bytes is small: its garbage may grow to several times that.
pub const LUA_SMALL_BYTES: u64 = 1024 * KIB as u64;

/// Values of more bytes than this are made for a script under the bound on its memory.
pub const LUA_QUICK_BYTES_MAX: usize = 64 * KIB;

/// Most bytes of one thread's Lua.
pub const LUA_BYTES_MAX: usize = 1024 * 1024 * KIB;

/// Longest text that a library makes for a script.
pub const LUA_TEXT_BYTES_MAX: usize = 512 * 1024 * KIB;

/// Longest pattern that a script matches texts against: Lua recurses for each of its items.
pub const LUA_PATTERN_BYTES_MAX: usize = 2_000;

/// Stack of a thread that runs commands: scripts nest calls of Lua and of Rust in each other.
pub const THREAD_STACK_BYTES: usize = 8 * 1024 * KIB;

/// Instructions after which a script is asked whether it may go on.
pub const LUA_HOOK_INSTRUCTIONS: u32 = 10_000;

/// Time that a script may run on a worker, in microseconds; if it takes longer, it starts again elsewhere.
pub const SCRIPT_WORKER_US: u64 = 2_000;

/// Keys that a script has written and that are found by looking through them all; of more, there is an index.
pub const SCRIPT_UNDO_SCAN_MAX: usize = 16;

/// Memory for a command's arguments, and for its reply, that is kept for a script's next command.
pub const SCRIPT_SCRATCH_BYTES_MAX: usize = 64 * KIB;

/// Threads for scripts that take long or wait for keys.
pub const SCRIPT_THREADS: usize = 4;

/// Threads that apply a primary's stream, at most.
pub const APPLY_THREADS_MAX: usize = 4;

/// Threads for commands that wait for another server (MIGRATE).
pub const OUTGOING_THREADS: usize = 2;

/// Connections to other servers that are kept for the next command that wants one.
pub const LINKS_KEPT_MAX: usize = 64;

/// Time for which such a connection is kept, in microseconds.
pub const LINK_IDLE_US_MAX: u64 = 10_000_000;

/// Longest request that is forwarded to the new owner of its slot, in bytes.
pub const FORWARD_REQUEST_BYTES_MAX: usize = MIB as usize;

/// Requests that may wait in a relay, for being sent or for their answers.
pub const RELAY_REQUESTS_MAX: usize = 16 * 1024;

/// Bytes that may wait in a relay to be sent.
pub const RELAY_BYTES_MAX: usize = 16 * MIB as usize;

/// Relays of a worker: one for each node and protocol.
pub const RELAYS_MAX: usize = 1024;

/// Time that a request waits for being sent by a relay, in microseconds.
pub const RELAY_SEND_US_MAX: u64 = 1_000_000;

/// Time that a forwarded request waits for its answer, in microseconds.
pub const RELAY_ANSWER_US_MAX: u64 = 15_000_000;

/// Time between two questions to a node whether it has heard of a change yet, in microseconds.
pub const RELAY_ASK_US: u64 = 1_000;

/// Time in which nothing is forwarded to a node to which a relay has failed, in microseconds.
pub const RELAY_REST_US: u64 = 1_000_000;

/// Time for which a relay that is not used is kept, in microseconds.
pub const RELAY_IDLE_US_MAX: u64 = 10_000_000;

/// Time for which a client that does not read its replies may hold up the relay that these come from, in microseconds.
pub const RELAY_HELD_US_MAX: u64 = 1_000_000;

/// Longest error that is read whole before it is passed on.
pub const RELAY_ERROR_BYTES_MAX: usize = 64 * KIB;

/// Time in which who was told of a slot's new owner is not told again, in microseconds.
pub const REDIRECT_AGAIN_US: u64 = 1_000_000;

/// Time after which a client that sends nothing late any more is forgotten, in microseconds.
pub const REDIRECTED_IDLE_US: u64 = 60_000_000;

/// Clients for which requests are forwarded and that are remembered; of more, only numbers are.
pub const REDIRECTED_MAX: usize = 64 * 1024;

/// Clients that CLUSTER REDIRECTS tells of.
pub const REDIRECTED_LISTED_MAX: usize = 100;

const _: () = assert!(FORWARD_REQUEST_BYTES_MAX * BATCH_COMMANDS <= RELAY_BYTES_MAX, "a batch has room");

/// Keys that MIGRATE sends before it reads what the other server answered to them.
pub const MIGRATE_WINDOW_KEYS: usize = 1024;

/// Bytes that MIGRATE collects before it sends them.
pub const MIGRATE_SEND_BYTES: usize = 64 * KIB;

/// Longest line that another server answers MIGRATE with.
pub const MIGRATE_LINE_BYTES_MAX: usize = 64 * KIB;

/// What running a command of a primary's stream or of an append-only file amounts to, as `store::courtesy` counts work.
pub const APPLIED_UNITS: u32 = 10;

/// Bytes, and commands, that a move of slots sends before it waits for answers.
pub const SLOT_MOVE_WINDOW_BYTES: usize = 256 * KIB;
/// See [`SLOT_MOVE_WINDOW_BYTES`].
pub const SLOT_MOVE_WINDOW_COMMANDS: usize = 4096;

/// What a move of slots may be behind the log: with more, it has failed.
pub const SLOT_MOVE_LOG_BYTES_MAX: u64 = 512 * MIB;

/// What a move may be behind the log when the slots' commands begin to wait for it.
pub const SLOT_MOVE_FLIP_BYTES_MAX: u64 = 16 * KIB as u64;

/// The same where writers, of other slots too, are so fast that it does not come to that little by itself.
pub const SLOT_MOVE_FLIP_BYTES_LAST: u64 = 4 * MIB;
const _: () = assert!(SLOT_MOVE_FLIP_BYTES_MAX <= SLOT_MOVE_FLIP_BYTES_LAST);

/// Moves of slots that are asked for in one command, and so in one transaction of etcd, which has bounds.
pub const SLOT_MOVES_ASKED_MAX: usize = 60;

/// Moves of slots that a node carries out at once.
pub const SLOT_MOVES_RUNNING_MAX: usize = 4;

/// Moves of slots whose progress a node remembers.
pub const SLOT_MOVES_TOLD_MAX: usize = 128;

/// Time that the slots' commands wait at most for a destination that does not answer, in milliseconds.
pub const SLOT_MOVE_FLIP_MS_MAX: u64 = 1_000;

/// Time that a move waits for a destination that does not answer, in milliseconds.
pub const SLOT_MOVE_PATIENCE_MS: u64 = 10_000;

/// Time that the code of a library may take to register its functions, in microseconds.
pub const LIBRARY_LOAD_US: u64 = 500_000;

const _: () = assert!(EVAL_SCRIPTS_MAX < LUA_COMPILED_MAX && LUA_TEXT_BYTES_MAX < LUA_BYTES_MAX);

/// Keys, or fields of hashes, that one slice of active expiry removes under one lock.
pub const EXPIRE_SLICE_KEYS: usize = 32;

const _: () =
    assert!(STREAM_PIECE_BYTES < OUTPUT_HIGH_WATER_BYTES && OUTPUT_PART_BYTES <= OUTPUT_BUFFER_BYTES);

/// Connections that a worker accepts before others have their turn.
pub const ACCEPTS_PER_TURN: usize = 64;

/// Time of one slice of active expiry on a worker, in microseconds.
pub const EXPIRE_SLICE_US: u64 = 250;

/// Most bytes that one read makes room for, whatever length the client announced.
pub const INPUT_GROWTH_BYTES_MAX: usize = 1024 * KIB;

/// Bytes that one connection is sent before the others of its worker have their turn.
pub const TURN_OUTPUT_BYTES: usize = 256 * KIB;

/// Time, in microseconds, after which one connection's turn makes no further piece of a reply: small elements that
/// have to be found one by one take milliseconds to fill [`TURN_OUTPUT_BYTES`].
pub const TURN_STREAM_US: u64 = 250;

const _: () =
    assert!(INPUT_GROWTH_BYTES_MAX >= READ_BUFFER_BYTES && TURN_OUTPUT_BYTES >= OUTPUT_HIGH_WATER_BYTES);

/// Plain bytes that one write to a TLS connection enciphers. A client that does not read makes its connection hold them
/// twice, plain and enciphered.
pub const TLS_WRITE_BYTES: usize = 64 * KIB;

/// Steps of TLS handshakes that a worker takes before its other connections have their turn.
pub const TLS_HANDSHAKE_STEPS_PER_TURN: usize = 8;

/// Time, in microseconds, after which a worker takes no further such step in a turn: one may cost a millisecond.
pub const TLS_HANDSHAKE_TURN_US: u64 = 500;

/// Time that a client has for its TLS handshake, in microseconds.
pub const TLS_HANDSHAKE_TIMEOUT_US: u64 = 10_000_000;

const _: () = assert!(TLS_WRITE_BYTES <= OUTPUT_HIGH_WATER_BYTES && TLS_WRITE_BYTES <= READ_BUFFER_BYTES);

/// Time of one slice of eviction, in microseconds for each step of `maxmemory-eviction-tenacity` up to 10.
pub const EVICTION_STEP_US: u64 = 50;

/// Keys that are evicted between two looks at the clock.
pub const EVICTION_SLICE_KEYS: usize = 16;

/// Candidates for eviction that a worker keeps between evictions.
pub const EVICTION_POOL_KEYS: usize = 16;

/// Fewest bytes that `maxmemory-clients` can mean: with less, no client could talk to the server and mend it.
pub const CLIENTS_BYTES_MIN: u64 = 128 * 1024;

const _: () = assert!(10 * EVICTION_STEP_US <= TURN_US, "a slice of eviction fits in a connection's turn");

/// Share of the data, in percent, that writers may keep for a running snapshot before they have to wait for it.
pub const SNAPSHOT_KEPT_PERCENT: usize = 10;

/// Bytes that they may keep at any rate.
pub const SNAPSHOT_KEPT_BYTES_MIN: usize = 1024 * KIB;

/// Size of a segment of the log in memory.
pub const LOG_SEGMENT_BYTES: usize = 256 * KIB;

/// Unused segments that the log keeps for its next records.
pub const LOG_SEGMENTS_SPARE_MAX: usize = 64;

/// With more than this in memory that the slowest reader which must not miss any still needs, writers wait.
pub const LOG_RING_BYTES: u64 = 64 * MIB;

/// What is read from a disk at a time for a replica.
pub const REPLICA_FETCH_BYTES: usize = 256 * KIB;

/// Time for which what is written is collected before replicas are sent it, in microseconds; not while somebody waits.
pub const REPLICA_BATCH_US: u64 = 1_000;

/// The stream since a full synchronization's instant that is kept in memory; more of it goes to the disk.
pub const SYNC_LOG_BYTES_MAX: u64 = 16 * MIB;

/// Most of the stream that is kept on the disk for replicas that are away, unless `repl-backlog-disk-size` says otherwise.
pub const REPL_BACKLOG_DISK_BYTES_DEFAULT: u64 = 1024 * MIB;

/// Size of one of the files that this is kept in; and how many there are at least, since whole files are dropped.
pub const BACKLOG_CHUNK_BYTES_MAX: u64 = 64 * MIB;

/// As above.
pub const BACKLOG_CHUNKS_MIN: u64 = 8;

/// What of this memory may hold while the disk is slower than what is written: as much as a slow replica may by Redis's
/// default.
pub const BACKLOG_MEMORY_BYTES_MAX: u64 = 256 * MIB;

/// Time until the disk is tried again after it failed to keep the stream, in milliseconds.
pub const BACKLOG_RETRY_MS: i64 = 10_000;

/// Replicas that are gone and for whom the stream is kept.
pub const REPLICAS_REMEMBERED_MAX: usize = 64;

/// What a slow replica may keep in memory where `client-output-buffer-limit` sets no bound.
pub const REPLICA_KEPT_BYTES_MAX: u64 = 1024 * MIB;

const _: () = assert!(SYNC_LOG_BYTES_MAX <= LOG_RING_BYTES / 2, "writers are held up by slow disks only");

/// Memory that a worker keeps for the effects of its next commands.
pub const RECORD_KEPT_BYTES_MAX: usize = 64 * KIB;

/// Records up to this size are copied under the log's lock; larger ones become pieces of their own.
pub const LOG_COPIED_BYTES_MAX: usize = 16 * KIB;

/// Under `appendfsync everysec` a sync is not waited for any longer when so much is written that is not safe: the log holds
/// that in memory, and holds writers up where it is too much.
pub const JOURNAL_UNSAFE_BYTES_MAX: u64 = 8 * MIB;

/// What the writer of the append-only file reads from the log, checks and writes at a time, unless one record is larger.
pub const JOURNAL_BATCH_BYTES: usize = 1024 * KIB;

/// A file that is appended to and has so many bytes gets room beyond its end before it is needed: as much again.
pub const FILE_RESERVED_FROM_BYTES: u64 = MIB;

/// But no more than this: on a disk that is nearly full, others need it.
pub const FILE_RESERVED_AHEAD_BYTES_MAX: u64 = 16 * MIB;

/// What is read at a time from an append-only file.
pub const JOURNAL_READ_BYTES: usize = 1024 * KIB;

/// Bytes of an append-only file between two places at which reading it by offset can start.
pub const JOURNAL_MARK_BYTES: u64 = 1024 * 1024;

/// Time between two attempts to write after the disk failed, in microseconds.
pub const JOURNAL_RETRY_US: u64 = 100_000;

/// How long the writer of the append-only files rests after it wrote, unless every write is to be synced, in microseconds:
/// what is appended meanwhile is written together.
pub const JOURNAL_REST_US: u64 = 4_000;

/// Under `appendfsync always` those who shared a sync are awaited for one of so many parts of its time before the next.
pub const SYNC_PARTS_AWAITED: u64 = 2;

/// And no longer than this, in microseconds.
pub const SYNC_AWAITED_US_MAX: u64 = 1_000;

/// Bytes of append-only files that a rewrite made superfluous and that are kept all the same, for replicas that fell
/// behind.
pub const JOURNAL_HISTORY_BYTES: u64 = 256 * MIB;

/// Length of a stream's id: hex digits.
pub const STREAM_ID_BYTES: usize = 40;

/// Longest line of a manifest that is read, as Redis has it.
pub const MANIFEST_LINE_BYTES_MAX: usize = 1024;

/// Longest line of an append-only file that is no command.
pub const ANNOTATION_BYTES_MAX: usize = 1024;

const _: () = {
    assert!(JOURNAL_UNSAFE_BYTES_MAX <= LOG_RING_BYTES / 4, "writers are held up by slow disks only");
    assert!(LOG_COPIED_BYTES_MAX <= LOG_SEGMENT_BYTES / 4, "what a segment leaves unused is little of it");
    assert!(ANNOTATION_BYTES_MAX < JOURNAL_READ_BYTES);
};
