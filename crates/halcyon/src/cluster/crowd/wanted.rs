//! The command line of `halcyon lab nodes`.

use std::thread;

use engine::config::Config;

pub const USAGE: &str = "\
Usage: halcyon lab nodes --cluster-etcd URL[,URL ...] [--cluster-name NAME] [options] [directives of a node]

Many nodes of one cluster in one process, each a primary with slots and without a server behind it: what does their
number cost each of them, and etcd? Each has a connection, a lease and a watch of its own, as a node has, and decides and
routes by what it is told. They join; nothing happens for a while; then a node's address changes, again and again, and
then the owner of a slot. How long it takes until all know is counted from the instant at which etcd is asked for the
change.

       --nodes N        in all; 1000 by default
       --agents N       of them that decide and route; the others only note when etcd tells them, so that this machine
                        need not do the work of as many as there are; all by default
       --threads N      that carry them; as many as there are CPUs by default
       --starting N     that join at once; 32 by default
       --idle SECONDS   without a change; 10 by default
       --changes N      of each kind; 20 by default
       --json           events in JSON, a line each: joined, idle, changing; and the report as the last line

The cluster must have no nodes: what is written under its name is removed in the end. Directives that count are those of
etcd (cluster-etcd-username, cluster-etcd-ca-cert-file ...).
";

/// What its CLUSTER NODES can tell of, and more than that.
const NODES_MAX: usize = 10_000;

/// What the command line says.
pub struct Wanted {
    pub nodes: usize,
    pub agents: usize,
    pub threads: usize,
    pub starting: usize,
    pub idle_s: u64,
    pub changes: usize,
    pub is_json: bool,
    pub config: Config,
}

impl Wanted {
    /// None where help is asked for; an error is a line for the user.
    pub fn parse(words: &[String]) -> Result<Option<Wanted>, String> {
        let (mut nodes, mut agents, mut threads, mut starting) = (1_000, None, None, 32);
        let (mut idle_s, mut changes, mut is_json) = (10, 20, false);
        let mut directives = ["--cluster-enabled", "yes"].map(str::to_owned).to_vec();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} takes a value\n\n{USAGE}"));
            match &word[..] {
                "help" | "--help" | "-h" => return Ok(None),
                "--json" => is_json = true,
                "--nodes" => nodes = number(word, value()?, 1, NODES_MAX)?,
                "--agents" => agents = Some(number(word, value()?, 1, NODES_MAX)?),
                "--threads" => threads = Some(number(word, value()?, 1, 256)?),
                "--starting" => starting = number(word, value()?, 1, NODES_MAX)?,
                "--idle" => idle_s = number(word, value()?, 0, 3_600)? as u64,
                "--changes" => changes = number(word, value()?, 1, 100_000)?,
                directive if directive.starts_with("--") => {
                    let value = value()?.clone();
                    directives.extend([directive.to_owned(), value]);
                }
                other => return Err(format!("halcyon lab nodes does not know '{other}'\n\n{USAGE}")),
            }
        }
        let agents = agents.unwrap_or(nodes);
        if agents > nodes {
            return Err(format!("--agents: {agents} of {nodes} nodes cannot decide"));
        }
        let threads = threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, |cpus| cpus.get()));
        let directives: Vec<Vec<u8>> = directives.into_iter().map(String::into_bytes).collect();
        let (config, _) = Config::load(&directives).map_err(|error| error.to_string())?;
        Ok(Some(Wanted { nodes, agents, threads, starting, idle_s, changes, is_json, config }))
    }
}

fn number(option: &str, text: &str, least: usize, most: usize) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{option} takes a number from {least} to {most}, not '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Wanted>, String> {
        Wanted::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_said_and_what_is_not() {
        let wanted = parse("--nodes 30 --cluster-etcd http://a:1 --json").expect("right").expect("no help");
        assert_eq!((wanted.nodes, wanted.agents, wanted.starting, wanted.is_json), (30, 30, 32, true));
        assert!(wanted.threads > 0);
        assert_eq!(wanted.config.string("cluster-etcd"), "http://a:1");
        let wanted = parse("--agents 5 --changes 3 --idle 0 --threads 2").expect("right").expect("no help");
        assert_eq!((wanted.nodes, wanted.agents, wanted.threads), (1_000, 5, 2));
        assert_eq!((wanted.changes, wanted.idle_s), (3, 0));
        assert!(parse("--help").is_ok_and(|wanted| wanted.is_none()));
    }

    #[test]
    fn what_cannot_be() {
        for (line, error) in [
            ("--nodes 0", "--nodes takes a number from 1"),
            ("--nodes", "--nodes takes a value"),
            ("--nodes 5 --agents 6", "--agents: 6 of 5 nodes cannot decide"),
            ("many", "halcyon lab nodes does not know 'many'"),
            ("--speed 1", ""),
        ] {
            let Err(found) = parse(line) else { panic!("{line} was taken") };
            assert!(found.starts_with(error), "{line}: {found}");
        }
    }
}
