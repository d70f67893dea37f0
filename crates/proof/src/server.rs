//! One server process on a free port with a directory of its own, killed when dropped.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::link::Link;
use crate::value::Reply;

/// A configuration both sides are started with.
#[derive(Debug)]
pub struct Setup {
    pub name: &'static str,
    pub cluster: bool,
    directives: &'static [(&'static str, &'static str)],
    /// Directives that 7.0 does not know: given to newer servers only.
    directives_since_7_2: &'static [(&'static str, &'static str)],
}

/// Default thresholds.
pub static DEFAULT: Setup =
    Setup { name: "default", cluster: false, directives: &[], directives_since_7_2: &[] };

/// Thresholds so small that a handful of elements crosses every encoding.
pub static SMALL: Setup = Setup {
    name: "small",
    cluster: false,
    directives: &[
        ("hash-max-listpack-entries", "4"),
        ("hash-max-listpack-value", "16"),
        ("zset-max-listpack-entries", "4"),
        ("zset-max-listpack-value", "16"),
        ("set-max-intset-entries", "4"),
        ("list-max-listpack-size", "4"),
        ("stream-node-max-bytes", "200"),
        ("stream-node-max-entries", "5"),
    ],
    directives_since_7_2: &[("set-max-listpack-entries", "4"), ("set-max-listpack-value", "16")],
};

/// One node that owns all slots.
pub static CLUSTER: Setup = Setup {
    name: "cluster",
    cluster: true,
    directives: &[("cluster-enabled", "yes"), ("cluster-node-timeout", "60000")],
    directives_since_7_2: &[],
};

/// The data's file.
const RDB_NAME: &str = "dump.rdb";
/// Ports above this have no cluster bus port.
const PORT_MAX: u16 = 55_000;
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A running server.
pub struct Server {
    child: Child,
    directory: PathBuf,
    /// The directory is somebody else's, and stays.
    is_kept: bool,
    pub port: u16,
    /// What `--version` says is a Redis 7.0: replies of later versions are not asked of it.
    pub is_redis_7_0: bool,
}

impl Server {
    /// Starts `binary` and waits until it answers PING.
    pub fn start(binary: &Path, setup: &Setup, extra: &[&str]) -> io::Result<Server> {
        Server::start_with_file(binary, setup, extra, None)
    }

    /// `start`, with this for a `dump.rdb`; waits until it is loaded.
    pub fn start_with_file(
        binary: &Path,
        setup: &Setup,
        extra: &[&str],
        rdb: Option<&[u8]>,
    ) -> io::Result<Server> {
        let version = Command::new(binary).arg("--version").output().map_err(|error| {
            io::Error::new(error.kind(), format!("cannot run {}: {error}", binary.display()))
        })?;
        let is_redis_7_0 = String::from_utf8_lossy(&version.stdout).contains("v=7.0.");
        let directory = fresh_directory()?;
        if let Some(rdb) = rdb {
            fs::write(directory.join(RDB_NAME), rdb)?;
        }
        let newer: &[_] = if is_redis_7_0 { &[] } else { setup.directives_since_7_2 };
        let directives = setup.directives.iter().chain(newer);
        let directives = directives.flat_map(|(name, value)| [format!("--{name}"), (*value).to_owned()]);
        let mut words = ["--save", "", "--appendonly", "no"].map(str::to_owned).to_vec();
        words.extend(directives);
        words.extend(extra.iter().map(|word| (*word).to_owned()));
        let mut server = Server::spawn(binary, &directory, false, &words)?;
        server.is_redis_7_0 = is_redis_7_0;
        server.wait_until_up()?;
        if setup.cluster && is_redis_7_0 {
            server.own_all_slots()?;
        }
        Ok(server)
    }

    /// Starts `binary` on what is in this directory, which stays when the server ends, and waits until all of it is loaded.
    pub fn start_in(binary: &Path, directory: &Path, extra: &[&str]) -> io::Result<Server> {
        let words: Vec<String> = extra.iter().map(|word| (*word).to_owned()).collect();
        let mut server = Server::spawn(binary, directory, true, &words)?;
        server.wait_until_up()?;
        Ok(server)
    }

    fn spawn(binary: &Path, directory: &Path, is_kept: bool, words: &[String]) -> io::Result<Server> {
        let port = free_port()?;
        let log = fs::File::options().create(true).append(true).open(directory.join("log"))?;
        let child = command_of(binary)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--enable-debug-command", "yes", "--loglevel", "warning"])
            .arg("--dir")
            .arg(directory)
            .args(words)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(Server { child, directory: directory.to_owned(), is_kept, port, is_redis_7_0: false })
    }

    /// Ends the process at once, by SIGKILL. It is an error if it had ended by itself.
    pub fn kill(&mut self) -> io::Result<()> {
        if !self.is_alive() {
            return Err(io::Error::other(format!("the server ended by itself:\n{}", self.log_tail())));
        }
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Opens a connection.
    pub fn connect(&self) -> io::Result<Link> {
        Link::open(self.port)
    }

    /// Has the server save its data; the file.
    pub fn save(&self, link: &mut Link) -> io::Result<Vec<u8>> {
        let saved = link.call(&["SAVE"])?;
        if saved.is_error() {
            return Err(io::Error::other(format!("SAVE: {}", saved.notation())));
        }
        fs::read(self.directory.join(RDB_NAME))
    }

    /// Whether the process still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Resident memory in bytes; `None` where /proc does not tell.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
    }

    /// The last lines the server logged.
    pub fn log_tail(&self) -> String {
        let log = fs::read(self.directory.join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    fn wait_until_up(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Ok(mut link) = self.connect()
                && link.call(&["PING"]).is_ok_and(|reply| !reply.is_error())
            {
                return Ok(());
            }
            if !self.is_alive() || Instant::now() > deadline {
                return Err(io::Error::other(format!("the server did not start:\n{}", self.log_tail())));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn own_all_slots(&mut self) -> io::Result<()> {
        let mut link = self.connect()?;
        link.call(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let info = link.call(&["CLUSTER", "INFO"])?.text().unwrap_or_default();
            if String::from_utf8_lossy(&info).contains("cluster_state:ok") {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(io::Error::other("the oracle's cluster did not come up"));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !self.is_kept {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// Both servers under one setup.
pub struct Pair {
    pub setup: &'static Setup,
    pub halcyon: Server,
    pub oracle: Server,
}

/// Where the two binaries are, and what only Halcyon's side is given.
#[derive(Clone, Debug)]
pub struct Binaries {
    pub halcyon: PathBuf,
    pub oracle: PathBuf,
    /// Extra command-line arguments of Halcyon's side, to break it on purpose.
    pub halcyon_args: Vec<String>,
}

impl Pair {
    /// Starts both sides with the same configuration.
    pub fn start(binaries: &Binaries, setup: &'static Setup) -> io::Result<Pair> {
        let extra: Vec<&str> = binaries.halcyon_args.iter().map(String::as_str).collect();
        Ok(Pair {
            setup,
            oracle: Server::start(&binaries.oracle, setup, &[])?,
            halcyon: Server::start(&binaries.halcyon, setup, &extra)?,
        })
    }
}

/// The server's command line, so that the server dies with this process even when nothing is dropped
/// (where util-linux's setpriv is there to ask the kernel for that).
fn command_of(binary: &Path) -> Command {
    let setpriv = Path::new("/usr/bin/setpriv");
    if !setpriv.exists() {
        return Command::new(binary);
    }
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(binary);
    command
}

fn free_port() -> io::Result<u16> {
    loop {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        if port <= PORT_MAX {
            return Ok(port);
        }
    }
}

fn fresh_directory() -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("proof-{}-{number}", std::process::id()));
    fs::create_dir_all(&directory)?;
    Ok(directory)
}
