"""Each way in which data are kept or copied, with the filter against forks over all threads, before and after.

A server that forked, or executed a program, would be ended by the kernel in the midst of it.
"""

import contextlib
import os
import shutil

from append_only import aof, fields, wait_until_rewritten, wait_until_written
from certificates import Certificates
from failover import OPTIONS, Side, expect_same, follow, wait_for_end
from harness import Server, check, encode, expect, free_port, wait_until
from no_fork import expect_filtered, need_filters
from persistence import DEBUG, NO_SAVE_POINTS, digest, directory, fill, wait_until_loaded

APPEND = ["--appendonly", "yes", "--auto-aof-rewrite-percentage", 0]


@contextlib.contextmanager
def filtered(*options, path=None):
    """A server with data, or with what that directory holds, that is under the filter from its start to its end."""
    with Server(*DEBUG, *NO_SAVE_POINTS, *options, directory=path) as server, server.connect() as client:
        wait_until_loaded(client)
        expect_filtered(server)
        if client.call("DBSIZE") == 0:
            fill(client)
        yield server, client
        if server.process.poll() is None:
            expect_filtered(server)


def restarted(path, *options, before=None):
    """Loads what a server left behind."""
    with filtered(*options, path=path) as (_, client):
        if before:
            expect(digest(client), before, f"digest after a start with {options}")
        return digest(client)


def save(path):
    """SAVE, and the load"""
    with filtered(path=path) as (_, client):
        before = digest(client)
        expect(client.call("SAVE"), "OK")
    restarted(path, before=before)


def background_save(path):
    """BGSAVE"""
    with filtered(path=path) as (_, client):
        expect(client.call("BGSAVE"), "Background saving started")
        wait_until(lambda: fields(client)["rdb_bgsave_in_progress"] == "0", "the end of BGSAVE")
        expect(fields(client)["rdb_last_bgsave_status"], "ok")


def save_point(path):
    """a save point"""
    with filtered("--save", "1 1", path=path) as (_, client):
        client.call("INCR", "changed")
        wait_until(lambda: fields(client)["rdb_changes_since_last_save"] == "0", "the save point")
        expect(fields(client)["rdb_last_bgsave_status"], "ok")


def shutdown_with_save(path):
    """SHUTDOWN SAVE, and SIGTERM with a save point"""
    with filtered(path=path) as (server, client):
        before = digest(client)
        client.send(encode("SHUTDOWN", "SAVE"))
        expect(server.process.wait(timeout=30), 0, "exit code")
    with filtered("--save", "3600 1", path=path) as (server, client):
        expect(digest(client), before)
        client.call("INCR", "changed")
        before = digest(client)
        expect(server.terminate(), 0, "exit code")
    restarted(path, before=before)


def debug_reload(path):
    """DEBUG RELOAD"""
    with filtered(path=path) as (_, client):
        before = digest(client)
        expect(client.call("DEBUG", "RELOAD"), "OK")
        expect(digest(client), before)


def append_with(policy):
    def append(path):
        options = [*APPEND, "--appendfsync", policy]
        with filtered(*options, path=path) as (server, client):
            before = digest(client)
            wait_until_written(client)
            expect(server.terminate(), 0, "exit code")
        restarted(path, *options, before=before)

    append.__doc__ = f"append-only files with appendfsync {policy}, and the load"
    return append


def rewrite_with(preamble):
    def rewrite(path):
        options = [*APPEND, "--aof-use-rdb-preamble", preamble]
        with filtered(*options, path=path) as (server, client):
            expect(client.call("BGREWRITEAOF"), "Background append only file rewriting started")
            wait_until_rewritten(client)
            before = digest(client)
            expect(server.terminate(), 0, "exit code")
        restarted(path, *options, before=before)

    rewrite.__doc__ = f"BGREWRITEAOF with aof-use-rdb-preamble {preamble}, and the load"
    return rewrite


def rewrite_by_growth(path):
    """a rewrite that the files' growth sets off"""
    options = ["--appendonly", "yes", "--auto-aof-rewrite-min-size", "1mb", "--auto-aof-rewrite-percentage", 100]
    with filtered(*options, path=path) as (_, client):
        for _ in range(40):
            client.call("SET", "large", "x" * 100_000)
        wait_until(lambda: int(fields(client)["aof_rewrites"]) > 0, "a rewrite")
        wait_until_rewritten(client)


def append_at_run_time(path):
    """CONFIG SET appendonly yes and no, DEBUG LOADAOF"""
    with filtered(path=path) as (_, client):
        for value in ["yes", "no", "yes"]:
            expect(client.call("CONFIG", "SET", "appendonly", value), "OK")
            if value == "yes":
                wait_until(lambda: fields(client)["aof_enabled"] == "1", "append-only files")
                wait_until_rewritten(client)
        before = digest(client)
        expect(client.call("DEBUG", "LOADAOF"), "OK")
        expect(digest(client), before)


def load_legacy_and_torn(path):
    """the single file of former versions, and files with a torn end"""
    with open(os.path.join(path, "appendonly.aof"), "wb") as file:
        file.write(encode("SELECT", 0) + b"".join(encode("SET", f"key:{number}", number) for number in range(100)))
    with filtered(*APPEND, path=path) as (server, client):
        expect(client.call("DBSIZE"), 100)
        client.call("SET", "last", "whole")
        wait_until_written(client)
        expect(server.terminate(), 0, "exit code")
    newest = max((aof(path, name) for name in os.listdir(aof(path)) if ".incr." in name), key=os.path.getmtime)
    with open(newest, "ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$4\r\nlast\r\n$4\r\nto")
    with filtered(*APPEND, path=path) as (_, client):
        expect(client.call("GET", "last"), b"whole")


PERSISTENCE = [
    save, background_save, save_point, shutdown_with_save, debug_reload,
    *map(append_with, ["always", "everysec", "no"]), *map(rewrite_with, ["yes", "no"]), rewrite_by_growth,
    append_at_run_time, load_legacy_and_torn,
]


@check
def no_fork_while_data_are_kept():
    """Under the filter: every way to save, append, rewrite and load"""
    need_filters()
    for way in PERSISTENCE:
        with directory() as path:
            told(way, path)


def told(way, *arguments):
    try:
        way(*arguments)
    except AssertionError as error:
        raise AssertionError(f"{way.__doc__}: {error}") from error


def expect_filtered_with(side, *names):
    """The filter is over all threads, and these are among them, once they run."""
    tasks = f"/proc/{side.server.process.pid}/task"

    def are_there():
        seen = set()
        for task in os.listdir(tasks):
            with contextlib.suppress(OSError), open(f"{tasks}/{task}/comm", encoding="ascii") as name:
                seen.add(name.read().strip())
        return all(any(thread.startswith(name) for thread in seen) for name in names)

    wait_until(are_there, f"threads {names}")
    expect_filtered(side.server)


@contextlib.contextmanager
def two(first, second, *options):
    """Two servers of these kinds, the first with data; the second is to follow it."""
    with contextlib.ExitStack() as stack:
        primary, replica = Side(stack, first, *options), Side(stack, second, *options)
        fill(primary.client)
        primary.call("DEL", "zset:large")
        yield primary, replica
        for side in (primary, replica):
            if side.kind == "halcyon":
                expect_filtered(side.server)


def full_by(kinds, *options):
    def synchronize():
        with two(*kinds, *options) as (primary, replica):
            follow(primary, replica)
            expect_same(primary, replica)
            if kinds[0] == "halcyon":
                expect_filtered_with(primary, "sync", "sync-log", "sync-reader")
            if kinds[1] == "halcyon":
                expect_filtered_with(replica, "replica-link", "apply-")

    synchronize.__doc__ = f"a full synchronization from {kinds[0]} to {kinds[1]} with {options}"
    return synchronize


def cut(primary, replica):
    """Ends the link, and waits until the stream goes on."""
    before = int(primary.facts("stats")["sync_partial_ok"])
    primary.call("CLIENT", "KILL", "TYPE", "replica")
    primary.call("INCR", "cut")
    wait_until(lambda: int(primary.facts("stats")["sync_partial_ok"]) > before, "the stream to go on")
    expect_same(primary, replica)


def partial_from_memory():
    """a partial synchronization from memory"""
    with two("halcyon", "halcyon", "--repl-backlog-size", "64mb") as (primary, replica):
        follow(primary, replica)
        cut(primary, replica)


def partial_from_files():
    """a partial synchronization from the append-only files"""
    with two("halcyon", "halcyon", *APPEND, "--repl-backlog-size", "16kb") as (primary, replica):
        follow(primary, replica)
        with replica.stopped():
            primary.call("CLIENT", "KILL", "TYPE", "replica")
            for number in range(200):
                primary.call("SET", f"key:{number % 10}", "x" * 10_000)
        expect_same(primary, replica)
        expect(primary.facts("stats")["sync_full"], "1", "full synchronizations")


def waits():
    """WAIT and WAITAOF"""
    with two("halcyon", "halcyon", *APPEND) as (primary, replica):
        follow(primary, replica)
        primary.call("SET", "k", "v")
        expect(primary.call("WAIT", 1, 30_000), 1)
        expect(primary.call("WAITAOF", 1, 1, 30_000), [1, 1])


def roles():
    """a chain, FAILOVER, REPLICAOF NO ONE"""
    with two("halcyon", "halcyon") as (first, second), contextlib.ExitStack() as stack:
        third = Side(stack, "halcyon")
        follow(first, second)
        expect(third.call("REPLICAOF", "127.0.0.1", second.server.port), "OK")
        wait_until(lambda: third.facts().get("master_link_status") == "up", "the chain")
        expect(first.call("FAILOVER"), "OK")
        wait_for_end(first)
        expect_same(second, first)
        expect_same(second, third)
        expect(first.call("REPLICAOF", "NO", "ONE"), "OK")
        expect(first.call("INCR", "n"), 1)
        expect_filtered(third.server)


def restarted_replica():
    """a replica's restart with its own files"""
    with contextlib.ExitStack() as stack:
        primary, path = Side(stack, "halcyon", "--repl-backlog-size", "64mb"), stack.enter_context(directory())
        fill(primary.client)
        for options in [["SAVE"], ["LASTSAVE"]]:
            words = [*OPTIONS, "--replicaof", "127.0.0.1", primary.server.port]
            with Server(*map(str, words), directory=path) as server, server.connect() as replica:
                wait_until(lambda: b"master_link_status:up" in replica.call("INFO", "replication"), "the link")
                expect_filtered(server)
                replica.call(*options)


def over_tls():
    """a link over TLS"""
    with Certificates() as certificates:
        port = free_port()
        options = [*certificates.options("server"), "--tls-replication", "yes"]
        with contextlib.ExitStack() as stack:
            primary = Side(stack, "halcyon", *options, "--tls-port", port)
            replica = Side(stack, "halcyon", *options)
            fill(primary.client)
            expect(replica.call("REPLICAOF", "127.0.0.1", port), "OK")
            wait_until(lambda: replica.facts().get("master_link_status") == "up", "the link")
            wait_until(lambda: replica.call("DEBUG", "DIGEST") == primary.call("DEBUG", "DIGEST"), "the data")
            for side in (primary, replica):
                expect_filtered(side.server)


@check
def no_fork_while_data_are_copied():
    """Under the filter: every way to be followed and to follow, with Halcyon and redis-server at the other end"""
    need_filters()
    ways = [
        full_by(("halcyon", "halcyon"), "--repl-diskless-sync", "yes"),
        full_by(("halcyon", "halcyon"), "--repl-diskless-sync", "no"),
        full_by(("halcyon", "halcyon"), "--repl-diskless-load", "on-empty-db"),
        full_by(("halcyon", "halcyon"), *APPEND),
        partial_from_memory, partial_from_files, waits, roles, restarted_replica,
    ]
    if shutil.which("redis-server"):
        for kinds in [("halcyon", "redis-server"), ("redis-server", "halcyon")]:
            ways += [full_by(kinds, "--repl-diskless-sync", value) for value in ("yes", "no")]
    if shutil.which("openssl"):
        ways.append(over_tls)
    for way in ways:
        told(way)
