//! `halcyon lab COMMAND`: finds the tool and gives it its arguments.

use crate::storm;

/// What `halcyon lab` by itself prints.
pub const USAGE: &str = "\
Usage: halcyon lab COMMAND [options]

       storm      many clients of a cluster, each with the rules of its library, while slots move

'halcyon lab COMMAND --help' tells more.
";

/// What a run of a tool leads to: a text for standard output, or a line for the user and a failure.
pub type Outcome = Result<String, String>;

/// Does what the arguments say. What it returns is to be printed at the end; what the user may want to see before goes to standard
/// error, and events for programs that wait for them to standard output.
pub fn run(args: &[Vec<u8>]) -> Outcome {
    let words: Vec<String> = args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
    match words.first().map(String::as_str) {
        None | Some("help" | "--help" | "-h") => Ok(USAGE.to_owned()),
        Some("storm") => storm::run(&words[1..]),
        Some(other) => Err(format!("halcyon lab has no command '{other}'\n\n{USAGE}")),
    }
}
