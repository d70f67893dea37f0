//! What measures servers from outside, as clients do: `halcyon lab`. It speaks the protocol and knows nothing of the inside of
//! any server, so that it runs against others as well.

mod histogram;
pub mod lab;
mod storm;
