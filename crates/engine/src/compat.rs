//! Which reply shapes a connection can read.
//!
//! Redis 7 added elements to the entries of COMMAND and to the nodes of CLUSTER SLOTS; clients written before
//! that fail on them, for good. A connection that sent HELLO or CLIENT SETINFO is of a later client.

use crate::config::Config;

/// `client-compat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// Each connection as it introduced itself.
    Auto,
    /// Today's shapes for all.
    Modern,
    /// The old shapes for all.
    Legacy,
}

/// A reply's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As Redis 7.
    Modern,
    /// As Redis 5: readable for every client since 2015.
    Legacy,
}

impl Compat {
    /// The directive's value.
    pub fn of(config: &Config) -> Compat {
        match &config.bytes("client-compat")[..] {
            b"modern" => Compat::Modern,
            b"legacy" => Compat::Legacy,
            _ => Compat::Auto,
        }
    }

    /// The shape for a connection that has `introduced` itself, or not.
    pub fn shape(self, introduced: bool) -> Shape {
        match self {
            Compat::Modern => Shape::Modern,
            Compat::Legacy => Shape::Legacy,
            Compat::Auto if introduced => Shape::Modern,
            Compat::Auto => Shape::Legacy,
        }
    }
}
