"""FAILOVER to Halcyon and from it: plain, to a named replica, with a time, forced, aborted, refused."""

import contextlib
import select
import signal

from harness import Error, Server, check, encode, expect, wait_until
from peers import Peer, info, programs
from replication_primary import Load

HALCYON = "halcyon"
OPTIONS = [
    "--save", "", "--enable-debug-command", "yes", "--repl-diskless-sync-delay", 0, "--repl-ping-replica-period", 1,
]


class Side:
    """A server and a connection to it."""

    def __init__(self, stack, kind, *options):
        path = None if kind == HALCYON else programs()[kind]
        server = Server(*OPTIONS, *options) if kind == HALCYON else Peer(path, *OPTIONS, *options)
        self.kind, self.server = kind, stack.enter_context(server)
        self.client = stack.enter_context(self.server.connect())
        # Files are loaded even where there are none.
        wait_until(lambda: self.facts("persistence").get("loading") == "0", "the data to be loaded")

    def call(self, *words):
        return self.client.call(*words)

    def facts(self, section="replication"):
        return info(self.client, section)

    def state(self):
        return self.facts()["master_failover_state"]

    def role(self):
        return self.facts()["role"]

    def place(self):
        return ["TO", "127.0.0.1", self.server.port]

    @contextlib.contextmanager
    def stopped(self):
        """Meanwhile it does nothing."""
        self.server.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.server.process.send_signal(signal.SIGCONT)


def follow(primary, replica):
    expect(replica.call("REPLICAOF", "127.0.0.1", primary.server.port), "OK")
    wait_until(lambda: is_followed(primary, replica), "the replica to be online")


def is_followed(primary, replica):
    """True if the replica has everything and the primary knows it."""
    facts = primary.facts()
    if facts["role"] != "master" or replica.facts().get("master_link_status") != "up":
        return False
    online = [value for name, value in facts.items() if name.startswith("slave") and "state=online" in value]
    return any(f"port={replica.server.port}," in line for line in online)


def expect_same(primary, replica):
    wait_until(lambda: is_followed(primary, replica), f"{replica.kind} to follow {primary.kind}")
    offset = int(primary.facts()["master_repl_offset"])
    wait_until(lambda: int(replica.facts()["slave_repl_offset"]) >= offset, "the replica to have everything")
    # What is about to end does so, and the replica hears of it.
    wait_until(lambda: replica.call("DEBUG", "DIGEST") == primary.call("DEBUG", "DIGEST"), "the same data")


def full_syncs(*sides):
    return sum(int(side.facts("stats")["sync_full"]) for side in sides)


def wait_for_end(side):
    wait_until(lambda: side.state() == "no-failover", "the end of FAILOVER")


def hands_over(primary, replica, *words):
    """Roles change under load, nothing is sent anew, and both go on."""
    before = full_syncs(primary, replica)
    with Writing(primary) as writing:
        writing.wait_for_some()
        expect(primary.call("FAILOVER", *words), "OK")
        wait_for_end(primary)
    expect((primary.role(), replica.role()), ("slave", "master"), f"roles after FAILOVER {words}")
    there = int(replica.call("GET", "counted"))
    assert there >= writing.answered, f"{writing.answered} were answered, {there} are there"
    expect(replica.call("SET", "written", "after"), "OK")
    expect_same(replica, primary)
    expect(full_syncs(primary, replica), before, "full synchronizations")


class Writing(Load):
    """One connection that counts until it is told that there is another primary."""

    def __init__(self, side):
        super().__init__(side.server, connections=1)
        self.answered = 0

    def run(self, server, number):
        with server.connect() as client:
            while not self.stopping.is_set():
                # What ends while roles change must not move the stream.
                client.send(encode("SET", f"ends:{self.answered % 500}", 1, "PX", 30) + encode("INCR", "counted"))
                client.reply()
                reply = client.reply()
                if isinstance(reply, Error):
                    assert reply.startswith("READONLY"), reply
                    return
                self.answered = reply

    def wait_for_some(self):
        seen = self.answered
        wait_until(lambda: self.answered > seen + 20, "some writes")


def aborts(primary, replica):
    """ABORT while the replica is awaited: writers go on, and nothing has happened."""
    before = full_syncs(primary, replica)
    with replica.stopped():
        expect(primary.call("SET", "k", "unseen"), "OK")
        expect(primary.call("FAILOVER"), "OK")
        expect(primary.state(), "waiting-for-sync")
        expect(primary.call("GET", "k"), b"unseen")
        for words, reply in [
            (["FAILOVER"], "ERR FAILOVER already in progress."),
            (["REPLICAOF", "127.0.0.1", 1], "ERR REPLICAOF not allowed while failing over."),
            (["REPLICAOF", "NO", "ONE"], "ERR REPLICAOF not allowed while failing over."),
            (["PSYNC", "?", -1], "NOMASTERLINK Can't SYNC while failing over"),
        ]:
            expect(primary.call(*words), reply, f"reply to {words}")
        with primary.server.connect() as writer:
            writer.send(encode("SET", "k", "held"))
            assert not select.select([writer.socket], [], [], 0.2)[0], "a write was answered meanwhile"
            expect(primary.call("FAILOVER", "ABORT"), "OK")
            expect(writer.reply(), "OK")
        expect((primary.state(), primary.role()), ("no-failover", "master"))
        expect(primary.call("FAILOVER", "ABORT"), "ERR No failover in progress.")
    expect_same(primary, replica)
    expect(full_syncs(primary, replica), before, "full synchronizations")


def times_out(primary, replica):
    """TIMEOUT: the replica does not catch up, and all stays as it was."""
    before = full_syncs(primary, replica)
    with replica.stopped():
        expect(primary.call("SET", "k", "late"), "OK")
        expect(primary.call("FAILOVER", *replica.place(), "TIMEOUT", 300), "OK")
        # It is held, and answered when the time is over.
        expect(primary.call("SET", "k", "later"), "OK")
        expect((primary.state(), primary.role()), ("no-failover", "master"))
    expect_same(primary, replica)
    expect(full_syncs(primary, replica), before, "full synchronizations")
    assert "Replica never caught up before timeout" in primary.server.log(), "nothing in the log"


def is_refused(primary, replica):
    """The replica refuses to take over: it stays one."""
    expect(replica.call("ACL", "SETUSER", "default", "-psync"), "OK")
    expect(primary.call("SET", "k", "refused"), "OK")
    expect(primary.call("FAILOVER", *replica.place()), "OK")
    expect(primary.call("SET", "k", "after the refusal"), "OK")
    wait_for_end(primary)
    expect((primary.role(), replica.role()), ("master", "slave"))
    assert "Failover target rejected psync request" in primary.server.log(), "nothing in the log"
    expect(replica.call("ACL", "SETUSER", "default", "+psync"), "OK")
    expect_same(primary, replica)


def forced_and_aborted(primary, replica):
    """FORCE, but the replica does not answer: ABORT makes the server a primary again."""
    with replica.stopped():
        expect(primary.call("SET", "k", "forced"), "OK")
        expect(primary.call("FAILOVER", *replica.place(), "TIMEOUT", 100, "FORCE"), "OK")
        wait_until(lambda: primary.state() == "failover-in-progress", "the end of the time")
        expect(primary.role(), "slave", "role while the replica is asked")
        expect(primary.call("FAILOVER", "ABORT"), "OK")
        expect((primary.state(), primary.role()), ("no-failover", "master"))
        expect(primary.call("SET", "k", "aborted"), "OK")
    expect_same(primary, replica)


def forced(primary, replica):
    """FORCE, and the replica answers later: it is the primary then, whatever it has seen."""
    with replica.stopped():
        expect(primary.call("SET", "k", "maybe lost"), "OK")
        expect(primary.call("FAILOVER", *replica.place(), "TIMEOUT", 100, "FORCE"), "OK")
        wait_until(lambda: primary.state() == "failover-in-progress", "the end of the time")
    wait_for_end(primary)
    expect((primary.role(), replica.role()), ("slave", "master"))
    expect_same(replica, primary)
    expect(replica.call("SET", "k", "forced"), "OK")
    expect_same(replica, primary)
    assert "time out exceeded, failing over." in primary.server.log(), "nothing in the log"


def changes(first, second):
    """All of it with these two kinds of servers, first from the one to the other, then back."""
    if not {first, second} <= {HALCYON, *programs()}:
        return
    with contextlib.ExitStack() as stack:
        here, there = Side(stack, first), Side(stack, second)
        for number in range(100):
            here.call("RPUSH", f"list:{number % 7}", number)
        follow(here, there)
        for primary, replica in [(here, there), (there, here)]:
            for part in [aborts, times_out, is_refused, forced_and_aborted]:
                try:
                    part(primary, replica)
                except AssertionError as error:
                    raise AssertionError(f"{part.__name__}, {primary.kind} to {replica.kind}: {error}") from error
            hands_over(primary, replica)
        hands_over(here, there, *there.place())
        hands_over(there, here, *here.place(), "TIMEOUT", 20_000)
        forced(here, there)
        forced(there, here)


@check
def failover_among_halcyons():
    """FAILOVER from Halcyon to Halcyon, in all its forms"""
    changes(HALCYON, HALCYON)


@check
def failover_with_redis_7():
    """FAILOVER from Halcyon to redis-server 7.0 and back, in all its forms"""
    changes(HALCYON, "redis-server")


@check
def failover_with_redis_8():
    """FAILOVER from Halcyon to Redis 8 and back, in all its forms"""
    changes(HALCYON, "redis8-server")


@check
def failover_with_valkey_9():
    """FAILOVER from Halcyon to Valkey 9 and back, in all its forms"""
    changes(HALCYON, "valkey9-server")


@check
def paused_data_stay():
    """while clients are paused nothing is removed or evicted; what is past its end is hidden, as by redis-server"""
    for kind in [HALCYON, "redis-server"]:
        if kind not in {HALCYON, *programs()}:
            continue
        with contextlib.ExitStack() as stack:
            server = Side(stack, kind)
            for number in range(200):
                server.call("SET", f"ends:{number}", "x" * 1_000, "PX", 100)
                server.call("SET", f"stays:{number}", "x" * 10_000)
            expect(server.call("CLIENT", "PAUSE", 60_000, "WRITE"), "OK")
            keys, offset = server.call("DBSIZE"), server.facts()["master_repl_offset"]
            names = [f"ends:{number}" for number in range(200)]
            wait_until(lambda: server.call("EXISTS", *names) == 0, "the ends")
            expect(server.call("CONFIG", "SET", "maxmemory", "1mb", "maxmemory-policy", "allkeys-random"), "OK")
            for _ in range(300):
                expect(server.call("GET", "stays:1"), b"x" * 10_000)
            expect(server.call("DBSIZE"), keys, f"keys of {kind} while it is paused")
            expect(server.facts()["master_repl_offset"], offset, f"offset of {kind}")
            expect(server.facts("stats")["evicted_keys"], "0", f"evicted keys of {kind}")
            expect(server.call("CLIENT", "UNPAUSE"), "OK")
            wait_until(lambda: server.call("DBSIZE") < keys - 200, f"{kind} to go on")


@check
def failover_mistakes():
    """what FAILOVER and PSYNC FAILOVER answer where they make no sense is what redis-server answers"""
    replies = {}
    for kind in [HALCYON, "redis-server"]:
        with contextlib.ExitStack() as stack:
            primary, replica = Side(stack, kind), Side(stack, kind)
            alone = [["FAILOVER"], ["FAILOVER", "ABORT"], ["FAILOVER", *replica.place()]]
            replies[kind] = [primary.call(*words) for words in alone]
            follow(primary, replica)
            place = replica.place()
            for words in [
                ["TO"], ["TO", "127.0.0.1"], ["TO", "127.0.0.1", "port"], ["TO", "127.0.0.1", 1],
                ["TO", "elsewhere", 1], ["TO", "127.0.0.1", 99_999], [*place, *place], [*place, "FORCE"], ["FORCE"],
                ["FORCE", "TIMEOUT", 100], ["FORCE", "FORCE"], ["TIMEOUT"], ["TIMEOUT", 0], ["TIMEOUT", -1],
                ["TIMEOUT", "soon"], ["TIMEOUT", 1, "TIMEOUT", 1], ["TIMEOUT", 1, "ABORT"], ["ABORT"],
                ["ABORT", "ABORT"], ["ABORT", "TIMEOUT", 1], ["NOW"],
            ]:
                replies[kind].append(primary.call("FAILOVER", *words))
            replies[kind].append(replica.call("FAILOVER"))
            replies[kind].append(primary.call("PSYNC", "0" * 40, 1, "FAILOVER"))
            replies[kind].append(replica.call("PSYNC", "0" * 40, 1, "FAILOVER"))
            expect((primary.role(), replica.role()), ("master", "slave"))
    ours, theirs = replies.values()
    expect(ours, theirs)
    assert all(isinstance(reply, Error) for reply in ours), ours
