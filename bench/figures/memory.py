"""Memory per key: growth of resident memory over 20 M keys `key:N` with 100 B values, divided by their number.

`--quick` loads 2 M. A table that has just grown is emptier than one about to grow, so the number of keys matters.
"""

from generator import Ended, load_keys
from servers import running

NAME = "memory"


def measure(run):
    keys = run.pick(20_000_000, 2_000_000)
    rows = [run.table.row(f"Memory per key, {keys // 1_000_000} M keys, 100 B values", "bytes", 1)]
    for program in run.programs:
        with running([program]) as [server]:
            run.attempt(rows, server.name, lambda: once(run, server, keys))


def once(run, server, keys):
    resident_before = server.resident_bytes()
    load_keys(server, keys, progress=lambda text: run.progress(f"{server.name}: {text}"))
    resident_bytes = server.resident_bytes() - resident_before
    with server.connect() as connection:
        stored = int(Ended(connection).call("DBSIZE").strip().lstrip(b":"))
    if stored != keys:
        raise RuntimeError(f"{stored} keys are there, not {keys}")
    return [resident_bytes / keys]
