"""A replica's outage: how long it takes to follow again after 60 seconds (`--quick` 15) of 20,000 writes a second.

Default settings: no append-only files. The replica's process is stopped, its connection is ended at the primary, and after the
outage the process goes on. The figure is the time from then until the replica has all that was written before; where the primary's count
of full synchronizations rose, the cell says so.
"""

import contextlib
import re
import time

from figures.copies import TIMEOUT_S, follow, wait_for, writing
from generator import Ended, ask, load_keys
from probe import PROBE_CPUS, PROBE_WORKERS
from servers import Server, running

NAME = "resync"
KEYS = 1_000_000


def measure(run):
    outage_s = run.pick(60, 15)
    row = run.table.row(f"Catching up after {outage_s} s of outage at 20,000 writes/s", "s", 2)
    for program in run.programs:
        run.progress(program.name)
        threads = PROBE_WORKERS if program.is_halcyon else 1
        with running([program], threads=threads, cpus=PROBE_CPUS) as [primary]:
            load_keys(primary, KEYS)
            follower = ["--replicaof", "127.0.0.1", str(primary.port)]
            replica = Server(program, follower, threads=threads, cpus=PROBE_CPUS)
            with contextlib.closing(Stopping(replica)):
                run.attempt([row], program.name, lambda: [once(primary, replica, outage_s)])


class Stopping:
    """Ends a server where `contextlib.closing` asks for it."""

    def __init__(self, server):
        self.close = server.stop


def once(primary, replica, outage_s):
    follow(replica)
    with writing(primary, KEYS), primary.connect(timeout_s=TIMEOUT_S) as connection:
        client = Ended(connection)
        full_syncs = field(client, "stats", "sync_full")
        replica.pause()
        client.call("CLIENT", "KILL", "TYPE", "replica")
        time.sleep(outage_s)
        offset = field(client, "replication", "master_repl_offset")
        replica.go_on()
        started_s = time.monotonic()
        with replica.connect(timeout_s=TIMEOUT_S) as other:
            wait_for(lambda: replica_offset(other) >= offset)
        if field(client, "stats", "sync_full") != full_syncs:
            return f"{time.monotonic() - started_s:.1f}, by a full sync"
    return time.monotonic() - started_s


def replica_offset(connection):
    found = re.search(rb"slave_repl_offset:(\d+)", ask(connection, "INFO", "replication"))
    return int(found.group(1)) if found else 0


def field(client, section, name):
    return int(re.search(name.encode() + rb":(\d+)", client.call("INFO", section)).group(1))
