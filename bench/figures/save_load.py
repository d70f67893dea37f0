"""Saving and loading: keys a second, with both CPUs for the server, and what the disk itself does.

5,000,000 keys `key:N` with 100-byte values (`--elements N` for another number; `--quick` 1,000,000). SAVE writes them to a file; the
server is started again on its directory, and has loaded when it answers DBSIZE with their number. With append-only files the same
keys are loaded from the log of their SETs. The disk's rows write and read a file of the size that the first server's had, with a sync at the
end and from the page cache.
"""

import os
import shutil
import tempfile
import time

from generator import Ended, ask, load_keys
from probe import PROBE_CPUS, PROBE_WORKERS
from servers import Server

NAME = "save_load"
TIMEOUT_S = 600
POLL_S = 0.01
BLOCK_BYTES = 1 << 20


def measure(run):
    keys = run.elements or run.pick(5_000_000, 1_000_000)
    file_bytes = 0
    for program in run.programs:
        run.progress(program.name)
        rows = [
            run.table.row("SAVE: thousand keys a second", "1/s", 0),
            run.table.row("SAVE: file written", "MB/s", 0),
            run.table.row("Load of that file: thousand keys a second", "1/s", 0),
            run.table.row("Load of an append-only file of SETs: thousand keys a second", "1/s", 0),
        ]
        threads = PROBE_WORKERS if program.is_halcyon else 1
        run.attempt(rows, program.name, lambda: [*saved(program, threads, keys), logged(program, threads, keys)])
        file_bytes = file_bytes or keys * 116
    rows = [run.table.row("The disk itself: write with sync", "MB/s", 0), run.table.row("The disk itself: read", "MB/s", 0)]
    run.attempt(rows, run.programs[0].name, lambda: disk_speed(file_bytes))


def saved(program, threads, keys):
    server = Server(program, threads=threads, cpus=PROBE_CPUS)
    try:
        load_keys(server, keys)
        with server.connect(timeout_s=TIMEOUT_S) as connection:
            started_s = time.monotonic()
            Ended(connection).call("SAVE")
            save_s = time.monotonic() - started_s
        file_bytes = os.path.getsize(os.path.join(server.directory, "dump.rdb"))
        load_s = restarted(server, keys)
    finally:
        server.stop()
    return [keys / save_s / 1e3, file_bytes / save_s / 1e6, keys / load_s / 1e3]


def logged(program, threads, keys):
    server = Server(program, ["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"], threads=threads, cpus=PROBE_CPUS)
    try:
        load_keys(server, keys)
        # What everysec has not synced yet.
        time.sleep(2)
        load_s = restarted(server, keys)
    finally:
        server.stop()
    return keys / load_s / 1e3


def restarted(server, keys):
    """Starts the server again on its directory; the seconds until all keys are there."""
    started_s = time.monotonic()
    server.restart()
    with server.connect(timeout_s=TIMEOUT_S) as connection:
        while True:
            answer = ask(connection, "DBSIZE")
            if answer == b":%d" % keys:
                return time.monotonic() - started_s
            if time.monotonic() - started_s > TIMEOUT_S:
                raise RuntimeError(f"not {keys} keys after {TIMEOUT_S} s, but {answer.decode()}")
            time.sleep(POLL_S)


def disk_speed(file_bytes):
    directory = tempfile.mkdtemp(prefix="halcyon-bench-")
    try:
        path = os.path.join(directory, "file")
        block = os.urandom(BLOCK_BYTES)
        started_s = time.monotonic()
        with open(path, "wb", buffering=0) as file:
            for _ in range(file_bytes // BLOCK_BYTES):
                file.write(block)
            os.fdatasync(file.fileno())
        write_s = time.monotonic() - started_s
        started_s = time.monotonic()
        with open(path, "rb", buffering=0) as file:
            while file.read(BLOCK_BYTES):
                pass
        return [file_bytes / write_s / 1e6, file_bytes / (time.monotonic() - started_s) / 1e6]
    finally:
        shutil.rmtree(directory)
