//! What of a machine decides where threads run.

use std::collections::{BTreeMap, BTreeSet};

/// CPUs, by the kernel's numbers.
pub type Cpus = BTreeSet<usize>;

/// An interface with fewer of the interrupts than this, in percent of the busiest one's, is not what clients come by.
const QUIET_PERCENT: u64 = 1;

/// A machine, as far as it could be read: what could not is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// CPUs that run.
    pub online: Cpus,
    /// CPUs that this process may run on.
    pub allowed: Cpus,
    /// How many CPUs' time the process may use, where that is less than `allowed` has.
    pub quota_cpus: Option<usize>,
    /// Where each CPU is.
    pub places: BTreeMap<usize, Place>,
    /// What each CPU spent on interrupts while it was watched, in percent of its time.
    pub interrupt_percent: BTreeMap<usize, u64>,
    /// Network interfaces with a device, by name.
    pub interfaces: Vec<Interface>,
}

/// Where a CPU is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The memory that is near it.
    pub node: usize,
    /// The chip.
    pub package: usize,
    /// The lowest CPU of its core: the same for all threads of one.
    pub core: usize,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// `eth0`.
    pub name: String,
    /// Whether it can have traffic.
    pub is_up: bool,
    /// The node that it is attached to.
    pub node: Option<usize>,
    /// What it receives by, in order.
    pub queues: Vec<Queue>,
}

/// A queue that an interface receives by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Its interrupt, if that is known.
    pub irq: Option<u32>,
    /// CPUs that the interrupt may go to.
    pub allowed: Cpus,
    /// The CPUs that it does go to.
    pub effective: Cpus,
    /// How many each CPU has handled.
    pub handled: BTreeMap<usize, u64>,
    /// CPUs that packets are then spread over in software.
    pub spread: Cpus,
}

impl Machine {
    /// CPUs that threads may be put on.
    pub fn usable(&self) -> Cpus {
        self.running(&self.allowed)
    }

    /// Those of `cpus` that run.
    fn running(&self, cpus: &Cpus) -> Cpus {
        if self.online.is_empty() { cpus.clone() } else { cpus & &self.online }
    }

    /// Interfaces that clients may come by, the one with most interrupts first.
    pub fn busy_interfaces(&self) -> Vec<&Interface> {
        let mut all: Vec<_> = self.interfaces.iter().filter(|interface| interface.is_up).collect();
        all.sort_by_key(|interface| std::cmp::Reverse(interface.interrupts()));
        let least = all.first().map_or(0, |interface| interface.interrupts().div_ceil(100 / QUIET_PERCENT));
        all.retain(|interface| interface.interrupts() >= least);
        all
    }

    /// CPUs that the packets of a queue are worked on, up to the listening socket.
    pub fn receiving_for(&self, queue: &Queue) -> Cpus {
        let spread = self.running(&queue.spread);
        if !spread.is_empty() {
            return spread;
        }
        let sets = [self.running(&queue.effective), self.running(&queue.allowed)];
        let candidates = sets.into_iter().find(|cpus| !cpus.is_empty()).unwrap_or_default();
        // An interrupt goes to one CPU, whatever is allowed: where it went so far, or else the lowest.
        let handled = |cpu: &usize| queue.handled.get(cpu).copied().unwrap_or(0);
        candidates.into_iter().rev().max_by_key(handled).into_iter().collect()
    }

    /// CPUs that packets arrive on.
    pub fn receiving(&self) -> Cpus {
        let queues = self.busy_interfaces().into_iter().flat_map(|interface| &interface.queues);
        queues.flat_map(|queue| self.receiving_for(queue)).collect()
    }

    /// CPUs that spent at least so much of their time on interrupts.
    pub fn interrupted(&self, percent: u64) -> Cpus {
        let all = self.interrupt_percent.iter();
        all.filter(|(_, spent)| **spent >= percent).map(|(cpu, _)| *cpu).collect()
    }
}

impl Interface {
    /// Interrupts of all its queues so far.
    fn interrupts(&self) -> u64 {
        let handled = self.queues.iter().flat_map(|queue| queue.handled.values());
        handled.fold(0, |sum: u64, count| sum.saturating_add(*count))
    }
}
