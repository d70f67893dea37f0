"""Filesystems of their own for nodes' data, small enough to be filled: tmpfs, in a mount namespace of this run."""

import ctypes
import errno
import os
import pathlib
import shutil
import subprocess

# More than a node writes in hundreds of rounds. It is memory, as far as it is used.
SIZE_BYTES = 256 << 20
PIECE = bytes(1 << 20)
FILLER = "filler"
CLONE_NEWNS = 0x0002_0000


class Unavailable(Exception):
    """This machine does not allow mounts."""


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{command[0]}: {done.stderr.strip()}")


def can_mount(directory):
    """Whether this process, and those that it starts from now on, can mount what nobody else sees. If not, that is said."""
    try:
        enter_namespace()
        trial = pathlib.Path(directory, "trial")
        trial.mkdir()
        Disk(trial).end()
        trial.rmdir()
    except (Unavailable, FileNotFoundError) as reason:
        print(f"no filesystem of its own for each node, so no disk is full: {reason}", flush=True)
        return False
    return True


def enter_namespace():
    if os.geteuid() != 0:
        raise Unavailable("only root can mount")
    unshare = getattr(ctypes.CDLL(None, use_errno=True), "unshare", None)
    if unshare is None:
        raise Unavailable("there are no mount namespaces here")
    if unshare(CLONE_NEWNS) != 0:
        raise Unavailable(f"unshare: {os.strerror(ctypes.get_errno())}")
    run("mount", "--make-rprivate", "/")


class Disk:
    """A filesystem at `path`, a directory."""

    def __init__(self, path):
        self.path, self.was_full = pathlib.Path(path), False
        run("mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES},mode=700", "halcyon-consistency", self.path)

    def fill(self, left_bytes=0):
        """Until this is left of its room; again, what was let go of since is taken as well."""
        self.was_full = True
        with open(self.path / FILLER, "ab", buffering=0) as filler:
            try:
                while True:
                    filler.write(PIECE)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            filler.truncate(max(0, filler.seek(0, os.SEEK_END) - left_bytes))

    def free(self):
        (self.path / FILLER).unlink(missing_ok=True)

    def end(self):
        """Nothing is left of it but the directory."""
        run("umount", self.path)

    def leave(self):
        """As `end`, but the directory has its files."""
        copy = self.path.with_name(f"{self.path.name}.copy")
        shutil.copytree(self.path, copy)
        self.end()
        copy.replace(self.path)
