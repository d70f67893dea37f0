//! The data's files: written and read by threads that serve no client.

pub mod load;
pub mod save;
