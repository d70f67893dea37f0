"""GET over TLS: the server's CPU time per command, and requests per second.

redis-benchmark --tls on CPU 1, 50 connections, 64 B values, 100,000 keys that all exist, at pipelines of 16 and 1; TLS 1.3 with an
elliptic-curve certificate that is made for the run. Peers that were built without TLS are left out.
CPU is user and system time of the process from /proc over the run, handshakes included; the median of the rounds.
"""

import contextlib
import os
import subprocess
import tempfile

from generator import load_keys, redis_benchmark
from servers import Server, free_port

NAME = "tls"
KEYS = 100_000
VALUE_BYTES = 64
CONNECTIONS = 50


def measure(run):
    requests_of_pipeline = {16: run.pick(500_000, 200_000), 1: run.pick(100_000, 40_000)}
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        options = make_certificate(directory)
        servers = [server for program in run.programs if (server := start(run, stack, program, options))]
        for server in servers:
            load_keys(server, KEYS, zero_padded_to=12, value=b"x" * VALUE_BYTES)
        for pipeline, requests in requests_of_pipeline.items():
            rows = [
                run.table.row(f"GET over TLS, pipeline {pipeline}: CPU per command", "us", 3),
                run.table.row(f"GET over TLS, pipeline {pipeline}: throughput", "requests/s", 0),
            ]
            run.progress(rows[0].title)
            for _ in range(run.pick(3, 1)):
                for server in servers:
                    run.attempt(rows, server.name, lambda: once(server, directory, pipeline, requests))


def make_certificate(directory):
    """A certificate that signs itself; returns the options of a server that has it."""
    certificate, key = os.path.join(directory, "server.crt"), os.path.join(directory, "server.key")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    return ["--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificate, "--tls-auth-clients", "no"]


def start(run, stack, program, options):
    """The server with a TLS port, `server.tls_port`; None if it has no TLS."""
    tls_port = free_port()
    try:
        server = Server(program, ["--tls-port", str(tls_port), *options])
    except RuntimeError as error:
        run.progress(f"{program.name} is left out: {error}")
        return None
    stack.callback(server.stop)
    server.tls_port = tls_port
    return server


def once(server, directory, pipeline, requests):
    before_s = server.cpu_s()
    per_s = redis_benchmark(
        server, "--tls", "--cacert", os.path.join(directory, "server.crt"), "-t", "get", "-c", CONNECTIONS, "-d", VALUE_BYTES,
        "-r", KEYS, "-P", pipeline, "-n", requests, port=server.tls_port,
    )
    return (server.cpu_s() - before_s) / requests * 1e6, per_s
