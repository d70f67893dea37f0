//! What passed and what failed, and how failures are printed.

use crate::duo::Disagreement;

/// More than this are counted, not printed.
const PRINTED_MAX: usize = 200;
/// Replies are cut to this for printing.
const TEXT_CHARS_MAX: usize = 400;

/// Counts over a whole run.
#[derive(Debug, Default)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    /// The disagreement of the last counted comparison, for who knows where it stands.
    pub pending: Option<Disagreement>,
}

impl Tally {
    /// Counts one comparison; a disagreement waits in `pending` to be reported with its place.
    pub fn count(&mut self, found: Option<Disagreement>) {
        match found {
            None => self.passed += 1,
            some => self.pending = some,
        }
    }

    /// Counts and prints a failure.
    pub fn fail(&mut self, place: &str, found: &Disagreement) {
        self.failed += 1;
        if self.failed <= PRINTED_MAX {
            println!("FAILED {place}");
            println!("  command {}", cut(&found.about));
            println!("  oracle  {}", cut(&found.oracle));
            println!("  halcyon {}", cut(&found.halcyon));
        } else if self.failed == PRINTED_MAX + 1 {
            println!("... further failures are only counted");
        }
    }
}

/// A text short enough to print.
pub fn cut(text: &str) -> String {
    if text.chars().count() <= TEXT_CHARS_MAX {
        return text.to_owned();
    }
    let start: String = text.chars().take(TEXT_CHARS_MAX).collect();
    format!("{start}... ({} bytes)", text.len())
}
