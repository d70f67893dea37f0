"""redis-py at work while its cluster changes; see changes.md. Runs unchanged on redis-py 4.6, 7.1 and 8.1."""

import argparse
import json
import os
import sys
import threading
import time

import redis
from redis.backoff import ConstantBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry

LOOPS = 3
TAGS = 12
PAUSE_S = 0.02
PATIENCE_S = 20
IS_MODERN = int(redis.__version__.split(".")[0]) >= 6
INCREMENT = "return redis.call('INCR', KEYS[1])"


class Report:
    """What happened since the last phase began; shared by all loops."""

    def __init__(self):
        self.lock = threading.Lock()
        self.phase = "start"
        self.take("start")

    def take(self, phase):
        """What there is to say of the phase that ends here."""
        with self.lock:
            told = json.dumps({
                "phase": self.phase, "done": getattr(self, "done", 0), "errors": getattr(self, "errors", {}),
                "wrong": getattr(self, "wrong", []),
            })
            self.phase, self.done, self.errors, self.wrong = phase, 0, {}, []
            return told

    def error(self, step, error):
        text = f"{step.__name__}: {type(error).__name__}: {error}"[:300]
        with self.lock:
            self.errors[text] = self.errors.get(text, 0) + 1

    def holds(self, what, holds):
        if not holds:
            with self.lock:
                self.wrong.append(what)


class Loop(threading.Thread):
    """One thread that writes keys of its own and reads them again."""

    def __init__(self, client, report, name, number):
        super().__init__(daemon=True)
        self.client, self.report = client, report
        self.tags = ["{%s:%d:%d}" % (name, number, tag) for tag in range(TAGS)]
        self.tried = dict.fromkeys(self.tags, 0)
        self.written = dict.fromkeys(self.tags, 0)
        self.counted = dict.fromkeys(self.tags, 0)
        self.cycles_begun = self.good_cycles_begun_at = 0
        self.is_stopping = False

    def run(self):
        while not self.is_stopping:
            self.cycles_begun += 1
            begun, good = self.cycles_begun, True
            for tag in self.tags:
                for step in [self.write, self.read, self.count]:
                    good &= self.tries(step, tag)
                time.sleep(PAUSE_S)
            for step in [self.pipeline, self.several, self.script, self.transaction]:
                good &= self.tries(step, self.tags[begun % TAGS])
            if good:
                self.good_cycles_begun_at = begun

    def tries(self, step, tag):
        try:
            step(tag)
        except redis.RedisError as error:
            self.report.error(step, error)
            return False
        with self.report.lock:
            self.report.done += 1
        return True

    def write(self, tag):
        self.tried[tag] += 1
        value = self.tried[tag]
        self.report.holds(f"SET {tag}", self.client.set(tag + "v", value) is True)
        self.written[tag] = value

    def read(self, tag):
        self.expect_value(tag, self.client.get(tag + "v"))

    def expect_value(self, tag, value):
        what = f"GET {tag}: {value}, written {self.written[tag]} to {self.tried[tag]}"
        self.report.holds(what, self.written[tag] <= int(value or 0) <= self.tried[tag])

    def count(self, tag):
        self.expect_count(tag, self.client.incr(tag + "c"), 1)

    def expect_count(self, tag, count, added):
        """`added` were acknowledged just now, with this count; a library that asks again may count twice."""
        self.report.holds(f"INCR {tag}: {count} after {self.counted[tag]}", int(count or 0) >= self.counted[tag] + added)
        self.counted[tag] += added

    def pipeline(self, _):
        with self.client.pipeline() as pipe:
            for tag in self.tags:
                pipe.get(tag + "v")
            for tag, value in zip(self.tags, pipe.execute(), strict=True):
                self.expect_value(tag, value)

    def several(self, tag):
        self.report.holds(f"MSET {tag}", self.client.mset({tag + "a": 1, tag + "b": 2}) is True)
        values = self.client.mget(tag + "a", tag + "b", tag + "none")
        self.report.holds(f"MGET {tag}: {values}", values == [b"1", b"2", None])

    def script(self, tag):
        self.expect_count(tag, self.client.eval(INCREMENT, 1, tag + "c"), 1)

    def transaction(self, tag):
        if IS_MODERN:
            with self.client.pipeline(transaction=True) as pipe:
                counts = pipe.incr(tag + "c").incr(tag + "c").execute()
            self.report.holds(f"EXEC {tag}: {counts}", counts[1] == counts[0] + 1)
            self.expect_count(tag, counts[1], 2)

    def check_all(self):
        for tag in self.tags:
            self.tries(self.read, tag)
            self.tries(self.last, tag)

    def last(self, tag):
        self.expect_count(tag, self.client.get(tag + "c"), 0)


def connect(nodes):
    """A client that goes on trying for as long as a failover may take, by the library's own means."""
    places = [node.split(":") for node in nodes.split(",")]
    attempts = {"retry": Retry(ConstantBackoff(0.1), 100)} if IS_MODERN else {"cluster_error_retry_attempts": 40}
    return RedisCluster(
        startup_nodes=[ClusterNode(host, int(port)) for host, port in places], socket_timeout=PATIENCE_S, **attempts,
    )


def await_good_cycles(loops):
    """Every loop begins a cycle from now on and ends it without an error."""
    begun = [loop.cycles_begun for loop in loops]
    while any(loop.good_cycles_begun_at <= at for loop, at in zip(loops, begun, strict=True)):
        time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", required=True)
    parser.add_argument("--name", required=True)
    options = parser.parse_args()
    report = Report()
    # Each has a client of its own: one that meets a broken connection closes those that other threads are reading from.
    loops = [Loop(connect(options.nodes), report, options.name, number) for number in range(LOOPS)]
    print("ready", flush=True)
    report.take(sys.stdin.readline().strip())
    for loop in loops:
        loop.start()
    for line in sys.stdin:
        if line == "cycle\n":
            await_good_cycles(loops)
            print("cycle", flush=True)
        elif line == "stop\n":
            break
        else:
            print(report.take(line.strip()), flush=True)
    for loop in loops:
        loop.is_stopping = True
    for loop in loops:
        loop.join()
    print(report.take("end"), flush=True)
    for loop in loops:
        loop.check_all()
    print(report.take(""), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
