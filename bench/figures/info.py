"""INFO with idle connections: CPU per call with 0 and with 10,000 idle connections, and what one of those costs.

One connection sends INFO and PING and waits for both, thousands of times; CPU is the server's. Memory per idle
connection is the growth of resident memory while 10,000 connections are opened that say nothing.
"""

from figures.connections import idle_connections, on_generator_cpu
from generator import Ended
from servers import running

NAME = "info"
IDLE_CONNECTIONS = 10_000


def measure(run):
    calls = run.pick(5_000, 1_500)
    info_rows = [
        run.table.row("INFO, no idle connection: CPU per call (with a PING)", "us", 1),
        run.table.row(f"INFO, {IDLE_CONNECTIONS:,} idle connections: CPU per call (with a PING)", "us", 1),
    ]
    memory_rows = [run.table.row("Resident memory per idle connection", "bytes", 0)]
    with running(run.programs) as servers, on_generator_cpu():
        for server in servers:
            run.progress(server.name)
            run.attempt(memory_rows, server.name, lambda: resident_bytes_per_connection(server))
            run.attempt(info_rows, server.name, lambda: cpu_alone_and_crowded_us(server, calls))


def resident_bytes_per_connection(server):
    """Measured on a fresh server: later connections would use memory again that earlier ones left."""
    resident_before = server.resident_bytes()
    with idle_connections(server, IDLE_CONNECTIONS):
        return [(server.resident_bytes() - resident_before) / IDLE_CONNECTIONS]


def cpu_alone_and_crowded_us(server, calls):
    with server.connect() as connection:
        client = Ended(connection)
        cpu_per_call_us(server, client, calls // 5)
        alone_us = cpu_per_call_us(server, client, calls)
        with idle_connections(server, IDLE_CONNECTIONS):
            return alone_us, cpu_per_call_us(server, client, calls)


def cpu_per_call_us(server, client, calls):
    before_s = server.cpu_s()
    for _ in range(calls):
        client.call("INFO")
    return (server.cpu_s() - before_s) / calls * 1e6
