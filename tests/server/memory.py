"""Memory under its limit: maxmemory with pipelines, and lowered while nobody writes."""

import re

from harness import Server, check, encode, expect, wait_until

MIB = 1024 * 1024


def info(client, field):
    text = client.call("INFO")
    return int(re.search(rb"\r\n%s:(\d+)\r\n" % field.encode(), b"\r\n" + text)[1])


@check
def limit_holds():
    """maxmemory holds for data plus buffers while clients write far more, and every command is answered"""
    with Server("--maxmemory", 32 * MIB, "--maxmemory-policy", "allkeys-lru") as server, server.connect() as client:
        sent = 0
        for batch in range(60):
            commands = [encode("SET", f"key:{batch}:{n}", b"x" * (n * 37 % 9_000)) for n in range(300)]
            client.send(b"".join(commands))
            for _ in commands:
                expect(client.reply(), "OK")
            sent += len(commands)
            used = info(client, "used_memory")
            assert used < 34 * MIB, f"{used} bytes are used"
        assert info(client, "evicted_keys") > 0, "nothing was evicted"
        expect(info(client, "evicted_keys") + client.call("DBSIZE"), sent)


@check
def limit_lowered():
    """Lowering maxmemory evicts in the background, without a command that writes"""
    with Server("--maxmemory-policy", "allkeys-random") as server, server.connect() as client:
        client.send(b"".join(encode("SET", f"key:{n}", b"x" * 1_000) for n in range(20_000)))
        for _ in range(20_000):
            expect(client.reply(), "OK")
        expect(client.call("CONFIG", "SET", "maxmemory", info(client, "used_memory") - 8 * MIB), "OK")
        wait_until(lambda: client.call("DBSIZE") < 13_000, "keys are evicted")
        assert client.call("DBSIZE") > 5_000, "far too many keys were evicted"
