//! The command line.

use std::path::PathBuf;

use crate::server::Binaries;

/// How the tool is called.
pub const USAGE: &str = "\
proof differential [OPTIONS]   Halcyon and a real redis-server side by side
proof fuzz-commands [OPTIONS]  random garbage at Halcyon's commands
proof fuzz-restore [OPTIONS]   damaged payloads at the codec and at Halcyon's RESTORE
proof fuzz-rdb [OPTIONS]       damaged RDB files at the reader
proof interchange [OPTIONS]    RDB files from Halcyon to real servers and back, and the other way round
proof fuzz-lua [OPTIONS]       Lua sources, whole and broken, at Halcyon's scripts
proof concurrency [OPTIONS]    many connections on four workers, checked for a serial order
proof crash [OPTIONS]          Halcyon under load, killed and started again: what it acknowledged must be there
proof effects [OPTIONS]        what commands leave in the replication stream, here and there, and what it brings about

  --halcyon BIN     Halcyon (default: $HALCYON_BIN, target/release/halcyon or target/ci/halcyon)
  --oracle BIN      the server that is right (default: redis-server; made for 7.0.15)
  --halcyon-arg ARG one more argument for Halcyon's side (repeat it; to see the suite fail)
  --seed N          where random sequences start (default 1)
  --commands N      random commands in all (default 200000; fuzz-commands: 100000;
                    effects: 20000)
  --cases N         damaged payloads, files or Lua sources in all (default 100000)
  --seconds N       time that `concurrency` and `interchange` take (default 12), and `crash` at the most (default 3600)
  --kills N         how often `crash` kills the server, in all modes together (default 12)
  --cut-bytes N     after each kill, cut so much off the append-only file (default 0; to see `crash` fail)
  --only FAMILY     one family: strings, keys, lists, hashes, sets, sorted_sets, server ...; of `crash`, one mode:
                    always, everysec, no, save
  --scripts-only    no random commands
  --random-only     no scripts
  --replay FILE     only the sequence, or file, that a failure wrote
  --scripts DIR     where the scripts are (default tests/differential)";

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Differential,
    FuzzCommands,
    FuzzRestore,
    FuzzRdb,
    FuzzLua,
    Interchange,
    Concurrency,
    Crash,
    Effects,
}

/// Parsed options; see `USAGE`.
#[derive(Debug)]
pub struct Options {
    pub mode: Mode,
    pub binaries: Binaries,
    pub seed: u64,
    pub commands: usize,
    pub seconds: u64,
    pub kills: usize,
    pub cut_bytes: u64,
    pub only: Option<String>,
    pub scripts_only: bool,
    pub random_only: bool,
    pub replay: Option<PathBuf>,
    pub scripts: PathBuf,
}

impl Options {
    /// Parses arguments without the program's name; the error says which one is wrong.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Options, String> {
        let mut args = args.into_iter();
        let mode = match args.next().as_deref() {
            Some("differential") => Mode::Differential,
            Some("fuzz-commands") => Mode::FuzzCommands,
            Some("fuzz-restore") => Mode::FuzzRestore,
            Some("fuzz-rdb") => Mode::FuzzRdb,
            Some("interchange") => Mode::Interchange,
            Some("fuzz-lua") => Mode::FuzzLua,
            Some("concurrency") => Mode::Concurrency,
            Some("crash") => Mode::Crash,
            Some("effects") => Mode::Effects,
            _ => return Err(USAGE.to_owned()),
        };
        let mut options = Options {
            mode,
            binaries: Binaries {
                halcyon: default_halcyon(),
                oracle: PathBuf::from("redis-server"),
                halcyon_args: Vec::new(),
            },
            seed: 1,
            commands: match mode {
                Mode::Differential => 200_000,
                Mode::Effects => 20_000,
                _ => 100_000,
            },
            seconds: if mode == Mode::Crash { 3_600 } else { 12 },
            kills: 12,
            cut_bytes: 0,
            only: None,
            scripts_only: false,
            random_only: false,
            replay: None,
            scripts: PathBuf::from("tests/differential"),
        };
        while let Some(name) = args.next() {
            match name.as_str() {
                "--scripts-only" => options.scripts_only = true,
                "--random-only" => options.random_only = true,
                _ => {
                    let value = args.next().ok_or_else(|| format!("{name}: a value is missing\n{USAGE}"))?;
                    let number =
                        || value.parse::<u64>().map_err(|_| format!("{name}: `{value}` is no number"));
                    match name.as_str() {
                        "--halcyon" => options.binaries.halcyon = PathBuf::from(value),
                        "--oracle" => options.binaries.oracle = PathBuf::from(value),
                        "--halcyon-arg" => options.binaries.halcyon_args.push(value),
                        "--seed" => options.seed = number()?,
                        "--commands" | "--cases" => options.commands = number()? as usize,
                        "--seconds" => options.seconds = number()?,
                        "--kills" => options.kills = number()? as usize,
                        "--cut-bytes" => options.cut_bytes = number()?,
                        "--only" => options.only = Some(value),
                        "--replay" => options.replay = Some(PathBuf::from(value)),
                        "--scripts" => options.scripts = PathBuf::from(value),
                        _ => return Err(format!("unknown option {name}\n{USAGE}")),
                    }
                }
            }
        }
        for binary in [&mut options.binaries.halcyon, &mut options.binaries.oracle] {
            // A server runs in its own directory: a path relative to this one must not depend on that.
            if binary.components().count() > 1
                && let Ok(absolute) = std::path::absolute(&*binary)
            {
                *binary = absolute;
            }
        }
        Ok(options)
    }
}

fn default_halcyon() -> PathBuf {
    if let Some(binary) = std::env::var_os("HALCYON_BIN") {
        return PathBuf::from(binary);
    }
    let release = PathBuf::from("target/release/halcyon");
    if release.exists() { release } else { PathBuf::from("target/ci/halcyon") }
}
