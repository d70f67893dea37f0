//! Those who follow this server.

/// The replicas.
#[derive(Default)]
pub struct Replicas {}
