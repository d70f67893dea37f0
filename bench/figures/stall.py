"""What one client's heavy command costs another client: waits of SET and GET while the command runs.

The server has CPUs 0 and 1: Halcyon with two workers, peers as they come (more I/O threads of theirs would only take
the CPUs from each other). A process of its own sends SET and GET, one request at a time, over four
connections by turns, so that it meets every thread of the server, the one with the heavy connection included. Another
connection meanwhile sends one heavy command over values of 1,000,000 elements (`--elements N`), or over as many keys, and reads all
of its reply. Each cell is median / p99 / p99.9 / longest of the waits from the command's beginning to at least a second
later, and each of the four is the median of the rounds. The first row is the same with no command: what the machine
itself adds.

DEL, UNLINK and EXPIRE get a set, a hash, a sorted set and a list of their own: copies share what they hold in some servers.
"""

from generator import Ended, encode, load_keys
from probe import PROBE_CPUS, PROBE_WORKERS, probing, waits_ms
from servers import running

NAME = "stall"
AFTER_EXPIRY_S = 1.5
# One command over 10,000,000 elements takes some servers minutes.
HEAVY_TIMEOUT_S = 600
CHUNK_ELEMENTS = 1_000
TYPES = ("set", "hash", "zset", "list", "stream")


def measure(run):
    elements = run.elements or run.pick(1_000_000, 200_000)
    loads = {kind: load_requests(kind, elements) for kind in TYPES}
    for number in range(run.pick(3, 1)):
        for program in run.programs:
            run.progress(f"{program.name}, round {number + 1}")
            threads = PROBE_WORKERS if program.is_halcyon else 1
            with running([program], threads=threads, cpus=PROBE_CPUS) as [server], probing(server) as probe:
                watch_all(run, server, probe, loads, elements)


def watch_all(run, server, probe, loads, elements):
    """Runs every heavy command once."""
    with server.connect(timeout_s=HEAVY_TIMEOUT_S) as connection:
        heavy = Ended(connection)

        def watch(title, *commands, **options):
            rows = [run.table.row(f"Waits while: {title}", "ms", 2)]
            work = lambda: [heavy.call(*words) for words in commands]
            run.attempt(rows, server.name, lambda: [waits_ms(probe, work, **options)])

        def load(*kinds, name="own"):
            for kind in kinds:
                heavy.call("DEL", f"{name}:{kind}")
                for request in loads[kind]:
                    heavy.call_encoded(request.replace(b"\0\0\0", name.encode()))

        load(*TYPES, name="one")
        load("set", "zset", name="two")
        watch("nothing else")
        watch("SMEMBERS", ("SMEMBERS", "one:set"))
        watch("HGETALL", ("HGETALL", "one:hash"))
        watch("LRANGE 0 -1", ("LRANGE", "one:list", 0, -1))
        watch("ZRANGE 0 -1 WITHSCORES", ("ZRANGE", "one:zset", 0, -1, "WITHSCORES"))
        watch("XRANGE - +", ("XRANGE", "one:stream", "-", "+"))
        watch("SORT ALPHA LIMIT 0 10", ("SORT", "one:set", "ALPHA", "LIMIT", "0", "10"))
        watch(f"SRANDMEMBER -{elements // 2}", ("SRANDMEMBER", "one:set", -elements // 2))
        watch("SINTER of two", ("SINTER", "one:set", "two:set"))
        watch("SUNIONSTORE of two", ("SUNIONSTORE", "out:set", "one:set", "two:set"))
        watch("ZINTERSTORE of two", ("ZINTERSTORE", "out:zset", 2, "one:zset", "two:zset"))
        watch("ZUNIONSTORE of two", ("ZUNIONSTORE", "out:zset", 2, "one:zset", "two:zset"))
        watch("COPY of each type", *[("COPY", f"one:{kind}", f"copy:{kind}") for kind in TYPES])
        load("list")
        watch("LREM of every other element", ("LREM", "own:list", 0, "odd"))
        heavy.call("FLUSHALL", "ASYNC")
        load(*TYPES)
        watch("DEL of each type", *[("DEL", f"own:{kind}") for kind in TYPES])
        load(*TYPES)
        watch("UNLINK of each type", *[("UNLINK", f"own:{kind}") for kind in TYPES])
        load(*TYPES)
        watch("EXPIRE 1 of each type, and expiry", *[("EXPIRE", f"own:{kind}", 1) for kind in TYPES], after_s=1 + AFTER_EXPIRY_S)
        load_keys(server, elements)
        watch(f"KEYS * of {elements:,}", ("KEYS", "*"))
        watch(f"FLUSHALL ASYNC of {elements:,}", ("FLUSHALL", "ASYNC"))


def load_requests(kind, elements):
    """Commands that add `elements` to a key called by three bytes to replace, and the type."""
    if kind == "stream":
        return [
            b"".join(encode("XADD", b"\0\0\0:stream", f"{number + 1}-0", "field", f"element:{number:012}") for number in chunk)
            for chunk in (range(first, first + CHUNK_ELEMENTS) for first in range(0, elements, CHUNK_ELEMENTS))
        ]
    command = {"set": "SADD", "hash": "HSET", "zset": "ZADD", "list": "RPUSH"}[kind]
    requests = []
    for first in range(0, elements, CHUNK_ELEMENTS):
        words = [command, b"\0\0\0:" + kind.encode()]
        for number in range(first, first + CHUNK_ELEMENTS):
            member = f"element:{number:012}"
            if kind == "hash":
                words += [member, member]
            elif kind == "zset":
                words += [number, member]
            else:
                words.append("odd" if kind == "list" and number % 2 else member)
        requests.append(encode(*words))
    return requests
