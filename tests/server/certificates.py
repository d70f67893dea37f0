"""Certificates for the TLS checks, made with openssl in a directory of their own."""

import os
import shutil
import subprocess
import tempfile

PASSWORD = "opensesame"


class Certificates:
    """An authority `ca`, `server` and `client` certificates that it signed, and a `stranger` that another one did.

    For each name there are `NAME.crt` and `NAME.key`. A context manager that removes them.
    """

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="halcyon-tls-")
        self.authority("ca")
        self.authority("other")
        for name, signer in [("server", "ca"), ("server2", "ca"), ("client", "ca"), ("stranger", "other")]:
            self.leaf(name, signer)
        self.leaf("rsa", "ca", ["rsa:2048"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.directory, name)

    def authority(self, name):
        self.openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
            "-keyout", f"{name}.key", "-out", f"{name}.crt", "-subj", f"/CN=Halcyon test {name}",
        )

    def leaf(self, name, signer, key=("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")):
        self.openssl(
            "req", "-newkey", *key, "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"
        )
        with open(self.path("extensions"), "w", encoding="ascii") as file:
            file.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        self.openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", f"{signer}.crt", "-CAkey", f"{signer}.key", "-days", "30",
            "-set_serial", str(int.from_bytes(os.urandom(8), "big") >> 1), "-extfile", "extensions", "-out", f"{name}.crt",
        )

    def openssl(self, *arguments):
        done = subprocess.run(
            ["openssl", *arguments], cwd=self.directory, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=60, check=False,
        )
        assert done.returncode == 0, f"openssl {arguments[0]}: {done.stderr}"
        return done.stdout

    def options(self, server="server", *others):
        """Directives of a server that has these certificates."""
        return [
            "--tls-cert-file", self.path(f"{server}.crt"), "--tls-key-file", self.path(f"{server}.key"),
            "--tls-ca-cert-file", self.path("ca.crt"), *others,
        ]
