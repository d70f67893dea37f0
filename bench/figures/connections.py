"""What figures about connections share."""

import contextlib
import os
import time

SETTLE_S = 1.0


@contextlib.contextmanager
def on_generator_cpu():
    """Runs this process on CPU 1, where redis-benchmark stands in other figures."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {1} & before or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def idle_connections(server, count):
    """Opens `count` connections that say nothing, and gives the server a moment to have accepted them all."""
    connections = []
    try:
        for _ in range(count):
            connections.append(server.connect())
        time.sleep(SETTLE_S)
        yield
    finally:
        for connection in connections:
            connection.close()
