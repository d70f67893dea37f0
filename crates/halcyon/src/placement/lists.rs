//! CPUs as text: Redis's lists, and the lists and masks of the kernel's files.

use super::facts::Cpus;

/// CPUs beyond this are passed over: no kernel has them.
const CPUS_MAX: usize = 8192;

/// CPUs in Redis's syntax: `0,2,4-6,8-14:2` (ranges are inclusive, `:2` is a stride). `None` where Redis binds nothing,
/// for it takes any text. It passes over what follows a number in any part but the last, and so does this.
pub fn of_directive(text: &[u8]) -> Option<Cpus> {
    let mut cpus = Cpus::new();
    let mut parts = text.split(|byte| *byte == b',').peekable();
    while let Some(part) = parts.next() {
        let (first, mut rest) = number(part)?;
        let (mut last, mut stride) = (first, 1);
        if let Some(after) = after(rest, b'-') {
            (last, rest) = number(after)?;
            if let Some(after) = self::after(rest, b':') {
                (stride, rest) = number(after)?;
            }
        }
        if first > last || stride == 0 || (parts.peek().is_none() && !rest.is_empty()) {
            return None;
        }
        cpus.extend((first..=last.min(CPUS_MAX)).step_by(stride));
    }
    Some(cpus)
}

/// The number at the start, and what follows it.
fn number(text: &[u8]) -> Option<(usize, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = |value: usize, digit: &u8| value.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
    (digits > 0).then(|| (text[..digits].iter().fold(0, value), &text[digits..]))
}

fn after(text: &[u8], separator: u8) -> Option<&[u8]> {
    text.iter().position(|byte| *byte == separator).map(|at| &text[at + 1..])
}

/// A list of the kernel's: `0-3,8`. An empty line is an empty list; `None` if it is none.
pub fn of_kernel_list(text: &str) -> Option<Cpus> {
    let text = text.trim();
    if text.is_empty() { Some(Cpus::new()) } else { of_directive(text.as_bytes()) }
}

/// A mask of the kernel's: groups of 32 bits in hexadecimal digits, the highest first. `None` if it is none.
pub fn of_kernel_mask(text: &str) -> Option<Cpus> {
    let mut cpus = Cpus::new();
    for (group, digits) in text.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(digits, 16).ok()?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| group * 32 + bit));
    }
    Some(cpus)
}

/// The list as the kernel writes it, with `separator` between its ranges.
pub fn printed(cpus: &Cpus, separator: &str) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let range = |(first, last): (usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.into_iter().map(range).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_redis_reads_them() {
        for (text, expected) in [
            ("0", Some("0")),
            ("0,2,3", Some("0,2-3")),
            ("0,2-3", Some("0,2-3")),
            ("0-20:5", Some("0,5,10,15,20")),
            ("0-7:2,1", Some("0-2,4,6")),
            ("8-4,1", None),
            ("3-1", None),
            ("0-7:0", None),
            ("0-7:", None),
            ("0-", None),
            ("-1", None),
            ("", None),
            (",1", None),
            ("1,", None),
            ("1,,2", None),
            ("0, 1", None),
            (" 1", None),
            ("1 ", None),
            ("1x", None),
            ("0:2", None),
            ("x", None),
            ("auto", None),
            // What follows a number matters in the last part alone.
            ("1x,2", Some("1-2")),
            ("0:2,4", Some("0,4")),
            ("0x-3", Some("0-3")),
            ("0-3x:2,8", Some("0,2,8")),
        ] {
            let cpus = of_directive(text.as_bytes());
            assert_eq!(cpus.map(|cpus| printed(&cpus, ",")).as_deref(), expected, "{text:?}");
        }
        assert_eq!(of_directive(b"0-99999999999999999999999").map(|cpus| cpus.len()), Some(CPUS_MAX + 1));
        assert_eq!(of_directive(b"99999999999999999999999").map(|cpus| cpus.len()), Some(0));
    }

    #[test]
    fn what_the_kernel_writes() {
        for (text, expected) in
            [("0-3,8\n", Some("0-3,8")), ("\n", Some("")), ("0-3 8", None), ("none\n", None), ("0-", None)]
        {
            let cpus = of_kernel_list(text);
            assert_eq!(cpus.map(|cpus| printed(&cpus, ",")).as_deref(), expected, "{text:?}");
        }
        for (text, expected) in [
            ("0\n", Some("")),
            ("f\n", Some("0-3")),
            ("00000000,0000ffff\n", Some("0-15")),
            ("3,00000000,80000001\n", Some("0,31,64-65")),
            ("", None),
            ("xyz", None),
            ("fffffffff", None),
            ("1,,1", None),
        ] {
            let cpus = of_kernel_mask(text);
            assert_eq!(cpus.map(|cpus| printed(&cpus, ",")).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn ranges_are_joined() {
        assert_eq!(printed(&Cpus::from([7, 1, 2, 0, 4]), " "), "0-2 4 7");
        assert_eq!(printed(&Cpus::new(), ","), "");
    }
}
