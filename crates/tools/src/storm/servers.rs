//! What is asked of the servers besides: their keys set before the run, and their figures at the beginning and end of each phase.
//! These connections wait: they are not those that are measured.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use base::slot::slot_of;
use resp::encode::write_command;
use resp::parse::{Value, parse};

use super::topology::{Map, Node, Reader};

const TIMEOUT: Duration = Duration::from_secs(60);
const READ_BYTES: usize = 64 << 10;
/// Keys are set so many at a time.
const CHUNK_KEYS: usize = 1_000;
/// The commands by which clients learn where slots are.
const TOPOLOGY_COMMANDS: [&str; 4] = ["cluster|slots", "cluster|shards", "cluster|nodes", "cluster|info"];

/// A connection that waits for its answers.
pub struct Waiting {
    stream: TcpStream,
    address: SocketAddr,
    unread: Vec<u8>,
}

impl Waiting {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Result<Waiting, String> {
        let connect = || {
            let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            Ok(stream)
        };
        let stream = connect().map_err(|error: std::io::Error| format!("{address}: {error}"))?;
        Ok(Waiting { stream, address, unread: Vec::new() })
    }

    /// Sends these bytes.
    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|error| format!("{}: {error}", self.address))
    }

    /// The next answer and its bytes. An error reply is an error.
    fn answer(&mut self) -> Result<(Value, Vec<u8>), String> {
        let fault = |text: &dyn std::fmt::Display| format!("{}: {text}", self.address);
        loop {
            if let Some((value, size)) = parse(&self.unread).map_err(|error| fault(&error))? {
                let bytes = self.unread.drain(..size).collect();
                return match value {
                    Value::Error(text) => Err(fault(&String::from_utf8_lossy(&text))),
                    value => Ok((value, bytes)),
                };
            }
            let mut piece = [0; READ_BYTES];
            let size = self.stream.read(&mut piece).map_err(|error| fault(&error))?;
            if size == 0 {
                return Err(fault(&"the server closed the connection"));
            }
            self.unread.extend_from_slice(&piece[..size]);
        }
    }

    fn ask(&mut self, words: &[&str]) -> Result<(Value, Vec<u8>), String> {
        let mut request = Vec::new();
        write_command(&mut request, words.iter().map(|word| word.as_bytes()));
        self.send(&request)?;
        self.answer()
    }

    /// What this node says of slots.
    pub fn map(&mut self, reader: &mut Reader, node: Node) -> Result<Rc<Map>, String> {
        let (answer, bytes) = self.ask(&["CLUSTER", "SLOTS"])?;
        reader.map(&bytes, &answer, node)
    }

    /// Its figures.
    pub fn figures(&mut self) -> Result<Figures, String> {
        let (answer, _) = self.ask(&["INFO", "all"])?;
        let text = String::from_utf8_lossy(answer.as_bytes().unwrap_or(b"")).into_owned();
        Figures::read(&text).map_err(|error| format!("{}: {error}", self.address))
    }
}

/// The name of this key.
pub fn key_name(key: u32) -> String {
    format!("storm:{key}")
}

/// Sets all keys, each where its slot is; calls `progress` with how many are set.
pub fn set_keys(
    reader: &Reader,
    map: &Map,
    keys: u32,
    value: &[u8],
    progress: &mut dyn FnMut(u32),
) -> Result<(), String> {
    let mut connections: BTreeMap<Node, (Waiting, Vec<u8>, usize)> = BTreeMap::new();
    for key in 0..keys {
        let name = key_name(key);
        let slot = slot_of(name.as_bytes());
        let node = map.owner(slot).ok_or_else(|| format!("slot {slot} is nobody's"))?;
        let (connection, requests, count) = match connections.entry(node) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert((Waiting::connect(reader.address(node))?, Vec::new(), 0)),
        };
        write_command(requests, [b"SET".as_slice(), name.as_bytes(), value]);
        *count += 1;
        if *count == CHUNK_KEYS {
            exchange(connection, requests, count)?;
            progress(key);
        }
    }
    for (connection, requests, count) in connections.values_mut() {
        exchange(connection, requests, count)?;
    }
    Ok(())
}

fn exchange(connection: &mut Waiting, requests: &mut Vec<u8>, count: &mut usize) -> Result<(), String> {
    connection.send(requests)?;
    for _ in 0..*count {
        connection.answer()?;
    }
    requests.clear();
    *count = 0;
    Ok(())
}

/// Counters of one server, or of several together, or what they grew by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// User and system time.
    pub cpu_s: f64,
    /// All commands that ran.
    pub commands: f64,
    /// Topology commands that ran.
    pub topology_commands: f64,
    /// How long they took, as INFO commandstats says: without reading them from the socket and writing the answers.
    pub topology_s: f64,
    /// What else INFO says of redirects and of what is forwarded, by the field's name.
    pub redirects: BTreeMap<String, f64>,
}

impl Figures {
    /// Reads INFO. Errors where there is no CPU time in it.
    fn read(info: &str) -> Result<Figures, String> {
        let mut figures = Figures::default();
        let mut cpu_fields = 0;
        for line in info.lines() {
            let Some((name, value)) = line.trim_end().split_once(':') else { continue };
            match name {
                "used_cpu_user" | "used_cpu_sys" => {
                    figures.cpu_s += value.parse::<f64>().map_err(|_| format!("INFO: {line}"))?;
                    cpu_fields += 1;
                }
                "total_commands_processed" => figures.commands = value.parse().unwrap_or(0.0),
                name if is_about_redirects(name) => {
                    if let Ok(number) = value.parse() {
                        figures.redirects.insert(name.to_owned(), number);
                    }
                }
                name => {
                    let command = name.strip_prefix("cmdstat_").unwrap_or("");
                    if TOPOLOGY_COMMANDS.contains(&command) {
                        figures.topology_commands += part(value, "calls");
                        figures.topology_s += part(value, "usec") / 1e6;
                    }
                }
            }
        }
        if cpu_fields == 2 { Ok(figures) } else { Err("INFO tells no CPU time".to_owned()) }
    }

    /// Takes those of another server in.
    pub fn add(&mut self, other: &Figures) {
        self.combine(other, 1.0);
    }

    /// What was added since `before`.
    pub fn since(&self, before: &Figures) -> Figures {
        let mut grown = self.clone();
        grown.combine(before, -1.0);
        grown
    }

    fn combine(&mut self, other: &Figures, sign: f64) {
        self.cpu_s += sign * other.cpu_s;
        self.commands += sign * other.commands;
        self.topology_commands += sign * other.topology_commands;
        self.topology_s += sign * other.topology_s;
        for (name, value) in &other.redirects {
            *self.redirects.entry(name.clone()).or_default() += sign * value;
        }
    }
}

fn is_about_redirects(name: &str) -> bool {
    name.contains("redirect") || name.contains("forward")
}

/// `calls` of `calls=5,usec=7,...`.
fn part(line: &str, name: &str) -> f64 {
    let found = line.split(',').find_map(|part| part.split_once('=').filter(|(key, _)| *key == name));
    found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_sys_children:9\r\n\r\n# Stats\r\n\
        total_commands_processed:100\r\ncluster_redirects_told:7\r\ncluster_redirects:damped\r\n\
        # Commandstats\r\ncmdstat_get:calls=90,usec=90,usec_per_call=1.00\r\n\
        cmdstat_cluster|slots:calls=4,usec=2000000,usec_per_call=1\r\ncmdstat_cluster|nodes:calls=1,usec=500000\r\n\
        cmdstat_cluster|setslot:calls=5,usec=7\r\n";

    #[test]
    fn info_is_read() {
        let figures = Figures::read(INFO).unwrap();
        let redirects = BTreeMap::from([("cluster_redirects_told".to_owned(), 7.0)]);
        let expected =
            Figures { cpu_s: 3.75, commands: 100.0, topology_commands: 5.0, topology_s: 2.5, redirects };
        assert_eq!(figures, expected);
        assert_eq!(Figures::read("used_cpu_sys:1\r\n"), Err("INFO tells no CPU time".to_owned()));
    }

    #[test]
    fn figures_are_added_and_taken_off() {
        let one = Figures::read(INFO).unwrap();
        let mut both = Figures::default();
        both.add(&one);
        both.add(&one);
        assert_eq!((both.commands, both.redirects["cluster_redirects_told"]), (200.0, 14.0));
        assert_eq!(both.since(&one), one);
    }
}
