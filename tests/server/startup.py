"""Starting and ending: what cannot work ends with one clear line and a non-zero exit code; signals end cleanly."""

import os
import signal
import socket
import subprocess
import tempfile

from harness import Client, Server, binary, check, encode, expect, free_port, run_to_end, wait_until


def expect_refusal(result, *parts):
    """One line that holds each of `parts`, and a non-zero exit code."""
    code, lines = result
    assert code not in (0, None) and code > 0, f"exit code {code}, output {lines}"
    expect(len(lines), 1, f"lines of {lines}")
    for part in parts:
        assert part in lines[0], f"{part!r} is not in: {lines[0]}"


@check
def port_taken():
    """A port that another program holds is named"""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        expect_refusal(run_to_end("--port", port, "--bind", "127.0.0.1"), str(port), "in use")


@check
def port_taken_by_another():
    """A port that another Halcyon serves is not shared with it"""
    with Server() as server:
        expect_refusal(run_to_end("--port", server.port, "--bind", "127.0.0.1"), str(server.port), "in use")
        with server.connect() as client:
            expect(client.call("PING"), "PONG")


@check
def bad_lines():
    """A wrong line of a file is named by file and line, one of an included file too"""
    cases = [
        ("port 7001\nnosuchdirective yes\n", ":2:", "nosuchdirective"),
        ("\n\n# comment\nmaxclients many\n", ":4:", "maxclients"),
        ('requirepass "unbalanced\n', ":1:", "requirepass"),
        ("port 70000\n", ":1:", "port"),
        ("maxmemory-policy sometimes\n", ":1:", "maxmemory-policy"),
        ("port\n", ":1:", "port"),
    ]
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "redis.conf")
        for text, place, directive in cases:
            write(path, text)
            expect_refusal(run_to_end(path), path + place, directive)
        included = os.path.join(directory, "included.conf")
        write(included, "port 7001\n\ntimeout never\n")
        write(path, f"port 7000\ninclude {included}\n")
        expect_refusal(run_to_end(path), included + ":3:", "timeout")
        missing = os.path.join(directory, "missing.conf")
        expect_refusal(run_to_end(missing), missing)


@check
def bad_arguments():
    """An unknown directive or a wrong value on the command line is named"""
    expect_refusal(run_to_end("--nosuchdirective", "1"), "nosuchdirective")
    expect_refusal(run_to_end("--maxclients", "many"), "maxclients")
    expect_refusal(run_to_end("--threads", "-1"), "threads")
    expect_refusal(run_to_end("--port", "0", "--bind", "127.0.0.1"), "listen")


@check
def bad_directories():
    """A directory or a socket path that cannot be used is named"""
    port = free_port()
    expect_refusal(run_to_end("--port", port, "--dir", "/nonexistent/data"), "/nonexistent/data")
    expect_refusal(run_to_end("--port", port, "--dir", "/etc/passwd"), "/etc/passwd")
    # Not even root can write there.
    if os.path.isdir("/proc/self"):
        expect_refusal(run_to_end("--port", port, "--dir", "/proc"), "/proc")
    expect_refusal(run_to_end("--port", port, "--unixsocket", "/nonexistent/s"), "/nonexistent/s")
    expect_refusal(run_to_end("--port", port, "--logfile", "/nonexistent/log"), "/nonexistent/log")


@check
def other_bad_addresses():
    """An address that is not this machine's is named"""
    expect_refusal(run_to_end("--port", free_port(), "--bind", "192.0.2.1"), "192.0.2.1")


@check
def few_descriptors():
    """Too few file descriptors: maxclients is lowered, and the log says to what"""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        log_path = os.path.join(directory, "log")
        with open(log_path, "wb") as log:
            process = subprocess.Popen(
                ["sh", "-c", 'ulimit -n 200 && exec "$@"', "sh", binary(), "--port", str(port), "--bind", "127.0.0.1"],
                cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )
        try:
            read = lambda: open(log_path, encoding="utf-8").read()
            wait_until(lambda: "ready to accept" in read() or process.poll() is not None, "a start or an end")
            expect(process.poll(), None, f"exit code; log {read()}")
            assert "maxclients" in read() and "168" in read(), read()
        finally:
            process.kill()
            process.wait()


@check
def signals_end_cleanly():
    """SIGTERM and SIGINT end with exit code 0, connections closed, the unix socket and the pid file removed"""
    for number in [signal.SIGTERM, signal.SIGINT]:
        with tempfile.TemporaryDirectory() as directory:
            socket_path, pid_path = os.path.join(directory, "socket"), os.path.join(directory, "pid")
            with Server("--unixsocket", socket_path, "--pidfile", pid_path) as server:
                with server.connect() as client:
                    expect(client.call("SET", "k", "v"), "OK")
                    expect(open(pid_path, encoding="ascii").read().strip(), str(server.process.pid), "pid file")
                    server.process.send_signal(number)
                    expect(server.process.wait(timeout=30), 0, f"exit code after {number.name}")
                    assert client.at_end(), "the connection was not closed"
            expect([os.path.exists(path) for path in (socket_path, pid_path)], [False, False], "files left")


@check
def starts_again_at_once():
    """A server that has just ended can be started again on the same port"""
    with Server() as first:
        with first.connect() as client:
            expect(client.call("PING"), "PONG")
            # The server closes first, which leaves its side in TIME_WAIT.
            expect(first.terminate(), 0, "exit code")
    with Server(port=first.port) as second, second.connect() as client:
        expect(client.call("PING"), "PONG")


@check
def unix_socket():
    """A unix socket serves, with the permissions asked for; port 0 serves nothing else"""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "socket")
        with Server("--unixsocket", path, "--unixsocketperm", "700", port=0):
            expect(os.stat(path).st_mode & 0o777, 0o700, "permissions")
            for _ in range(3):
                connection = socket.socket(socket.AF_UNIX)
                connection.settimeout(30)
                connection.connect(path)
                with Client(connection) as client:
                    client.send(encode("SET", "k", "v") + encode("GET", "k"))
                    expect([client.reply(), client.reply()], ["OK", b"v"])


@check
def version_and_help():
    """--version and --help answer and end with 0"""
    code, lines = run_to_end("--version")
    assert code == 0 and len(lines) == 1 and "Halcyon" in lines[0], (code, lines)
    code, lines = run_to_end("--help")
    assert code == 0 and any("--port" in line for line in lines), (code, lines)


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
