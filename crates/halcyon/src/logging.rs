//! Logs: lines for people, or JSON for machines.

use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::sync::Mutex;

use engine::config::Config;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Starts logging as `loglevel`, `logfile` and `log-format` say. The error is a line for the user.
pub fn start(config: &Config) -> Result<(), String> {
    let level = match config.string("loglevel").as_str() {
        "debug" => LevelFilter::TRACE,
        "verbose" => LevelFilter::DEBUG,
        "warning" => LevelFilter::WARN,
        "nothing" => LevelFilter::OFF,
        _ => LevelFilter::INFO,
    };
    let path = config.string("logfile");
    let (writer, colours) = if path.is_empty() {
        (BoxMakeWriter::new(std::io::stdout), std::io::stdout().is_terminal())
    } else {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|error| format!("Can't open the log file {path}: {error}"))?;
        (BoxMakeWriter::new(Mutex::new(file)), false)
    };
    let builder = tracing_subscriber::fmt().with_max_level(level).with_target(false).with_ansi(colours);
    let started = if config.string("log-format") == "json" {
        builder.json().with_writer(writer).try_init()
    } else {
        builder.with_writer(writer).try_init()
    };
    started.map_err(|error| format!("Can't start logging: {error}"))
}
