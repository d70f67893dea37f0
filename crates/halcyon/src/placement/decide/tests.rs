//! Tables of machines, and where their workers are put.

use super::*;
use crate::placement::facts::{Interface, Queue};
use crate::placement::lists;

fn cpus(list: &str) -> Cpus {
    lists::of_kernel_list(list).expect("a list")
}

/// So many CPUs, each a core, and one queue of an interface for each of `queues`.
fn machine(count: usize, queues: &[usize]) -> Machine {
    let all: Cpus = (0..count).collect();
    let places = all.iter().map(|cpu| (*cpu, Place { core: *cpu, ..Place::default() })).collect();
    let interfaces = if queues.is_empty() { Vec::new() } else { vec![interface("eth0", queues, 1000)] };
    Machine { online: all.clone(), allowed: all, places, interfaces, ..Machine::default() }
}

/// An interface with a queue for each of these CPUs, each with so many interrupts so far.
fn interface(name: &str, queues: &[usize], interrupts: u64) -> Interface {
    let queue = |cpu: &usize| Queue {
        irq: Some(30 + *cpu as u32),
        effective: Cpus::from([*cpu]),
        handled: [(*cpu, interrupts)].into(),
        ..Queue::default()
    };
    Interface { name: name.to_owned(), is_up: true, node: None, queues: queues.iter().map(queue).collect() }
}

fn with(mut machine: Machine, change: impl FnOnce(&mut Machine)) -> Machine {
    change(&mut machine);
    machine
}

/// Two threads a core: CPU n and n + half.
fn with_siblings(machine: Machine) -> Machine {
    with(machine, |machine| {
        let half = machine.online.len() / 2;
        machine.places.iter_mut().for_each(|(cpu, place)| place.core = cpu % half);
    })
}

/// Two nodes: the lower and the upper half, by pairs of threads.
fn with_nodes(machine: Machine) -> Machine {
    with(machine, |machine| {
        let half = machine.online.len() / 2;
        for (cpu, place) in &mut machine.places {
            *place = Place { node: cpu / half, package: cpu / half, core: *cpu };
        }
    })
}

/// `rule: CPUs of each worker`, with `-` for one that is not bound.
fn told(placement: &Placement) -> String {
    let one = |cpus: &Cpus| if cpus.is_empty() { "-".to_owned() } else { lists::printed(cpus, ",") };
    let workers: Vec<String> = placement.workers.iter().map(one).collect();
    format!("{}: {}", placement.rule.texts().0, workers.join(" "))
}

#[test]
fn what_auto_chooses() {
    let queues: Vec<usize> = (0..16).collect();
    let (quarter, half) = (&queues[..4], &queues[..8]);
    let reads_nothing = with(machine(4, &[]), |machine| {
        machine.online.clear();
        machine.places.clear();
    });
    let spread = with(machine(4, &[1]), |machine| machine.interfaces[0].queues[0].spread = cpus("0-3"));
    let spread_elsewhere =
        with(machine(8, &[1]), |machine| machine.interfaces[0].queues[0].spread = cpus("6-7"));
    for (about, machine, threads, expected) in [
        ("loopback only", machine(4, &[]), 0, "plain: 0 1 2 3"),
        ("loopback only, fewer workers", machine(4, &[]), 2, "plain: 0 1"),
        ("more workers than CPUs", machine(2, &[]), 5, "plain: 0 1 0 1 0"),
        ("8 queues on 16 CPUs", machine(16, half), 0, "shared: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"),
        ("8 queues on 16 CPUs, 8 workers", machine(16, half), 8, "steered: 0 1 2 3 4 5 6 7"),
        ("8 queues on 16 CPUs, 6 workers", machine(16, half), 6, "apart: 8 9 10 11 12 13"),
        ("8 queues on 16 CPUs, 9 workers", machine(16, half), 9, "shared: 0 1 2 3 4 5 6 7 8"),
        ("4 queues on 16 CPUs", machine(16, quarter), 0, "apart: 4 5 6 7 8 9 10 11 12 13 14 15"),
        ("queues of their own for all", machine(4, &[3, 2, 1, 0]), 0, "steered: 0 1 2 3"),
        ("queues on the upper half", machine(4, &[2, 3]), 2, "steered: 2 3"),
        ("all interrupts on CPU 0", machine(8, &[0; 8]), 0, "apart: 1 2 3 4 5 6 7"),
        ("all interrupts on CPU 0 of 2", machine(2, &[0, 0]), 0, "shared: 0 1"),
        ("all interrupts on CPU 0 of 2, 1 worker", machine(2, &[0]), 1, "apart: 1"),
        ("one CPU", machine(1, &[0]), 0, "shared: 0"),
        ("virtio, one queue on 4 CPUs", machine(4, &[2]), 0, "apart: 0 1 3"),
        ("one queue, spread over all in software", spread, 0, "steered: 0 1 2 3"),
        ("one queue, spread in software elsewhere", spread_elsewhere, 0, "apart: 0 1 2 3 4 5"),
        ("nothing could be read but what is allowed", reads_nothing, 0, "plain: 0 1 2 3"),
        ("nothing could be read", Machine::default(), 0, "unknown: -"),
        ("nothing could be read, 3 workers", Machine::default(), 3, "unknown: - - -"),
    ] {
        let placement = decide(&List::Auto, threads, &machine);
        assert_eq!(told(&placement), expected, "{about}");
        assert_eq!(placement.is_steered, expected.starts_with("steered"), "{about}");
        let on_avoided = placement.workers.iter().any(|worker| !worker.is_disjoint(&placement.avoided));
        assert!(!on_avoided, "{about}: {placement:?}");
    }
}

#[test]
fn a_control_group_leaves_the_choice_to_the_kernel() {
    let limited = |count, queues, quota_cpus| {
        with(machine(count, queues), |machine| machine.quota_cpus = Some(quota_cpus))
    };
    for (about, machine, threads, expected) in [
        ("no interface, as in a container", limited(16, &[], 2), 0, "quota: - -"),
        ("interrupts elsewhere are kept clear of", limited(8, &[0, 1], 2), 0, "quota: 2-7 2-7"),
        ("too few would be left for all who count so", limited(7, &[0, 1], 2), 0, "quota: - -"),
        ("too few would be left", limited(4, &[0], 4), 0, "quota: - - - -"),
        ("too few would be left for the workers", limited(4, &[0], 2), 4, "quota: - - - -"),
        ("as many queues as workers", limited(8, &[0, 1], 2), 2, "quota: 2-7 2-7"),
    ] {
        let placement = decide(&List::Auto, threads, &machine);
        assert_eq!(told(&placement), expected, "{about}");
        assert!(!placement.is_steered, "{about}");
    }
}

#[test]
fn what_the_process_may_not_use_is_not_chosen() {
    let offline = with(machine(8, &[0, 1, 2, 3]), |machine| machine.online = cpus("0-1,4-7"));
    let confined = with(machine(8, &[0, 1, 2, 3]), |machine| machine.allowed = cpus("2-5"));
    let outside = with(machine(8, &[6, 7]), |machine| machine.allowed = cpus("0-1"));
    let all_off = with(machine(4, &[0]), |machine| machine.online = cpus("8-9"));
    for (about, machine, threads, expected) in [
        ("two CPUs are off", offline.clone(), 0, "shared: 0 1 4 5 6 7"),
        ("two CPUs are off, 2 workers for what is left of the queues", offline, 2, "steered: 0 1"),
        ("confined to some", confined.clone(), 0, "shared: 2 3 4 5"),
        ("confined to some, 2 workers", confined, 2, "apart: 4 5"),
        ("two queues, but on CPUs of others", outside, 2, "plain: 0 1"),
        ("none that is allowed runs", all_off, 2, "unknown: - -"),
    ] {
        assert_eq!(told(&decide(&List::Auto, threads, &machine)), expected, "{about}");
    }
}

#[test]
fn saturated_cpus_are_kept_clear_of_where_half_are_left() {
    let busy = |count, queues, percents: &[(usize, u64)]| {
        with(machine(count, queues), |machine| machine.interrupt_percent = percents.iter().copied().collect())
    };
    for (about, machine, threads, expected) in [
        ("49 percent", busy(4, &[], &[(0, 49), (1, 1)]), 0, "plain: 0 1 2 3"),
        ("50 percent", busy(4, &[], &[(0, 50), (1, 99)]), 0, "apart: 2 3"),
        ("three of four", busy(4, &[], &[(0, 50), (1, 99), (2, 80)]), 0, "shared: 0 1 2 3"),
        ("three of four, 1 worker", busy(4, &[], &[(0, 50), (1, 99), (2, 80)]), 1, "apart: 3"),
        ("of four queues two are busy", busy(8, &[0, 1, 2, 3], &[(0, 90), (1, 90)]), 0, "apart: 2 3 4 5 6 7"),
        ("a CPU of others", busy(2, &[], &[(7, 90)]), 0, "plain: 0 1"),
    ] {
        assert_eq!(told(&decide(&List::Auto, threads, &machine)), expected, "{about}");
    }
}

#[test]
fn cores_come_before_their_second_threads_and_near_ones_before_far_ones() {
    let near_second = |machine| with(with_nodes(machine), |machine| machine.interfaces[0].node = Some(1));
    for (about, machine, threads, expected) in [
        ("two threads a core", with_siblings(machine(8, &[])), 6, "plain: 0 1 2 3 4 5"),
        ("the core of a busy CPU comes last", with_siblings(machine(8, &[1])), 4, "apart: 0 2 3 4"),
        ("but is used", with_siblings(machine(8, &[1])), 0, "apart: 0 2 3 4 5 6 7"),
        ("two nodes", with_nodes(machine(8, &[])), 0, "plain: 0 1 2 3 4 5 6 7"),
        ("the interface is at the second node", near_second(machine(8, &[4])), 4, "apart: 5 6 7 0"),
        ("the interface is at the second node", near_second(machine(8, &[4, 5])), 0, "apart: 6 7 0 1 2 3"),
        ("queues of both nodes", near_second(machine(4, &[0, 1, 2, 3])), 0, "steered: 0 1 2 3"),
    ] {
        assert_eq!(told(&decide(&List::Auto, threads, &machine)), expected, "{about}");
    }
}

#[test]
fn quiet_interfaces_and_those_that_are_down_do_not_count() {
    let second = |interrupts, is_up| {
        with(machine(4, &[0, 1, 2, 3]), |machine| {
            machine.interfaces.insert(0, Interface { is_up, ..interface("aux", &[0], interrupts) });
        })
    };
    for (about, machine, expected) in [
        ("quiet", second(39, true), "0-3"),
        ("down", second(1_000_000, false), "0-3"),
        ("by far the busiest", second(1_000_000, true), "0"),
        ("as busy as any", second(40, true), "0-3"),
        (
            "nobody had an interrupt yet",
            with(second(0, true), |machine| {
                machine.interfaces[1].queues.iter_mut().for_each(|queue| queue.handled.clear());
            }),
            "0-3",
        ),
    ] {
        let placement = decide(&List::Auto, 0, &machine);
        assert_eq!(lists::printed(&placement.receiving, ","), expected, "{about}");
    }
}

#[test]
fn the_cpu_of_a_queue() {
    let queue = |allowed: &str, effective: &str, handled: &[(usize, u64)], spread: &str| Queue {
        irq: Some(1),
        allowed: cpus(allowed),
        effective: cpus(effective),
        handled: handled.iter().copied().collect(),
        spread: cpus(spread),
    };
    let machine = machine(8, &[]);
    for (queue, expected) in [
        (queue("0-7", "5", &[(2, 900)], ""), "5"),
        (queue("0-7", "", &[(2, 900), (3, 10)], ""), "2"),
        (queue("3-7", "", &[(2, 900), (5, 10)], ""), "5"),
        (queue("3-7", "", &[], ""), "3"),
        (queue("0-7", "4-6", &[], ""), "4"),
        (queue("0-7", "5", &[], "1-2,9"), "1-2"),
        (queue("0-7", "5", &[], "9"), "5"),
        (queue("9", "9", &[(9, 5)], ""), ""),
        (queue("", "", &[(2, 900)], ""), ""),
    ] {
        assert_eq!(lists::printed(&machine.receiving_for(&queue), ","), expected, "{queue:?}");
    }
}

#[test]
fn lists_of_cpus_are_followed() {
    let limited = with(machine(8, &[]), |machine| machine.quota_cpus = Some(2));
    let all = machine(8, &[0, 1, 2, 3, 4, 5, 6, 7]);
    for (list, threads, machine, expected) in [
        (List::Cpus(cpus("1,3-4")), 0, &all, "list: 1 3 4"),
        (List::Cpus(cpus("1,3-4")), 5, &all, "list: 1 3 4 1 3"),
        (List::Cpus(cpus("1,3-4")), 2, &all, "list: 1 3"),
        (List::Cpus(cpus("0-7")), 0, &limited, "list: 0 1"),
        (List::Unset, 0, &machine(3, &[]), "unset: - - -"),
        (List::Unset, 0, &limited, "unset: - -"),
        (List::Unset, 1, &limited, "unset: -"),
        (List::Unusable, 2, &all, "list-unusable: - -"),
        (List::Unreadable, 0, &machine(2, &[]), "list-unreadable: - -"),
        (List::Unset, 0, &Machine::default(), "unset: -"),
    ] {
        assert_eq!(told(&decide(&list, threads, machine)), expected, "{list:?} {threads}");
    }
}
