"""The figures: a module each, with `NAME`, a docstring that says what is measured and how, and `measure(run)`."""

from figures import get_set, info, latency, memory, old_clients, short_connections, slow_reader, stall, topology, workers

ALL = [get_set, short_connections, info, slow_reader, stall, memory, workers, topology, old_clients, latency]
