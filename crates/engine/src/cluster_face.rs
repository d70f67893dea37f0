//! The cluster as clients see it. So far: one node that owns every slot.

use crate::config::Config;
use crate::server::Process;

/// What the CLUSTER commands answer from.
pub struct ClusterFace {
    /// `cluster-enabled`.
    pub enabled: bool,
    /// 40 hex digits.
    pub node_id: String,
}

impl ClusterFace {
    /// The face of this node.
    pub fn new(config: &Config, process: &Process) -> ClusterFace {
        ClusterFace { enabled: config.bool("cluster-enabled"), node_id: process.run_id.clone() }
    }
}
