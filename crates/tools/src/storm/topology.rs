//! What clients know of a cluster: which node has which slot, read from CLUSTER SLOTS, and what redirects say.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use base::slot::SLOT_COUNT;
use resp::parse::Value;

/// A node, by its number in [`Reader`].
pub type Node = u8;

/// No node: the slot is nobody's.
const NOBODY: Node = Node::MAX;
/// Answers are the same for thousands of clients: so many different ones are kept read.
const ANSWERS_KEPT: usize = 256;

/// One answer to CLUSTER SLOTS, perhaps corrected by redirects since. Shared until then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    owners: Vec<Node>,
    /// The primaries, in the answer's order.
    pub order: Vec<Node>,
}

impl Map {
    /// Whose slot this is.
    pub fn owner(&self, slot: u16) -> Option<Node> {
        Some(self.owners[usize::from(slot)]).filter(|node| *node != NOBODY)
    }

    /// Makes it that node's.
    pub fn set_owner(&mut self, slot: u16, node: Node) {
        self.owners[usize::from(slot)] = node;
    }
}

/// A MOVED or ASK.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// For this request alone: ASK.
    pub is_ask: bool,
    /// The request's slot.
    pub slot: u16,
    /// Where to.
    pub to: Node,
}

/// Gives nodes their numbers, and reads what names them.
#[derive(Default)]
pub struct Reader {
    addresses: Vec<SocketAddr>,
    known: HashMap<Vec<u8>, Rc<Map>>,
}

impl Reader {
    /// The number of this address, new or as it was. Errors when there are more than a cluster of this tool has.
    pub fn node(&mut self, address: SocketAddr) -> Result<Node, String> {
        let at = self.addresses.iter().position(|known| *known == address);
        let at = at.unwrap_or(self.addresses.len());
        if at >= usize::from(NOBODY) {
            return Err(format!("more than {NOBODY} nodes are too many for this tool"));
        }
        if at == self.addresses.len() {
            self.addresses.push(address);
        }
        Ok(at as Node)
    }

    /// Its address.
    pub fn address(&self, node: Node) -> SocketAddr {
        self.addresses[usize::from(node)]
    }

    /// Reads an answer to CLUSTER SLOTS, of which these are the bytes, that this node gave.
    pub fn map(&mut self, bytes: &[u8], answer: &Value, from: Node) -> Result<Rc<Map>, String> {
        if let Some(map) = self.known.get(bytes) {
            return Ok(map.clone());
        }
        let mut map = Map { owners: vec![NOBODY; usize::from(SLOT_COUNT)], order: Vec::new() };
        let ranges = answer.as_elements().ok_or_else(|| describe(answer))?;
        for range in ranges {
            let Some([Value::Int(first), Value::Int(last), primary, ..]) = range.as_elements() else {
                return Err(describe(range));
            };
            let slots = usize::try_from(*first).ok().zip(usize::try_from(*last).ok());
            let slots = slots.and_then(|(first, last)| map.owners.get_mut(first..=last));
            let node = self.node(self.endpoint(primary, from)?)?;
            slots.ok_or_else(|| format!("no slots are {first} to {last}"))?.fill(node);
            if !map.order.contains(&node) {
                map.order.push(node);
            }
        }
        if self.known.len() >= ANSWERS_KEPT {
            self.known.clear();
        }
        let map = Rc::new(map);
        self.known.insert(bytes.to_vec(), map.clone());
        Ok(map)
    }

    /// What `MOVED slot host:port` or `ASK slot host:port` says; None where the error is another one.
    pub fn redirect(&mut self, error: &[u8], from: Node) -> Option<Redirect> {
        let text = std::str::from_utf8(error).ok()?;
        let mut words = text.split(' ');
        let is_ask = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOT_COUNT)?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let address = self.resolve(host, port.parse().ok()?, from).ok()?;
        Some(Redirect { is_ask, slot, to: self.node(address).ok()? })
    }

    fn endpoint(&self, node: &Value, from: Node) -> Result<SocketAddr, String> {
        let Some([host, Value::Int(port), ..]) = node.as_elements() else { return Err(describe(node)) };
        let host = host.as_bytes().unwrap_or(b"");
        let port = u16::try_from(*port).map_err(|_| describe(node))?;
        self.resolve(&String::from_utf8_lossy(host), port, from)
    }

    /// No host means the one that was asked.
    fn resolve(&self, host: &str, port: u16, from: Node) -> Result<SocketAddr, String> {
        if host.is_empty() {
            return Ok(SocketAddr::new(self.address(from).ip(), port));
        }
        let ip: IpAddr = host.parse().map_err(|_| format!("'{host}' is not an IP address"))?;
        Ok(SocketAddr::new(ip, port))
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Error(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("unexpected answer to CLUSTER SLOTS: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: &[u8] = b"*2\r\n*4\r\n:100\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:7001\r\n$2\r\nid\r\n\
        *3\r\n$9\r\n127.0.0.1\r\n:7009\r\n$2\r\nre\r\n*3\r\n:0\r\n:98\r\n*4\r\n$0\r\n\r\n:7000\r\n$2\r\nid\r\n*0\r\n";

    fn reader() -> (Reader, Node) {
        let mut reader = Reader::default();
        let seed = reader.node("127.0.0.1:7000".parse().unwrap()).unwrap();
        (reader, seed)
    }

    #[test]
    fn slots_are_read_in_their_order_without_replicas() {
        let (mut reader, seed) = reader();
        let (answer, size) = resp::parse::parse(SLOTS).unwrap().unwrap();
        assert_eq!(size, SLOTS.len());
        let map = reader.map(SLOTS, &answer, seed).unwrap();
        assert_eq!(map.order, [1, 0]);
        assert_eq!(reader.address(1), "127.0.0.1:7001".parse().unwrap());
        let owners = [0, 98, 99, 100, 16383].map(|slot| map.owner(slot));
        assert_eq!(owners, [Some(0), Some(0), None, Some(1), Some(1)]);
        assert!(Rc::ptr_eq(&map, &reader.map(SLOTS, &answer, seed).unwrap()), "equal answers share a map");
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let (mut reader, seed) = reader();
        for text in [
            "-ERR no\r\n",
            "*1\r\n:1\r\n",
            "*1\r\n*3\r\n:5\r\n:16384\r\n*2\r\n$0\r\n\r\n:7000\r\n",
            "*1\r\n*3\r\n:-1\r\n:4\r\n*2\r\n$0\r\n\r\n:7000\r\n",
            "*1\r\n*3\r\n:1\r\n:4\r\n*2\r\n$2\r\nno\r\n:7000\r\n",
        ] {
            let (answer, _) = resp::parse::parse(text.as_bytes()).unwrap().unwrap();
            assert!(reader.map(text.as_bytes(), &answer, seed).is_err(), "{text:?}");
        }
    }

    #[test]
    fn redirects() {
        let (mut reader, seed) = reader();
        let told = |is_ask, slot, to| Some(Redirect { is_ask, slot, to });
        assert_eq!(reader.redirect(b"MOVED 7 127.0.0.1:7001", seed), told(false, 7, 1));
        assert_eq!(reader.redirect(b"ASK 16383 127.0.0.1:7000", seed), told(true, 16383, 0));
        assert_eq!(reader.redirect(b"MOVED 7 :7001", seed), told(false, 7, 1));
        for other in
            ["MOVED 16384 127.0.0.1:7001", "MOVED 7", "ERR MOVED 7 127.0.0.1:7001", "MOVED 7 ?:1", "ASK x :1"]
        {
            assert_eq!(reader.redirect(other.as_bytes(), seed), None, "{other}");
        }
    }
}
