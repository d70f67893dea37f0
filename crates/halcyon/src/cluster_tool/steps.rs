//! Carrying plans out.

use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use cluster::agent::Outcome;
use cluster::edits::Edit;
use cluster::ids::{Life, Member, NodeId, ShardId};
use cluster::topology::Records;
use engine::config::Config;

use super::plan::{self, SlotMove};
use super::{asking, following, show};
use crate::cluster::etcd::Etcd;

/// An edit is tried anew so often, where others were faster.
const TRIES: usize = 20;

/// Between looks how far a move is.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);

/// How long a node may take to do what it was asked for.
const NODE_TIMEOUT: Duration = Duration::from_secs(20);

/// What carries plans out.
pub struct Steps<'a> {
    etcd: Etcd,
    pub(super) config: &'a Config,
    is_agreed: bool,
}

impl Steps<'_> {
    /// Over this connection; `is_agreed`: nobody is asked.
    pub fn new(etcd: Etcd, config: &Config, is_agreed: bool) -> Steps<'_> {
        Steps { etcd, config, is_agreed }
    }

    /// The records as they are now.
    pub async fn records(&self) -> Result<Records, String> {
        let snapshot = self.etcd.records().await.map_err(|failure| format!("etcd: {}", failure.text))?;
        match snapshot.errors.first() {
            Some((_, error)) => Err(format!("A record of the cluster in etcd cannot be read: {error}")),
            None => Ok(snapshot.records),
        }
    }

    /// Shows a plan, and asks whether it is to be carried out.
    fn agree(&self, plan: &str) -> Result<(), String> {
        print!("{plan}");
        if self.is_agreed {
            return Ok(());
        }
        print!("Do this? (yes/no) ");
        let _ = io::stdout().flush();
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        match read.is_ok() && matches!(answer.trim(), "yes" | "y") {
            true => Ok(()),
            false => Err("Nothing was changed".to_owned()),
        }
    }

    /// Changes the records, from the newest ones.
    pub(super) async fn edit(&self, edit: &Edit) -> Result<(), String> {
        // No node has this name.
        let nobody = Member { node: NodeId::new(&"0".repeat(40)).expect("40 digits"), life: Life(0) };
        for _ in 0..TRIES {
            let change = edit.change(&self.records().await?, &nobody)?;
            if change.writes.is_empty() {
                return Ok(());
            }
            let outcome = self.etcd.commit(&change.compares, &change.writes, None).await;
            match outcome.map_err(|failure| format!("etcd: {}: say the same again", failure.text))? {
                Outcome::Committed(_) => return Ok(()),
                Outcome::Refused | Outcome::Unknown => {}
            }
        }
        Err("Others change the cluster all the time: say the same again".to_owned())
    }

    /// Waits until the records are so.
    async fn wait(&self, what: &str, is_so: impl Fn(&Records) -> bool) -> Result<(), String> {
        let deadline = Instant::now() + NODE_TIMEOUT;
        while !is_so(&self.records().await?) {
            if Instant::now() > deadline {
                return Err(format!("In vain waited for: {what}. Say the same again to go on"));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    /// `create`
    pub async fn create(&self, records: &Records, replicas: usize) -> Result<(), String> {
        let layout = plan::layout(records, replicas)?;
        if layout == plan::Layout::default() {
            println!("All slots are assigned, and every node has its shard");
            return Ok(());
        }
        let mut text = String::new();
        for (shard, slots) in &layout.gifts {
            let primary =
                records.shards.get(shard).map(|(record, _)| show::node(records, &record.primary.node));
            let primary = primary.unwrap_or_default();
            text += &format!("  primary {primary} owns {} slots: {slots}\n", slots.count());
        }
        for (node, shard) in &layout.joins {
            let shard = show::short(shard.as_str());
            text += &format!("  {} becomes a replica in shard {shard}\n", show::node(records, node));
        }
        self.agree(&text)?;
        for (node, shard) in &layout.joins {
            let primary = records.shards[shard].0.primary.node.clone();
            asking::ask(self.config, &records.nodes[node], &["CLUSTER", "REPLICATE", primary.as_str()])?;
        }
        for (shard, slots) in &layout.gifts {
            self.edit(&Edit::AddSlots(shard.clone(), slots.clone())).await?;
        }
        println!("Done");
        Ok(())
    }

    /// Has the cluster move slots, and follows that. Moves that are under way are followed first: `plan` is made from what they
    /// come to.
    pub async fn move_all(&self, plan: impl Fn(&Records) -> Vec<SlotMove>) -> Result<(), String> {
        let under_way = following::open(&self.records().await?);
        if !under_way.is_empty() {
            println!("{} moves are under way; they are waited for", under_way.len());
            self.follow(&under_way).await?;
        }
        let moves = plan(&self.records().await?);
        if moves.is_empty() {
            println!("Nothing has to move");
            return Ok(());
        }
        self.agree(&show::moves(&moves))?;
        let names = self.ask_for(&moves).await?;
        println!("The cluster moves them, whether this program goes on or not (see status and cancel-moves)");
        self.follow(&names).await
    }

    /// `move-slots`; `is_number`: only the number of slots was said.
    pub async fn move_slots(&self, wanted: SlotMove, is_number: bool) -> Result<(), String> {
        let (slots, mut names) = following::left_to_ask(&self.records().await?, &wanted, is_number);
        if slots.is_empty() && names.is_empty() {
            println!("Nothing has to move");
            return Ok(());
        }
        if !slots.is_empty() {
            let moves = [SlotMove { slots, ..wanted }];
            self.agree(&show::moves(&moves))?;
            names.extend(self.ask_for(&moves).await?);
        }
        println!("The cluster moves them, whether this program goes on or not (see status and cancel-moves)");
        self.follow(&names).await
    }

    /// `cancel-moves`
    pub async fn cancel_moves(&self, shard: &ShardId) -> Result<(), String> {
        self.edit(&Edit::CancelMoves(shard.clone(), None, asking::now_ms())).await?;
        println!("Cancelled: the slots stay where they are");
        Ok(())
    }

    /// Forgets the nodes of a shard that owns nothing: replicas first.
    pub async fn forget_shard(&self, shard: &ShardId) -> Result<(), String> {
        let records = self.records().await?;
        let Some((record, _)) = records.shards.get(shard) else { return Ok(()) };
        let mut nodes: Vec<NodeId> = records.nodes_of(shard).cloned().collect();
        nodes.sort_by_key(|node| *node == record.primary.node);
        for node in nodes {
            self.edit(&Edit::Forget(node.clone())).await?;
            println!("Forgot {}", show::node(&records, &node));
        }
        println!("The processes of these nodes serve nothing now: end them");
        Ok(())
    }

    /// `failover`
    pub fn fail_over(&self, records: &Records, node: &NodeId, force: Option<&str>) -> Result<(), String> {
        let mut words = vec!["CLUSTER", "FAILOVER"];
        words.extend(force);
        self.agree(&format!("  {} becomes the primary of its shard\n", show::node(records, node)))?;
        asking::ask(self.config, &records.nodes[node], &words)?;
        println!("Done");
        Ok(())
    }

    /// `forget`
    pub async fn forget(&self, records: &Records, node: &NodeId) -> Result<(), String> {
        self.agree(&format!("  {} is removed from the cluster\n", show::node(records, node)))?;
        self.edit(&Edit::Forget(node.clone())).await?;
        self.wait("the node to be gone", |records| !records.nodes.contains_key(node)).await?;
        println!("Done");
        Ok(())
    }
}
