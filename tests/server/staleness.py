"""What a replica of a cluster's shard answers to readers: nothing older than `replica-max-staleness-ms`, whatever the network
does, and nothing at all before it has its shard's data."""

import contextlib
import threading
import time

from etcd import Etcd
from groups import Shard
from harness import Error, check, expect, wait_until
from proxy import Proxy

BOUND_S = 1.0


class Counting:
    """Counts a key up at the primary, and knows what was acknowledged when."""

    def __init__(self, server):
        self.acknowledged, self.stopping = [(0, time.monotonic())], threading.Event()
        self.thread = threading.Thread(target=self.run, args=(server,), daemon=True)

    def run(self, server):
        with server.connect() as client:
            while not self.stopping.is_set():
                self.acknowledged.append((client.call("INCR", "counted"), time.monotonic()))
                time.sleep(0.001)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()

    def least(self, at_s):
        """What somebody has to see who asks at this instant."""
        # The newest first: it is near the end.
        return next((count for count, then in reversed(self.acknowledged) if then < at_s - BOUND_S), 0)


class Reader:
    """Reads at a replica; whatever it is told is young enough."""

    def __init__(self, client, counting):
        self.client, self.counting = client, counting
        self.answered = self.refused = 0
        assert client.call("READONLY") == "OK"

    def read(self):
        asked_s = time.monotonic()
        count = self.client.call("GET", "counted")
        if isinstance(count, Error):
            assert count.startswith("MASTERDOWN"), count
            self.refused += 1
            return False
        self.answered += 1
        least = self.counting.least(asked_s)
        assert int(count or 0) >= least, f"{count} was read, {least} was acknowledged {BOUND_S} s before"
        return True


@check
def a_replica_answers_nothing_older_than_its_bound():
    """groups: replica-max-staleness-ms in a cluster: a replica that is cut off refuses in time, and answers again when it has caught up"""
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd(members=1))
        shard = BehindProxy(etcd, stack, "--replica-max-staleness-ms", int(BOUND_S * 1000))
        stack.enter_context(shard)
        counting = stack.enter_context(Counting(shard.servers[0]))
        reader = Reader(stack.enter_context(shard.servers[1].connect()), counting)
        for way in (shard.proxy.stall, shard.proxy.close):
            wait_until(reader.read, "an answer")
            answered = reader.answered
            wait_until(lambda answered=answered: reader.read() and reader.answered > answered + 100, "answers")
            way()
            refused = reader.refused
            wait_until(lambda refused=refused: not reader.read() and reader.refused > refused + 20, "refusals")
            shard.proxy.heal()
        wait_until(reader.read, "an answer")


class BehindProxy(Shard):
    """A primary that others reach by a proxy only, and its replica."""

    def __init__(self, etcd, stack, *options):
        super().__init__(etcd, 2, "--repl-diskless-sync-delay", "0", *options)
        self.proxy = stack.enter_context(Proxy(self.ports[0]))

    def start(self, number, *options):
        announced = ["--cluster-announce-port", self.proxy.port] if number == 0 else []
        return super().start(number, *options, *announced)


@check
def a_replica_that_comes_back_sends_readers_to_its_primary():
    """groups: a replica that was killed answers no reader before it has the data again, whatever it lacks them for"""
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd(members=1))
        shard = BehindProxy(etcd, stack)
        stack.enter_context(shard)
        expect(shard.call(0, "SET", "key", "value"), "OK")
        reader = stack.enter_context(shard.servers[1].connect())
        expect(reader.call("READONLY"), "OK")
        wait_until(lambda: reader.call("GET", "key") == b"value", "the replica to answer")
        shard.kill(1)
        shard.proxy.close()
        shard.start(1)
        # The client says so at once, whatever the node knows by then.
        reader = stack.enter_context(shard.servers[1].connect())
        expect(reader.call("READONLY"), "OK")
        told = {str(reader.call("GET", "key"))}
        wait_until(lambda: "slave" in shard.flags(1, 1), "the node to know that it is a replica")
        told |= {str(reader.call(*words)) for words in [("GET", "key"), ("EVAL_RO", READ, 1, "key")]}
        expect(all(text.startswith(("CLUSTERDOWN", "MOVED")) for text in told), True, f"answers {told}")
        shard.proxy.heal()
        # Never anything else, until it answers.
        wait_until(lambda: has_answered(reader), "the replica to answer")


READ = "return redis.call('GET', KEYS[1])"


def has_answered(reader):
    """True once it tells the value; until then it sends readers away, or loads."""
    answer = reader.call("GET", "key")
    assert answer == b"value" or str(answer).startswith(("MOVED", "LOADING")), answer
    return answer == b"value"
