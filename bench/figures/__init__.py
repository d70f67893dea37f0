"""The figures: a module each, with `NAME`, a docstring that says what is measured and how, and `measure(run)`."""

from figures import (
    elements, families, get_set, info, latency, memory, old_clients, publish, short_connections, slow_reader, stall,
    topology, workers,
)

ALL = [
    get_set, families, publish, short_connections, info, slow_reader, stall, memory, elements, workers, topology,
    old_clients, latency,
]
