"""Copies that replies wait for, without a cluster around them: DEBUG SHARD says what an agent would decide."""

import contextlib
import re
import signal
import threading
import time

from harness import Server, check, encode, expect, wait_until
from durability import is_silent
from replication_replica import info

SHARD = "e" * 40


class Node(Server):
    """A node of a shard; `me` is its name and life."""

    def __init__(self, *arguments, **options):
        super().__init__("--enable-debug-command", "yes", "--save", "", "--repl-diskless-sync-delay", "0",
                         "--cluster-enabled", "yes", "--durability", "quorum", *arguments, **options)

    def __enter__(self):
        super().__enter__()
        self.admin = self.connect()
        expect(self.admin.call("CLIENT", "DURABILITY", "none"), "OK")
        self.me = self.admin.call("DEBUG", "SHARD", "ME").decode().split()
        return self

    def __exit__(self, *rest):
        self.admin.socket.close()
        super().__exit__(*rest)

    def shard(self, *words):
        return self.admin.call("DEBUG", "SHARD", *words)

    def lead(self, epoch, *awaited, refuses=0):
        names = [word for node in awaited for word in node.me]
        expect(self.shard("LEAD", epoch, refuses, *names), "OK")

    def follow(self, primary, epoch):
        expect(self.shard("FOLLOW", "127.0.0.1", primary.port, SHARD, epoch, *primary.me), "OK")

    def followers(self):
        lines = [line.decode() for line in self.shard("FOLLOWERS")]
        fields = r"(\w+) (\w+) acked=(\d+) caught_up_ms=(\d+) heard_ms=(\d+)"
        return {match[1]: [int(number) for number in match.groups()[2:]]
                for match in (re.match(fields, line) for line in lines)}

    def resyncs(self):
        stats = info(self.admin, "stats")
        return int(stats["sync_full"]), int(stats["sync_partial_ok"])

    def end(self):
        return int(info(self.admin)["master_repl_offset"])


@contextlib.contextmanager
def shard(*arguments, copies=3):
    """A primary in epoch 1, and its copies, which have everything."""
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Node(*arguments)) for _ in range(copies)]
        nodes[0].lead(1)
        for node in nodes[1:]:
            node.follow(nodes[0], 1)
        wait_until(lambda: len(nodes[0].followers()) == copies - 1, "the copies to follow")
        nodes[0].lead(1, *nodes[1:])
        yield nodes


@contextlib.contextmanager
def stopped(node):
    node.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        node.process.send_signal(signal.SIGCONT)


def waiting(node):
    return int(info(node.admin, "persistence")["replies_waiting"])


@check
def replies_wait_for_every_copy():
    """under durability quorum, a write is answered once every awaited copy has it, and so are reads of it; nothing else waits"""
    with shard() as (primary, one, two), primary.connect() as writer, primary.connect() as reader:
        expect(writer.call("SET", "settled", "1"), "OK")
        with stopped(two):
            writer.send(encode("SET", "key", "1"))
            wait_until(lambda: waiting(primary) == 1, "a reply that waits")
            reader.send(encode("GET", "key"))
            wait_until(lambda: waiting(primary) == 2, "another")
            with primary.connect() as other:
                expect(other.call("GET", "settled"), b"1")
                expect(other.call("CLIENT", "DURABILITY", "none"), "OK")
                expect(other.call("GET", "key"), b"1")
            assert is_silent(writer) and is_silent(reader)
        expect(writer.reply(), "OK")
        expect(reader.reply(), b"1")
        wait_until(lambda: all(node.admin.call("READONLY") == "OK" for node in (one, two)), "the copies")
        with stopped(two):
            writer.send(encode("SET", "key", "2"))
            wait_until(lambda: waiting(primary) == 1, "a reply that waits")
            primary.lead(1, one)
            expect(writer.reply(), "OK")


@check
def a_copy_takes_over():
    """a copy that has everything becomes primary; the others, and the deposed one, go on without a full synchronization"""
    with shard() as (primary, one, two), primary.connect() as writer, one.connect() as successor:
        for number in range(100):
            expect(writer.call("RPUSH", "list", number), number + 1)
        full = [node.resyncs()[0] for node in (primary, one, two)]
        expect(primary.shard("HOLD", *one.me), "OK")
        writer.send(encode("RPUSH", "list", "held"))
        wait_until(lambda: one.end() == primary.end(), "the successor to have everything")
        expect(one.shard("STAND"), "OK")
        one.lead(2)
        for node in (primary, two):
            node.follow(one, 2)
        wait_until(lambda: len(one.followers()) == 2, "the others to follow")
        one.lead(2, primary, two)
        expect(primary.shard("RELEASE"), "OK")
        assert is_silent(writer), "it is for the new primary, and nobody has said yet who that is"
        expect(successor.call("RPUSH", "list", "next"), 101)
        expect(successor.call("LLEN", "list"), 101)
        for node in (primary, two):
            wait_until(lambda node=node: node.end() == one.end(), "the same log")
        assert [node.resyncs()[0] for node in (primary, one, two)] == full, "nobody was sent everything"


@check
def a_deposed_primary_answers_nothing_that_was_not_acknowledged():
    """who waits for copies when their primary is deposed is cut off, and reads there what the new primary says"""
    with shard() as (primary, one, two), primary.connect() as writer, primary.connect() as reader:
        expect(writer.call("SET", "key", "old"), "OK")
        with stopped(two), stopped(one):
            writer.send(encode("SET", "key", "void"))
            wait_until(lambda: waiting(primary) == 1, "a reply that waits")
            expect(primary.shard("STAND"), "OK")
            try:
                assert not writer.socket.recv(100), "it was answered"
            except ConnectionError:
                pass
        one.shard("STAND")
        one.lead(2)
        primary.follow(one, 2)
        two.follow(one, 2)
        wait_until(lambda: len(one.followers()) == 2, "the others to follow")
        wait_until(lambda: primary.end() == one.end(), "the same log")
        with one.connect() as client:
            value = client.call("GET", "key")
        expect(reader.call("GET", "key"), value)


@check
def members_follow_the_primary_of_their_epoch():
    """a copy that knows of another epoch is refused until its primary knows of it, too"""
    with Node() as primary, Node() as copy:
        primary.lead(1)
        copy.follow(primary, 2)
        wait_until(lambda: "is not the primary of this shard" in copy.log(), "a refusal")
        assert not primary.followers()
        primary.lead(2)
        wait_until(lambda: len(primary.followers()) == 1, "the copy to follow")


@check
def copies_are_heard_while_nothing_is_written():
    """acknowledgements come a few times a second, and tell when they were sent; those of a stopped copy grow old"""
    with shard() as (primary, one, two):
        name, other = one.me[0], two.me[0]
        wait_until(lambda: primary.followers()[name][2] < 1000, "an acknowledgement")
        with stopped(two):
            wait_until(lambda: primary.followers()[other][2] > 1500, "silence")
            assert primary.followers()[name][2] < 1500, primary.followers()
            assert primary.followers()[other][1] > 500, primary.followers()
        wait_until(lambda: primary.followers()[other][2] < 1000, "an acknowledgement")


@check
def where_replies_wait_for_the_disk_so_do_copies():
    """under appendfsync always, a copy counts once it has synced"""
    always = ["--appendonly", "yes", "--appendfsync", "always"]
    with shard(*always) as (primary, one, two), primary.connect() as writer:
        expect(writer.call("SET", "key", "1"), "OK")
        expect(two.admin.call("DEBUG", "JOURNAL-PAUSE", 1), "OK")
        writer.send(encode("SET", "key", "2"))
        wait_until(lambda: waiting(primary) == 1, "a reply that waits")
        wait_until(lambda: two.end() >= one.end(), "the copy to have received it")
        assert is_silent(writer)
        expect(two.admin.call("DEBUG", "JOURNAL-PAUSE", 0), "OK")
        expect(writer.reply(), "OK")


@check
def reads_of_a_copy_are_as_young_as_promised():
    """with a bound on staleness, a copy answers reads until it has not heard of its primary for that long, and again after that"""
    with shard("--replica-max-staleness-ms", "300") as (primary, one, two), one.connect() as reader:
        expect(reader.call("READONLY"), "OK")
        with primary.connect() as writer:
            expect(writer.call("SET", "key", "1"), "OK")
        wait_until(lambda: reader.call("GET", "key") == b"1", "an answer")
        with stopped(primary):
            wait_until(lambda: str(reader.call("GET", "key")).startswith("MASTERDOWN"), "a refusal")
        wait_until(lambda: reader.call("GET", "key") == b"1", "an answer")


@check
def acknowledged_writes_survive_their_primary():
    """under load from many connections the primary is killed: what it acknowledged is in every copy"""
    with shard() as (primary, one, two):
        acknowledged, threads = [], []

        def write(worker):
            with primary.connect() as client, contextlib.suppress(AssertionError, OSError):
                for number in range(1_000_000):
                    if client.call("SET", f"{worker}:{number}", number) != "OK":
                        return
                    acknowledged.append((f"{worker}:{number}", number))

        for worker in range(8):
            threads.append(threading.Thread(target=write, args=(worker,)))
            threads[-1].start()
        wait_until(lambda: len(acknowledged) > 2000, "some writes")
        primary.process.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
        for node in (one, two):
            expect(node.shard("STAND"), "OK")
        ends = [node.end() for node in (one, two)]
        primary.process.send_signal(signal.SIGCONT)
        expect(primary.shard("STAND"), "OK")
        # They would wait until somebody says who is primary now.
        primary.admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        for thread in threads:
            thread.join()
        written = list(acknowledged)
        for node in (one, two):
            with node.connect() as client:
                for key, number in written:
                    expect(client.call("GET", key), str(number).encode())
        assert min(ends) > 0
