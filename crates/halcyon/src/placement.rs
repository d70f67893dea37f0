//! Where threads run: workers by `server-cpulist`, which may leave the choice to the server (`auto`), others by the
//! lists that Redis has for them.
//!
//! `decide` chooses, from facts that `read` has found; here it is put into effect, and told by INFO. Nothing of it
//! fails a start: what cannot be read is not considered, and a thread that cannot be bound runs where the kernel puts
//! it.

mod affinity;
mod decide;
mod facts;
mod lists;
mod read;

use std::fmt::Display;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use engine::config::Config;
use socket2::SockRef;

use crate::machine::usable_cpus;
use decide::{List, Placement, decide};
use facts::{Cpus, Interface, Machine};
use lists::{of_directive, printed};

/// How long interrupts are watched for at a start with `auto`: ten of the kernel's ticks.
const WATCH: Duration = Duration::from_millis(100);

/// What a thread that is not a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Commands and data, as workers do.
    Serving,
    /// What nobody waits for, and disks: Redis's background threads.
    Background,
    /// A snapshot, which a Redis writes in a process of its own.
    Saving,
    /// A rewrite of the append-only files, likewise.
    Rewriting,
}

/// The role of a thread by its name.
pub fn role_of(thread: &str) -> Role {
    match thread {
        "reaper" | "journal" | "journal-sync" | "sync-log" | "sync-reader" => Role::Background,
        "saver" | "sync" => Role::Saving,
        _ => Role::Serving,
    }
}

/// Where the threads of the process run.
pub struct Threads {
    placement: Placement,
    machine: Machine,
    /// For each role the CPUs that a list gives it; none: wherever the kernel puts it.
    serving: Cpus,
    background: Cpus,
    saving: Cpus,
    rewriting: Cpus,
    seats: Box<[Seat]>,
}

/// What became of a worker. A cache line each, for workers write while they accept.
#[derive(Default)]
#[repr(align(64))]
struct Seat {
    /// Whether it is bound to its CPUs.
    is_bound: AtomicBool,
    /// Connections that it has.
    load: AtomicUsize,
    /// Connections that it accepted on the CPU that had received them, and others: counted where that is what is
    /// wanted.
    near: AtomicU64,
    far: AtomicU64,
}

impl Threads {
    /// Decides where threads run, by the directives and the machine.
    pub fn plan(config: &Config) -> Threads {
        let own = affinity::own();
        let quota_cpus = Some(usable_cpus()).filter(|usable| own.is_empty() || *usable < own.len());
        let list = worker_list(config);
        let machine = match list {
            List::Auto => {
                let root = config.string("machine-root");
                read::read(Path::new(&root), own, quota_cpus, || thread::sleep(WATCH))
            }
            _ => Machine { allowed: own, quota_cpus, ..Machine::default() },
        };
        let placement = decide(&list, config.int("threads") as usize, &machine);
        let serving = if let List::Cpus(cpus) = list { cpus } else { Cpus::new() };
        let or_serving = |cpus: Cpus| if cpus.is_empty() { serving.clone() } else { cpus };
        Threads {
            seats: placement.workers.iter().map(|_| Seat::default()).collect(),
            placement,
            machine,
            background: thread_list(config, "bio-cpulist"),
            // What a Redis has a child for stays where its parent is, unless that is said.
            saving: or_serving(thread_list(config, "bgsave-cpulist")),
            rewriting: or_serving(thread_list(config, "aof-rewrite-cpulist")),
            serving,
        }
    }

    /// How many workers there are to be.
    pub fn workers(&self) -> usize {
        self.seats.len()
    }

    /// How many connections a worker has: counted by the worker.
    pub fn load(&self, worker: usize) -> &AtomicUsize {
        &self.seats[worker].load
    }

    /// For each worker the CPU whose connections it is to get, where they are steered.
    pub fn incoming_cpus(&self) -> Vec<Option<usize>> {
        let is_steered = self.placement.is_steered;
        let cpu = |cpus: &Cpus| cpus.first().copied().filter(|_| is_steered);
        self.placement.workers.iter().map(cpu).collect()
    }

    /// True if workers are to keep the connections that their CPUs receive.
    pub fn are_steered(&self) -> bool {
        self.placement.is_steered
    }

    /// Binds this thread, which is a worker.
    pub fn seat_worker(&self, index: usize) {
        let cpus = &self.placement.workers[index];
        if !cpus.is_empty() {
            self.seats[index].is_bound.store(bind(cpus), Relaxed);
        }
    }

    /// Binds this thread as its role wants; it may have had another one.
    pub fn seat(&self, role: Role) {
        let cpus = self.cpus_of(role);
        let has_two_roles = matches!(role, Role::Saving | Role::Rewriting) && self.saving != self.rewriting;
        if !cpus.is_empty() {
            bind(cpus);
        } else if has_two_roles && !self.machine.allowed.is_empty() {
            bind(&self.machine.allowed);
        }
    }

    fn cpus_of(&self, role: Role) -> &Cpus {
        match role {
            Role::Serving => &self.serving,
            Role::Background => &self.background,
            Role::Saving => &self.saving,
            Role::Rewriting => &self.rewriting,
        }
    }

    /// Counts a connection that a worker has accepted, where connections are steered.
    #[inline]
    pub fn note_accepted(&self, worker: usize, socket: &impl AsFd) {
        if self.placement.is_steered {
            let seat = &self.seats[worker];
            let is_near =
                incoming_cpu(&SockRef::from(socket)) == self.placement.workers[worker].first().copied();
            if is_near { &seat.near } else { &seat.far }.fetch_add(1, Relaxed);
        }
    }

    /// Has a listening socket get the connections of one CPU, if it is known which.
    pub fn steer(socket: &SockRef<'_>, cpu: Option<usize>) {
        if let Some(cpu) = cpu
            && let Err(reason) = set_incoming_cpu(socket, cpu)
        {
            tracing::debug!("Connections cannot be steered to CPU {cpu}: {reason}");
        }
    }

    /// What INFO says: `add` takes a field's name and value.
    pub fn tell(&self, add: &mut dyn FnMut(&str, &dyn Display)) {
        let (machine, placement) = (&self.machine, &self.placement);
        let (rule, reason) = placement.rule.texts();
        add("placement_rule", &rule);
        add("placement_reason", &reason);
        add("placement_workers", &self.workers());
        add("placement_steered", &u8::from(placement.is_steered));
        add("placement_quota_cpus", &machine.quota_cpus.unwrap_or(0));
        for (name, cpus) in [
            ("placement_usable_cpus", &machine.usable()),
            ("placement_receiving_cpus", &placement.receiving),
            ("placement_saturated_cpus", &placement.saturated),
            ("placement_avoided_cpus", &placement.avoided),
            ("placement_serving_cpus", &self.serving),
            ("placement_bio_cpus", &self.background),
            ("placement_bgsave_cpus", &self.saving),
            ("placement_aof_rewrite_cpus", &self.rewriting),
        ] {
            add(name, &printed(cpus, ","));
        }
        for (number, interface) in machine.interfaces.iter().enumerate() {
            self.tell_interface(number, interface, add);
        }
        for (number, (seat, cpus)) in self.seats.iter().zip(&placement.workers).enumerate() {
            let node = cpus.first().and_then(|cpu| machine.places.get(cpu)).map_or(0, |place| place.node);
            let (is_bound, cpus) = (u8::from(seat.is_bound.load(Relaxed)), printed(cpus, " "));
            let (near, far) = (seat.near.load(Relaxed), seat.far.load(Relaxed));
            let load = seat.load.load(Relaxed);
            let value = format!(
                "cpus={cpus},bound={is_bound},node={node},connections={load},accepted_near={near},accepted_far={far}"
            );
            add(&format!("placement_worker{number}"), &value);
        }
    }

    /// An interface and its queues, each of which has its interrupt and the CPUs that its packets arrive on.
    fn tell_interface(&self, number: usize, interface: &Interface, add: &mut dyn FnMut(&str, &dyn Display)) {
        let busy = self.machine.busy_interfaces();
        let counts = u8::from(busy.iter().any(|other| other.name == interface.name));
        let (name, queues) = (&interface.name, interface.queues.len());
        let node = interface.node.map_or(-1, |node| node as i64);
        let value = format!("name={name},queues={queues},node={node},considered={counts}");
        add(&format!("placement_interface{number}"), &value);
        for (at, queue) in interface.queues.iter().enumerate() {
            let irq = queue.irq.map_or(-1, i64::from);
            let cpus = printed(&self.machine.receiving_for(queue), " ");
            add(&format!("placement_interface{number}_queue{at}"), &format!("irq={irq},cpus={cpus}"));
        }
    }
}

/// What `server-cpulist` asks for. A list that Redis would make nothing of is no error, as it is none there.
fn worker_list(config: &Config) -> List {
    let given = config.bytes("server-cpulist");
    if given.is_empty() {
        return List::Unset;
    }
    if given.eq_ignore_ascii_case(b"auto") {
        return List::Auto;
    }
    match usable_list("server-cpulist", &given) {
        None => List::Unreadable,
        Some(cpus) if cpus.is_empty() => List::Unusable,
        Some(cpus) => List::Cpus(cpus),
    }
}

fn thread_list(config: &Config, name: &str) -> Cpus {
    let given = config.bytes(name);
    if given.is_empty() { Cpus::new() } else { usable_list(name, &given).unwrap_or_default() }
}

/// The CPUs of a list that can be used; `None` if it is no list. Redis says nothing of either.
fn usable_list(name: &str, given: &[u8]) -> Option<Cpus> {
    let listed = of_directive(given);
    let usable = listed.as_ref().map(affinity::usable_of);
    if usable.as_ref().is_none_or(Cpus::is_empty) {
        let why =
            if usable.is_none() { "is no list of CPUs" } else { "has no CPU that this process may use" };
        tracing::warn!("{name} '{}' {why}: it has no effect", String::from_utf8_lossy(given));
    }
    usable
}

/// Binds this thread; true if that worked.
fn bind(cpus: &Cpus) -> bool {
    let bound = affinity::bind(cpus);
    if let Err(reason) = &bound {
        tracing::warn!("Can't bind a thread to CPUs {}: {reason}", printed(cpus, ","));
    }
    bound.is_ok()
}

#[cfg(target_os = "linux")]
fn incoming_cpu(socket: &SockRef<'_>) -> Option<usize> {
    socket.cpu_affinity().ok()
}

#[cfg(not(target_os = "linux"))]
fn incoming_cpu(_: &SockRef<'_>) -> Option<usize> {
    None
}

#[cfg(target_os = "linux")]
fn set_incoming_cpu(socket: &SockRef<'_>, cpu: usize) -> Result<(), String> {
    socket.set_cpu_affinity(cpu).map_err(|error| error.to_string())
}

#[cfg(not(target_os = "linux"))]
fn set_incoming_cpu(_: &SockRef<'_>, _: usize) -> Result<(), String> {
    Err("this system has no call for it".to_owned())
}
