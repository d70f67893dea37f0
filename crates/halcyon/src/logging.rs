//! Logs: lines for people, or JSON for machines.

use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::sync::Mutex;

use engine::config::Config;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Sets the level of the running log to what `loglevel` says now.
pub type Relevel = Box<dyn Fn(&Config) + Send + Sync>;

/// Starts logging as `loglevel`, `logfile` and `log-format` say. The error is a line for the user.
pub fn start(config: &Config) -> Result<Relevel, String> {
    let path = config.string("logfile");
    let (writer, colours) = if path.is_empty() {
        (BoxMakeWriter::new(std::io::stdout), std::io::stdout().is_terminal())
    } else {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|error| format!("Can't open the log file {path}: {error}"))?;
        (BoxMakeWriter::new(Mutex::new(file)), false)
    };
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter(config)).with_target(false).with_ansi(colours);
    // The two formats differ in type, not in what is done with them.
    macro_rules! launch {
        ($builder:expr) => {{
            let builder = $builder.with_writer(writer).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.try_init().map_err(|error| format!("Can't start logging: {error}"))?;
            Ok(Box::new(move |config: &Config| {
                // Only fails once the log is gone.
                let _ = handle.reload(filter(config));
            }))
        }};
    }
    if config.string("log-format") == "json" { launch!(builder.json()) } else { launch!(builder) }
}

fn filter(config: &Config) -> EnvFilter {
    EnvFilter::new(match config.string("loglevel").as_str() {
        "debug" => "trace",
        "verbose" => "debug",
        "warning" => "warn",
        "nothing" => "off",
        _ => "info",
    })
}
