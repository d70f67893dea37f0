"""Slots that move in one step: under load, and with everything that can come between."""

import subprocess
import threading

from cluster import Nodes
from cluster_tools import tool
from etcd import Etcd, lasts
from harness import Error, binary, check, expect, wait_until


def slot_of(nodes, tag):
    return nodes.call(0, "CLUSTER", "KEYSLOT", "{%s}" % tag)


# Nodes that come back with what they had, and do without each other.
KEPT = ["--appendonly", "yes", "--appendfsync", "always", "--cluster-require-full-coverage", "no"]


class Router:
    """A client that goes where it is sent, and comes again where it is told to."""

    def __init__(self, nodes, number=0):
        self.nodes, self.port, self.connections = nodes, nodes.ports[number], {}
        self.moved = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.connections.values():
            connection.socket.close()

    def connection(self):
        if self.port not in self.connections:
            number = self.nodes.ports.index(self.port)
            self.connections[self.port] = self.nodes.servers[number].connect()
        return self.connections[self.port]

    def call(self, *words):
        """The reply, wherever it comes from; errors other than redirections are replies."""
        return self.each([words])[-1]

    def each(self, commands):
        """The replies to commands that are sent together, again elsewhere if the first of them is redirected."""
        while True:
            try:
                connection = self.connection()
                replies = [connection.call(*words) for words in commands]
            except (OSError, AssertionError):
                self.connections.pop(self.port, None)
                raise
            redirected = [reply for reply in replies if isinstance(reply, Error) and reply.startswith("MOVED ")]
            if not redirected:
                return replies
            self.moved += 1
            self.port = int(redirected[0].rsplit(":", 1)[1])


class Load:
    """Threads that do something again and again until the end; a context manager."""

    def __init__(self, nodes):
        self.nodes, self.is_over, self.threads, self.errors = nodes, threading.Event(), [], []
        self.counts = {}

    def begin(self, name, step):
        """`step(router)` does it once."""
        self.counts[name] = 0

        def run():
            try:
                with Router(self.nodes) as router:
                    while not self.is_over.is_set():
                        step(router)
                        self.counts[name] += 1
            except Exception as error:  # noqa: BLE001  (the check tells of it)
                self.errors.append(f"{name}: {error!r}")

        thread = threading.Thread(target=run)
        self.threads.append(thread)
        thread.start()

    def await_turns(self, turns):
        """Each has done it so often from now on."""
        before = dict(self.counts)
        for name, count in before.items():
            wait_until(lambda n=name, c=count: self.errors or self.counts[n] >= c + turns, f"{turns} turns of {name}")
        expect(self.errors, [], "errors of the load")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()


def migrations(nodes, number):
    """CLUSTER GETSLOTMIGRATIONS, each by field."""
    answer = nodes.call(number, "CLUSTER", "GETSLOTMIGRATIONS")
    if isinstance(answer, Error):
        # Its data are being loaded.
        return []
    return [dict(zip([name.decode() for name in fields[::2]], fields[1::2], strict=True)) for fields in answer]


def state(nodes, number):
    """How far the newest move is that this node knows."""
    return next((migration["state"].decode() for migration in migrations(nodes, number)), None)


def await_state(nodes, number, wanted):
    seen = []

    def is_so():
        seen[:] = migrations(nodes, number)[:1]
        return [migration["state"].decode() for migration in seen] == [wanted]

    try:
        wait_until(is_so, wanted)
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen}") from error


def migrate(nodes, giver, taker, *slots):
    ranges = [word for slot in slots for word in (slot, slot)]
    expect(nodes.call(giver, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", *ranges, "NODE", nodes.id(taker)), "OK")


def fill(nodes, tag, keys, size=100):
    with Router(nodes) as router:
        script = "for i = 1, ARGV[1] do redis.call('SET', KEYS[1] .. i, string.rep(i % 10, ARGV[2])) end"
        expect(router.call("EVAL", script, 1, "{%s}" % tag, keys, size), None)


def expect_keys(nodes, tag, keys, size=100):
    """Every key is there, whole, and nowhere twice."""
    with Router(nodes) as router:
        script = (
            "local n = 0 for i = 1, ARGV[1] do "
            "if redis.call('GET', KEYS[1] .. i) == string.rep(i % 10, ARGV[2]) then n = n + 1 end end return n"
        )
        # Where etcd was away, leases may have ended, and a node is not there for a moment.
        counted = []

        def is_told():
            counted[:] = [router.call("EVAL", script, 1, "{%s}" % tag, keys, size)]
            return not str(counted[0]).startswith("CLUSTERDOWN")

        wait_until(is_told, "a cluster that is up")
        expect(counted[0], keys, "keys that are as they were")
    slot = slot_of(nodes, tag)
    running = [number for number, server in enumerate(nodes.servers) if server.process.poll() is None]
    wait_until(
        lambda: sum(nodes.call(number, "CLUSTER", "COUNTKEYSINSLOT", slot) for number in running) == keys,
        "every key to be in one place",
    )


def await_keys(nodes, number):
    """The first keys have come, of which clients are told nothing."""
    wait_until(lambda: "cmdstat_set:" in nodes.call(number, "INFO", "commandstats").decode(), "keys to come")


def slow_down(nodes, number, bytes_per_s):
    expect(nodes.call(number, "CONFIG", "SET", "cluster-migration-max-bytes-per-second", bytes_per_s), "OK")


@check
def slot_moves_under_load():
    """slot moves: commands, transactions, scripts, waiting and listening clients go on while their slot moves to and fro"""
    with Etcd(members=1) as etcd, Nodes(etcd, 3) as nodes:
        nodes.create()
        tag = "bar"
        slot = slot_of(nodes, tag)
        fill(nodes, tag, 5000)
        key = lambda name: "{%s}:%s" % (tag, name)  # noqa: E731

        def transact(router):
            replies = router.each([["MULTI"], ["INCR", key("one")], ["INCR", key("two")], ["EXEC"]])
            assert isinstance(replies[-1], list), replies

        popped = []

        def wait_for(router):
            reply = router.call("BLPOP", key("queue"), 0.1)
            assert not isinstance(reply, Error), reply
            if reply is not None:
                popped.append(reply[1])

        def check_ok(router, *words):
            reply = router.call(*words)
            assert not isinstance(reply, Error), f"{words}: {reply}"

        watcher = nodes.servers[0].connect()
        expect(watcher.call("WATCH", key("watched")), "OK")
        expect(watcher.call("MULTI"), "OK")
        expect(watcher.call("SET", key("watched"), "x"), "QUEUED")
        with Load(nodes) as load:
            load.begin("incr", lambda router: check_ok(router, "INCR", key("incr")))
            load.begin("multi", transact)
            script = "redis.call('INCR', KEYS[1]) return redis.call('INCR', KEYS[2])"
            load.begin("eval", lambda router: check_ok(router, "EVAL", script, 2, key("eval1"), key("eval2")))
            load.begin("push", lambda router: check_ok(router, "RPUSH", key("queue"), "x"))
            load.begin("blpop", wait_for)
            with nodes.servers[0].connect() as listener:
                expect(listener.call("SSUBSCRIBE", key("channel")), [b"ssubscribe", key("channel").encode(), 1])
                load.await_turns(20)
                for turn in range(6):
                    giver, taker = turn % 2, 1 - turn % 2
                    migrate(nodes, giver, taker, slot)
                    await_state(nodes, giver, "success")
                    await_state(nodes, taker, "success")
                    load.await_turns(20)
                    if turn == 0:
                        expect(str(watcher.call("EXEC")), f"MOVED {slot} 127.0.0.1:{nodes.ports[1]}")
                        watcher.socket.close()
                        expect(listener.reply(), [b"sunsubscribe", key("channel").encode(), 0])
            longest = max(migration["paused_us"] for migration in migrations(nodes, 0))
            print(f"        the slot's commands waited for {longest / 1000:.1f} ms at most, at node 0")
        expect(load.errors, [], "errors of the load")
        with Router(nodes) as router:
            for name, count in [("incr", "incr"), ("one", "multi"), ("two", "multi"), ("eval1", "eval"), ("eval2", "eval")]:
                expect(router.call("GET", key(name)), str(load.counts[count]).encode(), f"count of {name}")
            left = router.call("LLEN", key("queue"))
            expect(len(popped) + left, load.counts["push"], "elements that were popped, or are there")
            for name in ["incr", "one", "two", "eval1", "eval2", "queue"]:
                router.call("DEL", key(name))
        expect_keys(nodes, tag, 5000)


@check
def slot_moves_several_at_once():
    """slot moves: several moves of several slots to several nodes at once; big values arrive whole"""
    with Etcd(members=1) as etcd, Nodes(etcd, 3) as nodes:
        nodes.create()
        with Router(nodes) as router:
            script = "for i = 1, 5000 do redis.call('RPUSH', KEYS[1], ARGV[1] * 5000 + i) end"
            for part in range(200):
                expect(router.call("EVAL", script, 1, "{bar}list", part), None)
            router.call("SET", "{bar}text", "x" * 30_000_000)
        # Slots of the first node, of which only one has keys.
        command = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 99, 5061, 5061, "NODE", nodes.id(1)]
        command += ["SLOTSRANGE", 100, 149, "NODE", nodes.id(2), "SLOTSRANGE", 150, 199, 5000, 5000, "NODE", nodes.id(1)]
        expect(nodes.call(0, *command), "OK")
        wait_until(
            lambda: [move["state"] for move in migrations(nodes, 0)] == [b"success"] * 3,
            "three moves to be done",
        )
        expect(sorted(move["slot_ranges"] for move in migrations(nodes, 1)), [b"0-99 5061-5061", b"150-199 5000-5000"])
        expect({move["operation"] for move in migrations(nodes, 1)}, {b"IMPORT"})
        with Router(nodes) as router:
            expect(router.call("LLEN", "{bar}list"), 1_000_000)
            expect(router.call("LRANGE", "{bar}list", 499_999, 500_000), [b"500000", b"500001"])
            expect(router.call("STRLEN", "{bar}text"), 30_000_000)
        wait_until(lambda: nodes.call(0, "DBSIZE") == 0, "the source to let go of the keys")
        expect(nodes.call(1, "DBSIZE"), 2)
        expect(str(nodes.call(0, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 0, "NODE", nodes.id(1))),
               "ERR Slots are not served by this node.")


@check
def slot_moves_are_cancelled():
    """slot moves: one that is cancelled leaves all where it was; nothing of it is seen meanwhile; then it can be done"""
    with Etcd(members=1) as etcd, Nodes(etcd, 3) as nodes:
        nodes.create()
        fill(nodes, "bar", 20_000)
        slow_down(nodes, 0, 20_000)
        migrate(nodes, 0, 1, 5061)
        await_keys(nodes, 1)
        expect(nodes.call(1, "DBSIZE"), 0, "keys that are seen before they are the node's")
        expect(nodes.call(1, "KEYS", "*"), [])
        expect(nodes.call(1, "RANDOMKEY"), None)
        expect(str(nodes.call(0, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 5061, 5061, "NODE", nodes.id(2))),
               "ERR I am already migrating slot 5061.")
        assert "5061 is moving" in str(nodes.call(0, "CLUSTER", "DELSLOTS", 5061))
        expect(nodes.call(0, "CLUSTER", "CANCELSLOTMIGRATIONS"), "OK")
        expect(str(nodes.call(0, "CLUSTER", "CANCELSLOTMIGRATIONS")), "ERR No migrations ongoing")
        for number in (0, 1):
            await_state(nodes, number, "cancelled")
        expect_keys(nodes, "bar", 20_000)
        slow_down(nodes, 0, 0)
        migrate(nodes, 0, 1, 5061)
        await_state(nodes, 0, "success")
        expect_keys(nodes, "bar", 20_000)
        expect(nodes.call(1, "DBSIZE"), 20_000)


@check
def slot_moves_go_on_after_their_source_was_killed():
    """slot moves: the source is killed while it copies; it comes back, goes on from the record, and no key is lost"""
    with Etcd(members=1) as etcd, Nodes(etcd, 3, *KEPT) as nodes:
        nodes.create()
        fill(nodes, "bar", 20_000)
        slow_down(nodes, 0, 20_000)
        migrate(nodes, 0, 1, 5061)
        await_keys(nodes, 1)
        nodes.kill(0)
        nodes.start(0)
        await_state(nodes, 0, "success")
        expect_keys(nodes, "bar", 20_000)
        expect(nodes.call(1, "DBSIZE"), 20_000)


@check
def slot_moves_fail_when_their_destination_is_killed():
    """slot moves: the destination is killed while it receives; the slots stay, and what it had is gone when it is back"""
    with Etcd(members=1) as etcd, Nodes(etcd, 3, *KEPT) as nodes:
        nodes.create()
        fill(nodes, "bar", 20_000)
        slow_down(nodes, 0, 20_000)
        migrate(nodes, 0, 1, 5061)
        await_keys(nodes, 1)
        nodes.kill(1)
        await_state(nodes, 0, "failed")
        assert migrations(nodes, 0)[0]["message"], "a reason"
        expect_keys(nodes, "bar", 20_000)
        nodes.start(1)
        wait_until(lambda: nodes.call(1, "CLUSTER", "COUNTKEYSINSLOT", 5061) == 0, "what came to be gone")
        slow_down(nodes, 0, 0)
        nodes.await_state(1)
        migrate(nodes, 0, 1, 5061)
        await_state(nodes, 0, "success")
        expect_keys(nodes, "bar", 20_000)


@check
def slot_moves_outlast_an_outage_of_etcd():
    """slot moves: etcd is away when a slot is to flip: nobody serves it twice, all else goes on, and then it is decided"""
    with Etcd(members=1) as etcd, Nodes(etcd, 3) as nodes:
        nodes.create()
        fill(nodes, "bar", 5000)
        slow_down(nodes, 0, 20_000)
        migrate(nodes, 0, 1, 5061)
        await_keys(nodes, 1)
        etcd.pause()
        slow_down(nodes, 0, 0)
        # First they wait, then they are refused: the owner cannot be known.
        wait_until(lambda: "etcd has not said" in str(nodes.call(0, "GET", "{bar}1")), "the slot to be refused")
        # A key of slot 0, which the same node serves.
        assert lasts(1, lambda: nodes.call(0, "SET", "3560", "1") == "OK"), "another slot is held up"
        assert str(nodes.call(1, "GET", "{bar}1")).startswith("MOVED 5061 "), "two serve the slot"
        etcd.resume()
        wait_until(lambda: state(nodes, 0) in ("success", "failed"), "the move to be decided")
        wait_until(lambda: state(nodes, 1) == state(nodes, 0), "both to know it")
        expect_keys(nodes, "bar", 5000)
        if state(nodes, 0) == "failed":
            migrate(nodes, 0, 1, 5061)
            await_state(nodes, 0, "success")
            expect_keys(nodes, "bar", 5000)


@check
def slot_moves_by_the_tool():
    """slot moves: halcyon cluster asks for moves, is interrupted, and follows them when it is said again; it balances"""
    with Etcd(members=1) as etcd, Nodes(etcd, 3) as nodes:
        nodes.create()
        fill(nodes, "bar", 20_000)
        slow_down(nodes, 0, 20_000)
        addresses = nodes.addresses()
        words = [binary(), "cluster", "move-slots", *addresses[:2], "5000-5099", "--cluster-etcd", etcd.endpoints, "--yes"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        wait_until(lambda: migrations(nodes, 0), "the move to be asked for")
        process.kill()
        process.communicate()
        slow_down(nodes, 0, 0)
        code, output = tool(etcd, "move-slots", *addresses[:2], "5000-5099")
        expect(code, 0, output)
        expect(len(migrations(nodes, 0)), 1, "moves")
        expect(state(nodes, 0), "success")
        expect_keys(nodes, "bar", 20_000)
        code, output = tool(etcd, "cancel-moves", addresses[0])
        expect((code, "No migrations ongoing" in output), (1, True), output)
        code, output = tool(etcd, "rebalance")
        expect(code, 0, output)
        expect_keys(nodes, "bar", 20_000)
        counts = [sum(ranges(text)) for text in etcd.records()["slots"].values()]
        assert max(counts) - min(counts) <= 1, counts


def ranges(text):
    for word in text.split(","):
        first, _, last = word.partition("-")
        yield int(last or first) - int(first) + 1
