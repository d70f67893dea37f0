"""Scripts that take long: who waits for them, and who does not."""

import threading
import time

from harness import PATIENCE_S, Error, Server, check, expect, wait_until

BUSY = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
# Tries to end a script after its first write: a busy machine may end it before that.
ATTEMPTS = 5
KILLED = "ERR Script killed by user with SCRIPT KILL... script: "


def start(server, source, *keys):
    """Runs a script on a connection of its own; returns its thread and, once it is over, its reply in a list."""
    client, replies = server.connect(), []
    thread = threading.Thread(target=lambda: replies.append(client.call("EVAL", source, len(keys), *keys)), daemon=True)
    thread.start()
    return thread, replies


def start_loop(server, *keys):
    """Starts a script that does not end, and waits until it runs apart from the workers."""
    with server.connect() as client:
        started = start(server, "while true do end", *keys)
        wait_until(lambda: client.call("FUNCTION", "STATS")[1] is not None, "a script that runs")
    return started


@check
def runaway_script():
    """A script without end, on one worker: other keys are served, its own are refused, SCRIPT KILL ends it"""
    with Server("--busy-reply-threshold", "100", threads=1) as server, server.connect() as client:
        thread, replies = start_loop(server, "held")
        served = [client.call("SET", f"free{number}", number) for number in range(200)]
        # One stripe of 1,024 is held: hardly more than one of these keys lies in it.
        assert served.count("OK") > 190, served
        expect(str(client.call("GET", "held")), BUSY)
        expect(client.call("SCRIPT", "KILL"), "OK")
        thread.join(PATIENCE_S)
        assert str(replies[0]).startswith(KILLED), replies
        expect(client.call("GET", "held"), None)
        expect(client.call("EVAL", "return 1", 0), 1)


@check
def runaway_scripts():
    """Four scripts without end on keys of their own: workers serve on, and all of them are ended"""
    with Server("--busy-reply-threshold", "100") as server, server.connect() as client:
        started = [start_loop(server, f"held{number}") for number in range(4)]
        served = [client.call("SET", f"free{number}", number) for number in range(200)]
        assert served.count("OK") > 180, served

        def all_ended():
            client.call("SCRIPT", "KILL")
            return not any(thread.is_alive() for thread, _ in started)

        wait_until(all_ended, "the end of all scripts")
        for _, replies in started:
            assert str(replies[0]).startswith(KILLED), replies


@check
def killed_only_before_it_writes():
    """SCRIPT KILL is refused once the script has written; its write is there in the end"""
    source = "redis.call('SET', KEYS[1], 1) for i = 1, 1e8 do end return redis.call('GET', KEYS[1])"
    with Server(threads=1) as server, server.connect() as client:
        for _ in range(ATTEMPTS):
            thread, replies = start(server, source, "written")
            wait_until(lambda: client.call("FUNCTION", "STATS")[1] is not None, "a script that runs")
            time.sleep(0.1)
            refused = client.call("SCRIPT", "KILL")
            still_ran = thread.is_alive()
            thread.join(PATIENCE_S)
            if refused != "OK":
                break
            # It had not come to its first write yet: so it has none.
            expect(client.call("GET", "written"), None)
        if still_ran:
            assert isinstance(refused, Error) and str(refused).startswith(("UNKILLABLE ", "NOTBUSY ")), refused
        expect(replies, [b"1"])
        expect(client.call("GET", "written"), b"1")


@check
def long_scripts_count_once():
    """A script that a worker gives up for its length has no effect twice"""
    source = "redis.call('INCR', KEYS[1]) for i = 1, 2e6 do end return redis.call('GET', KEYS[1])"
    with Server(threads=1) as server, server.connect() as client:
        for number in range(1, 6):
            expect(client.call("EVAL", source, 1, "n"), str(number).encode())


@check
def scripts_on_all_workers():
    """Scripts of many connections, with declared and undeclared keys: every increment counts"""
    rounds, clients = 200, 8
    declared = "return redis.call('INCR', KEYS[1])"
    undeclared = "redis.call('INCR', KEYS[1]) return redis.call('INCR', 'shared' .. ARGV[1])"
    with Server(threads=4) as server:
        failures = []

        def work(number):
            with server.connect() as client:
                for turn in range(rounds):
                    replies = [
                        client.call("EVAL", declared, 1, "declared"),
                        client.call("EVAL", undeclared, 1, f"own{number}", turn % 3),
                    ]
                    failures.extend(reply for reply in replies if isinstance(reply, Error))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expect(failures, [])
        with server.connect() as client:
            expect(int(client.call("GET", "declared")), rounds * clients)
            expect(sum(int(client.call("GET", f"shared{number}")) for number in range(3)), rounds * clients)
            for number in range(clients):
                expect(int(client.call("GET", f"own{number}")), rounds)
