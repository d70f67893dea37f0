"""What a push costs with 10 and with 10,000 clients blocked on its key: the server's CPU time per LPUSH that serves one of them.

Every client waits with BLPOP on one list; each push serves the one that has waited longest, which then waits again.
"""

import selectors
import time

from generator import encode
from servers import running

NAME = "waiting"
PUSH = encode("LPUSH", "queue", "x")
WAIT = encode("BLPOP", "queue", 0)
# A push that tries every waiting client takes a server long.
ROUND_S_MAX = 5
REPLY_BYTES = len(encode("queue", "x"))


def measure(run):
    rounds, pushes = run.pick(3, 1), run.pick(20_000, 5_000)
    with running(run.programs) as servers:
        for clients in [10, 10_000]:
            row = run.table.row(f"LPUSH that serves one of {clients:,} blocked clients: CPU", "us", 1)
            for server in servers:
                run.progress(f"{server.name}, {clients:,} clients")
                run.attempt([row], server.name, lambda: [push_cost_us(server, clients, pushes, rounds)])


def push_cost_us(server, clients, pushes, rounds):
    """The least of the rounds; of each, CPU time over its pushes, BLPOP of the served client included."""
    waiting = [server.connect() for _ in range(clients)]
    selector = selectors.DefaultSelector()
    try:
        for client in waiting:
            client.sendall(WAIT)
            selector.register(client, selectors.EVENT_READ)
        with server.connect() as pusher:
            wait_until_blocked(pusher, clients)
            return min(once_us(server, pusher, selector, pushes) for _ in range(rounds))
    finally:
        for client in waiting:
            client.close()
        selector.close()


def once_us(server, pusher, selector, pushes):
    before_s, ends_s = server.cpu_s(), time.monotonic() + ROUND_S_MAX
    pushed = 0
    while pushed < pushes and time.monotonic() < ends_s:
        pushed += 1
        pusher.sendall(PUSH)
        pusher.recv(64)
        client = selector.select(timeout=60)[0][0].fileobj
        if len(client.recv(64)) != REPLY_BYTES:
            raise RuntimeError("a blocked client got half a reply, or another one")
        client.sendall(WAIT)
    return (server.cpu_s() - before_s) / pushed * 1e6


def wait_until_blocked(connection, clients):
    for _ in range(1_000):
        connection.sendall(encode("INFO", "clients"))
        reply = connection.recv(1 << 14)
        if b"blocked_clients:%d\r" % clients in reply:
            return
    raise RuntimeError("the clients do not wait")
