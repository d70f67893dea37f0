//! A template such as `ZADD <key> [ ( NX | XX ) ] { <score> <member> }` turned into a command.
//!
//! `[ a ]` stands or not, `( a | b )` is one of several, `{ a }` repeats once to five times; words in angle
//! brackets are drawn, all others stand as they are.

use super::templates::{ACL_RULES, FAMILIES, FAMILIES_APART, Family, USERS};
use crate::duo::Args;
use crate::rules::{self, Rule};

/// Draws commands of one family from one seed.
pub struct Generator {
    rng: fastrand::Rng,
    family: &'static Family,
    /// Keys mostly share one hash tag, as multi-key commands need in cluster mode.
    cluster: bool,
    /// How many keys the last `<nkeys>` named.
    keys_counted: usize,
    /// Members and fields of the command being made: each is named once, as 7.2 and later size a new value
    /// by the number of arguments, not by what remains of them.
    named: Vec<Vec<u8>>,
    /// The parts of the last id of a stream's entry.
    last_ms: u64,
    last_seq: u64,
    recent_ids: Vec<Vec<u8>>,
}

const KEYS: usize = 8;
/// Ids of entries that commands name again.
const RECENT_IDS: usize = 80;
/// One command in so many is bent: an argument dropped, added or replaced.
const BENT_ONE_IN: usize = 25;
/// One command in so many is of another family, so that types collide.
const FOREIGN_ONE_IN: usize = 12;
/// One command in so many clears a key, so that values do not only grow.
const CLEAR_ONE_IN: usize = 30;

static EDGE_NUMBERS: &[&str] = &[
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "9007199254740993",
    "4294967296",
    "-4294967296",
    "01",
    "+1",
    "-0",
    " 1",
    "1 ",
    "",
    "0x10",
    "1.0",
    "1e3",
    "abc",
    "nan",
];
static FLOATS: &[&str] = &[
    "0",
    "1",
    "-1",
    "0.1",
    "0.2",
    "3.14159",
    "-2.5",
    "1e5",
    "1e-5",
    "1.5e300",
    "1e17",
    "1e21",
    "0.1e-9",
    "inf",
    "-inf",
    "+inf",
    "-0",
    "5.0e3",
    "100",
    "10.10",
    "1234567890.125",
    "0.30000000000000004",
    "3.0",
    "1e16",
];
static ODD_FLOATS: &[&str] =
    &["nan", "infinity", "", "abc", "1.2.3", " 1", "1 ", "0x1p3", "1e400", "-1e400", "1,5"];
static BINARY: &[&[u8]] =
    &[b"", b"\0", b"\xff\xfe\0\x01", b"a\r\nb", b"\"quoted\"", b"with space", b"\xe6\x97\xa5"];

impl Generator {
    /// A generator of `family`'s commands.
    pub fn new(seed: u64, family: &'static Family, cluster: bool) -> Generator {
        Generator {
            rng: fastrand::Rng::with_seed(seed),
            family,
            cluster,
            keys_counted: 1,
            named: Vec::new(),
            last_ms: 1,
            last_seq: 0,
            recent_ids: vec![b"1-1".to_vec(); RECENT_IDS],
        }
    }

    /// The next command.
    pub fn command(&mut self) -> Args {
        if self.rng.usize(..CLEAR_ONE_IN) == 0 {
            let template = self.pick(&["DEL <key>", "UNLINK <key> <key>"]);
            return self.expand(template);
        }
        let mut family = self.family;
        if self.rng.usize(..FOREIGN_ONE_IN) == 0 {
            family = &FAMILIES[self.rng.usize(..FAMILIES.len() - FAMILIES_APART)];
        }
        let template = self.pick(family.templates);
        if self.cluster && template.contains(" GET # ") {
            // 7.0 refuses in cluster mode what since 7.4 reads nothing but the element.
            return self.command();
        }
        let mut args = self.expand(template);
        if self.rng.usize(..BENT_ONE_IN) == 0 && !template.starts_with("ZADD <lexkey>") {
            self.bend(&mut args);
        }
        if self.rng.usize(..8) == 0 {
            args[0].make_ascii_lowercase();
        }
        if self.family.name == "acl" && needs_permission(&args) {
            return self.command();
        }
        args
    }

    /// Expands one template.
    pub fn expand(&mut self, template: &str) -> Args {
        self.named.clear();
        let tokens: Vec<&str> = template.split_whitespace().collect();
        let mut args = Args::new();
        self.sequence(&tokens, &mut args);
        args
    }

    fn sequence(&mut self, tokens: &[&str], args: &mut Args) {
        let mut at = 0;
        while at < tokens.len() {
            let end = match tokens[at] {
                "[" | "(" | "{" => closing(tokens, at),
                _ => at,
            };
            let inner = tokens.get(at + 1..end).unwrap_or_default();
            match tokens[at] {
                "[" if self.rng.usize(..5) < 2 => self.sequence(inner, args),
                "[" => {}
                "(" => {
                    let choices = alternatives(inner);
                    let choice = self.rng.usize(..choices.len());
                    self.sequence(choices[choice], args);
                }
                "{" => {
                    for _ in 0..self.repeats() {
                        self.sequence(inner, args);
                    }
                }
                token => self.token(token, args),
            }
            at = end + 1;
        }
    }

    fn repeats(&mut self) -> usize {
        match self.rng.usize(..40) {
            0 => self.rng.usize(20..150),
            1..8 => self.rng.usize(3..6),
            _ => self.rng.usize(1..3),
        }
    }

    fn token(&mut self, token: &str, args: &mut Args) {
        match token {
            "<nkeys>" => {
                self.keys_counted = self.rng.usize(1..4);
                args.push(self.keys_counted.to_string().into_bytes());
                for _ in 0..self.keys_counted {
                    let key = self.key();
                    args.push(key);
                }
            }
            "<from>" if self.rng.bool() => args.extend([b"FROMMEMBER".to_vec(), self.element()]),
            "<from>" => {
                args.push(b"FROMLONLAT".to_vec());
                self.sequence(&["<longitude>", "<latitude>"], args);
            }
            "<by>" if self.rng.bool() => {
                args.push(b"BYRADIUS".to_vec());
                self.sequence(&["<distance>", "<unit>"], args);
            }
            "<by>" => {
                args.push(b"BYBOX".to_vec());
                self.sequence(&["<distance>", "<distance>", "<unit>"], args);
            }
            "<weights>" => {
                args.push(b"WEIGHTS".to_vec());
                for _ in 0..self.keys_counted {
                    let weight = self.pick(&["0", "1", "2", "-1", "0.5", "1e3", "inf"]);
                    args.push(weight.into());
                }
            }
            _ => {
                let word = self.word(token);
                args.push(word);
            }
        }
    }

    fn word(&mut self, token: &str) -> Vec<u8> {
        match token {
            "<key>" => self.key(),
            // Ranges by text mean something among equal scores only: sets of their own have score 0.
            "<lexkey>" => {
                let number = self.rng.usize(..3);
                if self.cluster { format!("{{t}}lex{number}") } else { format!("lex{number}") }.into_bytes()
            }
            "<value>" => self.value(),
            "<int>" => self.int(),
            "<count>" => self.rng.i32(0..12).to_string().into_bytes(),
            "<signed>" => self.rng.i32(-12..12).to_string().into_bytes(),
            "<index>" => match self.rng.usize(..12) {
                0 => self.edge_number(),
                1 => self.rng.i32(-200..200).to_string().into_bytes(),
                _ => self.rng.i32(-7..7).to_string().into_bytes(),
            },
            "<offset>" => self.rng.i32(-1..80).to_string().into_bytes(),
            // Places that two servers can both afford to reach.
            "<bit>" => match self.rng.usize(..20) {
                0 => self.pick(&["-1", "4294967296", "9223372036854775807", "x", "#", "#-1", "01"]).into(),
                1 => self.rng.u32(..40_000).to_string().into_bytes(),
                2..5 => format!("#{}", self.rng.u32(..40)).into_bytes(),
                _ => self.rng.u32(..300).to_string().into_bytes(),
            },
            "<width>" => match self.rng.usize(..20) {
                0 => self.pick(&["u64", "i65", "u0", "i", "8", "U8", "u08"]).into(),
                1 => b"i64".to_vec(),
                choice => {
                    format!("{}{}", if choice % 2 == 0 { 'u' } else { 'i' }, self.rng.u32(1..64)).into_bytes()
                }
            },
            "<longitude>" => self.coordinate(180.0),
            "<latitude>" => self.coordinate(85.05112878),
            "<distance>" => match self.rng.usize(..20) {
                0 => self.float(),
                1 => b"0".to_vec(),
                _ => {
                    let most = 10_f64.powi(self.rng.i32(0..6));
                    format!("{:.1}", self.rng.f64() * most).into_bytes()
                }
            },
            "<unit>" => self.pick(&["m", "m", "km", "km", "km", "ft", "mi", "KM", "parsec"]).into(),
            "<float>" => self.float(),
            "<score>" => match self.rng.usize(..3) {
                0 => self.float(),
                1 => self.rng.i32(-5..5).to_string().into_bytes(),
                _ => format!("{}.{}", self.rng.i32(-50..50), self.rng.u32(0..1000)).into_bytes(),
            },
            "<bound>" => {
                let exclusive = if self.rng.usize(..3) == 0 { "(" } else { "" };
                let bound = match self.rng.usize(..8) {
                    0 => "-inf".to_owned(),
                    1 => "+inf".to_owned(),
                    2 => self.pick(FLOATS).to_owned(),
                    3 if self.rng.usize(..8) == 0 => self.pick(ODD_FLOATS).to_owned(),
                    _ => self.rng.i32(-50..50).to_string(),
                };
                format!("{exclusive}{bound}").into_bytes()
            }
            "<lex>" => match self.rng.usize(..8) {
                0 => b"-".to_vec(),
                1 => b"+".to_vec(),
                2 if self.rng.usize(..8) == 0 => self.value(),
                choice => {
                    let mut bound = vec![if choice % 2 == 0 { b'[' } else { b'(' }];
                    bound.extend(self.element());
                    bound
                }
            },
            "<member>" => self.fresh_element(),
            "<element>" => self.element(),
            "<database>" => self.pick(&["0", "0", "1", "2", "2", "99", "-1", "x"]).into(),
            // Seconds and milliseconds far from now: nothing lapses while the two sides are apart.
            "<seconds>" => match self.rng.usize(..12) {
                0 => self.edge_number(),
                1 => self.pick(&["0", "-1", "-100"]).into(),
                _ => self.rng.u32(10_000..2_000_000_000).to_string().into_bytes(),
            },
            "<ms>" => match self.rng.usize(..12) {
                0 => self.edge_number(),
                1 => self.pick(&["0", "-1", "-100"]).into(),
                _ => self.rng.u64(10_000_000..2_000_000_000_000).to_string().into_bytes(),
            },
            "<at-seconds>" => match self.rng.usize(..12) {
                0 => self.edge_number(),
                1 => self.pick(&["0", "1", "-1", "1600000000"]).into(),
                _ => self.rng.u64(4_000_000_000..5_000_000_000).to_string().into_bytes(),
            },
            "<at-ms>" => match self.rng.usize(..12) {
                0 => self.edge_number(),
                1 => self.pick(&["0", "1", "-1", "1600000000000"]).into(),
                _ => self.rng.u64(4_000_000_000_000..5_000_000_000_000).to_string().into_bytes(),
            },
            "<user>" => self.pick(USERS).into(),
            "<acl-rule>" => self.pick(ACL_RULES).into(),
            "<channel>" => self.pick(&["c1", "c2", "news", "other"]).into(),
            "<pattern>" => {
                self.pick(&["*", "*1*", "m?", "[a-m]*", "[^m]*", "k*", "\\*", "", "f[0-3]"]).into()
            }
            "<type>" => self.pick(&["string", "list", "hash", "set", "zset", "stream", "STRING"]).into(),
            // Mostly greater than the ids before it, whatever the key.
            "<new-id>" => {
                self.last_ms += self.rng.u64(..2);
                match self.rng.usize(..20) {
                    0 => self.stream_id(),
                    1..6 => format!("{}-*", self.last_ms).into_bytes(),
                    _ => {
                        self.last_seq += 1;
                        let id = format!("{}-{}", self.last_ms, self.last_seq).into_bytes();
                        self.recent_ids[self.last_seq as usize % RECENT_IDS] = id.clone();
                        id
                    }
                }
            }
            "<id>" => self.stream_id(),
            "<from-id>" | "<to-id>" => match self.rng.usize(..6) {
                0 | 1 => {
                    if token == "<from-id>" {
                        b"-".to_vec()
                    } else {
                        b"+".to_vec()
                    }
                }
                2 => [b"(".to_vec(), self.stream_id()].concat(),
                _ => self.stream_id(),
            },
            literal => literal.as_bytes().to_vec(),
        }
    }

    /// The id of an entry, likely one that is there or has been.
    fn stream_id(&mut self) -> Vec<u8> {
        match self.rng.usize(..24) {
            0 => self.edge_number(),
            1 => b"0".to_vec(),
            2..6 => self.last_ms.saturating_sub(self.rng.u64(..40)).to_string().into_bytes(),
            _ => self.recent_ids[self.rng.usize(..RECENT_IDS)].clone(),
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.rng.usize(..KEYS);
        match self.rng.usize(..40) {
            0 => b"k\0\xff".to_vec(),
            1 if !self.cluster => Vec::new(),
            1 | 2 => format!("other{number}").into_bytes(),
            _ if self.cluster => format!("{{t}}k{number}").into_bytes(),
            _ => format!("k{number}").into_bytes(),
        }
    }

    fn fresh_element(&mut self) -> Vec<u8> {
        for _ in 0..16 {
            let element = self.element();
            if !self.named.contains(&element) {
                self.named.push(element.clone());
                return element;
            }
        }
        let element = format!("fresh{}", self.named.len()).into_bytes();
        self.named.push(element.clone());
        element
    }

    /// Members, fields and list elements: few, so that they meet again.
    fn element(&mut self) -> Vec<u8> {
        match self.rng.usize(..30) {
            0 => self.value(),
            1 => "long".repeat(self.rng.usize(3..40)).into_bytes(),
            2 => self.rng.i64(..).to_string().into_bytes(),
            3..16 => self.rng.i32(-3..12).to_string().into_bytes(),
            16..19 => format!("m{}", self.rng.u32(..200)).into_bytes(),
            _ => format!("m{}", self.rng.u32(..10)).into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        match self.rng.usize(..12) {
            0 => BINARY[self.rng.usize(..BINARY.len())].to_vec(),
            1 => self.edge_number(),
            2 => self.float(),
            3 | 4 => self.rng.i32(-20..20_000).to_string().into_bytes(),
            5 => self.rng.i64(..).to_string().into_bytes(),
            6 => "v".repeat(self.rng.usize(40..50)).into_bytes(),
            7 => "longer value ".repeat(self.rng.usize(1..40)).into_bytes(),
            _ => format!("v{}", self.rng.u32(..50)).into_bytes(),
        }
    }

    fn int(&mut self) -> Vec<u8> {
        match self.rng.usize(..8) {
            0 => self.edge_number(),
            _ => self.rng.i32(-100..100).to_string().into_bytes(),
        }
    }

    fn float(&mut self) -> Vec<u8> {
        match self.rng.usize(..12) {
            0 => self.pick(ODD_FLOATS).into(),
            1..5 => format!("{}", f64::from(self.rng.i32(-100_000..100_000)) / 1_000.0).into_bytes(),
            _ => self.pick(FLOATS).into(),
        }
    }

    /// Mostly near a few towns, so that places are near each other.
    fn coordinate(&mut self, max: f64) -> Vec<u8> {
        let coordinate = match self.rng.usize(..20) {
            0 => return self.float(),
            1 => max,
            2 => -max,
            3..8 => (self.rng.f64() - 0.5) * 2.0 * max,
            town => ((town % 4) as f64 - 1.5) / 2.0 * max + self.rng.f64() - 0.5,
        };
        let decimals = self.rng.usize(..9);
        format!("{coordinate:.decimals$}").into_bytes()
    }

    fn edge_number(&mut self) -> Vec<u8> {
        self.pick(EDGE_NUMBERS).into()
    }

    /// Makes a command wrong in one place. Counts of random members stay small: both servers would answer a
    /// huge negative one at length.
    fn bend(&mut self, args: &mut Args) {
        if args[0].ends_with(b"RANDMEMBER") || args[0].ends_with(b"RANDFIELD") {
            args.push(b"garbage".to_vec());
            return;
        }
        match self.rng.usize(..4) {
            0 if args.len() > 1 => {
                let at = self.rng.usize(1..args.len());
                args.remove(at);
            }
            1 => {
                let extra = self.value();
                args.push(extra);
            }
            2 if args.len() > 1 => args.truncate(1),
            _ => {
                let garbage = self.edge_number();
                if args.len() > 2 {
                    let at = self.rng.usize(2..args.len());
                    args[at] = garbage;
                } else {
                    args.push(garbage);
                }
            }
        }
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.rng.usize(..choices.len())]
    }
}

/// Whether a command's reply cannot be compared where the user may not ask for more. Nor can that of a PFMERGE without
/// sources: no Redis finds its key, so that it lets everybody write there.
fn needs_permission(args: &Args) -> bool {
    matches!(rules::rule_of(args), Rule::Pop | Rule::ScanAll | Rule::RandomMembers | Rule::Encoding)
        || (args[0].eq_ignore_ascii_case(b"PFMERGE") && args.len() == 2)
}

/// The index of the bracket that closes the one at `open`.
fn closing(tokens: &[&str], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match *token {
            "[" | "(" | "{" => depth += 1,
            "]" | ")" | "}" => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    panic!("a template's bracket is not closed: {}", tokens.join(" "))
}

/// The parts between the outermost bars.
fn alternatives<'a>(tokens: &'a [&'a str]) -> Vec<&'a [&'a str]> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "[" | "(" | "{" => depth += 1,
            "]" | ")" | "}" => depth -= 1,
            "|" if depth == 0 => {
                parts.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_expands_and_a_seed_repeats() {
        for family in FAMILIES {
            let mut generator = Generator::new(1, family, false);
            for template in family.templates {
                for _ in 0..20 {
                    let args = generator.expand(template);
                    let name = template.split(' ').next().unwrap_or_default();
                    assert_eq!(args[0], name.as_bytes());
                    let marks = [&b"<"[..], b"{", b"}", b"|", b")", b"]"];
                    assert!(!args.iter().skip(1).any(|arg| marks.contains(&arg.as_slice())), "{template}");
                }
            }
            let sequence = |seed| {
                let mut generator = Generator::new(seed, family, false);
                (0..50).map(|_| generator.command()).collect::<Vec<_>>()
            };
            assert_eq!(sequence(7), sequence(7));
            assert_ne!(sequence(7), sequence(8));
        }
    }
}
