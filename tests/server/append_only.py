"""The append-only files: written, loaded, rewritten, exchanged with other servers, and when the disk fails."""

import contextlib
import glob
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import time

from harness import PATIENCE_S, Client, Error, Server, Skip, binary, check, expect, free_port, run_to_end, wait_until
from persistence import DEBUG, NO_SAVE_POINTS, digest, directory, fill, redis, wait_until_loaded

APPEND = ["--appendonly", "yes", *DEBUG, *NO_SAVE_POINTS]
PEERS = pathlib.Path.home() / ".cache/halcyon-peers/bin"


def aof(path, name=""):
    return os.path.join(path, "appendonlydir", name)


def manifest(path):
    with open(aof(path, "appendonly.aof.manifest"), encoding="utf-8") as file:
        return file.read()


def newest_incr(path):
    return sorted(glob.glob(aof(path, "*.incr.aof")), key=os.path.getmtime)[-1]


def fields(client):
    lines = client.call("INFO", "persistence").decode().split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def kill(server):
    """SIGKILL: nothing is written any more but what the operating system has."""
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(timeout=PATIENCE_S)
    # The harness takes any end but an orderly one for a failure.
    server.process.returncode = 0


def wait_until_written(client):
    wait_until(lambda: fields(client)["aof_buffer_length"] == "0", "the log in the files")


def wait_until_rewritten(client):
    wait_until(
        lambda: (now := fields(client))["aof_rewrite_in_progress"] == "0" and now["aof_rewrite_scheduled"] == "0",
        "the end of the rewrite",
    )
    expect(fields(client)["aof_last_bgrewrite_status"], "ok")


@contextlib.contextmanager
def peer(name, path):
    """Another server of the Redis family on that directory; yields a client."""
    program = PEERS / name
    if not program.exists():
        raise Skip(f"there is no {program}")
    port = free_port()
    options = ["--dir", path, "--save", "", "--appendonly", "yes", *DEBUG]
    command = [str(word) for word in [program, "--port", port, "--bind", "127.0.0.1", *options]]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield connect_to(process, port)
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)


def connect_to(process, port):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError):
            client = Client(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
            if client.call("PING") == "PONG":
                return client
        assert time.monotonic() < deadline and process.poll() is None, "the other server did not start"
        time.sleep(0.02)


def write_more(client):
    """Every type again, so that it is in the log and not in a base; several databases, transactions and scripts."""
    fill(client)
    client.call("PEXPIREAT", "ends", int(time.time() * 1000) + 1_000_000)
    client.call("MULTI")
    client.call("INCR", "counter")
    client.call("RPUSH", "list:small", "a", "b")
    client.call("EXEC")
    client.call("EVAL", "redis.call('SET', KEYS[1], 1) redis.call('INCR', KEYS[1])", 1, "scripted")
    client.call("MOVE", "scripted", 5)
    client.call("RENAME", "hash:small", "hash:renamed")
    client.call("DEL", "string:7", "string:8")
    client.call("SETRANGE", "long", 50_000, "changed")
    client.call("XACK", "stream", "group", "1-1")


@check
def appended_and_loaded():
    """what was acknowledged is there after SIGKILL, with each appendfsync, and again after a clean end"""
    for policy in ["always", "everysec", "no"]:
        with directory() as path:
            options = [*APPEND, "--appendfsync", policy, "--aof-timestamp-enabled", "yes"]
            with Server(*options, directory=path) as server, server.connect() as client:
                wait_until_loaded(client)
                write_more(client)
                before = digest(client)
                expect(client.call("WAITAOF", 1, 0, 0 if policy != "no" else 1), [int(policy != "no"), 0])
                wait_until_written(client)
                kill(server)
            for _ in range(2):
                with Server(*options, directory=path) as server, server.connect() as client:
                    wait_until_loaded(client)
                    expect(digest(client), before, f"digest with appendfsync {policy}")
                    assert 900 < client.call("TTL", "ends") <= 1_000
                    expect(client.call("INCR", "again"), 1)
                    expect(client.call("DEL", "again"), 1)
                    expect(server.terminate(), 0)
                    assert "append-only files are safe" in server.log(), server.log()


@check
def appended_elsewhere():
    """redis-server loads what is written here, and the way back; redis-check-aof finds nothing wrong with it"""
    if not shutil.which("redis-server"):
        raise Skip("there is no redis-server")
    with directory() as path:
        exchange(path, lambda: redis(path, "--appendonly", "yes"))
        checker = shutil.which("redis-check-aof")
        if checker:
            command = [checker, aof(path, "appendonly.aof.manifest")]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            expect(done.returncode, 0, f"redis-check-aof: {done.stdout}")


@check
def appended_by_redis_8():
    """Redis 8 loads what is written here, and the way back"""
    with directory() as path:
        exchange(path, lambda: peer("redis8-server", path))


@check
def appended_by_valkey_9():
    """Valkey 9 loads what is written here, and the way back"""
    with directory() as path:
        exchange(path, lambda: peer("valkey9-server", path))


def exchange(path, other):
    with Server(*APPEND, directory=path) as server, server.connect() as client:
        wait_until_loaded(client)
        write_more(client)
        # Later servers write such scores with fewer digits, which their digests go by.
        client.call("DEL", "zset:large")
        for number in range(300):
            client.call("ZADD", "zset:large", number / 4, f"member:{number}")
        before = digest(client)
        expect(server.terminate(), 0)
    with other() as client:
        expect(digest(client), before, "digest there")
        client.call("SADD", "set:large", "from there")
        client.call("MULTI")
        client.call("SET", "both", 1)
        client.call("SELECT", 4)
        client.call("SET", "both", 2)
        client.call("EXEC")
        client.call("SPOP", "set:large")
        client.call("SELECT", 0)
        client.call("SET", "timed", "value", "EX", 500)
        before = digest(client)
        client.send(b"SHUTDOWN NOSAVE\r\n")
        assert client.at_end()
    with Server(*APPEND, directory=path) as server, server.connect() as client:
        wait_until_loaded(client)
        expect(digest(client), before, "digest of what was written there")
        assert 400 < client.call("TTL", "timed") <= 500
        client.call("SET", "ours", "again")
        before = digest(client)
        expect(client.call("BGREWRITEAOF"), "Background append only file rewriting started")
        wait_until_rewritten(client)
        client.call("SET", "ours", "after the rewrite")
        before = digest(client)
        expect(server.terminate(), 0)
    with other() as client:
        expect(digest(client), before, "digest there, after a rewrite here")


@check
def rewritten_under_load():
    """BGREWRITEAOF in both formats while keys are written: nothing is lost, and the old files go"""
    for preamble in ["yes", "no"]:
        with directory() as path:
            options = [*APPEND, "--aof-use-rdb-preamble", preamble]
            with Server(*options, directory=path) as server, server.connect() as client:
                wait_until_loaded(client)
                write_more(client)
                client.send(b"".join(b"*3\r\n$3\r\nSET\r\n$7\r\nk%06d\r\n$3\r\nold\r\n" % n for n in range(50_000)))
                for _ in range(50_000):
                    expect(client.reply(), "OK")
                for turn in range(3):
                    with server.connect() as other:
                        other.call("BGREWRITEAOF")
                        client.send(b"".join(b"*2\r\n$4\r\nINCR\r\n$5\r\nn%04d\r\n" % (n % 1000) for n in range(20_000)))
                        for _ in range(20_000):
                            client.reply()
                        wait_until_rewritten(other)
                    expect(int(fields(client)["aof_rewrites"]), turn + 1)
                before = digest(client)
                wait_until_written(client)
                listed = manifest(path)
                expect(listed.count(" type i"), 1, f"files in {listed}")
                base = "appendonly.aof.4.base." + ("rdb" if preamble == "yes" else "aof")
                assert base in listed, listed
                expect(len(os.listdir(aof(path))), 3, f"files: {os.listdir(aof(path))}")
                sizes = fields(client)
                assert int(sizes["aof_current_size"]) >= int(sizes["aof_base_size"]) > 100_000, sizes
                kill(server)
            with Server(*options, directory=path) as server, server.connect() as client:
                wait_until_loaded(client)
                expect(digest(client), before)
                expect(client.call("GET", "n0500"), b"60")


@check
def rewritten_by_growth():
    """files that have grown enough are rewritten without being asked; BGSAVE and a rewrite wait for each other"""
    options = [*APPEND, "--auto-aof-rewrite-min-size", "100kb", "--auto-aof-rewrite-percentage", "50"]
    with Server(*options) as server, server.connect() as client:
        wait_until_loaded(client)
        for _ in range(300):
            client.call("SET", "k", "x" * 1000)
        wait_until(lambda: fields(client)["aof_rewrites"] != "0", "a rewrite")
        wait_until_rewritten(client)
        assert "Starting automatic rewriting of AOF on" in server.log()
        assert int(fields(client)["aof_current_size"]) < 100_000
        client.call("MULTI")
        client.call("BGSAVE")
        client.call("BGREWRITEAOF")
        scheduled = ["Background saving scheduled", "Background append only file rewriting scheduled"]
        expect(client.call("EXEC"), scheduled)
        wait_until(lambda: fields(client)["rdb_saves"] == "1", "the save")
        wait_until_rewritten(client)
        expect(fields(client)["aof_rewrites"], "2")


@check
def begun_at_run_time():
    """CONFIG SET appendonly yes takes over what is in memory; no ends the files; a rewrite works without them"""
    with directory() as path:
        with Server(*DEBUG, *NO_SAVE_POINTS, directory=path) as server, server.connect() as client:
            fill(client)
            expect(client.call("CONFIG", "SET", "appendonly", "yes"), "OK")
            client.call("SET", "after", 1)
            wait_until(lambda: fields(client)["aof_rewrites"] == "1", "the base")
            client.call("SET", "later", 1)
            before = digest(client)
            wait_until_written(client)
            expect(fields(client)["aof_enabled"], "1")
            kill(server)
        with Server(*APPEND, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(digest(client), before)
            expect(client.call("FCALL", "five", 0), 5)
            expect(client.call("CONFIG", "SET", "appendonly", "no"), "OK")
            expect(fields(client)["aof_enabled"], "0")
            client.call("SET", "unseen", 1)
            listed = manifest(path)
            expect(client.call("BGREWRITEAOF"), "Background append only file rewriting started")
            wait_until_rewritten(client)
            assert manifest(path) != listed
            before = digest(client)
            client.call("SET", "lost", 1)
            client.call("MULTI")
            client.call("CONFIG", "SET", "appendonly", "yes")
            client.call("SET", "kept", 1)
            expect(client.call("EXEC"), ["OK", "OK"])
            wait_until(lambda: fields(client)["aof_rewrites"] == "2", "the files that a transaction began")
            wait_until_rewritten(client)
            expect(client.call("CONFIG", "SET", "appendonly", "no"), "OK")
            expect(client.call("DEL", "lost", "kept"), 2)
            expect(client.call("BGREWRITEAOF"), "Background append only file rewriting started")
            wait_until_rewritten(client)
        with Server(*APPEND, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(digest(client), before)


@check
def snapshot_beside():
    """with appendonly yes a snapshot is not loaded, as in Redis, and the log says so"""
    with directory() as path:
        with Server(*NO_SAVE_POINTS, directory=path) as server, server.connect() as client:
            client.call("SET", "k", "v")
            expect(client.call("SAVE"), "OK")
        with Server(*APPEND, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(client.call("DBSIZE"), 0)
            assert "dump.rdb is not loaded" in server.log(), server.log()
            expect(sorted(os.listdir(aof(path)))[0], "appendonly.aof.1.base.rdb")


@check
def torn_tail():
    """an end that is not whole is cut off under aof-load-truncated, else refused; half a transaction is never served"""
    with directory() as path:
        with Server(*APPEND, "--appendfsync", "always", directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            client.call("SET", "first", 1)
            client.call("SET", "second", 2)
            client.call("MULTI")
            for number in range(10):
                client.call("SET", f"t{number}", number)
            client.call("EXEC")
            wait_until_written(client)
            kill(server)
        name = newest_incr(path)
        with open(name, "rb") as file:
            content = file.read()
        for cut in [3, content.index(b"t5"), len(content) - 20]:
            with open(name, "wb") as file:
                file.write(content[: len(content) - cut] if cut < 20 else content[:cut])
            code, lines = run_to_end(*APPEND, "--aof-load-truncated", "no", "--port", free_port(), "--dir", path)
            assert code != 0 and any("halcyon check --fix" in line and name in line for line in lines), lines
            with Server(*APPEND, directory=path) as server, server.connect() as client:
                wait_until_loaded(client)
                expect(client.call("MGET", "first", "second"), [b"1", b"2"])
                expect(client.call("EXISTS", *[f"t{number}" for number in range(10)]), 0)
                assert "was not whole at its end" in server.log(), server.log()
                expect(client.call("SET", "third", 3), "OK")
                expect(server.terminate(), 0)
            with Server(*APPEND, directory=path) as server, server.connect() as client:
                wait_until_loaded(client)
                expect(client.call("MGET", "second", "third"), [b"2", b"3"])


@check
def damaged_files():
    """what was changed or is missing is not loaded: one line says which file, where, and what to do"""
    with directory() as path:
        with Server(*APPEND, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            for number in range(1000):
                client.call("SET", f"k{number}", number)
            expect(server.terminate(), 0)
        name = newest_incr(path)
        with open(name, "rb") as file:
            content = file.read()
        middle = len(content) // 2
        with open(name, "wb") as file:
            file.write(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        code, lines = run_to_end(*APPEND, "--port", free_port(), "--dir", path)
        assert code != 0 and any(name in line and "halcyon check --fix" in line for line in lines), lines
        code, lines = run_check(path)
        assert code == 1 and any(name in line for line in lines), lines
        os.remove(name)
        code, lines = run_to_end(*APPEND, "--port", free_port(), "--dir", path)
        assert code != 0 and any(name in line and "missing" in line for line in lines), lines
        with open(name, "wb") as file:
            file.write(content + b"*1\r\n$7\r\nNOTHING\r\n")
        code, lines = run_to_end(*APPEND, "--port", free_port(), "--dir", path)
        assert code != 0 and any("NOTHING" in line and "unknown" in line for line in lines), lines


def run_check(*arguments):
    command = [binary(), "check", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


@check
def checked_and_mended():
    """halcyon check says of each file whether it is whole, and cuts off an end that is not if it is asked to"""
    with directory() as path:
        with Server(*APPEND, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            fill(client)
            expect(client.call("SAVE"), "OK")
            expect(server.terminate(), 0)
        for subject in [path, aof(path), aof(path, "appendonly.aof.manifest"), os.path.join(path, "dump.rdb")]:
            code, lines = run_check(subject)
            assert code == 0 and lines and all(line.endswith("whole") for line in lines), (subject, lines)
        name = newest_incr(path)
        whole = os.path.getsize(name)
        with open(name, "ab") as file:
            file.write(b"*3\r\n$3\r\nSET\r\n$1")
        code, lines = run_check(path)
        assert code == 1 and os.path.getsize(name) > whole, lines
        code, lines = run_check(path, "--fix")
        assert code == 0 and os.path.getsize(name) == whole, lines
        expect(run_check(path)[0], 0)
        expect(run_check(os.path.join(path, "nothing"))[0], 1)


@check
def single_file():
    """the one file of a server before Redis 7 is taken over as the base, snapshot and commands"""
    with directory() as path:
        with Server(*NO_SAVE_POINTS, directory=path) as server, server.connect() as client:
            client.call("SET", "saved", 1)
            expect(client.call("SAVE"), "OK")
        command = b"*3\r\n$3\r\nSET\r\n$8\r\nappended\r\n$1\r\n2\r\n"
        with open(os.path.join(path, "dump.rdb"), "rb") as file:
            snapshot = file.read()
        for content, keys in [(snapshot + command, 2), (command, 1)]:
            shutil.rmtree(aof(path), ignore_errors=True)
            with open(os.path.join(path, "appendonly.aof"), "wb") as file:
                file.write(content)
            for _ in range(2):
                with Server(*APPEND, directory=path) as server, server.connect() as client:
                    wait_until_loaded(client)
                    expect(client.call("DBSIZE"), keys)
                    expect(client.call("GET", "appended"), b"2")
                    client.call("SET", "appended", 2)
                    expect(server.terminate(), 0)
            assert "file appendonly.aof seq 1 type b" in manifest(path), manifest(path)
            assert not os.path.exists(os.path.join(path, "appendonly.aof"))


def limit_files():
    """Files of this process, and of the program it becomes, have 600 kB at most; a write beyond fails."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))


@check
def full_disk():
    """a disk that takes no more: writes are refused, reads are not, one line tells; it recovers by itself, and nothing is lost"""
    with directory() as path:
        with Server(*APPEND, directory=path, before_start=limit_files) as server, server.connect() as client:
            wait_until_loaded(client)
            acknowledged = 0
            while (reply := client.call("SET", f"k{acknowledged}", "x" * 1000)) == "OK":
                acknowledged += 1
                assert acknowledged < 100_000, "the disk was never full"
            assert reply.startswith("MISCONF Errors writing to the AOF file: File too large"), reply
            expect(client.call("GET", "k0"), b"x" * 1000)
            refused = client.call("PING")
            assert isinstance(refused, Error) and refused.startswith("MISCONF"), refused
            refused = client.call("SHUTDOWN", "NOSAVE")
            assert isinstance(refused, Error) and "SHUTDOWN" in refused, refused
            expect(fields(client)["aof_last_write_status"], "err")
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            wait_until(lambda: client.call("PING") == "PONG", "writes again")
            expect(client.call("SET", "after", 1), "OK")
            expect(fields(client)["aof_last_write_status"], "ok")
            wait_until_written(client)
            kill(server)
            expect(server.log().count("cannot be written"), 1, "lines about it")
            expect(server.log().count("are written again"), 1, "lines about its end")
        with Server(*APPEND, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(client.call("DBSIZE"), acknowledged + 1)
            expect(client.call("GET", f"k{acknowledged - 1}"), b"x" * 1000)


@check
def files_that_cannot_be_begun():
    """a replica that cannot begin files for what its primary sent refuses to write, begins them once it can, and keeps what it has"""
    def is_synchronized():
        return b"master_link_status:up" in client.call("INFO", "replication")

    with directory() as path, Server(*NO_SAVE_POINTS, "--repl-diskless-sync-delay", 0) as primary, primary.connect() as other:
        with Server(*APPEND, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(other.call("SET", "k", "v"), "OK")
            # Where the files' directory is to be is a file.
            os.rename(aof(path), f"{path}/elsewhere")
            pathlib.Path(path, "appendonlydir").touch()
            client.call("REPLICAOF", "127.0.0.1", primary.port)
            wait_until(is_synchronized, "the primary's data")
            expect(client.call("GET", "k"), b"v")
            refused = client.call("PING")
            assert isinstance(refused, Error) and refused.startswith("MISCONF"), refused
            expect(fields(client)["aof_last_write_status"], "err")
            os.remove(f"{path}/appendonlydir")
            os.rename(f"{path}/elsewhere", aof(path))
            wait_until(lambda: client.call("PING") == "PONG", "the files to be begun")
            wait_until(lambda: fields(client)["aof_rewrites"] == "1", "their base")
            expect(fields(client)["aof_last_bgrewrite_status"], "ok")
            expect(other.call("SET", "after", 1), "OK")
            wait_until(lambda: client.call("GET", "after") == b"1", "the stream")
            wait_until_written(client)
            kill(server)
        with Server(*APPEND, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect([client.call("GET", "k"), client.call("GET", "after")], [b"v", b"1"])


@check
def failed_rewrite():
    """a rewrite that fails leaves the files as they were, and is told"""
    with directory() as path:
        with Server(*APPEND, directory=path, before_start=limit_files) as server, server.connect() as client:
            wait_until_loaded(client)
            for number in range(400):
                client.call("SET", f"k{number}", os.urandom(500).hex())
            for _ in range(400):
                client.call("APPEND", "long", os.urandom(500).hex())
                if client.call("STRLEN", "long") > 250_000:
                    break
            client.call("BGREWRITEAOF")
            wait_until(lambda: fields(client)["aof_rewrites_consecutive_failures"] == "1", "the failure")
            expect(fields(client)["aof_last_bgrewrite_status"], "err")
            assert not glob.glob(aof(path, "temp-*")), os.listdir(aof(path))
            limits = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limits)
            wait_until(lambda: client.call("PING") == "PONG", "writes")
            client.call("SET", "more", 1)
            before = digest(client)
            wait_until_written(client)
            kill(server)
        with Server(*APPEND, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(digest(client), before)


@check
def appended_by_a_replica():
    """a replica begins its files anew with each full synchronization, and has in them what its primary sent"""
    with directory() as path, Server(*DEBUG, *NO_SAVE_POINTS) as primary, primary.connect() as writer:
        for number in range(1000):
            writer.call("SET", f"before:{number}", number)
        follow = ["--replicaof", "127.0.0.1", primary.port]
        with Server(*APPEND, *follow, directory=path) as server, server.connect() as client:
            linked = b"master_link_status:up"
            wait_until(lambda: linked in client.call("INFO", "replication"), "the link to the primary")
            wait_until(lambda: fields(client)["aof_rewrites"] != "0", "the base of what was synchronized")
            wait_until_rewritten(client)
            write_more(writer)
            before = digest(writer)
            wait_until(lambda: digest(client) == before, "what was written since")
            wait_until_written(client)
            kill(server)
        with Server(*APPEND, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(digest(client), before)
