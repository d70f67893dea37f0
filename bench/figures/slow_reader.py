"""A client that does not read: growth of resident memory while 1,000,000 pipelined GETs of 1,000 B wait for 5 s.

One connection sends the GETs and reads nothing for 5 s. Then it reads: whether every byte of every reply arrives is
the second row (1 = all). Another connection's slowest PING of 1,000 during the wait is the third.
"""

import threading
import time

from figures.connections import on_generator_cpu
from generator import RECEIVE_BYTES, Ended, encode
from servers import running

NAME = "slow_reader"
VALUE_BYTES = 1_000
BATCH = 1_000
WAIT_S = 5


def measure(run):
    requests = run.pick(1_000_000, 200_000)
    rows = [
        run.table.row(f"{requests:,} pipelined GETs of 1,000 B, unread: memory growth", "MB", 1),
        run.table.row("... once read: share of the bytes that arrives", "", 2),
        run.table.row("... meanwhile, slowest PING of another connection", "us", 0),
    ]
    for program in run.programs:
        run.progress(program.name)
        with running([program]) as [server], on_generator_cpu():
            run.attempt(rows, server.name, lambda: once(server, requests))


def once(server, requests):
    with server.connect() as other, server.connect() as slow:
        client = Ended(other)
        client.call("SET", "k", b"x" * VALUE_BYTES)
        # What a first large reply costs once and for all does not count as growth.
        client.call_encoded(encode("GET", "k") * BATCH)
        resident_before = server.resident_bytes()
        sender = threading.Thread(target=send_all, args=(slow, requests), daemon=True)
        sender.start()
        time.sleep(WAIT_S)
        growth_bytes = server.resident_bytes() - resident_before
        slowest_us = max(ping_us(client) for _ in range(1_000))
        wanted = requests * len(b"$%d\r\n" % VALUE_BYTES + b"x" * VALUE_BYTES + b"\r\n")
        arrived = drain(slow, wanted)
        sender.join(timeout=10)
    return growth_bytes / 1e6, arrived / wanted, slowest_us


def send_all(connection, requests):
    batch = encode("GET", "k") * BATCH
    try:
        for _ in range(requests // BATCH):
            connection.sendall(batch)
    except OSError:
        # The server closed the connection: the bytes that arrive tell.
        pass


def ping_us(client):
    started_s = time.perf_counter()
    client.call("PING")
    return (time.perf_counter() - started_s) * 1e6


def drain(connection, wanted):
    arrived = 0
    connection.settimeout(30)
    try:
        while arrived < wanted:
            piece = connection.recv(RECEIVE_BYTES)
            if not piece:
                break
            arrived += len(piece)
    except OSError:
        pass
    return arrived
