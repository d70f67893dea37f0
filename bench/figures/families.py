"""Commands of every family: the server's CPU time per command, at pipelines of 16 and 1.

redis-benchmark on CPU 1, 50 connections, the commands below over 100,000 random keys or elements; CPU is that of the process
over the run, the median of the rounds. A transaction is MULTI, ten INCR and EXEC; what is counted is the transaction.
"""

import socket

from generator import encode, redis_benchmark
from servers import running

NAME = "families"
CONNECTIONS = 50
RANDOM = 100_000
ANY = "__rand_int__"
SCRIPT = "return redis.call('set', KEYS[1], ARGV[1])"

# What is there before: (command, times). Numbers are replaced by their turn.
PREPARED = [
    (["RPUSH", "list:100", "element:{}"], 100),
    (["RPUSH", "queue", "element:{}"], 400_000),
    (["SADD", "bag", "element:{}"], 400_000),
    (["ZADD", "ranking", "{}", "element:{}"], 400_000),
    (["ZADD", "board", "{}", "element:{}"], RANDOM),
    (["HSET", "table", "field:{:012d}", "value"], RANDOM),
    (["XADD", "log", "*", "field", "value"], 1_000),
]
MEASURED = [
    ("LPUSH", ["LPUSH", "stack", "element"]),
    ("RPOP", ["RPOP", "queue"]),
    ("LRANGE 0 99", ["LRANGE", "list:100", "0", "99"]),
    ("SADD", ["SADD", "members", f"element:{ANY}"]),
    ("SPOP", ["SPOP", "bag"]),
    ("HSET", ["HSET", "map", f"field:{ANY}", "value"]),
    ("HGET", ["HGET", "table", f"field:{ANY}"]),
    ("ZADD", ["ZADD", "scores", ANY, f"element:{ANY}"]),
    ("ZRANGEBYSCORE, 10 of them", ["ZRANGEBYSCORE", "board", f"{ANY}", "+inf", "LIMIT", "0", "10"]),
    ("ZPOPMIN", ["ZPOPMIN", "ranking"]),
    ("XADD", ["XADD", "stream", "*", "field", "value"]),
    ("XREAD COUNT 10", ["XREAD", "COUNT", "10", "STREAMS", "log", "0-0"]),
    ("INCR", ["INCR", f"counter:{ANY}"]),
    ("MSET of 10", ["MSET", *(word for n in range(10) for word in (f"key{n}:{ANY}", "value"))]),
    ("EVAL of SET", ["EVAL", SCRIPT, "1", f"key:{ANY}", "value"]),
]


def measure(run):
    requests_of_pipeline = {16: run.pick(300_000, 100_000), 1: run.pick(50_000, 20_000)}
    with running(run.programs) as servers:
        for pipeline, requests in requests_of_pipeline.items():
            for server in servers:
                run.progress(f"preparing {server.name}")
                run.attempt([], server.name, lambda: prepare(server))
            for title, command in MEASURED:
                row = run.table.row(f"{title}, pipeline {pipeline}: CPU per command", "us", 2)
                run.progress(row.title)
                for _ in range(run.pick(3, 1)):
                    for server in servers:
                        run.attempt([row], server.name, lambda: [once(server, command, pipeline, requests)])
            row = run.table.row(f"MULTI of 10, pipeline {pipeline}: CPU per transaction", "us", 2)
            run.progress(row.title)
            for _ in range(run.pick(3, 1)):
                for server in servers:
                    run.attempt([row], server.name, lambda: [transactions(server, pipeline, requests // 10)])


def prepare(server):
    with server.connect() as connection:
        send_all(connection, [encode("FLUSHALL")])
        for words, times in PREPARED:
            send_all(connection, (encode(*(word.format(n, n) for word in words)) for n in range(times)))
    return []


def send_all(connection, commands, chunk=1_000):
    """Sends commands in chunks; each chunk's replies are read to the PONG that ends them."""
    waiting = []

    def flush():
        connection.sendall(b"".join(waiting) + encode("PING"))
        waiting.clear()
        tail = b""
        while not tail.endswith(b"+PONG\r\n"):
            tail = (tail + connection.recv(1 << 16))[-64:]

    for command in commands:
        waiting.append(command)
        if len(waiting) == chunk:
            flush()
    flush()


def once(server, command, pipeline, requests):
    before_s = server.cpu_s()
    redis_benchmark(server, "-c", CONNECTIONS, "-r", RANDOM, "-P", pipeline, "-n", requests, *command)
    return (server.cpu_s() - before_s) / requests * 1e6


def transactions(server, pipeline, count):
    """CPU time per transaction, from connections that each send `pipeline` of them at once."""
    one = encode("MULTI") + b"".join(encode("INCR", f"counter:{n}") for n in range(10)) + encode("EXEC")
    connections = [server.connect() for _ in range(CONNECTIONS)]
    rounds = max(1, count // (pipeline * CONNECTIONS))
    try:
        before_s = server.cpu_s()
        for _ in range(rounds):
            for connection in connections:
                connection.sendall(one * pipeline)
            for connection in connections:
                read_lines(connection, pipeline * 22)
        return (server.cpu_s() - before_s) / (rounds * pipeline * CONNECTIONS) * 1e6
    finally:
        for connection in connections:
            connection.close()


def read_lines(connection: socket.socket, lines):
    """Reads replies of one line each: OK, ten QUEUED, the array's head, ten numbers."""
    while lines > 0:
        piece = connection.recv(1 << 16)
        if not piece or b"-" in piece:
            raise RuntimeError(f"a transaction failed: {piece[:100].decode(errors='replace')}")
        lines -= piece.count(b"\n")
