//! Clients that wait for a key: BLPOP and its kin.
//!
//! A command that finds nothing leaves a [`Waiter`] in the queues of its keys, while it holds their stripes. A command that
//! writes to a key with a queue lists it ([`Waiters::is_awaited`]), and before it lets go of the stripes it runs the
//! waiting commands again, on behalf of their clients, in order of arrival ([`serve`]). So nobody can come between the
//! push and the pop, whichever workers are involved.
//!
//! A queue is cut into *classes*: within one, whoever cannot be served keeps those behind him from being served, so that a
//! push never looks at more waiters than it serves plus one a class.
//!
//! Invariant *one-answer*: whoever takes the session out of [`Waiter::session`] answers the client, and nobody else does:
//! the writer who serves it, the deadline, CLIENT UNBLOCK, or the connection's end.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

use parking_lot::Mutex;
use resp::{Encoder, OwnedArgs};
use store::{Kind, key_hash};

use crate::clients::Client;
use crate::ctx::Ctx;
use crate::letter::Letter;
use crate::output::Output;
use crate::replication::primary::Tally;
use crate::reply::Reply;
use crate::session::Session;
use crate::table::CommandId;

const SHARDS: usize = 64;

/// What a client gets when nothing came in time.
#[derive(Clone, Debug)]
pub enum TimeoutReply {
    /// A null array.
    NullArray,
    /// How many copies there are by then.
    Tally(Arc<Tally>),
}

impl TimeoutReply {
    /// Writes it.
    pub fn write(&self, out: &mut Encoder<'_>) {
        match self {
            TimeoutReply::NullArray => out.null_array(),
            TimeoutReply::Tally(tally) => tally.write(out),
        }
    }
}

/// What a command waits for.
pub struct Block<'a> {
    /// The keys, any of which may bring it on; none for a pure wait.
    pub keys: Vec<&'a [u8]>,
    /// What to run when one is ready: the command itself, with arguments that mean "now" (`$`) resolved.
    pub args: OwnedArgs,
    /// The type a key must have to be looked at.
    pub kind: Kind,
    /// Looked at, too, when the key is gone or of another type (XREADGROUP reports that).
    pub even_if_gone: bool,
    /// Commands of one class wait for the same elements: a queue's classes are served apart.
    pub class: &'a [u8],
    /// Microseconds to wait; `None`: for ever.
    pub timeout_us: Option<u64>,
    /// The reply after that.
    pub on_timeout: TimeoutReply,
}

/// One waiting client.
pub struct Waiter {
    /// Order of arrival.
    number: u64,
    /// The client.
    pub client: Arc<Client>,
    /// When it gives up (`Now::mono_us`).
    pub deadline_us: Option<u64>,
    command: CommandId,
    args: OwnedArgs,
    db: usize,
    keys: Vec<Box<[u8]>>,
    kind: Kind,
    even_if_gone: bool,
    class: Box<[u8]>,
    on_timeout: TimeoutReply,
    /// The state its command runs with; `None` once it is answered (*one-answer*).
    session: Mutex<Option<Session>>,
}

impl Waiter {
    /// The first of the keys that it waits for; None: it waits for something else.
    pub fn first_key(&self) -> Option<&[u8]> {
        self.keys.first().map(|key| &**key)
    }

    /// Its client has sent READONLY.
    pub(crate) fn is_readonly(&self) -> bool {
        self.session.lock().as_ref().is_some_and(|session| session.readonly)
    }

    /// The command that waits.
    pub(crate) fn command(&self) -> CommandId {
        self.command
    }

    /// True once its client is answered, or gone.
    pub fn is_answered(&self) -> bool {
        self.session.lock().is_none()
    }
}

/// The waiters of one key: by class, then by arrival.
type Queue = BTreeMap<Box<[u8]>, BTreeMap<u64, Arc<Waiter>>>;
/// By database, then by key.
type Queues = Vec<HashMap<Box<[u8]>, Queue>>;

/// All waiting clients.
pub struct Waiters {
    /// By hash of the key.
    shards: [Mutex<Queues>; SHARDS],
    by_client: [Mutex<HashMap<u64, Arc<Waiter>>>; SHARDS],
    /// Keys that somebody waits for, so that nobody looks further while there is none.
    keys: AtomicUsize,
    next_number: AtomicU64,
}

impl Default for Waiters {
    fn default() -> Waiters {
        Waiters {
            shards: [const { Mutex::new(Vec::new()) }; SHARDS],
            by_client: std::array::from_fn(|_| Mutex::default()),
            keys: AtomicUsize::new(0),
            next_number: AtomicU64::new(0),
        }
    }
}

impl Waiters {
    /// True if anybody waits for any key.
    #[inline]
    pub fn any(&self) -> bool {
        self.keys.load(Relaxed) > 0
    }

    /// Keys that somebody waits for.
    pub fn key_count(&self) -> usize {
        self.keys.load(Relaxed)
    }

    fn shard(&self, key: &[u8]) -> &Mutex<Queues> {
        &self.shards[key_hash(key) as usize % SHARDS]
    }

    /// True if somebody waits for this key. Asked by who holds its stripe.
    pub fn is_awaited(&self, db: usize, key: &[u8]) -> bool {
        self.shard(key).lock().get(db).is_some_and(|keys| keys.contains_key(key))
    }

    /// Every key of a database that somebody waits for. O(keys waited for): for FLUSHALL and SWAPDB.
    pub fn awaited_in(&self, db: usize) -> Vec<Box<[u8]>> {
        let in_shard = |shard: &Mutex<Queues>| {
            shard.lock().get(db).map(|keys| keys.keys().cloned().collect::<Vec<_>>()).unwrap_or_default()
        };
        self.shards.iter().flat_map(in_shard).collect()
    }

    fn add(&self, waiter: &Arc<Waiter>) {
        for key in &waiter.keys {
            let mut shard = self.shard(key).lock();
            if shard.len() <= waiter.db {
                shard.resize_with(waiter.db + 1, HashMap::new);
            }
            let queue = shard[waiter.db].entry(key.clone()).or_insert_with(|| {
                self.keys.fetch_add(1, SeqCst);
                Queue::new()
            });
            queue.entry(waiter.class.clone()).or_default().insert(waiter.number, waiter.clone());
        }
        self.by_client[waiter.client.id as usize % SHARDS].lock().insert(waiter.client.id, waiter.clone());
    }

    fn remove(&self, waiter: &Waiter) {
        for key in &waiter.keys {
            let mut shard = self.shard(key).lock();
            let Some(keys) = shard.get_mut(waiter.db) else { continue };
            let Some(queue) = keys.get_mut(key) else { continue };
            if let Some(class) = queue.get_mut(&waiter.class) {
                class.remove(&waiter.number);
                if class.is_empty() {
                    queue.remove(&waiter.class);
                }
            }
            if queue.is_empty() {
                keys.remove(key);
                self.keys.fetch_sub(1, SeqCst);
            }
        }
        self.by_client[waiter.client.id as usize % SHARDS].lock().remove(&waiter.client.id);
    }

    fn classes(&self, db: usize, key: &[u8]) -> Vec<Box<[u8]>> {
        let shard = self.shard(key).lock();
        let queue = shard.get(db).and_then(|keys| keys.get(key));
        queue.map(|queue| queue.keys().cloned().collect()).unwrap_or_default()
    }

    /// The first of a class that arrived after `number`.
    fn after(&self, db: usize, key: &[u8], class: &[u8], number: u64) -> Option<Arc<Waiter>> {
        let shard = self.shard(key).lock();
        let waiters = shard.get(db)?.get(key)?.get(class)?;
        waiters.range(number + 1..).next().map(|(_, waiter)| waiter.clone())
    }

    /// What the client of this id waits for.
    pub fn of_client(&self, client_id: u64) -> Option<Arc<Waiter>> {
        self.by_client[client_id as usize % SHARDS].lock().get(&client_id).cloned()
    }

    /// All that wait. O(clients that wait): for a change of roles.
    pub fn all(&self) -> Vec<Arc<Waiter>> {
        self.by_client.iter().flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>()).collect()
    }

    /// Ends a wait without an answer; false if it was answered already.
    pub fn cancel(&self, waiter: &Waiter) -> bool {
        self.resolve(waiter).is_some()
    }

    /// Ends a wait with what its command answers when nothing came; `None` if it was answered already.
    pub fn time_out(&self, waiter: &Waiter) -> Option<Output> {
        let session = self.resolve(waiter)?;
        Some(answer(&session, |out| waiter.on_timeout.write(out)))
    }

    /// Ends a wait with an error; `None` if it was answered already.
    pub fn fail(&self, waiter: &Waiter, error: &str) -> Option<Output> {
        let session = self.resolve(waiter)?;
        Some(answer(&session, |out| out.error(error)))
    }

    fn resolve(&self, waiter: &Waiter) -> Option<Session> {
        let session = waiter.session.lock().take()?;
        self.remove(waiter);
        Some(session)
    }
}

fn answer(session: &Session, write: impl FnOnce(&mut Encoder<'_>)) -> Output {
    let mut output = Output::new();
    write(&mut Reply::new(&mut output, session.proto).encoder());
    output
}

/// Enters the client of `ctx` into the queues of the keys it waits for, whose stripes are held.
pub(crate) fn enter(ctx: &Ctx<'_>, block: Block<'_>) -> Arc<Waiter> {
    let (server, session) = (ctx.server(), ctx.session_ref());
    let mut keys: Vec<Box<[u8]>> = block.keys.iter().copied().map(Box::from).collect();
    keys.sort_unstable();
    keys.dedup();
    let waiter = Arc::new(Waiter {
        number: server.waiters.next_number.fetch_add(1, Relaxed) + 1,
        client: session.client.clone(),
        deadline_us: block.timeout_us.map(|timeout_us| ctx.now().mono_us.saturating_add(timeout_us)),
        command: session.client.command_id().expect("blocking-command: a command that runs is known"),
        args: block.args,
        db: ctx.db(),
        keys,
        kind: block.kind,
        even_if_gone: block.even_if_gone,
        class: block.class.into(),
        on_timeout: block.on_timeout,
        session: Mutex::new(Some(session.snapshot())),
    });
    server.waiters.add(&waiter);
    waiter
}

/// A key whose waiters could not be served, since a stripe that one of them needs was held by another thread.
pub(crate) struct Unserved {
    pub(crate) db: usize,
    pub(crate) key: Box<[u8]>,
    /// All stripes that are needed.
    pub(crate) stripes: Vec<usize>,
}

/// Runs the commands that wait for a key, which the caller has written to and whose stripe it holds, until
/// one of each class finds nothing again.
pub(crate) fn serve(ctx: &mut Ctx<'_>, db: usize, key: &[u8]) {
    let server = ctx.server();
    for class in server.waiters.classes(db, key) {
        let mut number = 0;
        while let Some(waiter) = server.waiters.after(db, key, &class, number) {
            number = waiter.number;
            match serve_one(ctx, &waiter, key) {
                Served::Yes => {}
                Served::No => break,
                Served::Later(stripes) => {
                    ctx.worker().unserved.push(Unserved { db, key: key.into(), stripes });
                    return;
                }
            }
        }
    }
}

enum Served {
    /// It is answered, now or before.
    Yes,
    /// There is nothing for it, nor for those behind it.
    No,
    /// It needs these stripes, one of which is held elsewhere.
    Later(Vec<usize>),
}

fn serve_one(ctx: &mut Ctx<'_>, waiter: &Arc<Waiter>, key: &[u8]) -> Served {
    let mut session = waiter.session.lock();
    let Some(waiting) = session.as_mut() else { return Served::Yes };
    let kind = ctx.kind_in(waiter.db, key);
    if kind != Some(waiter.kind) && !waiter.even_if_gone {
        return Served::No;
    }
    let server = ctx.server();
    let info = server.registry.get(waiter.command);
    let args = waiter.args.as_args();
    if !ctx.try_extend(info, args) {
        let stripes = ctx.stripes_of(info, args).into_iter().chain([server.keyspace.position(key).stripe()]);
        return Served::Later(stripes.collect());
    }
    let mut output = Output::new();
    let proto = waiting.proto;
    if !ctx.run_for(waiting, info, args, &mut Reply::new(&mut output, proto)) {
        return Served::No;
    }
    *session = None;
    drop(session);
    server.waiters.remove(waiter);
    let letter = |token, client_id| Letter::Reply { token, client_id, output };
    ctx.worker().send_to(server, &waiter.client, letter);
    Served::Yes
}
