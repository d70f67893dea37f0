//! Reading directories that have the files of machines of all kinds, and of none.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::*;
use crate::placement::decide::{List, Placement, decide};
use crate::placement::lists::printed;

/// A directory with the files of a machine that is not this one.
struct Tree(PathBuf);

impl Tree {
    fn new() -> Tree {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("halcyon-machine-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a directory can be made");
        Tree(path)
    }

    fn file(&self, path: &str, text: &str) -> &Tree {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("it is below the tree")).expect("a directory can be made");
        fs::write(path, text).expect("a file can be written");
        self
    }

    fn link(&self, path: &str, target: &str) -> &Tree {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("it is below the tree")).expect("a directory can be made");
        symlink(target, path).expect("a link can be made");
        self
    }

    /// So many CPUs on as many nodes as said, two threads a core: CPU n and n + half.
    fn cpus(&self, count: usize, nodes: usize) -> &Tree {
        self.file("sys/devices/system/cpu/online", &format!("0-{}\n", count - 1));
        self.file("sys/devices/system/cpu/cpufreq/boost", "1\n");
        let half = count / 2;
        let node_of = |cpu: usize| cpu % half * nodes / half;
        for cpu in 0..count {
            let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            let core = cpu % half;
            self.file(&format!("{topology}/thread_siblings_list"), &format!("{core},{}\n", core + half));
            self.file(&format!("{topology}/physical_package_id"), &format!("{}\n", node_of(cpu)));
        }
        for node in 0..nodes {
            let own: Cpus = (0..count).filter(|cpu| node_of(*cpu) == node).collect();
            let list = format!("{}\n", printed(&own, ","));
            self.file(&format!("sys/devices/system/node/node{node}/cpulist"), &list);
        }
        self
    }

    /// `/proc/interrupts` with these, of which each has gone to one CPU, and where they may go.
    fn interrupts(&self, cpus: usize, lines: &[(u32, usize, &str)]) -> &Tree {
        let heads: String = (0..cpus).map(|cpu| format!("       CPU{cpu}")).collect();
        let mut table = format!("    {heads}\n");
        for (irq, cpu, name) in lines {
            let counts: String = (0..cpus).map(|at| if at == *cpu { " 5000" } else { " 0" }).collect();
            table.push_str(&format!(" {irq}: {counts}  PCI-MSIX-0000:01:00.0  1-edge      {name}\n"));
            self.file(&format!("proc/irq/{irq}/smp_affinity_list"), &format!("0-{}\n", cpus - 1));
            self.file(&format!("proc/irq/{irq}/effective_affinity_list"), &format!("{cpu}\n"));
        }
        table.push_str(" NMI:   0   0   Non-maskable interrupts\n ERR:          0\n");
        self.file("proc/interrupts", &table)
    }

    /// An interface that is up, with a device on the bus and so many queues.
    fn interface(&self, name: &str, device: &str, queues: usize) -> &Tree {
        self.file(&format!("sys/devices/pci/{device}/vendor"), "0x8086\n");
        self.link(&format!("sys/class/net/{name}/device"), &format!("../../../devices/pci/{device}"));
        self.file(&format!("sys/class/net/{name}/operstate"), "up\n");
        for queue in 0..queues {
            self.file(&format!("sys/class/net/{name}/queues/rx-{queue}/rps_cpus"), "0\n");
            self.file(&format!("sys/class/net/{name}/queues/tx-{queue}/xps_cpus"), "0\n");
        }
        self
    }

    fn read(&self) -> Machine {
        let allowed = list(&self.0.join("sys/devices/system/cpu/online")).unwrap_or_default();
        read(&self.0, allowed, None, || ())
    }

    fn decide(&self, threads: usize) -> Placement {
        decide(&List::Auto, threads, &self.read())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `irq>CPU` of each queue.
fn told(machine: &Machine) -> String {
    let queue = |queue: &Queue| {
        let irq = queue.irq.map_or("-".to_owned(), |irq| irq.to_string());
        format!("{irq}>{}", printed(&machine.receiving_for(queue), ","))
    };
    let interface = |interface: &Interface| {
        let queues: Vec<String> = interface.queues.iter().map(queue).collect();
        format!("{} {}", interface.name, queues.join(" "))
    };
    machine.interfaces.iter().map(interface).collect::<Vec<_>>().join("; ")
}

fn chosen(placement: &Placement) -> String {
    let workers: Vec<String> = placement.workers.iter().map(|cpus| printed(cpus, ",")).collect();
    format!("{}: {}", placement.rule.texts().0, workers.join(" "))
}

#[test]
fn a_card_with_queues_for_half_the_cpus() {
    let tree = Tree::new();
    let names: Vec<String> = (0..8).map(|queue| format!("eth0-TxRx-{queue}")).collect();
    let mut lines: Vec<(u32, usize, &str)> =
        names.iter().enumerate().map(|(queue, name)| (40 + queue as u32, 7 - queue, &**name)).collect();
    lines.push((39, 0, "eth0"));
    lines.push((48, 0, "nvme0q1"));
    tree.cpus(16, 2).interrupts(16, &lines).interface("eth0", "0000:01:00.0", 8);
    tree.file("sys/devices/pci/0000:01:00.0/numa_node", "1\n");
    for irq in 39..48 {
        tree.file(&format!("sys/devices/pci/0000:01:00.0/msi_irqs/{irq}"), "msix\n");
    }
    let machine = tree.read();
    assert_eq!(told(&machine), "eth0 40>7 41>6 42>5 43>4 44>3 45>2 46>1 47>0");
    assert_eq!(machine.interfaces[0].node, Some(1));
    assert_eq!(machine.places[&12], Place { node: 1, package: 1, core: 4 });
    assert_eq!(chosen(&tree.decide(8)), "steered: 0 1 2 3 4 5 6 7");
    // Of the other CPUs, those at the card's node come first.
    assert_eq!(chosen(&tree.decide(4)), "apart: 12 13 14 15");
}

#[test]
fn a_virtual_machines_card() {
    let lines = [
        (37, 0, "virtio2-config"),
        (38, 1, "virtio2-input.0"),
        (39, 0, "virtio2-output.0"),
        (40, 3, "virtio2-input.1"),
        (41, 2, "virtio2-output.1"),
        (42, 2, "virtio20-input.0"),
        (36, 1, "virtio1-req.0"),
    ];
    let tree = Tree::new();
    tree.cpus(4, 1).interrupts(4, &lines).interface("eth0", "0000:00:03.0/virtio2", 2);
    assert_eq!(told(&tree.read()), "eth0 38>1 40>3", "by name");
    for irq in 37..42 {
        tree.file(&format!("sys/devices/pci/0000:00:03.0/msi_irqs/{irq}"), "msix\n");
    }
    assert_eq!(told(&tree.read()), "eth0 38>1 40>3", "by the bus");
    assert_eq!(chosen(&tree.decide(2)), "steered: 1 3");
    // Only one of the two is in use.
    fs::remove_dir_all(tree.0.join("sys/class/net/eth0/queues/rx-1")).expect("it is there");
    assert_eq!(told(&tree.read()), "eth0 38>1");
    assert_eq!(chosen(&tree.decide(0)), "apart: 0 2 3");
}

#[test]
fn one_interrupt_for_all_queues_and_none_that_can_be_found() {
    let tree = Tree::new();
    tree.cpus(4, 1).interrupts(4, &[(11, 2, "virtio0")]).interface("eth0", "virtio0", 3);
    assert_eq!(told(&tree.read()), "eth0 11>2 11>2 11>2");
    tree.interrupts(4, &[(11, 2, "somebody-else")]);
    assert_eq!(told(&tree.read()), "eth0 -> -> ->");
    assert_eq!(chosen(&tree.decide(0)), "plain: 0 1 2 3");
    // But software spreads what arrives.
    tree.file("sys/class/net/eth0/queues/rx-1/rps_cpus", "00000000,0000000c\n");
    assert_eq!(told(&tree.read()), "eth0 -> ->2-3 ->");
    assert_eq!(chosen(&tree.decide(2)), "steered: 2 3");
}

#[test]
fn interfaces_without_a_device_or_down_are_passed_over() {
    let tree = Tree::new();
    tree.cpus(4, 1).interrupts(4, &[(11, 2, "eth0-rx-0"), (12, 1, "eth1-rx-0")]);
    tree.file("sys/class/net/lo/operstate", "unknown\n").file("sys/class/net/lo/queues/rx-0/rps_cpus", "f\n");
    assert_eq!(told(&tree.read()), "");
    tree.interface("eth0", "0000:00:03.0", 1).interface("eth1", "0000:00:04.0", 1);
    tree.file("sys/class/net/eth0/operstate", "down\n");
    assert_eq!(told(&tree.read()), "eth0 11>2; eth1 12>1");
    assert_eq!(printed(&tree.read().receiving(), ","), "1");
}

#[test]
fn names_of_interrupts() {
    for (name, is_of_packets, number) in [
        ("eth0-txrx-11", true, Some(11)),
        ("i40e-eth0-txrx-3", true, Some(3)),
        ("i40e-0000:3b:00.0:misc", false, None),
        ("ice-eth0-txrx-7", true, Some(7)),
        ("eth0-tx-rx-4", true, Some(4)),
        ("ena-mgmnt@pci:0000:00:05.0", false, None),
        ("mlx5_comp3@pci:0000:08:00.0", true, Some(3)),
        ("mlx5_async0@pci:0000:08:00.0", false, None),
        ("mlx5_cmd_eq@pci:0000:08:00.0", false, None),
        ("eth0-rx-2", true, Some(2)),
        ("eth0-tx-2", false, None),
        ("eth0-q5-rx", true, Some(5)),
        ("eth0-q5-tx", false, None),
        ("virtio2-input.6", true, Some(6)),
        ("virtio2-output.6", false, None),
        ("virtio2-config", false, None),
        ("virtio2", true, None),
        ("gve-ntfy-blk9@pci:0000:00:04.0", true, Some(9)),
        ("eth0", true, None),
        ("", true, None),
    ] {
        assert_eq!(self::is_of_packets(name), is_of_packets, "{name}");
        if is_of_packets {
            assert_eq!(queue_number(name, &["eth0", "virtio2"]), number, "{name}");
        }
    }
}

#[test]
fn what_interrupts_take_is_what_they_took_while_it_was_watched() {
    let tree = Tree::new();
    let stat = |first: &str, second: &str| {
        format!("cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 {first} 0 0\ncpu1 {second} 0 0\nintr 1 2 3\n")
    };
    tree.cpus(2, 1).file("proc/stat", &stat("100 0 100 800 0 900 900 0", "10 0 10 80 0 0 0 0"));
    let machine = read(&tree.0, Cpus::from([0, 1]), None, || {
        tree.file("proc/stat", &stat("105 0 100 800 0 901 904 0", "20 0 10 80 0 0 0 0"));
    });
    assert_eq!(machine.interrupt_percent, BTreeMap::from([(0, 50), (1, 0)]));
    assert_eq!(tree.read().interrupt_percent, BTreeMap::new(), "no time has passed");
    let most = [u64::MAX.to_string().as_str(); 8].join(" ");
    let machine = read(&tree.0, Cpus::from([0, 1]), None, || {
        tree.file("proc/stat", &stat(&most, "0 0 0 0 0 0 0 0"));
    });
    assert_eq!(machine.interrupt_percent, BTreeMap::from([(0, 1)]), "numbers that cannot be");
}

#[test]
fn files_that_make_no_sense_are_as_good_as_none() {
    let tree = Tree::new();
    let machine = read(&tree.0, Cpus::from([3]), Some(1), || ());
    let nothing = Machine { allowed: Cpus::from([3]), quota_cpus: Some(1), ..Machine::default() };
    assert_eq!(machine, nothing);
    for garbage in [
        "",
        "\n\n",
        "\u{0}\u{ff}",
        "CPU0 CPUx\n 1: 5\n",
        "-1",
        "cpu0\ncpu1 x y z\n",
        "9999999999999999999999",
    ] {
        tree.cpus(2, 1).interrupts(2, &[(40, 1, "eth0-rx-0")]);
        if !tree.0.join("sys/class/net").exists() {
            tree.interface("eth0", "0000:01:00.0", 1);
        }
        for path in [
            "proc/interrupts",
            "proc/stat",
            "proc/irq/40/smp_affinity_list",
            "proc/irq/40/effective_affinity_list",
            "sys/class/net/eth0/operstate",
            "sys/class/net/eth0/queues/rx-0/rps_cpus",
            "sys/devices/pci/0000:01:00.0/numa_node",
            "sys/devices/pci/0000:01:00.0/msi_irqs/x",
            "sys/devices/system/cpu/online",
            "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
            "sys/devices/system/cpu/cpu0/topology/physical_package_id",
            "sys/devices/system/node/node0/cpulist",
        ] {
            tree.file(path, garbage);
            let machine = read(&tree.0, Cpus::from([0, 1]), None, || ());
            let placement = decide(&List::Auto, 2, &machine);
            assert_eq!(placement.workers.len(), 2, "{path}: {garbage:?}");
        }
        let machine = read(&tree.0, Cpus::from([0, 1]), None, || ());
        assert_eq!(machine.receiving(), Cpus::new(), "{garbage:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn this_machine_can_be_read() {
    let machine = read(Path::new("/"), Cpus::from([0]), None, || ());
    assert!(machine.online.contains(machine.places.keys().next().expect("there is a CPU")), "{machine:?}");
}
