"""The filter that holds that nothing forks: in place over all threads, not in the way of anything, and not needed."""

import contextlib
import ctypes
import os
import platform
import struct

from append_only import wait_until_rewritten
from harness import PATIENCE_S, Error, Server, Skip, check, expect, wait_until
from persistence import NO_SAVE_POINTS, directory, fill, wait_until_loaded
from scripts import start_loop
from tls import NO_CERTIFICATE, connect, serving

# The number of the call that installs a filter, by machine.
SECCOMP_CALLS = {"x86_64": 317, "aarch64": 277}
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38
# Threads that every server with two workers has.
THREADS = {"worker-0", "worker-1", "long-lane", "reaper", "saver", "signals", "journal", "journal-sync"}


def status(path):
    """What the kernel says of a process or thread, by field."""
    with open(f"{path}/status", encoding="utf-8") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


def threads(server):
    """The status of each thread."""
    tasks, found = f"/proc/{server.process.pid}/task", []
    for task in os.listdir(tasks):
        # One that saves or loads may end meanwhile.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.append(status(f"{tasks}/{task}"))
    return found


def field(client, name):
    lines = client.call("INFO", "server").decode().split("\r\n")
    return next(line.partition(":")[2] for line in lines if line.startswith(f"{name}:"))


def filters(fields):
    """How many filters a thread is under; kernels before 5.9 do not tell."""
    return int(fields.get("Seccomp_filters", "-1"))


def expect_filtered(server):
    # A thread has its name only once it runs.
    wait_until(lambda: {thread["Name"] for thread in threads(server)} >= THREADS, "all threads")
    own, seen = status("/proc/self"), threads(server)
    for thread in seen:
        about = f"of the thread {thread['Name']}"
        expect((thread["Seccomp"], thread["NoNewPrivs"]), ("2", "1"), f"filter and privileges {about}")
        if filters(own) >= 0:
            # These checks may run in a container that is under a filter itself.
            expect(filters(thread), filters(own) + 2, f"number of filters {about}")


def need_filters():
    if platform.machine() not in SECCOMP_CALLS or "Seccomp" not in status("/proc/self"):
        raise Skip("this system has no filter for calls")


@check
def no_fork_holds_every_thread():
    """The filter against forks is over every thread, INFO says so, and it cannot be switched off while it runs"""
    need_filters()
    with Server() as server, server.connect() as client:
        expect_filtered(server)
        expect(field(client, "no_fork"), "1", "INFO's no_fork")
        expect(client.call("CONFIG", "GET", "no-fork"), [b"no-fork", b"yes"])
        refused = client.call("CONFIG", "SET", "no-fork", "no")
        assert isinstance(refused, Error) and "immutable" in refused, refused
        assert "no-fork" not in server.log(), server.log()


@check
def no_fork_off():
    """With `no-fork no` there is no filter, and INFO says so"""
    need_filters()
    own = status("/proc/self")
    with Server("--no-fork", "no") as server, server.connect() as client:
        for thread in threads(server):
            for name in ["Seccomp", "Seccomp_filters", "NoNewPrivs"]:
                expect(thread.get(name), own.get(name), f"{name} of the thread {thread['Name']}")
        expect(field(client, "no_fork"), "0", "INFO's no_fork")
        expect(client.call("CONFIG", "GET", "no-fork"), [b"no-fork", b"no"])


@check
def no_fork_is_in_nobodys_way():
    """Under the filter: saving, rewriting, loading, scripts of all kinds, handshakes, CONFIG SET of all sorts, SHUTDOWN"""
    need_filters()
    with directory() as path:
        options = [*NO_SAVE_POINTS, "--busy-reply-threshold", "100"]
        with Server(*options, directory=path) as server, server.connect() as client:
            fill(client)
            expect(client.call("SAVE"), "OK")
            expect(client.call("BGSAVE"), "Background saving started")
            wait_until(lambda: b"rdb_bgsave_in_progress:0" in client.call("INFO", "persistence"), "the end of BGSAVE")
            assert b"rdb_last_bgsave_status:ok" in client.call("INFO", "persistence")
            expect(client.call("CONFIG", "SET", "appendonly", "yes"), "OK")
            wait_until(lambda: b"aof_rewrites:1" in client.call("INFO", "persistence"), "append-only files")
            wait_until_rewritten(client)
            expect(client.call("BGREWRITEAOF"), "Background append only file rewriting started")
            wait_until_rewritten(client)
            expect_filtered(server)
            keys = client.call("DBSIZE")
            expect(client.call("EVAL", "return redis.call('GET', KEYS[1])", 1, "string:3"), b"xxx")
            script, replies = start_loop(server, "held")
            expect(client.call("SCRIPT", "KILL"), "OK")
            script.join(PATIENCE_S)
            assert isinstance(replies[0], Error), replies
            expect(client.call("CONFIG", "SET", "maxclients", "200", "loglevel", "verbose", "port", server.port), "OK")
            expect_filtered(server)
            client.send(b"SHUTDOWN SAVE\r\n")
            assert client.at_end(), "SHUTDOWN did not end the connection"
            expect(server.process.wait(timeout=PATIENCE_S), 0, "exit code")
        for options in [NO_SAVE_POINTS, [*NO_SAVE_POINTS, "--appendonly", "yes"]]:
            with Server(*options, directory=path) as server, server.connect() as client:
                wait_until_loaded(client)
                expect(client.call("DBSIZE"), keys)
                expect_filtered(server)
                expect(server.terminate(), 0, "exit code")
    with serving(*NO_CERTIFICATE) as server, connect(server) as client:
        expect(client.call("PING"), "PONG")
        expect_filtered(server)


def refuse_filters():
    """Makes the kernel refuse further filters to this process, and to the program that it becomes: EINVAL."""
    # Load the call's number; if it is seccomp's, answer with an error; else let it pass.
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, SECCOMP_CALLS[platform.machine()]), (0x06, 0, 0, 0x00050000 | 22)]
    steps.append((0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    where = ctypes.addressof(program)
    for words in [(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, where, 0, 0)]:
        if libc.prctl(*map(ctypes.c_ulong, words)) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


@check
def no_fork_refused():
    """A kernel that refuses the filter: one line in the log, INFO says 0, and everything else works"""
    need_filters()
    with Server(before_start=refuse_filters) as server, server.connect() as client:
        lines = [line for line in server.log().splitlines() if "no-fork" in line]
        expect(len(lines), 1, f"lines about it in {server.log()}")
        assert "Invalid argument" in lines[0], lines
        expect(field(client, "no_fork"), "0", "INFO's no_fork")
        expect(client.call("SET", "k", "v"), "OK")
        expect(client.call("SAVE"), "OK")
