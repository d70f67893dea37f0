//! Rows of the server commands.

use super::Command;

/// The rows.
pub const ROWS: &[Command] = &[];
