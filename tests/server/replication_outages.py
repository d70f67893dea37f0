"""Outages that are longer than memory reaches back: replicas go on from what the disk keeps, with default settings."""

import contextlib
import os
import signal
import time

from harness import Error, Server, check, encode, expect, wait_until
from peers import Peer, info, programs, wait_for_link
from persistence import directory
from replication_primary import OPTIONS, FakeReplica, Load, expect_same, fill, followed, wait_for_offset

VALUE = b"v" * 10_000


def write_much(client, megabytes):
    """More than memory keeps."""
    for first in range(0, megabytes * 100, 100):
        client.send(b"".join(encode("SET", f"key:{number % 777}", VALUE) for number in range(first, first + 100)))
        for _ in range(100):
            expect(client.reply(), "OK")


def memory_bytes(client):
    return int(info(client, "replication")["repl_backlog_histlen"])


def disk_bytes(client):
    return int(info(client, "replication")["repl_backlog_disk_bytes"])


@check
def outage_of_real_servers():
    """each real server is away for 150 MB of writes, and goes on without a full synchronization; no file is left"""
    for name, path in programs().items():
        with followed(path) as (server, client, peer, replica):
            expect_same(client, replica, name)
            expect(client.call("WAIT", 1, 30_000), 1)
            peer.stop()
            expect(client.call("CLIENT", "KILL", "TYPE", "replica"), 1)
            wait_until(lambda: info(client, "replication")["connected_slaves"] == "0", "a replica to be gone")
            before = server.resident_bytes()
            for _ in range(15):
                write_much(client, 10)
                wait_until(lambda: memory_bytes(client) < 17 << 20, "the stream to go to the disk")
            assert disk_bytes(client) > 120 << 20
            growth_bytes = server.resident_bytes() - before
            assert growth_bytes < 80 << 20, f"grew by {growth_bytes >> 20} MB"
            expect([name for name in os.listdir(server.directory) if name.startswith("temp")], [])
            peer.go_on()
            with Load(server) as load:
                seen = load.rounds
                wait_until(lambda: info(client, "stats")["sync_partial_ok"] == "1", "a stream that goes on")
                wait_until(lambda: load.rounds > seen + 5, "more load")
            expect_same(client, replica, name)
            expect(info(client, "stats")["sync_full"], "1")
            expect(client.call("WAIT", 1, 30_000), 1)
            wait_until(lambda: disk_bytes(client) == 0, "what nobody lacks to go")


@check
def outage_of_halcyon():
    """the same of a replica of our own, which is stopped twice"""
    with Server(*OPTIONS) as server, server.connect() as client:
        fill(client)
        follower = [*OPTIONS, "--replicaof", "127.0.0.1", server.port]
        with Server(*follower) as other, other.connect() as replica:
            wait_for_link(replica)
            expect_same(client, replica, "the replica")
            for number in (1, 2):
                expect(client.call("WAIT", 1, 30_000), 1)
                other.process.send_signal(signal.SIGSTOP)
                expect(client.call("CLIENT", "KILL", "TYPE", "replica"), 1)
                write_much(client, 40)
                other.process.send_signal(signal.SIGCONT)
                wait_until(lambda: info(client, "stats")["sync_partial_ok"] == str(number), "a stream that goes on")
                expect_same(client, replica, f"the replica after outage {number}")
            expect(info(client, "stats")["sync_full"], "1")


@check
def outage_of_a_slow_replica():
    """one that does not read is neither cut off nor kept in memory, and when it goes and comes back it is sent the rest"""
    limit = ["--client-output-buffer-limit", "replica", "20mb", 0, 0]
    options = [("capa", "psync2"), ("listening-port", 7001)]
    with Server(*OPTIONS, *limit) as server, server.connect() as client:
        with FakeReplica(server, *options) as replica:
            stream, offset = replica.full_sync()
            replica.payload()
            replica.acknowledge(offset)
            wait_until(lambda: "state=online" in info(client, "replication")["slave0"], "a replica that is online")
            for _ in range(6):
                write_much(client, 10)
                wait_until(lambda: memory_bytes(client) < 17 << 20, "the stream to go to the disk")
            expect(info(client, "replication")["connected_slaves"], "1")
            expect(replica.command(), [b"SELECT", b"0"])
            for number in range(3_000):
                expect(replica.command(), [b"SET", b"key:%d" % (number % 1_000 % 777), VALUE])
        # It has acknowledged nothing of that.
        wait_until(lambda: info(client, "replication")["connected_slaves"] == "0", "it to be gone")
        write_much(client, 20)
        with FakeReplica(server, *options) as replica:
            replica.client.send(encode("PSYNC", stream, offset + 1))
            expect(replica.line().split()[0], b"+CONTINUE")
            expect(replica.command(), [b"SELECT", b"0"])
            for number in range(6_000):
                expect(replica.command(), [b"SET", b"key:%d" % (number % 1_000 % 777), VALUE])
            for number in range(2_000):
                expect(replica.command(), [b"SET", b"key:%d" % (number % 777), VALUE])


def clean_restart(primary_options, way):
    """A primary of our own is ended in order and started again: its replicas go on, and nothing is lost."""
    for name, path in programs().items():
        with directory() as data, contextlib.ExitStack() as stack:
            with Server(*OPTIONS, *primary_options, directory=data) as server, server.connect() as client:
                wait_until(lambda: client.call("PING") == "PONG", "a server that has loaded its files")
                port = server.port
                fill(client)
                peer = stack.enter_context(Peer(path, "--replicaof", "127.0.0.1", port))
                replica = stack.enter_context(peer.connect())
                wait_for_link(replica)
                with Load(server) as load:
                    wait_until(lambda: load.rounds > 20, "more load")
                    load.end()
                # What has ended when it starts again is deleted at the replica, too.
                expect(client.call("SET", "short", 1, "PX", 400), "OK")
                wait_for_offset(client, replica)
                stream = info(client, "replication")["master_replid"]
                client.send(encode("SHUTDOWN", *way))
                expect(server.process.wait(30), 0)
                assert "1 of 1 replicas are in sync" in server.log(), server.log()
            time.sleep(0.5)
            with Server(*OPTIONS, *primary_options, directory=data, port=port) as server, server.connect() as client:
                wait_until(lambda: client.call("PING") == "PONG", "a server that has loaded its data")
                shown = info(client, "replication")
                expect(shown["master_replid2"], stream, f"{name}: the stream that it goes on from")
                assert shown["master_replid"] != stream
                wait_until(lambda: info(client, "stats")["sync_partial_ok"] == "1", f"{name} to go on")
                with Load(server) as load:
                    wait_until(lambda: load.rounds > 20, "more load")
                    load.end()
                expect_same(client, replica, f"{name} after a restart of its primary")
                expect(info(client, "stats")["sync_full"], "0")
                expect(replica.call("EXISTS", "short"), 0)
                expect(replica.call("DBSIZE"), client.call("DBSIZE"))


@check
def restart_of_a_primary_with_snapshots():
    """replicas go on after SHUTDOWN SAVE and a start from that file"""
    clean_restart([], ["SAVE"])


@check
def restart_of_a_primary_with_files():
    """replicas go on after SHUTDOWN and a start from append-only files"""
    clean_restart(["--appendonly", "yes"], [])


@check
def restart_of_a_replica_with_files():
    """a replica that was ended in order goes on from its append-only files, in the database that the stream is in"""
    for name, path in programs().items():
        with Peer(path) as peer, peer.connect() as primary, directory() as data:
            options = [*OPTIONS, "--appendonly", "yes", "--replicaof", "127.0.0.1", peer.port]
            fill(primary)
            expect(primary.call("SELECT", 5), "OK")
            with Server(*options, directory=data) as server, server.connect() as replica:
                wait_for_link(replica)
                expect(primary.call("SET", "before", 1), "OK")
                expect_same(primary, replica, name)
                wait_until(lambda: info(replica, "persistence")["aof_rewrites"] != "0", "its files")
                expect(server.terminate(), 0)
            # In database 5, which the stream does not select again.
            expect(primary.call("SET", "meanwhile", 1), "OK")
            with Server(*options, directory=data) as server, server.connect() as replica:
                wait_for_link(replica)
                expect_same(primary, replica, f"a replica of {name} after its restart")
                expect(info(primary, "stats")["sync_full"], "1", name)
                expect(server.terminate(), 0)


@check
def restart_that_lost_something_is_a_full_synchronization():
    """a primary that is started with older data than its replica has does not let it go on"""
    path = next(iter(programs().values()))
    with directory() as data, contextlib.ExitStack() as stack:
        with Server(*OPTIONS, directory=data) as server, server.connect() as client:
            port = server.port
            peer = stack.enter_context(Peer(path, "--replicaof", "127.0.0.1", port))
            replica = stack.enter_context(peer.connect())
            wait_for_link(replica)
            expect(client.call("SET", "saved", 1), "OK")
            expect(client.call("SAVE"), "OK")
            expect(client.call("SET", "lost", 1), "OK")
            expect_same(client, replica, "the replica")
            client.send(encode("SHUTDOWN", "NOSAVE"))
            expect(server.process.wait(30), 0)
        with Server(*OPTIONS, directory=data, port=port) as server, server.connect() as client:
            wait_until(lambda: info(client, "stats")["sync_full"] == "1", "a full synchronization")
            wait_for_link(replica)
            expect_same(client, replica, "the replica, which has lost it, too")
            expect(replica.call("EXISTS", "saved", "lost"), 1)


@check
def shutdown_waits_for_replicas():
    """SHUTDOWN waits until replicas have everything, for shutdown-timeout, and not with NOW; ABORT ends that"""
    path = next(iter(programs().values()))
    with followed(path) as (server, client, peer, replica), server.connect() as other:
        expect_same(client, replica, "the replica")
        peer.stop()
        expect(client.call("SET", "k", "v"), "OK")
        expect(client.call("SET", "short", 1, "PX", 50), "OK")
        expect(client.call("CONFIG", "SET", "shutdown-timeout", 1000), "OK")
        with server.connect() as ending, server.connect() as second, server.connect() as writing:
            ending.send(encode("SHUTDOWN"))
            wait_until(lambda: "shutdown_in_milliseconds" in info(other, "server"), "a shutdown")
            second.send(encode("SHUTDOWN", "NOSAVE"))
            writing.send(encode("SET", "k", "later"))
            time.sleep(0.3)
            expect(other.call("GET", "k"), b"v", "what is written meanwhile waits")
            expect(other.call("GET", "short"), None)
            expect(other.call("SHUTDOWN", "ABORT"), "OK")
            refusal = Error("ERR Errors trying to SHUTDOWN. Check logs.")
            expect([ending.reply(), second.reply(), writing.reply()], [refusal, refusal, "OK"])
            expect(other.call("SHUTDOWN", "ABORT"), Error("ERR No shutdown in progress."))
            assert "shutdown_in_milliseconds" not in info(other, "server")
        client.send(encode("SHUTDOWN"))
        wait_until(lambda: "shutdown_in_milliseconds" in info(other, "server"), "a shutdown")
        offset = int(info(other, "replication")["master_repl_offset"])
        peer.go_on()
        expect(server.process.wait(30), 0)
        wait_until(lambda: info(replica, "replication")["slave_repl_offset"] == str(offset), "all to have come")
        expect(replica.call("GET", "k"), b"later")


@check
def shutdown_waits_no_longer_than_it_may():
    """with shutdown-timeout 1, a replica that is stopped is given up; with NOW or 0 it is not waited for; SIGTERM waits"""
    path = next(iter(programs().values()))
    for option, way, waits in [(1, ["SHUTDOWN"], True), (1000, ["SHUTDOWN", "NOW"], False), (0, ["SHUTDOWN"], False),
                               (1, None, True)]:
        with followed(path, "--shutdown-timeout", option) as (server, client, peer, _):
            peer.stop()
            expect(client.call("SET", "k", "v"), "OK")
            if way:
                client.send(encode(*way))
            else:
                server.process.terminate()
            expect(server.process.wait(30), 0)
            log = server.log()
            expect("Waiting for replicas before shutting down" in log, waits, f"{option} {way}")
            assert option == 0 or "0 of 1 replicas are in sync" in log or not waits, log


@check
def files_of_a_replica_select_their_database():
    """the append-only files of a replica say which database each goes on in: a real server loads them, and so do we"""
    for name, path in programs().items():
        with Peer(path) as peer, peer.connect() as primary, directory() as data:
            options = [*OPTIONS, "--appendonly", "yes"]
            fill(primary)
            with Server(*options, "--replicaof", "127.0.0.1", peer.port, directory=data) as server:
                with server.connect() as replica:
                    wait_for_link(replica)
                    expect(primary.call("SELECT", 5), "OK")
                    for number in range(3):
                        expect(primary.call("RPUSH", "list", number), 1 + 2 * number)
                        wait_for_offset(primary, replica)
                        rewrites = lambda: info(replica, "persistence")["aof_rewrites"]
                        wait_until(lambda: rewrites() != "0", "the first files")
                        before = rewrites()
                        replica.call("BGREWRITEAOF")
                        wait_until(lambda: rewrites() != before, "a rewrite")
                        expect(primary.call("RPUSH", "list", "x"), 2 + 2 * number)
                    expect_same(primary, replica, f"a replica of {name}")
                    digest = primary.call("DEBUG", "DIGEST")
                    expect(server.terminate(), 0)
            with Server(*options, directory=data) as server, server.connect() as again:
                wait_until(lambda: again.call("PING") == "PONG", "a server that has loaded its files")
                expect(again.call("DEBUG", "DIGEST"), digest, "loaded by us")
                expect(server.terminate(), 0)
            with Peer(path, "--appendonly", "yes", "--dir", data) as loader, loader.connect() as again:
                wait_until(lambda: info(again, "persistence")["loading"] == "0", "a server that has loaded the files")
                expect(again.call("DEBUG", "DIGEST"), digest, f"loaded by {name}")
