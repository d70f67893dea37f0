"""What people run on a cluster: redis-cli --cluster, and halcyon cluster."""

import subprocess
import time

from cluster import Nodes
from etcd import Etcd
from harness import binary, check, expect, wait_until


def fill(nodes, keys):
    lines = "".join(f"SET key:{number} {number}\n" for number in range(keys))
    nodes.cli("-c", "-p", nodes.ports[0], input_text=lines)


def expect_keys(nodes, keys):
    lines = "".join(f"GET key:{number}\n" for number in range(keys))
    answers = nodes.cli("-c", "--no-raw", "-p", nodes.ports[0], input_text=lines).splitlines()
    expect([answer.strip('"') for answer in answers if answer.startswith('"')], [str(key) for key in range(keys)])


def tool(etcd, *words, agreed=True):
    """`halcyon cluster`: its exit code, and what it prints."""
    done = subprocess.run(
        [binary(), "cluster", *map(str, words), "--cluster-etcd", etcd.endpoints, *(["--yes"] if agreed else [])],
        capture_output=True, text=True, timeout=60, check=False, input="no\n",
    )
    return done.returncode, done.stdout + done.stderr


@check
def cluster_grows_and_shrinks_by_redis_cli():
    """cluster: redis-cli --cluster add-node, reshard, rebalance, fix and del-node work; no key is lost"""
    with Etcd(members=1) as etcd, Nodes(etcd, 4) as nodes:
        first, *_, last = addresses = nodes.addresses()
        nodes.await_shards(4)
        nodes.cli("--cluster", "create", *addresses[:3], "--cluster-yes")
        for number in range(3):
            nodes.await_state(number)
        fill(nodes, 500)
        nodes.cli("--cluster", "add-node", last, first)
        nodes.cli(
            "--cluster", "reshard", first, "--cluster-from", nodes.id(0), "--cluster-to", nodes.id(3),
            "--cluster-slots", 50, "--cluster-yes",
        )
        expect(len(slots_of(etcd, nodes, 3)), 50, "slots of the new node")
        expect_keys(nodes, 500)
        nodes.cli("--cluster", "rebalance", first, "--cluster-weight", f"{nodes.id(3)}=0")
        expect(slots_of(etcd, nodes, 3), [], "slots of a node of no weight")
        nodes.cli("--cluster", "fix", first)
        nodes.cli("--cluster", "del-node", first, nodes.id(3))
        wait_until(lambda: f"nodes/{nodes.id(3)}" not in etcd.records(), "the node to be gone")
        assert "OK" in nodes.cli("--cluster", "check", first)
        expect_keys(nodes, 500)


def slots_of(etcd, nodes, number):
    """The slots of the shard of this node."""
    records = etcd.records()
    text = records["slots"].get(records[f"nodes/{nodes.id(number)}"]["shard"], "")
    ends = [word.split("-") for word in text.split(",") if word]
    return [slot for end in ends for slot in range(int(end[0]), int(end[-1]) + 1)]


@check
def cluster_is_created_and_looked_after_by_halcyon_cluster():
    """cluster: halcyon cluster create, status, failover and forget work, show a plan first, and say what is wrong"""
    with Etcd(members=1) as etcd, Nodes(etcd, 4, "--repl-diskless-sync-delay", 0) as nodes:
        nodes.await_shards(4)
        code, text = tool(etcd, "create", "--replicas", 1, agreed=False)
        assert code == 1 and "Nothing was changed" in text and "becomes a replica in shard" in text, text
        assert "slots" not in etcd.records()
        expect(tool(etcd, "create", "--replicas", 1)[0], 0)
        for number in range(4):
            nodes.await_state(number)
        code, text = tool(etcd, "create", "--replicas", 1)
        assert code == 0 and "All slots are assigned" in text, text
        wait_until(lambda: tool(etcd, "status")[1].count(": in sync") == 4, "replicas to be in sync")
        replica = next(number for number in range(4) if "slave" in nodes.flags(0, number))
        code, text = tool(etcd, "failover", nodes.addresses()[replica])
        expect(code, 0, text)
        wait_until(lambda: "master" in nodes.flags(0, replica), "the replica to be the primary")
        code, text = tool(etcd, "failover", nodes.addresses()[replica])
        assert code == 1 and "You should send CLUSTER FAILOVER to a replica" in text, text
        replica = next(number for number in range(4) if "slave" in nodes.flags(0, number))
        expect(tool(etcd, "forget", nodes.id(replica)[:12])[0], 0)
        wait_until(
            lambda: "This node was forgotten by its cluster" in str(nodes.call(replica, "GET", "key")),
            "the forgotten node to serve nothing",
        )
        expect(nodes.call(replica, "CLUSTER", "MEET", "127.0.0.1", nodes.ports[0]), "OK")
        wait_until(lambda: f"nodes/{nodes.id(replica)}" in etcd.records(), "the node to be back")
        for words in [["help"], ["--help"], ["status", "--help"], ["move-slots", "-h"], ["help", "create"]]:
            code, text = tool(etcd, *words)
            assert code == 0 and text.startswith("Usage: halcyon cluster"), text
        for words, wanted in [
            (["forget", "zz"], "There is no node 'zz'"),
            (["nosuch"], "has no command 'nosuch'"),
            (["status", "--cluster-name", "other"], "There is no cluster called 'other'"),
        ]:
            code, text = tool(etcd, *words)
            assert code == 1 and wanted in text, text


@check
def cluster_slots_are_moved_by_halcyon_cluster():
    """cluster: halcyon cluster move-slots, rebalance and remove-shard move slots with their keys, and none is lost"""
    with Etcd(members=1) as etcd, Nodes(etcd, 3) as nodes:
        nodes.await_shards(3)
        for number, (start, end) in enumerate([(0, 8000), (8001, 16323), (16324, 16383)]):
            expect(nodes.call(number, "CLUSTER", "ADDSLOTSRANGE", start, end), "OK")
        for number in range(3):
            nodes.await_state(number)
        fill(nodes, 2000)
        code, text = tool(etcd, "move-slots", nodes.addresses()[0], nodes.addresses()[1], "200,125-149,100-125")
        assert code == 0 and "51 of 51 slots" in text, text
        expect(len(slots_of(etcd, nodes, 1)), 8323 + 51, "slots of the taker")
        expect_keys(nodes, 2000)
        code, text = tool(etcd, "remove-shard", nodes.addresses()[2])
        assert code == 0 and "Forgot" in text, text
        wait_until(lambda: f"nodes/{nodes.id(2)}" not in etcd.records(), "the node to be gone")
        expect(sum(len(slots_of(etcd, nodes, number)) for number in range(2)), 16384, "slots of the others")
        expect_keys(nodes, 2000)
        code, text = tool(etcd, "rebalance")
        expect(code, 0, text)
        expect(len(slots_of(etcd, nodes, 0)), 8192, "slots of the first")
        assert "Nothing has to move" in tool(etcd, "rebalance")[1]
        expect_keys(nodes, 2000)


@check
def cluster_hands_over_in_order():
    """cluster: a primary that ends by SIGTERM, or is asked to, hands its shard over; nothing acknowledged is lost"""
    with Etcd(members=1) as etcd, Nodes(etcd, 6) as nodes:
        nodes.create(replicas=1)
        wait_until(lambda: tool(etcd, "status")[1].count(": in sync") == 6, "replicas to be in sync")
        primary = next(number for number in range(6) if nodes.call(number, "SET", "foo", "1") == "OK")
        replica = next(
            number for number in range(6)
            if nodes.lines(number)[nodes.id(number)][2] == nodes.id(primary)
        )
        for turn in range(4):
            expect(nodes.call(primary, "SET", "foo", turn), "OK")
            expect(nodes.call(replica, "CLUSTER", "FAILOVER"), "OK")
            wait_until(lambda: nodes.call(replica, "GET", "foo") == b"%d" % turn, "the replica to lead")
            primary, replica = replica, primary
            wait_until(lambda: tool(etcd, "status")[1].count(": in sync") == 6, "replicas to be in sync")
        expect(nodes.call(primary, "SET", "foo", "last"), "OK")
        started = time.monotonic()
        expect(nodes.servers[primary].terminate(), 0, "exit code")
        wait_until(lambda: nodes.call(replica, "GET", "foo") == b"last", "the replica to lead")
        print(f"        from SIGTERM to the first answer elsewhere: {(time.monotonic() - started) * 1000:.0f} ms")
