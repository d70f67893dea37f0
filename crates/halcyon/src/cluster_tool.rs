//! `halcyon cluster`: what people do to a cluster. Records are read from etcd, and changed there where nobody else is concerned; what
//! concerns a node is asked of that node. Before anything changes, there is a plan. What was begun stands in etcd: whoever is
//! interrupted says the same again.

mod asking;
mod following;
mod plan;
mod show;
mod steps;

use cluster::ids::{NodeId, ShardId};
use cluster::topology::Records;
use engine::config::Config;

use crate::cluster::etcd::Etcd;
use crate::cluster::options::Options;
use steps::Steps;

pub const USAGE: &str = "\
Usage: halcyon cluster COMMAND --cluster-etcd URL[,URL ...] [--cluster-name NAME] [--yes] [directives of a node]

       create [--replicas N]       shards of the nodes that are there, each a primary and N replicas; all slots
       status                      shards, nodes, slots, and slots that move
       add-shard SHARD             gives a shard its share of the slots
       remove-shard SHARD          gives a shard's slots to the others, then forgets its nodes
       move-slots FROM TO SLOTS    moves slots (a number of them, or ranges: 0-99,200) from one shard to another
       rebalance                   has all shards own the same number of slots
       cancel-moves SHARD          has a shard keep the slots that are moving from it
       failover NODE [--force | --takeover]
                                   makes a replica the primary of its shard
       forget NODE                 removes a node

SHARD and NODE are ids, or as many digits of one as no other begins with; a NODE may be its address, as HOST:PORT, and a
SHARD the address of one of its nodes. Directives that count are those of etcd (cluster-etcd-username, cluster-etcd-ca-cert-file
...), masteruser and masterauth, and with tls-cluster those of TLS; a node's own file does as well: --config FILE.
--yes does what is planned without asking. What moves goes on moving when this program ends: say the same again to see how far it is.
";

/// What the command line says.
struct Wanted {
    command: String,
    words: Vec<String>,
    replicas: usize,
    is_agreed: bool,
    force: Option<&'static str>,
    config: Config,
}

impl Wanted {
    fn parse(args: &[Vec<u8>]) -> Result<Wanted, String> {
        let args: Vec<String> = args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
        let command = args.first().ok_or(USAGE)?.clone();
        let (mut words, mut file, mut directives) = (Vec::new(), Vec::new(), Vec::new());
        let (mut replicas, mut is_agreed, mut force) = (0, false, None);
        let mut rest = args[1..].iter();
        while let Some(arg) = rest.next() {
            match &arg[..] {
                "--yes" => is_agreed = true,
                "--force" => force = Some("FORCE"),
                "--takeover" => force = Some("TAKEOVER"),
                "--replicas" => {
                    let number = rest.next().and_then(|word| word.parse().ok());
                    replicas = number.ok_or("--replicas takes a number")?;
                }
                "--config" => file.push(rest.next().ok_or("--config takes a file")?.clone()),
                option if option.starts_with("--") => {
                    directives.push(arg.clone());
                    directives.push(rest.next().ok_or_else(|| format!("{option} takes a value"))?.clone());
                }
                _ => words.push(arg.clone()),
            }
        }
        directives.extend(["--cluster-enabled", "yes"].map(str::to_owned));
        let all: Vec<Vec<u8>> = file.into_iter().chain(directives).map(String::into_bytes).collect();
        let (config, _) = Config::load(&all).map_err(|error| error.to_string())?;
        Ok(Wanted { command, words, replicas, is_agreed, force, config })
    }

    fn word(&self, at: usize, what: &str) -> Result<&str, String> {
        let word = self.words.get(at).map(String::as_str);
        word.ok_or_else(|| format!("halcyon cluster {}: {what} is missing\n\n{USAGE}", self.command))
    }
}

/// Does what the arguments say. The error is a line for the user, or the usage.
pub fn run(args: &[Vec<u8>]) -> Result<(), String> {
    let is_help = |word: &Vec<u8>| word == b"--help" || word == b"-h";
    if args.first().is_none_or(|word| word == b"help") || args.iter().any(is_help) {
        print!("{USAGE}");
        return Ok(());
    }
    let wanted = Wanted::parse(args)?;
    let options =
        Options::of(&wanted.config)?.ok_or("Set --cluster-etcd to the addresses of etcd's members")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("Can't begin: {error}"))?;
    runtime.block_on(async {
        let etcd = connect(&options).await?;
        let steps = Steps::new(etcd, &wanted.config, wanted.is_agreed);
        let records = steps.records().await?;
        if records.cluster.is_none() {
            let name = wanted.config.string("cluster-name");
            return Err(format!("There is no cluster called '{name}' in this etcd: start its nodes first"));
        }
        carry_out(&wanted, &steps, &records).await
    })
}

async fn carry_out(wanted: &Wanted, steps: &Steps<'_>, records: &Records) -> Result<(), String> {
    let shard = |at, what| find_shard(records, wanted.word(at, what)?);
    match &wanted.command[..] {
        "status" => {
            print!("{}", show::status(records));
            Ok(())
        }
        "create" => steps.create(records, wanted.replicas).await,
        "add-shard" => {
            let mut keep = owning(records);
            let added = shard(0, "SHARD")?;
            if !keep.contains(&added) {
                keep.push(added);
            }
            steps.move_all(|records| plan::balance(records, &keep)).await
        }
        "remove-shard" => {
            let removed = shard(0, "SHARD")?;
            let keep: Vec<ShardId> = owning(records).into_iter().filter(|shard| *shard != removed).collect();
            if keep.is_empty() {
                return Err("No other shard owns slots: there is nobody to take them".to_owned());
            }
            steps.move_all(|records| plan::balance(records, &keep)).await?;
            steps.forget_shard(&removed).await
        }
        "move-slots" => {
            let (from, to) = (shard(0, "FROM")?, shard(1, "TO")?);
            let word = wanted.word(2, "SLOTS")?;
            let slots = show::slots_of(records, &from, word)?;
            let is_number = word.parse::<usize>().is_ok();
            steps.move_slots(plan::SlotMove { from, to, slots }, is_number).await
        }
        "rebalance" => {
            let keep: Vec<ShardId> = records.shards.keys().cloned().collect();
            steps.move_all(|records| plan::balance(records, &keep)).await
        }
        "cancel-moves" => steps.cancel_moves(&shard(0, "SHARD")?).await,
        "failover" => steps.fail_over(records, &find_node(records, wanted.word(0, "NODE")?)?, wanted.force),
        "forget" => steps.forget(records, &find_node(records, wanted.word(0, "NODE")?)?).await,
        other => Err(format!("halcyon cluster has no command '{other}'\n\n{USAGE}")),
    }
}

/// The first of etcd's members that answers.
async fn connect(options: &Options) -> Result<Etcd, String> {
    let mut reasons = Vec::new();
    for endpoint in &options.endpoints {
        match Etcd::connect(options, endpoint).await {
            Ok((etcd, _)) => return Ok(etcd),
            Err(failure) => reasons.push(format!("etcd: {endpoint} cannot be used: {}", failure.text)),
        }
    }
    Err(reasons.join("\n"))
}

/// The shards that own slots.
fn owning(records: &Records) -> Vec<ShardId> {
    records.slots.0.shards().map(|(shard, _)| shard.clone()).collect()
}

/// The node that these digits begin, or that has this address.
fn find_node(records: &Records, word: &str) -> Result<NodeId, String> {
    let at_address = |id: &&NodeId| {
        let record = &records.nodes[*id];
        [&record.ip, &record.hostname]
            .iter()
            .any(|host| [record.port, record.tls_port].iter().any(|port| format!("{host}:{port}") == word))
    };
    let of_address: Vec<&NodeId> = records.nodes.keys().filter(at_address).collect();
    let of_digits = || records.nodes.keys().filter(|id| id.as_str().starts_with(word)).collect();
    only("node", word, if of_address.is_empty() { of_digits() } else { of_address })
}

/// The shard that these digits begin, or of which a node has this address.
fn find_shard(records: &Records, word: &str) -> Result<ShardId, String> {
    let of_digits: Vec<&ShardId> = records.shards.keys().filter(|id| id.as_str().starts_with(word)).collect();
    if of_digits.is_empty()
        && let Ok(node) = find_node(records, word)
    {
        return Ok(records.nodes[&node].shard.clone());
    }
    only("shard", word, of_digits)
}

fn only<T: Clone>(what: &str, word: &str, found: Vec<&T>) -> Result<T, String> {
    match &found[..] {
        [one] => Ok((*one).clone()),
        [] => Err(format!("There is no {what} '{word}'")),
        _ => Err(format!("'{word}' may be {} {what}s: give more digits", found.len())),
    }
}
