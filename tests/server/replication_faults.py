"""Trees of servers of all kinds under load, over links that are cut, throttled, stalled and closed; roles change.

After some faults everything is quiet for a moment: then all servers hold the same, by DEBUG DIGEST, and whatever was
answered is there. HALCYON_FAULT_ROUNDS=200 does so many rounds in each walk (default 3); HALCYON_FAULT_SEED begins with
another seed.
"""

import contextlib
import os
import random
import signal
import threading
import time

from failover import HALCYON, OPTIONS
from harness import PATIENCE_S, Error, Server, Skip, check, encode, expect, wait_until
from peers import Peer, info, programs
from persistence import fill
from proxy import Proxy
from replication_replica import SCRIPT, state

ROUNDS = int(os.environ.get("HALCYON_FAULT_ROUNDS", 3))
SEED = int(os.environ.get("HALCYON_FAULT_SEED", 1))
# What a client is told whose server has just got another role.
ROLE_WORDS = ("READONLY", "MASTERDOWN", "LOADING", "UNBLOCKED", "NOREPLICAS")
SYNCS = ["sync_full", "sync_partial_ok"]
LINK_FAULTS = ["cut", "reset", "cut after", "throttle", "stall", "close"]
FAULTS = [*LINK_FAULTS, "stop", "follow another", "start anew"]


class Node:
    """A server, with a way to it that can be broken."""

    def __init__(self, kind, server, proxy):
        self.kind, self.server, self.proxy = kind, server, proxy
        self.client = server.connect()
        self.name = f"{kind}:{server.port}"

    def may_follow(self, other):
        """Halcyon follows everybody and is followed by everybody; other servers do not read what newer ones send."""
        return HALCYON in (self.kind, other.kind) or other.kind in (self.kind, "redis-server")

    def follow(self, other):
        # Whoever is loading what came answers LOADING.
        asked = ["REPLICAOF", "127.0.0.1", other.proxy.port]
        wait_until(lambda: self.client.call(*asked).startswith("OK"), f"{self.name} to follow {other.name}")

    def replication(self):
        return info(self.client, "replication")

    def is_primary(self):
        return self.replication()["role"] == "master"

    def stop_for(self, seconds):
        self.server.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.server.process.send_signal(signal.SIGCONT)


def commands(rng, number, turn):
    """Commands of every type for one turn of a writer; scores are whole, since not all servers write others alike."""
    key, other, member = rng.randrange(100), rng.randrange(100), rng.randrange(50)
    text = "x" * rng.choice([3, 40, 300])
    some = [
        ["SET", f"s:{key}", text], ["APPEND", f"s:{other}", member], ["INCRBYFLOAT", f"f:{key}", 0.5],
        ["SET", f"e:{key}", text, "PX", rng.randrange(1, 60)],
        ["SETRANGE", f"long:{turn % 4}", rng.randrange(20_000), text],
        ["RPUSH", f"l:{key}", text, member], ["LTRIM", f"l:{other}", -20, -1],
        ["LMOVE", f"l:{key}", f"l:{other}", "LEFT", "RIGHT"], ["SUNIONSTORE", f"t:{key}", f"t:{other}", "t:1"],
        ["SADD", f"t:{key}", member, member + 1], ["SPOP", f"t:{other}"],
        ["ZADD", f"z:{key}", member, turn], ["ZINCRBY", f"z:{other}", 3, member], ["ZPOPMIN", f"z:{key}", 2],
        ["HSET", f"h:{key}", member, text], ["HINCRBY", f"h:{other}", "n", member], ["HDEL", f"h:{key}", member],
        ["XADD", f"x:{key % 9}", "MAXLEN", "~", 50, "*", "f", text],
        ["EVAL", SCRIPT, 2, f"c:{key}", f"times:{key % 3}"],
        ["DEL", f"s:{other}", f"l:{key}"], ["EXPIRE", f"h:{other}", 1_000], ["RENAME", f"z:{key}", f"z:{other}"],
        ["COPY", f"t:{key}", f"t:{other}", "REPLACE"], ["LTRIM", f"times:{key % 3}", -20, -1],
    ]
    rng.shuffle(some)
    together = [["MULTI"], ["SET", f"one:{key}", turn], ["SET", f"two:{key}", turn], ["EXEC"]]
    return [["SELECT", 0], ["INCR", f"answered:{number}"], ["SELECT", turn % 3], *some, *together]


class Writers:
    """Connections that write to whichever server is the primary, and know what was answered."""

    def __init__(self, root, seed, count=2):
        self.root = root
        self.lock = threading.Condition()
        self.is_paused, self.is_over = True, False
        self.busy = 0
        self.answered, self.sent = [0] * count, [0] * count
        self.rounds = 0
        self.threads = [threading.Thread(target=self.run, args=(seed, n), daemon=True) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.change(is_over=True)
        for thread in self.threads:
            thread.join(PATIENCE_S)

    def change(self, **values):
        with self.lock:
            for name, value in values.items():
                setattr(self, name, value)
            self.lock.notify_all()

    def pause(self):
        """Until no request is without an answer."""
        self.change(is_paused=True)
        wait_until(lambda: self.busy == 0, "the writers to pause")

    def go_on(self, root=None):
        self.change(is_paused=False, root=root or self.root)

    def run(self, seed, number):
        rng, client, of = random.Random(seed * 100 + number), None, None
        while True:
            with self.lock:
                self.lock.wait_for(lambda: self.is_over or not self.is_paused)
                if self.is_over:
                    return
                root = self.root
                self.busy += 1
            try:
                if client is None or of is not root:
                    client, of = root.server.connect(), root
                if not self.turn(client, rng, number):
                    client.socket.close()
                    client = None
                    time.sleep(0.01)
            except (OSError, AssertionError):
                # The server closed the connection: it has got another role.
                client = None
                time.sleep(0.01)
            finally:
                with self.lock:
                    self.busy -= 1

    def turn(self, client, rng, number):
        """Sends some commands and reads the replies; false if the server takes no writes now."""
        sent = commands(rng, number, self.rounds)
        self.sent[number] += 1
        client.send(b"".join(encode(*command) for command in sent))
        takes_writes = True
        for command in sent:
            reply = client.reply()
            if isinstance(reply, Error) and reply.startswith(ROLE_WORDS):
                takes_writes = False
            elif command[0] == "INCR":
                assert isinstance(reply, int), reply
                self.answered[number] += 1
        self.rounds += 1
        return takes_writes

    def wait_for_rounds(self, count):
        seen = self.rounds
        wait_until(lambda: self.rounds >= seen + count, "more load")


class Tree:
    """Servers of which one is the primary, and each other follows one of the rest through its proxy."""

    def __init__(self, stack, kinds, seed):
        self.rng = random.Random(seed)
        found = programs()
        self.nodes = []
        for kind in kinds:
            if kind != HALCYON and kind not in found:
                continue
            # Some go on from memory after most faults, some have to be sent everything now and then.
            options = [*OPTIONS, "--repl-backlog-size", self.rng.choice(["32kb", "1mb", "64mb"])]
            if kind == HALCYON:
                options += self.rng.choice([[], ["--appendonly", "yes"]])
                server = stack.enter_context(Server(*options))
            else:
                server = stack.enter_context(Peer(found[kind], *options))
            node = Node(kind, server, stack.enter_context(Proxy(server.port)))
            wait_until(lambda: node.client.call("PING") == "PONG", f"{node.name} to be ready")
            self.nodes.append(node)
        self.root = self.nodes[0]
        self.parents = {}
        self.changes = 0
        self.told = []

    def tell(self, text):
        self.told.append(text)

    def link(self):
        """Has every server but the root follow another one, any that it can follow, in any shape."""
        there, rest = [self.root], [node for node in self.nodes if node is not self.root]
        self.rng.shuffle(rest)
        # Everybody can follow a Halcyon.
        rest.sort(key=lambda node: node.kind != HALCYON)
        self.parents = {}
        for node in rest:
            self.parents[node] = self.rng.choice([other for other in there if node.may_follow(other)])
            there.append(node)
        self.tell(", ".join(f"{node.name} follows {other.name}" for node, other in self.parents.items()))
        for node, other in self.parents.items():
            node.follow(other)

    def break_something(self):
        """One fault for a moment, maybe within the next synchronization."""
        rng = self.rng
        fault = rng.choice(FAULTS)
        # A link is broken where it ends that many may share.
        node = rng.choice([*self.parents.values()] if fault in LINK_FAULTS else self.nodes)
        self.tell(f"{fault} at {node.name}")
        if fault in ("cut", "reset"):
            node.proxy.cut(resets=fault == "reset")
        elif fault == "cut after":
            node.proxy.cut_after(int(2 ** rng.uniform(0, 20)))
        elif fault == "throttle":
            node.proxy.throttle(int(2 ** rng.uniform(13, 22)))
        elif fault == "stall":
            node.proxy.stall()
        elif fault == "close":
            node.proxy.close()
        elif fault == "stop":
            node.stop_for(rng.uniform(0.05, 0.5))
        elif fault == "start anew":
            self.start_anew(node)
        elif node in self.parents:
            self.follow_another(node)
        time.sleep(rng.uniform(0.02, 0.5))
        if rng.random() < 0.7:
            node.proxy.heal()

    def start_anew(self, node):
        """A stream that nobody can go on with: all data are sent, over a link that is cut again."""
        if node is not self.root and node.kind != HALCYON:
            # A real server goes on under the name that its primary gave it.
            return
        expect(node.client.call("DEBUG", "CHANGE-REPL-ID"), "OK")
        source = self.parents.get(node, node)
        source.proxy.cut_after(int(2 ** self.rng.uniform(8, 22)))
        source.proxy.cut()

    def follow_another(self, node):
        """A server without followers of its own goes elsewhere."""
        if node in self.parents.values():
            return
        others = [other for other in self.nodes if other is not node and node.may_follow(other)]
        self.parents[node] = self.rng.choice(others)
        self.tell(f"{node.name} follows {self.parents[node].name}")
        node.follow(self.parents[node])

    def heal(self):
        for node in self.nodes:
            node.proxy.heal()

    def expect_same(self):
        """Waits until all is everywhere; then all hold the same."""
        offset = int(self.root.replication()["master_repl_offset"])
        for node in self.parents:
            wait_until(lambda node=node: has_all(node.replication(), offset), f"{node.name} to have everything")
        wanted = self.root.client.call("DEBUG", "DIGEST")
        assert not isinstance(wanted, Error), wanted
        for node in self.parents:
            # What is about to end does so, and its primary says so, after a moment.
            try:
                wait_until(lambda node=node: self.is_same(node), "the same data")
            except AssertionError:
                about = f"{node.name} differs from {self.root.name}"
                raise AssertionError(f"{about}: {differences(self.root, node)}") from None
        # Whoever has everything may still have to hear of another name.
        wait_until(lambda: len(self.names()) == 1, f"one name of the stream, {self.names()}")

    def names(self):
        return {node.replication()["master_replid"] for node in self.nodes}

    def is_same(self, node):
        return node.client.call("DEBUG", "DIGEST") == self.root.client.call("DEBUG", "DIGEST")

    def expect_answered(self, writers):
        """Whatever was answered is there, and nothing that was not sent."""
        self.root.client.call("SELECT", 0)
        for number, (answered, sent) in enumerate(zip(writers.answered, writers.sent)):
            there = int(self.root.client.call("GET", f"answered:{number}") or 0)
            assert answered <= there <= sent, f"of writer {number} {there} are there, {answered} answered, {sent} sent"

    def change_roles(self, writers):
        """Another server becomes the primary: by FAILOVER under load, or by hand; then all find another place."""
        others = [node for node, parent in self.parents.items() if parent is self.root and self.root.may_follow(node)]
        if not others:
            return
        to = self.rng.choice(others)
        self.changes += 1
        if self.rng.random() < 0.6:
            self.fail_over(to, writers)
        else:
            self.tell(f"{to.name} takes the place of {self.root.name}")
            expect(to.client.call("REPLICAOF", "NO", "ONE"), "OK")
            self.root = to
        self.link()

    def fail_over(self, to, writers):
        self.tell(f"FAILOVER from {self.root.name} to {to.name}")
        writers.go_on()
        writers.wait_for_rounds(3)
        reply = self.root.client.call("FAILOVER", "TO", "127.0.0.1", to.server.port, "TIMEOUT", PATIENCE_S * 1000)
        expect(reply, "OK", "FAILOVER")
        wait_until(lambda: self.root.replication()["master_failover_state"] == "no-failover", "the end of FAILOVER")
        assert to.is_primary() and not self.root.is_primary(), "FAILOVER was given up"
        self.root = to
        writers.go_on(to)
        writers.wait_for_rounds(3)
        writers.pause()


def has_all(replication, offset):
    is_up = replication.get("master_link_status") == "up"
    return is_up and int(replication.get("slave_repl_offset", -1)) >= offset


def differences(first, second):
    """Some keys that differ."""
    here, there = state(first.client, 4), state(second.client, 4)
    keys = [key for key in {*here, *there} if here.get(key) != there.get(key)]
    return f"{len(keys)} keys of {len(here)}: {[(key, here.get(key), there.get(key)) for key in keys[:3]]}"


def walk(kinds, seed):
    """Rounds of faults and changes of roles in one tree of servers."""
    with contextlib.ExitStack() as stack:
        tree = Tree(stack, kinds, seed)
        if len(tree.nodes) < 2:
            raise Skip("there is no redis-server")
        fill(tree.root.client)
        # Servers write scores that are not whole with other digits: DEBUG DIGEST looks at these.
        tree.root.client.call("DEL", "zset:large")
        writers = stack.enter_context(Writers(tree.root, seed))
        tree.link()
        try:
            for _ in range(ROUNDS):
                writers.go_on(tree.root)
                writers.wait_for_rounds(5)
                for _ in range(tree.rng.randrange(3, 9)):
                    tree.break_something()
                tree.heal()
                writers.pause()
                tree.expect_same()
                tree.expect_answered(writers)
                if tree.rng.random() < 0.7:
                    tree.change_roles(writers)
                    tree.expect_same()
                    tree.expect_answered(writers)
        except AssertionError as error:
            raise AssertionError(f"{error}; seed {seed}, after: {'; '.join(tree.told[-15:])}") from error
        cuts = sum(node.proxy.cuts for node in tree.nodes)
        full, partial = (sum(int(info(node.client, "stats")[name]) for node in tree.nodes) for name in SYNCS)
        print(f"        {ROUNDS} rounds, {writers.rounds} turns of writers, {cuts} cuts, {full} full synchronizations, "
              f"{partial} partial, {tree.changes} changes of roles")


@check
def faults_with_redis_7():
    """links break and roles change among Halcyons and redis-servers 7.0 under load: nothing is lost or differs"""
    walk([HALCYON, "redis-server", HALCYON, "redis-server"], SEED)


@check
def faults_with_all():
    """links break and roles change among Halcyons, Redis 7.0, Redis 8, Valkey 9: nothing is lost or differs"""
    walk(["redis-server", HALCYON, "valkey9-server", HALCYON, "redis8-server"], SEED + 1)


@check
def faults_among_halcyons():
    """links break and roles change among four Halcyons under load: nothing is lost or differs"""
    walk([HALCYON] * 4, SEED + 2)
