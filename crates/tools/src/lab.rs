//! `halcyon lab COMMAND`: finds the tool and gives it its arguments.

use crate::storm;

/// What a run of a tool leads to: a text for standard output, or a line for the user and a failure.
pub type Outcome = Result<String, String>;

/// A tool of `halcyon lab`.
pub struct Tool {
    /// What it is called by.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Does what the words after its name say. What it returns is to be printed at the end; what the user may want to see
    /// before goes to standard error, and events for programs that wait for them to standard output.
    pub run: fn(&[String]) -> Outcome,
}

const STORM: Tool = Tool {
    name: "storm",
    summary: "many clients of a cluster, each with the rules of its library, while slots move",
    run: storm::run,
};

/// Does what the arguments say, by the tools of this crate or by these others. What it returns is to be printed.
pub fn run(args: &[Vec<u8>], others: &[Tool]) -> Outcome {
    let words: Vec<String> = args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
    let mut tools = std::iter::once(&STORM).chain(others);
    match words.first().map(String::as_str) {
        None | Some("help" | "--help" | "-h") => Ok(usage(others)),
        Some(name) => match tools.find(|tool| tool.name == name) {
            Some(tool) => (tool.run)(&words[1..]),
            None => Err(format!("halcyon lab has no command '{name}'\n\n{}", usage(others))),
        },
    }
}

fn usage(others: &[Tool]) -> String {
    let lines: String = std::iter::once(&STORM)
        .chain(others)
        .map(|tool| format!("       {:<11}{}\n", tool.name, tool.summary))
        .collect();
    format!("Usage: halcyon lab COMMAND [options]\n\n{lines}\n'halcyon lab COMMAND --help' tells more.\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_found_by_name() {
        let echo = Tool { name: "echo", summary: "says it again", run: |words| Ok(words.join(" ")) };
        let lab = |line: &str| {
            let words: Vec<Vec<u8>> = line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect();
            run(&words, std::slice::from_ref(&echo))
        };
        assert_eq!(lab("echo a b"), Ok("a b".to_owned()));
        assert!(lab("help").is_ok_and(|text| text.contains("       echo       says it again\n")));
        assert!(lab("other").is_err_and(|text| text.starts_with("halcyon lab has no command 'other'")));
        assert!(lab("storm --help").is_ok_and(|text| text.starts_with("Usage: halcyon lab storm")));
    }
}
