"""What a table of many keys costs a client while it grows, shrinks, expires at one time and is listed.

The server has CPUs 0 and 1, and the probe is that of the figure stall. 50,000,000 keys (`--elements N` for another number) of 20-byte
values are set in pipelines; then a fifth of them is given one expiry time and ends; KEYS with a pattern that matches a
thousandth walks them all; three quarters are deleted in pipelines; and one hash of a fifth as many fields has all of them end at
one time. Each cell is median / p99 / p99.9 / longest of the waits.
"""

from generator import Ended, encode, key_commands
from probe import PROBE_CPUS, PROBE_WORKERS, probing, waits_ms
from servers import running

NAME = "keys_stall"
KEYS_DIGITS = 8
CHUNK = 1_000
TIMEOUT_S = 600
# From the first key with the expiry time to the last (`--quick`: the second of each): loading must be over before it comes.
EXPIRY_AHEAD_S = (60, 8)
EXPIRY_WATCH_S = (40, 6)
PIPELINES_AHEAD = 4


def measure(run):
    keys = run.elements or run.pick(50_000_000, 2_000_000)
    for program in run.programs:
        run.progress(program.name)
        threads = PROBE_WORKERS if program.is_halcyon else 1
        with running([program], threads=threads, cpus=PROBE_CPUS) as [server], probing(server) as probe:
            watch_all(run, server, probe, keys)


def watch_all(run, server, probe, keys):
    ahead_s, watch_s = run.pick(*EXPIRY_AHEAD_S), run.pick(*EXPIRY_WATCH_S)
    with server.connect(timeout_s=TIMEOUT_S) as connection:
        heavy = Ended(connection)

        def watch(title, work, **options):
            rows = [run.table.row(f"Waits while: {title}", "ms", 2)]
            run.attempt(rows, server.name, lambda: [waits_ms(probe, work, **options)])

        fifth = keys // 5
        watch("nothing else, no keys", lambda: None)
        watch(f"{keys:,} keys are set", lambda: pipelined(connection, sets(keys)))
        expire_at_s = int(heavy.call("TIME").split(b"\r\n")[2]) + ahead_s
        watch(f"{fifth:,} of them get one expiry time", lambda: pipelined(connection, expiries(fifth, expire_at_s)))
        remaining_s = expire_at_s - int(heavy.call("TIME").split(b"\r\n")[2])
        watch(f"{fifth:,} end at that time", lambda: None, after_s=max(0, remaining_s) + watch_s)
        watch("KEYS for a thousandth", lambda: heavy.call("KEYS", "key:*777"))
        watch("three quarters are deleted", lambda: pipelined(connection, deletions(fifth, keys * 3 // 4)))
        heavy.call("FLUSHALL", "ASYNC")
        if b"unknown command" in connection_reply(connection, "HPEXPIRE", "none", 1, "FIELDS", 1, "f"):
            return
        watch(f"a hash of {fifth:,} fields is made", lambda: pipelined(connection, fields(fifth)))
        now_ms = int(heavy.call("TIME").split(b"\r\n")[2]) * 1000
        at_ms = now_ms + ahead_s * 1000
        watch("its fields get one expiry time", lambda: pipelined(connection, field_expiries(fifth, at_ms)))
        remaining_s = at_ms // 1000 - int(heavy.call("TIME").split(b"\r\n")[2])
        watch("they end at that time", lambda: None, after_s=max(0, remaining_s) + watch_s)


def sets(keys):
    return key_commands(0, keys // CHUNK, b"key:", KEYS_DIGITS, b"x" * 20)


def expiries(keys, at_s):
    return chunks(0, keys, lambda name: encode("EXPIREAT", b"key:" + name, at_s))


def deletions(first, keys):
    return chunks(first, keys, lambda name: encode("UNLINK", b"key:" + name))


def fields(count):
    return chunks(0, count, lambda name: encode("HSET", "hash", b"f:" + name, b"x" * 20))


def field_expiries(count, at_ms):
    return chunks(0, count, lambda name: encode("HPEXPIREAT", "hash", at_ms, "FIELDS", 1, b"f:" + name))


def chunks(first, count, command):
    """Encoded chunks of a thousand commands on the names from `first` on."""
    mark = b"\0" * (KEYS_DIGITS - 3)
    template = b"".join(command(mark + b"%03d" % number) for number in range(CHUNK))
    for chunk in range(first // CHUNK, (first + count) // CHUNK):
        yield template.replace(mark, b"%0*d" % (len(mark), chunk))


def pipelined(connection, requests):
    """Sends every chunk, a few ahead of the replies, of which each is one line or an array of one number."""
    waiting = 0
    for request in requests:
        connection.sendall(request)
        waiting += CHUNK
        if waiting >= PIPELINES_AHEAD * CHUNK:
            waiting -= receive(connection, waiting - (PIPELINES_AHEAD - 1) * CHUNK)
    while waiting > 0:
        waiting -= receive(connection, waiting)


def receive(connection, replies):
    """Reads until at least `replies` replies have come; returns how many."""
    received = 0
    while received < replies:
        piece = connection.recv(1 << 20)
        if not piece:
            raise RuntimeError("the server closed the connection")
        if b"-ERR" in piece or b"-OOM" in piece:
            raise RuntimeError(piece[:100].decode(errors="replace"))
        received += piece.count(b"\n") - piece.count(b"*")
    return received


def connection_reply(connection, *words):
    connection.sendall(encode(*words))
    return connection.recv(1 << 12)
