"""Loading the append-only files and snapshots: at a start, which may take its time, and anew."""

from harness import Error, Server, check, encode, expect, free_port, run_to_end, wait_until
from append_only import APPEND, fields, kill, newest_incr, wait_until_written, write_more
from persistence import DEBUG, NO_SAVE_POINTS, digest, directory, wait_until_loaded


@check
def loaded_anew():
    """DEBUG LOADAOF takes what the files have, and goes on with them"""
    with Server(*APPEND) as server, server.connect() as client:
        wait_until_loaded(client)
        write_more(client)
        before = digest(client)
        expect(client.call("DEBUG", "LOADAOF"), "OK")
        expect(digest(client), before)
        client.call("SET", "after", 1)
        before = digest(client)
        expect(client.call("DEBUG", "LOADAOF"), "OK")
        expect(digest(client), before)
    with Server(*DEBUG, *NO_SAVE_POINTS) as server, server.connect() as client:
        expect(client.call("DEBUG", "LOADAOF"), Error("ERR Error trying to load the AOF files, check server logs."))


@check
def loaded_anew_under_load():
    """DEBUG LOADAOF loses no write that was answered, and tells replicas nothing twice"""
    count = 20_000
    with Server(*APPEND) as server, server.connect() as client, server.connect() as writer, server.connect() as waiter:
        wait_until_loaded(client)
        follow = ["--replicaof", "127.0.0.1", server.port]
        with Server(*DEBUG, *NO_SAVE_POINTS, *follow) as replica, replica.connect() as reader:
            linked = b"master_link_status:up"
            wait_until(lambda: linked in reader.call("INFO", "replication"), "the link to the primary")
            client.call("RPUSH", "list", "a", "b")
            client.call("RPOP", "list")
            waiter.send(encode("BLPOP", "none", 0))
            for number in range(5):
                writer.send(encode("INCR", "counter") * count)
                expect(client.call("DEBUG", "LOADAOF"), "OK")
                for wanted in range(count):
                    expect(writer.reply(), number * count + wanted + 1)
            expect(client.call("LRANGE", "list", 0, -1), [b"a"])
            wait_until(lambda: reader.call("GET", "counter") == str(5 * count).encode(), "the replica to have all")
            expect(digest(reader), digest(client))
            client.call("RPUSH", "none", "x")
            expect(waiter.reply(), [b"none", b"x"])


@check
def loading_takes_its_time():
    """key-load-delay slows down the loading of snapshots and of append-only files, until it is taken back"""
    with directory() as path:
        with Server(*APPEND, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            for number in range(300):
                client.call("SET", f"k{number}", number)
            expect(client.call("SAVE"), "OK")
            expect(server.terminate(), 0)
        for options in (APPEND, [*DEBUG, *NO_SAVE_POINTS]):
            with Server(*options, "--key-load-delay", 100_000, directory=path) as server, server.connect() as client:
                expect(fields(client)["loading"], "1")
                refused = client.call("GET", "k1")
                assert isinstance(refused, Error) and refused.startswith("LOADING"), refused
                expect(client.call("CONFIG", "SET", "key-load-delay", 0), "OK")
                wait_until_loaded(client)
                expect(client.call("DBSIZE"), 300)


@check
def failing_commands_of_files():
    """propagation-error-behavior panic refuses append-only files of which a command fails"""
    with directory() as path:
        with Server(*APPEND, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            client.call("SET", "k", "v")
            wait_until_written(client)
            kill(server)
        with open(newest_incr(path), "ab") as file:
            file.write(encode("LPUSH", "k", "x") + encode("SET", "after", 1))
        with Server(*APPEND, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(client.call("GET", "after"), b"1")
            assert "ended with an error, as they may have" in server.log()
            kill(server)
        refusing = [*APPEND, "--propagation-error-behavior", "panic"]
        status, lines = run_to_end("--port", free_port(), "--dir", path, *refusing)
        told = "propagation-error-behavior is panic. The first: LPUSH: WRONGTYPE"
        assert status != 0 and any(told in line for line in lines), lines


@check
def loading_is_shown():
    """while the files are loaded the server answers what needs no data, and INFO tells how far it is"""
    with directory() as path:
        with Server(*APPEND, "--appendfsync", "no", directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            script = "for n = 1, 100000 do redis.call('RPUSH', 'list' .. n % 100, n) end"
            for _ in range(10):
                client.call("EVAL", script, 0)
            expect(server.terminate(), 0)
        with Server(*APPEND, directory=path) as server, server.connect() as client:
            shown = fields(client)
            if shown["loading"] == "1":
                assert int(shown["loading_total_bytes"]) >= int(shown["loading_loaded_bytes"]), shown
                refused = client.call("GET", "k")
                assert refused is None or refused.startswith("LOADING"), refused
            wait_until_loaded(client)
            expect(client.call("LLEN", "list7"), 10_000)
            assert "DB loaded from append only file" in server.log()
