"""Nodes on etcd: they join, get slots, see each change, replace primaries that die, and outlast outages of etcd."""

import contextlib
import os
import subprocess
import tempfile
import time

from etcd import Etcd, lasts
from harness import Error, Server, check, expect, free_port, wait_until

OPTIONS = ["--save", "", "--cluster-enabled", "yes"]


class Nodes:
    """Nodes of one cluster, each with a directory of its own that outlasts its process."""

    def __init__(self, etcd, count, *options):
        self.etcd, self.options = etcd, options
        self.stack = contextlib.ExitStack()
        self.directories = [self.stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(count)]
        self.ports = [free_port() for _ in range(count)]
        self.servers = [None] * count

    def __enter__(self):
        for number in range(len(self.ports)):
            self.start(number)
        return self

    def __exit__(self, *error):
        running = [server for server in self.servers if server and server.process.poll() is None]
        try:
            for server in running:
                server.__exit__(*error)
        finally:
            for server in self.servers:
                if server:
                    server.close()
            self.stack.close()

    def start(self, number, *options):
        server = Server(
            *OPTIONS, "--cluster-etcd", self.etcd.endpoints, *self.options, *options,
            port=self.ports[number], directory=self.directories[number],
        )
        self.servers[number] = server.__enter__()
        return server

    def kill(self, number):
        self.servers[number].process.kill()
        self.servers[number].process.wait()

    def call(self, number, *words):
        with self.servers[number].connect() as client:
            return client.call(*words)

    def id(self, number):
        return self.call(number, "CLUSTER", "MYID").decode()

    def addresses(self):
        return [f"127.0.0.1:{port}" for port in self.ports]

    def cli(self, *words, input_text=None):
        """What redis-cli answers; it fails if that does."""
        done = subprocess.run(
            ["redis-cli", *map(str, words)], capture_output=True, text=True, timeout=120, check=False,
            input=input_text,
        )
        assert done.returncode == 0, f"redis-cli {' '.join(map(str, words))}: {done.stdout[-2000:]}{done.stderr[-500:]}"
        return done.stdout

    def create(self, replicas=0):
        """redis-cli --cluster create, of all nodes."""
        self.await_shards(len(self.ports))
        output = self.cli("--cluster", "create", *self.addresses(), "--cluster-replicas", replicas, "--cluster-yes")
        assert "[OK] All 16384 slots covered." in output, output[-2000:]
        for number in range(len(self.ports)):
            self.await_state(number)

    def await_shards(self, count):
        """Every node leads a shard of its own, in which it can be given slots."""
        wait_until(lambda: sum(key.startswith("shards/") for key in self.etcd.records()) == count, "shards in etcd")
        for number in range(len(self.ports)):
            wait_until(lambda number=number: len(self.lines(number)) == count, f"node {number} to know {count} nodes")

    def await_state(self, number, state="ok"):
        wanted = f"cluster_state:{state}"

        def is_so():
            answer = self.call(number, "CLUSTER", "INFO")
            # A replica that loads its primary's data says nothing else.
            return not isinstance(answer, Error) and wanted in answer.decode()

        wait_until(is_so, f"{wanted} of node {number}")

    def lines(self, number):
        """CLUSTER NODES: the words of each line, by the node's id."""

        def told():
            answer = self.call(number, "CLUSTER", "NODES")
            # One that loads data, or has not heard from etcd yet, does not say.
            return not isinstance(answer, Error) and answer.decode()

        lines = [line.split() for line in wait_until(told, f"node {number} to tell of the cluster").splitlines()]
        return {line[0]: line[1:] for line in lines}

    def flags(self, number, about):
        return self.lines(number)[self.id(about)][1].split(",")


@check
def cluster_is_created_by_redis_cli():
    """cluster: nodes join one etcd; redis-cli --cluster create, check, info and call work; keys are redirected"""
    with Etcd(members=1) as etcd, Nodes(etcd, 3) as nodes:
        nodes.create()
        records = etcd.records()
        expect(len(records["slots"]), 3, "shards with slots")
        nodes.cli("--cluster", "check", nodes.addresses()[1])
        assert "in 3 masters" in nodes.cli("--cluster", "info", nodes.addresses()[0])
        assert nodes.cli("--cluster", "call", nodes.addresses()[0], "PING").count("PONG") == 3
        # foo's slot is 12182: the third node's.
        moved = nodes.call(0, "SET", "foo", "1")
        expect(str(moved), f"MOVED 12182 127.0.0.1:{nodes.ports[2]}", "redirection")
        expect(nodes.call(2, "SET", "foo", "1"), "OK")
        expect(nodes.cli("-c", "-p", nodes.ports[0], "GET", "foo").strip(), "1")
        for number in range(3):
            config = os.path.join(nodes.directories[number], "nodes.conf")
            wait_until(lambda config=config: "halcyon-cluster" in read(config), "the cluster's id to be kept")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@check
def cluster_change_is_seen_by_every_node():
    """cluster: a change of slots is seen by every node, and a node that comes is known to all"""
    with Etcd(members=3) as etcd, Nodes(etcd, 3) as nodes:
        nodes.create()
        slowest_ms = 0
        for turn in range(10):
            giver, taker = turn % 2, 1 - turn % 2
            slot = 0
            started = time.monotonic()
            expect(nodes.call(giver, "CLUSTER", "SETSLOT", slot, "NODE", nodes.id(taker)), "OK")
            wanted = f"MOVED {slot} 127.0.0.1:{nodes.ports[taker]}"
            # A key of slot 0.
            wait_until(lambda wanted=wanted: str(nodes.call(2, "GET", "3560")) == wanted, wanted)
            slowest_ms = max(slowest_ms, (time.monotonic() - started) * 1000)
        print(f"        slowest of 10 changes, asked for and seen elsewhere: {slowest_ms:.0f} ms")


@check
def cluster_primary_that_dies_is_replaced():
    """cluster: a primary dies by SIGKILL, its replica takes over with all it had, and it comes back as a replica"""
    with Etcd(members=3) as etcd, Nodes(etcd, 6) as nodes:
        nodes.create(replicas=1)
        primary = next(number for number in range(6) if nodes.call(number, "SET", "foo", "before") == "OK")
        id_of_dead = nodes.id(primary)
        replica = next(
            number for number in range(6)
            if number != primary and nodes.lines(number)[nodes.id(number)][2] == id_of_dead
        )
        shard = etcd.records()[f"nodes/{id_of_dead}"]["shard"]
        # Who has not caught up yet cannot take over.
        wait_until(lambda: len(etcd.records()[f"shards/{shard}"]["in_sync"]) == 2, "the replica to be in sync")
        with nodes.servers[primary].connect() as client:
            for number in range(100):
                expect(client.call("SET", "{foo}%d" % number, number), "OK")
            client.call("WAIT", 1, 1000)
        nodes.kill(primary)
        started = time.monotonic()
        wait_until(lambda: nodes.call(replica, "SET", "foo", "after") == "OK", "the replica to take over")
        print(f"        from SIGKILL to the first write elsewhere: {time.monotonic() - started:.1f} s")
        expect(nodes.call(replica, "GET", "{foo}99"), b"99")
        nodes.start(primary)
        wait_until(lambda: "slave" in nodes.flags(replica, primary), "the dead one to come back as a replica")
        wait_until(
            lambda: b"master_link_status:up" in nodes.call(primary, "INFO", "replication"), "its link to be up")
        expect(str(nodes.call(primary, "SET", "foo", "x")), f"MOVED 12182 127.0.0.1:{nodes.ports[replica]}")


@check
def cluster_outlasts_an_outage_of_etcd():
    """cluster: without etcd shards go on as they are; a change says why it cannot be made; afterwards it can"""
    with Etcd(members=1) as etcd, Nodes(etcd, 2) as nodes:
        assign_two(nodes)
        expect(nodes.call(0, "SET", "3560", "1"), "OK")
        etcd.pause()
        # Longer than any lease.
        assert lasts(4, lambda: nodes.call(0, "SET", "3560", "1") == "OK"), "an outage of etcd stopped a shard"
        etcd.resume()
        # Whether a change was made that was asked for when etcd came back, the node may not know.
        for word, is_so in [("DELSLOTS", "already unassigned"), ("ADDSLOTS", "already busy")]:
            wait_until(
                lambda word=word, is_so=is_so: (answer := nodes.call(1, "CLUSTER", word, 16383)) == "OK" or is_so in answer,
                f"CLUSTER {word} to be done",
            )


def assign_two(nodes):
    """Half of the slots to each of two nodes: redis-cli wants three."""
    nodes.await_shards(2)
    expect(nodes.call(0, "CLUSTER", "ADDSLOTSRANGE", 0, 8191), "OK")
    expect(nodes.call(1, "CLUSTER", "ADDSLOTSRANGE", 8192, 16383), "OK")
    for number in range(2):
        nodes.await_state(number)


@check
def cluster_node_that_has_not_heard_from_etcd_tells_of_no_cluster():
    """cluster: a node that starts while etcd is away says so to who asks for slots, and others tell of them; then it knows"""
    asking = [("CLUSTER", "SLOTS"), ("CLUSTER", "SHARDS"), ("CLUSTER", "NODES"), ("GET", "3560")]
    with Etcd(members=1) as etcd, Nodes(etcd, 2) as nodes:
        assign_two(nodes)
        etcd.pause()
        nodes.kill(0)
        nodes.start(0)
        for words in asking:
            why = "CLUSTERDOWN The cluster is down: this node has not heard from etcd yet"
            expect(str(nodes.call(0, *words)), why, " ".join(words))
        expect(len(nodes.call(1, "CLUSTER", "SLOTS")), 2, "ranges at the other node")
        etcd.resume()
        wait_until(lambda: not isinstance(nodes.call(0, "CLUSTER", "SLOTS"), Error), "the node to know the cluster")
        expect(len(nodes.call(0, "CLUSTER", "SLOTS")), 2, "ranges")
