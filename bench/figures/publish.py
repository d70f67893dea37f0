"""PUBLISH of 64 B to 1 and to 1,000 subscribers: the server's CPU time per message published, in batches of 16 and one by one."""

import selectors
import threading

from generator import encode
from servers import running

NAME = "publish"
MESSAGE = b"x" * 64


def measure(run):
    with running(run.programs) as servers:
        for subscribers in [1, 1_000]:
            for pipeline in [16, 1]:
                count = run.pick(20_000, 4_000) if subscribers == 1 else run.pick(800, 200)
                title = f"PUBLISH to {subscribers:,}, pipeline {pipeline}: CPU per message"
                row = run.table.row(title, "us", 1)
                run.progress(title)
                for _ in range(run.pick(3, 1)):
                    for server in servers:
                        run.attempt([row], server.name, lambda: [once(server, subscribers, pipeline, count)])


def once(server, subscribers, pipeline, count):
    count -= count % pipeline
    selector = selectors.DefaultSelector()
    listeners = [server.connect() for _ in range(subscribers)]
    message_bytes = len(encode(b"message", b"channel", MESSAGE))
    expected_bytes = subscribers * count * message_bytes
    received = {"bytes": 0}
    try:
        for listener in listeners:
            listener.sendall(encode("SUBSCRIBE", "channel"))
            listener.recv(1 << 12)
            selector.register(listener, selectors.EVENT_READ)
        draining = threading.Thread(target=drain, args=(selector, received, expected_bytes))
        draining.start()
        with server.connect() as publisher:
            before_s = server.cpu_s()
            batch = encode("PUBLISH", "channel", MESSAGE) * pipeline
            for _ in range(count // pipeline):
                publisher.sendall(batch)
                answered = 0
                while answered < pipeline:
                    answered += publisher.recv(1 << 16).count(b"\n")
            draining.join()
            used_s = server.cpu_s() - before_s
        if received["bytes"] < expected_bytes:
            raise RuntimeError(f"{expected_bytes - received['bytes']} bytes of messages are missing")
        return used_s / count * 1e6
    finally:
        for listener in listeners:
            listener.close()


def drain(selector, received, expected_bytes):
    while received["bytes"] < expected_bytes:
        ready = selector.select(timeout=5)
        if not ready:
            return
        for key, _ in ready:
            received["bytes"] += len(key.fileobj.recv(1 << 16))
