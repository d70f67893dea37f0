//! Where workers run, decided from what is known of the machine, and nothing else.
//!
//! Packets are worked on by interrupts, on CPUs that the interfaces' queues are bound to, before any thread sees them.
//! Where workers share those CPUs, or are elsewhere, was what made the difference between machines that looked alike.

use super::facts::{Cpus, Machine, Place};

/// A CPU that spends so much of its time on interrupts has none to give to a worker, in percent.
const SATURATED_PERCENT: u64 = 50;
/// With one CPU that receives, all connections would be one worker's.
const STEERED_CPUS_MIN: usize = 2;

/// What `server-cpulist` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum List {
    /// Nothing.
    Unset,
    /// `auto`.
    Auto,
    /// These, of which the process may use at least one.
    Cpus(Cpus),
    /// CPUs of which the process may use none.
    Unusable,
    /// No list.
    Unreadable,
}

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Unset,
    List,
    ListUnusable,
    ListUnreadable,
    Unknown,
    Quota,
    Steered,
    Apart,
    Shared,
    Plain,
}

impl Rule {
    /// Its name, and what it says.
    pub fn texts(self) -> (&'static str, &'static str) {
        match self {
            Rule::Unset => ("unset", "server-cpulist is not set"),
            Rule::List => ("list", "server-cpulist names the CPUs"),
            Rule::ListUnusable => ("list-unusable", "server-cpulist names no CPU that the process may use"),
            Rule::ListUnreadable => ("list-unreadable", "server-cpulist is no list of CPUs"),
            Rule::Unknown => ("unknown", "it cannot be found out which CPUs the process may use"),
            Rule::Quota => ("quota", "others have their share of these CPUs: the kernel chooses among them"),
            Rule::Steered => ("steered", "as many CPUs receive packets as there are workers: one each"),
            Rule::Apart => ("apart", "enough CPUs are left without those that interrupts take"),
            Rule::Shared => ("shared", "too few CPUs would be left without those that interrupts take"),
            Rule::Plain => ("plain", "no interrupts of packets are known of: a CPU for each worker"),
        }
    }
}

/// Where workers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// What decided.
    pub rule: Rule,
    /// The CPUs of each worker; none: wherever the kernel puts it. There is at least one worker.
    pub workers: Vec<Cpus>,
    /// Whether a worker is to get the connections that its CPU receives.
    pub is_steered: bool,
    /// CPUs that packets arrive on.
    pub receiving: Cpus,
    /// CPUs that interrupts take most of.
    pub saturated: Cpus,
    /// CPUs that no worker is put on because of interrupts.
    pub avoided: Cpus,
}

/// Decides where workers run; `threads` is how many there are to be, 0 for as many as fit.
pub fn decide(list: &List, threads: usize, machine: &Machine) -> Placement {
    let usable = machine.usable();
    match list {
        List::Auto if usable.is_empty() => unbound(Rule::Unknown, threads, machine),
        List::Auto => auto(threads, machine, &usable),
        List::Cpus(cpus) => {
            let fitting = cpus.len().min(machine.quota_cpus.unwrap_or(usize::MAX));
            let cpus: Vec<usize> = cpus.iter().copied().collect();
            one_each(Rule::List, count(threads, fitting), &cpus)
        }
        List::Unset => unbound(Rule::Unset, threads, machine),
        List::Unusable => unbound(Rule::ListUnusable, threads, machine),
        List::Unreadable => unbound(Rule::ListUnreadable, threads, machine),
    }
}

fn count(threads: usize, fitting: usize) -> usize {
    if threads > 0 { threads } else { fitting.max(1) }
}

fn unbound(rule: Rule, threads: usize, machine: &Machine) -> Placement {
    let fitting = machine.quota_cpus.unwrap_or(machine.usable().len());
    all_on(rule, count(threads, fitting), &Cpus::new())
}

/// All workers on any of these.
fn all_on(rule: Rule, workers: usize, cpus: &Cpus) -> Placement {
    Placement {
        rule,
        workers: vec![cpus.clone(); workers],
        is_steered: false,
        receiving: Cpus::new(),
        saturated: Cpus::new(),
        avoided: Cpus::new(),
    }
}

/// A CPU for each worker, in this order, and from the first again when they are used up.
fn one_each(rule: Rule, workers: usize, cpus: &[usize]) -> Placement {
    let mut placement = all_on(rule, workers, &Cpus::new());
    placement.workers = cpus.iter().cycle().take(workers).map(|cpu| Cpus::from([*cpu])).collect();
    placement
}

fn auto(threads: usize, machine: &Machine, usable: &Cpus) -> Placement {
    let receiving = machine.receiving();
    let saturated = &machine.interrupted(SATURATED_PERCENT) & usable;
    let avoided = avoid(threads, machine, usable, &receiving, &saturated);
    let rest = usable - &avoided;
    let placement = if let Some(quota_cpus) = machine.quota_cpus {
        let cpus = if avoided.is_empty() { Cpus::new() } else { rest };
        all_on(Rule::Quota, count(threads, quota_cpus), &cpus)
    } else if is_one_to_one(count(threads, usable.len()), usable, &receiving) {
        let cpus: Vec<usize> = receiving.iter().copied().collect();
        let placement = one_each(Rule::Steered, cpus.len(), &cpus);
        return Placement { is_steered: true, receiving, saturated, ..placement };
    } else {
        let is_clear = receiving.is_disjoint(usable) && saturated.is_empty();
        let rule = match avoided.is_empty() {
            false => Rule::Apart,
            true if is_clear => Rule::Plain,
            true => Rule::Shared,
        };
        let cpus = in_order(machine, &rest, &avoided);
        one_each(rule, count(threads, cpus.len()), &cpus)
    };
    Placement { receiving, saturated, avoided, ..placement }
}

fn is_one_to_one(workers: usize, usable: &Cpus, receiving: &Cpus) -> bool {
    workers >= STEERED_CPUS_MIN && receiving.len() == workers && receiving.is_subset(usable)
}

/// CPUs to keep workers off: those that receive and those that are saturated, or the latter alone, if enough are left.
///
/// Where a quarter of the CPUs receives, the busiest one has less to do if workers keep off them, as soon as work on
/// packets is a thirteenth of all work; where half of them do, from a third on. So three quarters have to be left where
/// the number of workers is open, or others use these CPUs too. Where interrupts are seen to take most of a CPU, half
/// are enough.
fn avoid(threads: usize, machine: &Machine, usable: &Cpus, receiving: &Cpus, saturated: &Cpus) -> Cpus {
    let busy = &(receiving | saturated) & usable;
    let is_enough = |avoided: &Cpus| {
        let (left, all) = (usable.len() - avoided.len(), usable.len());
        let is_share = if avoided.is_subset(saturated) { left * 2 >= all } else { left * 4 >= all * 3 };
        match (threads, machine.quota_cpus) {
            (0, None) => is_share,
            (threads, None) => left >= threads,
            // Others who count in the same way would crowd on a few.
            (threads, Some(quota_cpus)) => is_share && left >= count(threads, quota_cpus),
        }
    };
    [busy, saturated.clone()].into_iter().find(is_enough).unwrap_or_default()
}

/// CPUs in the order in which workers get them: a core of its own for each as long as there are such, those that share
/// one with a CPU that is avoided later; of equals first those near the interface.
fn in_order(machine: &Machine, cpus: &Cpus, avoided: &Cpus) -> Vec<usize> {
    let place =
        |cpu: usize| machine.places.get(&cpu).copied().unwrap_or(Place { core: cpu, ..Place::default() });
    let near = machine.busy_interfaces().first().and_then(|interface| interface.node);
    let rank = |cpu: usize| {
        let own = place(cpu);
        let earlier = cpus.range(..cpu).filter(|other| place(**other).core == own.core).count();
        let shares = avoided.iter().any(|other| place(*other).core == own.core);
        let is_far = near.is_some_and(|node| node != own.node);
        (earlier + usize::from(shares), is_far, own.node, own.package, cpu)
    };
    let mut order: Vec<usize> = cpus.iter().copied().collect();
    order.sort_by_cached_key(|cpu| rank(*cpu));
    order
}

#[cfg(test)]
mod tests;
