//! What the operating system gives: file descriptors, CPUs, facts for INFO.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;

use base::num::parse_i64;
use engine::config::Config;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors that the process needs besides its clients' (Redis: CONFIG_MIN_RESERVED_FDS).
const RESERVED_FDS: u64 = 32;

/// Raises the limit of open files for `maxclients`; if it cannot, lowers `maxclients` and says so.
pub fn fit_maxclients(config: &Config) -> Result<(), String> {
    let maxclients = config.hot().maxclients();
    let Err(usable) = raise_open_files(maxclients) else { return Ok(()) };
    let wanted = maxclients + RESERVED_FDS;
    if usable == 0 {
        return Err(format!(
            "Your current 'ulimit -n' is not enough for the server to start. Please increase your open file limit \
             to at least {wanted}. Exiting."
        ));
    }
    tracing::warn!(
        "You requested maxclients of {maxclients} requiring at least {wanted} max file descriptors. The limit of \
         open files is {}: maxclients has been reduced to {usable}. If you need higher maxclients increase \
         'ulimit -n'.",
        usable + RESERVED_FDS
    );
    config.override_value("maxclients", usable.to_string().as_bytes())
}

/// Raises the limit of open files for so many clients. The error is the number of clients that fit.
pub fn raise_open_files(maxclients: u64) -> Result<(), u64> {
    let wanted = maxclients + RESERVED_FDS;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    if soft >= wanted {
        return Ok(());
    }
    let reached = [wanted, hard.min(wanted)]
        .into_iter()
        .find(|limit| setrlimit(Resource::RLIMIT_NOFILE, *limit, hard.max(*limit)).is_ok())
        .unwrap_or(soft);
    if reached >= wanted { Ok(()) } else { Err(reached.saturating_sub(RESERVED_FDS)) }
}

/// Where Linux keeps how readily it ends this process when memory runs out.
const OOM_SCORE_FILE: &str = "/proc/self/oom_score_adj";
const OOM_SCORE_MAX: i64 = 1000;

/// Sets that readiness as `oom-score-adj` says: `yes` on top of what it was at start, to which `no` returns. The error is
/// Redis's text.
pub fn apply_oom_score(config: &Config) -> Result<(), String> {
    /// The score before the first change.
    static AT_START: OnceLock<i64> = OnceLock::new();
    let mode = config.string("oom-score-adj");
    if mode == "no" && AT_START.get().is_none() {
        return Ok(());
    }
    let read = || std::fs::read_to_string(OOM_SCORE_FILE).ok().and_then(|text| text.trim().parse().ok());
    let at_start = *AT_START.get_or_init(|| read().unwrap_or(0));
    let of_primary =
        config.list("oom-score-adj-values").first().and_then(|score| parse_i64(score)).unwrap_or(0);
    let score = match mode.as_str() {
        "no" => at_start,
        "absolute" => of_primary,
        _ => at_start + of_primary,
    };
    let score = score.clamp(-OOM_SCORE_MAX, OOM_SCORE_MAX);
    std::fs::write(OOM_SCORE_FILE, score.to_string()).map_err(|error| {
        tracing::warn!("Unable to write {score} to {OOM_SCORE_FILE}: {error}");
        "Failed to apply new oom_score_adj configuration, check server logs.".to_owned()
    })
}

/// Tells the service manager how it stands, if `supervised` asks for it (`auto`: if there is one).
pub fn tell_supervisor(config: &Config, state: &str) {
    let mode = config.string("supervised");
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|_| mode != "no") else {
        if mode == "systemd" {
            tracing::warn!("'supervised systemd' has no effect: NOTIFY_SOCKET is not set");
        }
        return;
    };
    let told = UnixDatagram::unbound().and_then(|socket| {
        let address = notify_address(name.as_bytes())?;
        socket.send_to_addr(state.as_bytes(), &address)
    });
    if let Err(error) = told {
        tracing::warn!("Can't tell the service manager through {}: {error}", name.display());
    }
}

/// The address in `NOTIFY_SOCKET`: a path, or `@` and a name that is no file.
#[cfg(target_os = "linux")]
fn notify_address(name: &[u8]) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(OsStr::from_bytes(name)),
    }
}

#[cfg(not(target_os = "linux"))]
fn notify_address(name: &[u8]) -> io::Result<SocketAddr> {
    SocketAddr::from_pathname(OsStr::from_bytes(name))
}

/// CPUs that this thread may run on, or how many it may use up if that is less.
pub fn usable_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The operating system, as INFO prints it.
pub fn os_name() -> String {
    match nix::sys::utsname::uname() {
        Ok(name) => format!(
            "{} {} {}",
            name.sysname().to_string_lossy(),
            name.release().to_string_lossy(),
            name.machine().to_string_lossy()
        ),
        Err(_) => std::env::consts::OS.to_owned(),
    }
}

/// Bytes of memory in the machine; 0 where the system does not tell.
#[cfg(target_os = "linux")]
pub fn memory_bytes() -> u64 {
    let read = |name| nix::unistd::sysconf(name).ok().flatten().unwrap_or(0).max(0) as u64;
    read(nix::unistd::SysconfVar::_PHYS_PAGES) * read(nix::unistd::SysconfVar::PAGE_SIZE)
}

#[cfg(not(target_os = "linux"))]
pub fn memory_bytes() -> u64 {
    0
}
