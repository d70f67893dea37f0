//! What the loop asks of the server's roles.

use cluster::agent::Follower;
use cluster::ids::{Life, Member, NodeId};
use cluster::records::NodeRecord;
use engine::replication::replica::Primary;
use engine::server::Server;

/// Roles.
pub trait Roles {
    /// Who this process is.
    fn cluster_me(&self) -> Member;
    /// Who follows it.
    fn cluster_followers(&self) -> Vec<Follower>;
    /// When it last acknowledged something.
    fn cluster_promised_us(&self) -> Option<u64>;
    /// Lead.
    fn cluster_lead(&self, epoch: u64, awaited: &[Member], refuses_writes: bool);
    /// Follow.
    fn cluster_follow(&self, record: &NodeRecord, primary: Member, epoch: u64);
    /// Neither.
    fn cluster_stand(&self);
    /// Hold writes.
    fn cluster_hold(&self, to: Member);
    /// Hold everything.
    fn cluster_park(&self);
    /// Run again what was held.
    fn cluster_release(&self);
}

impl Roles for Server {
    fn cluster_me(&self) -> Member {
        let node = NodeId::new(&self.cluster.identity.node_id);
        let life = self.process.run_id.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let (node, life) = node.zip(life).expect("node-id: 40 hex digits each");
        Member { node, life: Life(life) }
    }
    fn cluster_followers(&self) -> Vec<Follower> {
        Vec::new()
    }
    fn cluster_promised_us(&self) -> Option<u64> {
        None
    }
    fn cluster_lead(&self, _: u64, _: &[Member], _: bool) {
        self.stop_following();
    }
    fn cluster_follow(&self, record: &NodeRecord, _: Member, _: u64) {
        self.follow(Primary { host: record.ip.clone(), port: record.port });
    }
    fn cluster_stand(&self) {}
    fn cluster_hold(&self, _: Member) {}
    fn cluster_park(&self) {}
    fn cluster_release(&self) {}
}
