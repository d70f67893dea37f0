//! Rows of the connection commands.

use super::{Categories, Command, Flags, Group};
use crate::commands::connection;

/// The rows.
pub const ROWS: &[Command] = &[Command {
    name: "ping",
    arity: -1,
    flags: Flags::FAST,
    categories: Categories::CONNECTION,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    group: Group::Connection,
    complexity: "O(1)",
    summary: "Answers PONG, or the message it was given.",
    syntax: "[message]",
    run: connection::ping,
    ..Command::BLANK
}];
