//! Reading what the kernel tells of a machine, below a directory that has its `/proc` and `/sys`.
//!
//! What is missing or makes no sense is left out: the less there is, the less is decided by it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::facts::{Cpus, Interface, Machine, Place, Queue};
use super::lists::{of_kernel_list, of_kernel_mask};

/// Words in an interrupt's name by which it is not one of packets that arrive.
const OTHER_WORDS: &[&str] = &[
    "adminq", "aeq", "async", "cmd", "config", "control", "ctrl", "event", "fdir", "lsc", "mbx", "mgmnt",
    "mgmt", "misc", "other", "output", "pages",
];

/// An interrupt, as `/proc/interrupts` shows it.
#[derive(Debug, PartialEq, Eq)]
struct Interrupt {
    irq: u32,
    handled: BTreeMap<usize, u64>,
    /// Whom it is for, in lower case.
    name: String,
}

/// Reads the machine below `root`. `watch` is called between two looks at what interrupts take. Who reads says itself
/// which CPUs it may use.
pub fn read(root: &Path, allowed: Cpus, quota_cpus: Option<usize>, watch: impl FnOnce()) -> Machine {
    let before = times(&text(root, "proc/stat"));
    watch();
    let after = times(&text(root, "proc/stat"));
    let interrupts = interrupts(&text(root, "proc/interrupts"));
    Machine {
        online: list(&root.join("sys/devices/system/cpu/online")).unwrap_or_default(),
        allowed,
        quota_cpus,
        places: places(root),
        interrupt_percent: interrupt_percent(&before, &after),
        interfaces: interfaces(root, &interrupts),
    }
}

fn text(root: &Path, path: &str) -> String {
    // Names in it need not be UTF-8.
    fs::read(root.join(path))
        .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn line(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    line(path)?.parse().ok()
}

fn list(path: &Path) -> Option<Cpus> {
    of_kernel_list(&line(path)?)
}

/// The names in a directory that are `prefix` and a number, by number.
fn numbered(directory: &Path, prefix: &str) -> BTreeMap<usize, PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok();
    entries.filter_map(|entry| Some((number(&entry.path())?, entry.path()))).collect()
}

/// Where each CPU is.
fn places(root: &Path) -> BTreeMap<usize, Place> {
    let nodes: BTreeMap<usize, Cpus> = numbered(&root.join("sys/devices/system/node"), "node")
        .into_iter()
        .filter_map(|(node, path)| Some((node, list(&path.join("cpulist"))?)))
        .collect();
    let place = |cpu: usize, topology: &Path| {
        let siblings = ["core_cpus_list", "thread_siblings_list"].map(|name| list(&topology.join(name)));
        let siblings = siblings.into_iter().flatten().next().unwrap_or_default();
        Place {
            node: nodes.iter().find(|(_, cpus)| cpus.contains(&cpu)).map_or(0, |(node, _)| *node),
            package: number(&topology.join("physical_package_id")).unwrap_or(0),
            core: siblings.first().copied().unwrap_or(cpu),
        }
    };
    let cpus = numbered(&root.join("sys/devices/system/cpu"), "cpu");
    cpus.into_iter().map(|(cpu, path)| (cpu, place(cpu, &path.join("topology")))).collect()
}

/// Of each CPU what it spent on interrupts, and in all, in the clock's ticks.
fn times(stat: &str) -> BTreeMap<usize, (u64, u64)> {
    let of_line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        // user nice system idle iowait irq softirq steal; what follows is in these already.
        let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let interrupts = ticks.get(5)?.saturating_add(*ticks.get(6)?);
        Some((cpu, (interrupts, ticks.iter().fold(0_u64, |sum, ticks| sum.saturating_add(*ticks)))))
    };
    stat.lines().filter_map(of_line).collect()
}

fn interrupt_percent(
    before: &BTreeMap<usize, (u64, u64)>,
    after: &BTreeMap<usize, (u64, u64)>,
) -> BTreeMap<usize, u64> {
    let mut percents = BTreeMap::new();
    for (cpu, (interrupts, total)) in after {
        let Some((interrupts_before, total_before)) = before.get(cpu) else { continue };
        let taken = interrupts.saturating_sub(*interrupts_before);
        if let Some(percent) = taken.saturating_mul(100).checked_div(total.saturating_sub(*total_before)) {
            percents.insert(*cpu, percent);
        }
    }
    percents
}

/// The numbered lines of `/proc/interrupts`. The first line says which CPUs the columns are.
fn interrupts(table: &str) -> Vec<Interrupt> {
    let mut lines = table.lines();
    let heads = lines.next().unwrap_or_default().split_ascii_whitespace();
    let Some(cpus) = heads.map(|head| head.strip_prefix("CPU")?.parse().ok()).collect::<Option<Vec<usize>>>()
    else {
        return Vec::new();
    };
    let of_line = |line: &str| {
        let (irq, rest) = line.split_once(':')?;
        let irq = irq.trim().parse().ok()?;
        let mut words = rest.split_ascii_whitespace();
        let mut handled = BTreeMap::new();
        for cpu in &cpus {
            handled.insert(*cpu, words.next()?.parse().ok()?);
        }
        Some(Interrupt { irq, handled, name: words.next_back().unwrap_or_default().to_ascii_lowercase() })
    };
    lines.filter_map(of_line).collect()
}

/// Network interfaces that have a device.
fn interfaces(root: &Path, interrupts: &[Interrupt]) -> Vec<Interface> {
    let mut paths: Vec<PathBuf> = fs::read_dir(root.join("sys/class/net"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths.retain(|path| path.join("device").exists());
    let interface = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let device = path.join("device");
        let node = ["numa_node", "../numa_node"].iter().find_map(|place| number::<i64>(&device.join(place)));
        Interface {
            is_up: line(&path.join("operstate")).is_none_or(|state| state != "down"),
            node: node.and_then(|node| usize::try_from(node).ok()),
            queues: queues(root, path, &own_interrupts(&name, &device, interrupts)),
            name,
        }
    };
    paths.iter().map(interface).collect()
}

/// The interrupts by which an interface tells of packets, in the order of its queues.
fn own_interrupts<'a>(name: &str, device: &Path, all: &'a [Interrupt]) -> Vec<&'a Interrupt> {
    let name = name.to_ascii_lowercase();
    let device_name =
        fs::canonicalize(device).ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let device_name = device_name.unwrap_or_default();
    // A virtual device's interrupts are its parent's.
    let parent = if device_name.starts_with("virtio") { "../msi_irqs" } else { "msi_irqs" };
    let listed: BTreeSet<u32> = ["msi_irqs", parent]
        .iter()
        .flat_map(|place| numbered(&device.join(place), ""))
        .filter_map(|(irq, _)| u32::try_from(irq).ok())
        .collect();
    let names = [&*name, &*device_name];
    let is_named = |interrupt: &Interrupt| {
        names.iter().any(|own| !own.is_empty() && after_word(&interrupt.name, own).is_some())
    };
    let mut own: Vec<&Interrupt> = all
        .iter()
        .filter(|interrupt| listed.contains(&interrupt.irq) || is_named(interrupt))
        .filter(|interrupt| is_of_packets(&interrupt.name))
        .collect();
    own.sort_by_key(|interrupt| {
        let number = queue_number(&interrupt.name, &names);
        (number.is_none(), number, interrupt.irq)
    });
    own
}

/// What follows `word` in `name`, where it stands by itself.
fn after_word<'a>(name: &'a str, word: &str) -> Option<&'a str> {
    let is_part = |character: char| character.is_ascii_alphanumeric();
    let (at, _) = name
        .match_indices(word)
        .find(|(at, _)| !name[..*at].ends_with(is_part) && !name[at + word.len()..].starts_with(is_part))?;
    Some(&name[at + word.len()..])
}

/// False for interrupts of what was sent, of the device's own affairs and the like.
fn is_of_packets(name: &str) -> bool {
    let words: Vec<&str> = name
        .split(|character: char| !character.is_ascii_alphanumeric())
        .map(|word| word.trim_end_matches(|character: char| character.is_ascii_digit()))
        .collect();
    let has = |word: &str| words.contains(&word);
    !OTHER_WORDS.iter().any(|word| has(word)) && (!has("tx") || has("rx"))
}

/// The number of the queue in `eth0-TxRx-3`, `virtio2-input.3`, `mlx5_comp3@pci:0000:08:00.0`, `eth0-q3-rx`.
fn queue_number(name: &str, owners: &[&str]) -> Option<usize> {
    let name = name.split('@').next().unwrap_or_default();
    let name =
        owners.iter().filter(|own| !own.is_empty()).find_map(|own| after_word(name, own)).unwrap_or(name);
    let mut digits = name.split(|character: char| !character.is_ascii_digit());
    digits.rfind(|digits| !digits.is_empty())?.parse().ok()
}

fn queues(root: &Path, interface: &Path, interrupts: &[&Interrupt]) -> Vec<Queue> {
    let receiving = numbered(&interface.join("queues"), "rx-");
    let count = if receiving.is_empty() { interrupts.len() } else { receiving.len() };
    let mut paths = receiving.into_values();
    let mut queues = Vec::with_capacity(count);
    for number in 0..count {
        let mut queue = Queue::default();
        // Where there are fewer interrupts than queues, these share them.
        if let Some(interrupt) = interrupts.get(number % interrupts.len().max(1)) {
            let directory = root.join("proc/irq").join(interrupt.irq.to_string());
            queue.irq = Some(interrupt.irq);
            queue.allowed = affinity(&directory, "smp_affinity");
            queue.effective = affinity(&directory, "effective_affinity");
            queue.handled.clone_from(&interrupt.handled);
        }
        let spread = paths.next().and_then(|path| line(&path.join("rps_cpus")));
        queue.spread = spread.and_then(|mask| of_kernel_mask(&mask)).unwrap_or_default();
        queues.push(queue);
    }
    queues
}

/// The CPUs in a file of an interrupt, as a list or, before Linux had those, as a mask.
fn affinity(directory: &Path, name: &str) -> Cpus {
    let mask = || of_kernel_mask(&line(&directory.join(name))?);
    list(&directory.join(format!("{name}_list"))).or_else(mask).unwrap_or_default()
}

#[cfg(test)]
mod tests;
