"""Short connections: the server's CPU time for accepting a connection, answering one PING and closing.

redis-benchmark -k 0 on CPU 1 with 50 at a time: each request has a connection of its own, which the client closes.
"""

from generator import redis_benchmark
from servers import running

NAME = "short_connections"


def measure(run):
    # Fewer than the local ports of a default Linux (28,232) in one round: closed ones linger.
    connections = run.pick(20_000, 10_000)
    rows = [
        run.table.row("Connect, PING, close: CPU per connection", "us", 1),
        run.table.row("Connect, PING, close: throughput", "connections/s", 0),
    ]
    with running(run.programs) as servers:
        for _ in range(run.pick(3, 1)):
            for server in servers:
                run.attempt(rows, server.name, lambda: once(server, connections))


def once(server, connections):
    before_s = server.cpu_s()
    per_s = redis_benchmark(server, "-t", "ping_mbulk", "-k", 0, "-c", 50, "-n", connections)
    return (server.cpu_s() - before_s) / connections * 1e6, per_s
