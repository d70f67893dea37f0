//! What a replica says of itself to the primary of its shard: `REPLCONF halcyon-member "SHARD EPOCH NODE LIFE NODE LIFE"`, with
//! the primary that it believes to talk to last.

use std::fmt;

use cluster::ids::{Life, Member, NodeId, ShardId};

use crate::fault::{CmdResult, Fault};
use crate::server::Server;

/// Who a replica is, and whom it follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Its shard.
    pub shard: ShardId,
    /// The epoch of the primary.
    pub epoch: u64,
    /// The replica.
    pub member: Member,
    /// The primary.
    pub primary: Member,
}

impl Membership {
    /// What these words say; None: nothing.
    pub fn parse(words: &[u8]) -> Option<Membership> {
        let mut words = std::str::from_utf8(words).ok()?.split(' ');
        let shard = ShardId::new(words.next()?)?;
        let epoch = words.next()?.parse().ok()?;
        let mut member = || {
            let node = NodeId::new(words.next()?)?;
            Some(Member { node, life: Life(u64::from_str_radix(words.next()?, 16).ok()?) })
        };
        let (member, primary) = (member()?, member()?);
        words.next().is_none().then_some(Membership { shard, epoch, member, primary })
    }
}

impl fmt::Display for Membership {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Membership { shard, epoch, member, primary } = self;
        write!(out, "{shard} {epoch} {} {} {} {}", member.node, member.life, primary.node, primary.life)
    }
}

impl Server {
    /// Whether a member of a shard may follow this server.
    pub(crate) fn admit_member(&self, asks: &Membership) -> CmdResult {
        let me = self.cluster_me();
        let epoch = self.cluster_epoch();
        if asks.primary != me {
            if epoch.is_some_and(|epoch| asks.epoch > epoch) && self.gates.copies.has_node(&asks.member.node)
            {
                // One of those whom replies wait for follows somebody else by now.
                self.notice(&format!("This shard has another primary, of epoch {}", asks.epoch));
                self.cluster.serves.fence();
            }
            return Err(Fault::owned(format!("NOTLEADER This is node {}, life {}", me.node, me.life)));
        }
        match epoch {
            Some(epoch) if epoch == asks.epoch => Ok(()),
            Some(epoch) => Err(Fault::owned(format!("NOTLEADER This node leads epoch {epoch}"))),
            None => Err(Fault::Text("NOTLEADER This node leads no shard now")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written() {
        let id = |digit: &str| digit.repeat(40);
        let text = format!("{} 7 {} 00000000000000ff {} 0000000000000001", id("a"), id("b"), id("c"));
        let membership = Membership::parse(text.as_bytes()).expect("six words");
        assert_eq!((membership.epoch, membership.member.life), (7, Life(255)));
        assert_eq!(membership.to_string(), text);
        for wrong in ["", "x", &text[..text.len() - 17], &format!("{text} x"), &text.replace(" 7 ", " y ")] {
            assert_eq!(Membership::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
