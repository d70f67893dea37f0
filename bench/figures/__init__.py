"""The figures: a module each, with `NAME`, a docstring that says what is measured and how, and `measure(run)`."""

from figures import (
    cluster_failover, cluster_idle, cluster_mode, cluster_quorum, copies, durability, elements, families, get_set, info,
    keys_stall, latency, memory, nodes, old_clients, publish, resync, save_load, short_connections, slot_move, slow_reader,
    stall, storm, tls, topology, waiting, workers,
)

ALL = [
    get_set, tls, families, publish, short_connections, info, slow_reader, stall, keys_stall, copies, durability, save_load,
    resync, waiting, memory, elements, workers, topology, cluster_mode, cluster_idle, nodes, cluster_failover, cluster_quorum,
    slot_move, storm, old_clients, latency,
]
