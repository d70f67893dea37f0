//! Following another server.

/// The server that is followed, if any.
#[derive(Default)]
pub struct Following {}
