"""Users: in the configuration and in a file, and what a change means to connections of all workers."""

import contextlib
import os
import tempfile

from harness import Error, Server, check, expect, free_port, run_to_end

NO_PING = Error("NOPERM User bob has no permissions to run the 'ping' command")


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def refused(*arguments):
    code, lines = run_to_end(*arguments)
    assert code not in (0, None), f"exit code {code}, output {lines}"
    expect(len(lines), 1, f"lines of {lines}")
    return lines[0]


@check
def acl_configuration_refused():
    """Users that cannot be had end the process with a line that says why"""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "users.acl")
        write(path, "user bob on nopass +@all\nuser bob\nuser eve +nosuch\n")
        both = refused("--port", free_port(), "--aclfile", path, "--user", "tim", "on")
        assert "define either an ACL file or declare users directly in your redis.conf, but not both" in both, both
        line = refused("--port", free_port(), "--aclfile", path)
        assert "Duplicate user 'bob' found on line 2" in line, line
        assert f"{path}:3: Error in applying operation '+nosuch': Unknown command" in line, line
        line = refused("--port", free_port(), "--aclfile", os.path.join(directory, "missing.acl"))
        assert "missing.acl': No such file or directory" in line, line
    line = refused("--port", free_port(), "--user", "bob", "on", "nonsense")
    assert "Error in user declaration 'nonsense': Syntax error" in line, line


@check
def acl_changes_reach_every_worker():
    """A changed user is refused, and a deleted one closed, on the connections of all workers at once"""
    with Server(threads=4) as server, contextlib.ExitStack() as stack:
        admin = stack.enter_context(server.connect())
        expect(admin.call("ACL", "SETUSER", "bob", "on", ">pw", "+@all", "~*", "&*"), "OK")
        theirs = [stack.enter_context(server.connect()) for _ in range(64)]
        for client in theirs:
            expect(client.call("AUTH", "bob", "wrong")[:9], "WRONGPASS")
            expect(client.call("AUTH", "bob", "pw"), "OK")
        for allowed in (False, True, False, True):
            expect(admin.call("ACL", "SETUSER", "bob", "+ping" if allowed else "-ping"), "OK")
            for client in theirs:
                expect(client.call("PING"), "PONG" if allowed else NO_PING)
        listening = theirs[0]
        expect(listening.call("SUBSCRIBE", "news"), [b"subscribe", b"news", 1])
        expect(admin.call("ACL", "SETUSER", "bob", "resetchannels", "&other"), "OK")
        assert listening.at_end(), "a connection goes on listening to a channel that it may not"
        for client in theirs[1:]:
            expect(client.call("PING"), "PONG")
        expect(admin.call("ACL", "DELUSER", "bob"), 1)
        for client in theirs[1:]:
            assert client.at_end(), "a connection of a deleted user stays open"
        expect(admin.call("ACL", "WHOAMI"), b"default")
        denied = [line for line in admin.call("INFO", "stats").decode().split() if line.startswith("acl_access_denied")]
        expect(denied[:2], ["acl_access_denied_auth:64", "acl_access_denied_cmd:128"])


@check
def acl_users_survive_a_restart():
    """ACL SAVE keeps users for the next start; passwords are drawn anew each time, and kept as hashes"""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "users.acl")
        write(path, "")
        with Server("--aclfile", path) as server, server.connect() as client:
            password, other = client.call("ACL", "GENPASS"), client.call("ACL", "GENPASS")
            assert len(password) == 64 and password != other, (password, other)
            expect(client.call("ACL", "SETUSER", "bob", "on", b">" + password, "+get", "~a*"), "OK")
            expect(client.call("ACL", "SETUSER", "default", "off"), "OK")
            expect(client.call("ACL", "SAVE"), "OK")
            users = client.call("ACL", "LIST")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert password.decode() not in text, text
        expect(text.splitlines(), [user.decode() for user in users])
        with Server("--aclfile", path) as server, server.connect() as client:
            expect(client.call("GET", "a"), Error("NOAUTH Authentication required."))
            expect(client.call("AUTH", "bob", password), "OK")
            expect(client.call("GET", "a"), None)
            expect(client.call("GET", "b"), Error("NOPERM No permissions to access a key"))
