"""Memory per element of lists, sets, hashes and sorted sets of 10, 1,000 and 1,000,000 elements of 16 B.

Growth of resident memory over 2,000,000 elements in all (`--quick`: 1,000,000), divided by their number; keys included.
"""

from figures.families import send_all
from generator import encode
from servers import running

NAME = "elements"
PER_COMMAND = 100
TYPES = {
    "list": ("RPUSH", lambda n: [f"element:{n:08d}"]),
    "set": ("SADD", lambda n: [f"element:{n:08d}"]),
    "hash": ("HSET", lambda n: [f"field:{n:010d}", f"value:{n:010d}"]),
    "sorted set": ("ZADD", lambda n: [str(n * 7919 % 1_000_003), f"element:{n:08d}"]),
}


def measure(run):
    total = run.pick(2_000_000, 1_000_000)
    for name, (command, words) in TYPES.items():
        for size in [10, 1_000, 1_000_000]:
            row = run.table.row(f"Memory per element, {name} of {size:,}", "bytes", 1)
            run.progress(row.title)
            for program in run.programs:
                with running([program]) as [server]:
                    run.attempt([row], server.name, lambda: [once(server, command, words, size, total)])


def once(server, command, words, size, total):
    before_bytes = server.resident_bytes()
    with server.connect() as connection:
        send_all(connection, fill(command, words, size, total), chunk=50)
    return (server.resident_bytes() - before_bytes) / total


def fill(command, words, size, total):
    """Commands that make `total / size` collections of `size` elements."""
    for key in range(total // size):
        for first in range(0, size, PER_COMMAND):
            last = min(size, first + PER_COMMAND)
            yield encode(command, f"key:{key}", *(word for n in range(first, last) for word in words(n)))
