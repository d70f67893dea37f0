//! Who a node is: an id that outlives restarts, kept as Redis keeps it, in `cluster-config-file`.

use std::io::{self, ErrorKind};
use std::path::Path;

use base::slot::SLOT_COUNT;

const ID_BYTES: usize = 40;

/// Who a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// 40 hex digits.
    pub node_id: String,
    /// 40 hex digits: who this node and its replicas are together.
    pub shard_id: String,
}

impl Identity {
    /// A node of this id. Its shard's id follows from it, so that it need not be kept.
    pub fn of_node(node_id: String) -> Identity {
        let shard_id = node_id.chars().rev().collect();
        Identity { node_id, shard_id }
    }

    /// The identity that the file keeps. If there is none, `fresh_id` becomes the node's, and is written. Warnings
    /// are for the log: whatever becomes of the file, the node has an identity.
    pub fn load(file: &Path, fresh_id: String) -> (Identity, Vec<String>) {
        let fresh = Identity::of_node(fresh_id);
        let shown = file.display();
        match std::fs::read_to_string(file) {
            Ok(text) if !text.trim().is_empty() => match parse(&text) {
                Some((identity, others)) => {
                    let warning = format!(
                        "{shown} tells of {others} other nodes: this server does not talk to them, and owns \
                         all slots by itself"
                    );
                    (identity, if others > 0 { vec![warning] } else { Vec::new() })
                }
                None => {
                    let warning = format!(
                        "{shown} names no node as this one: it is left as it is, and this node's id lasts \
                         until it ends"
                    );
                    (fresh, vec![warning])
                }
            },
            Err(error) if error.kind() != ErrorKind::NotFound => {
                (fresh, vec![format!("Can't read {shown}, so this node's id lasts until it ends: {error}")])
            }
            _ => {
                let written = write(file, &fresh.node_id);
                let warning = |error| format!("Can't write this node's id to {shown}: {error}");
                (fresh, written.err().map(warning).into_iter().collect())
            }
        }
    }
}

/// This node's identity, and how many other nodes there are.
fn parse(text: &str) -> Option<(Identity, usize)> {
    let is_node = |line: &&str| !line.trim().is_empty() && !line.starts_with("vars ");
    let nodes: Vec<Vec<&str>> =
        text.lines().filter(is_node).map(|line| line.split_ascii_whitespace().collect()).collect();
    let is_myself = |node: &&Vec<&str>| {
        node.get(2).is_some_and(|flags| flags.split(',').any(|flag| flag == "myself")) && is_id(node[0])
    };
    let myself = nodes.iter().find(is_myself)?;
    let mut identity = Identity::of_node(myself[0].to_owned());
    // Redis 7.2 and later keep the shard's id among the address's additions.
    let shard_id = myself[1].split(',').find_map(|addition| addition.strip_prefix("shard-id="));
    if let Some(shard_id) = shard_id.filter(|id| is_id(id)) {
        identity.shard_id = shard_id.to_owned();
    }
    Some((identity, nodes.len() - 1))
}

fn is_id(text: &str) -> bool {
    text.len() == ID_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Writes a file that Redis reads as a node without known address that owns every slot.
fn write(file: &Path, node_id: &str) -> io::Result<()> {
    let last = SLOT_COUNT - 1;
    let text = format!(
        "{node_id} :0@0 myself,master - 0 0 0 connected 0-{last}\nvars currentEpoch 0 lastVoteEpoch 0\n"
    );
    // Renamed into place, so that a crash leaves no half of it.
    let part = file.with_added_extension("part");
    std::fs::write(&part, text)?;
    std::fs::rename(&part, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_node_is_told_from_the_others() {
        let (one, two) = ("a".repeat(40), "b".repeat(40));
        let shard = "c".repeat(40);
        for (text, expected) in [
            (format!("{one} :7000@17000 myself,master - 0 0 0 connected 0-16383\nvars currentEpoch 0\n"), {
                Some((Identity::of_node(one.clone()), 0))
            }),
            (
                format!(
                    "{two} 10.0.0.2:1@2 master - 0 0 1 connected 0-9\n\
                     {one} 10.0.0.1:1@2,name,tls-port=0,shard-id={shard} myself,slave {two} 0 0 1 connected\n"
                ),
                Some((Identity { node_id: one.clone(), shard_id: shard.clone() }, 1)),
            ),
            (format!("{two} 10.0.0.2:1@2 master - 0 0 1 connected 0-9\n"), None),
            ("nonsense myself,master myself".to_owned(), None),
            ("x".to_owned(), None),
        ] {
            assert_eq!(parse(&text), expected, "{text}");
        }
    }

    #[test]
    fn an_identity_lasts() {
        let dir = std::env::temp_dir().join(format!("halcyon-identity-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory for the test");
        let file = dir.join("nodes.conf");
        let (first, second) = ("1".repeat(39) + "2", "3".repeat(40));
        assert_eq!(Identity::load(&file, first.clone()), (Identity::of_node(first.clone()), vec![]));
        assert_eq!(Identity::load(&file, second.clone()), (Identity::of_node(first), vec![]));
        std::fs::write(&file, "garbage\n").expect("a writable file");
        let (identity, warnings) = Identity::load(&file, second.clone());
        assert_eq!((identity, warnings.len()), (Identity::of_node(second.clone()), 1));
        assert_eq!(std::fs::read_to_string(&file).expect("the file"), "garbage\n", "left as it is");
        let (_, warnings) = Identity::load(&dir.join("no/such/dir"), second);
        assert_eq!(warnings.len(), 1, "a failure to write is a warning");
        std::fs::remove_dir_all(&dir).expect("the test's own directory");
    }
}
