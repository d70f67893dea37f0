//! What every layer above shares and none of them owns: hash slots, glob patterns, the number formats of the
//! protocol, the clock and the bounds. Nothing here knows a command, a key space or a socket.

pub mod clock;
pub mod float80;
pub mod glob;
pub mod limits;
pub mod num;
pub mod slot;
