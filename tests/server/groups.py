"""A shard's members that were killed: they come back with what they have, and are sent only the rest."""

import signal

from cluster import Nodes
from etcd import Etcd
from harness import check, expect, wait_until
from replication_replica import info

FILES = ["--appendonly", "yes", "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"]


class Shard(Nodes):
    """Nodes that are one shard: the first begins it."""

    def __enter__(self):
        super().__enter__()
        self.await_shards(len(self.ports))
        self.ids = [self.id(number) for number in range(len(self.ports))]
        expect(self.call(0, "CLUSTER", "ADDSLOTSRANGE", 0, 16383), "OK")
        for number in range(1, len(self.ports)):
            wait_until(lambda number=number: self.call(number, "CLUSTER", "REPLICATE", self.ids[0]) == "OK", "a replica")
        wait_until(lambda: len(self.record()["in_sync"]) == len(self.ports), "all to be in sync")
        for number in range(len(self.ports)):
            self.await_state(number)
        return self

    def record(self):
        """The shard's record."""
        records = self.etcd.records()
        shard = next(iter(records["slots"]))
        return records[f"shards/{shard}"]

    def leader(self):
        """The number of the node that leads, as the record has it; None: it is not one that runs."""
        leader = self.record()["primary"]["node"]
        running = (number for number, server in enumerate(self.servers) if server.process.poll() is None)
        return next((number for number in running if self.ids[number] == leader), None)

    def facts(self, number, section):
        with self.servers[number].connect() as client:
            return info(client, section)

    def syncs(self, number):
        """How often this node has sent everything, and only the rest."""
        stats = self.facts(number, "stats")
        return int(stats["sync_full"]), int(stats["sync_partial_ok"])

    def await_same(self, leader, other):
        """The other has all the leader has, and the same data."""
        wait_until(lambda: self.facts(other, "replication").get("master_link_status") == "up", "the link")
        wait_until(lambda: self.call(other, "DEBUG", "DIGEST") == self.call(leader, "DEBUG", "DIGEST"), "the same data")


def big_value(number):
    return f"{number}:" + "v" * (1 << 20)


@check
def a_killed_primary_comes_back_without_what_is_void():
    """groups: what a killed primary wrote and nobody else has is cut off its files, and it is sent only the rest"""
    with Etcd(members=1) as etcd, Shard(etcd, 2, *FILES) as shard:
        with shard.servers[0].connect() as writer:
            for number in range(100):
                expect(writer.call("RPUSH", "list", number), number + 1)
            shard.await_same(0, 1)
            shard.servers[1].process.send_signal(signal.SIGSTOP)
            # More than all buffers on the way take.
            for number in range(48):
                expect(writer.call("SET", f"void:{number}", big_value(number)), "OK")
            written = int(shard.facts(0, "replication")["master_repl_offset"])
            wait_until(lambda: int(shard.facts(0, "persistence")["aof_current_size"]) > 48 << 20, "the files")
        shard.kill(0)
        shard.servers[1].process.send_signal(signal.SIGCONT)
        wait_until(lambda: shard.leader() == 1, "another primary")
        began_at = shard.record()["began_at"]
        assert began_at + (20 << 20) < written, f"{began_at} of {written} bytes"
        shard.await_state(1)
        wait_until(lambda: shard.call(1, "SET", "after", "1") == "OK", "writes")
        shard.start(0)
        shard.await_same(1, 0)
        expect(shard.syncs(1), (0, 1), "synchronizations, full and partial")
        assert "beyond that are void" in shard.servers[0].log(), shard.servers[0].log()[-3000:]
        wait_until(lambda: len(shard.record()["in_sync"]) == 2, "both to be in sync")
        # Its files are whole, and of this stream: once more, as a replica.
        shard.kill(0)
        wait_until(lambda: shard.call(1, "RPUSH", "list", "later") == 101, "writes")
        shard.start(0)
        shard.await_same(1, 0)
        expect(shard.syncs(1), (0, 2), "synchronizations, full and partial")


@check
def killed_primaries_take_turns_under_load():
    """groups: primary after primary is killed under load and comes back: each is sent only the rest"""
    with Etcd(members=1) as etcd, Shard(etcd, 2, *FILES) as shard:
        for turn in range(3):
            leader = shard.leader()
            other = 1 - leader
            full, partial = shard.syncs(other)
            with shard.servers[leader].connect() as writer:
                for number in range(200):
                    writer.send(b"".join(command(turn, number, part) for part in range(50)))
                shard.kill(leader)
            wait_until(lambda: shard.leader() == other, "another primary")
            wait_until(lambda: shard.call(other, "SET", "turn", turn) == "OK", "writes")
            shard.start(leader)
            shard.await_same(other, leader)
            expect(shard.syncs(other), (full, partial + 1), "synchronizations, full and partial")
            wait_until(lambda: len(shard.record()["in_sync"]) == 2, "both to be in sync")
        expect([shard.syncs(number)[0] for number in (0, 1)], [0, 0], "full synchronizations")


def command(*numbers):
    key = b"%d:%d:%d" % numbers
    return b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$1\r\n1\r\n" % (len(key), key)


@check
def a_member_that_ended_in_order_goes_on_where_it_was():
    """groups: SIGTERM of a primary and of a replica: both come back and are sent only the rest"""
    with Etcd(members=1) as etcd, Shard(etcd, 2, *FILES) as shard:
        for number in (0, 1, 0):
            leader = shard.leader()
            expect(shard.call(leader, "SET", f"before:{number}", "1"), "OK")
            expect(shard.servers[number].terminate(), 0, "exit code")
            other = 1 - number
            wait_until(lambda: shard.leader() == other, "the other to lead")
            wait_until(lambda: shard.call(other, "SET", f"after:{number}", "1") == "OK", "writes")
            full = shard.syncs(other)[0]
            shard.start(number)
            shard.await_same(other, number)
            expect(shard.syncs(other)[0], full, "full synchronizations")
            wait_until(lambda: len(shard.record()["in_sync"]) == 2, "both to be in sync")
