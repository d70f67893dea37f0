"""A way to a server that can be cut, throttled, stalled and closed: what a bad network does to a link."""

import contextlib
import socket
import struct
import threading
import time

PIECE_BYTES = 64 * 1024
# A throttled link passes on so many pieces a second.
PIECES_PER_S = 40
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Proxy:
    """Passes connections on to a port of this machine; a context manager that ends them all."""

    def __init__(self, target_port):
        self.target_port = target_port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        # Both ends of each connection, until one way of it has ended.
        self.pairs = set()
        self.flows = threading.Event()
        self.flows.set()
        self.is_closed = False
        self.bytes_per_s = None
        self.bytes_left = None
        self.cuts = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_closed = True
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.flows.set()
        self.cut()

    def cut(self, resets=False):
        """Ends all connections: with a reset, or as a server does that closes them."""
        with self.lock:
            pairs = list(self.pairs)
        self.cuts += len(pairs)
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    if resets:
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                    end.shutdown(socket.SHUT_RDWR)

    def cut_after(self, count):
        """Ends a connection when so many bytes have passed from now on, in the midst of whatever they are."""
        self.bytes_left = count

    def throttle(self, bytes_per_s):
        """Lets so many bytes a second pass, each way of each connection."""
        self.bytes_per_s = bytes_per_s

    def stall(self):
        """Passes nothing on, and tells nobody."""
        self.flows.clear()

    def close(self):
        """Ends all connections, and those that are tried, until the way is healed."""
        self.is_closed = True
        self.cut()

    def heal(self):
        """All passes again."""
        self.is_closed, self.bytes_per_s, self.bytes_left = False, None, None
        self.flows.set()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target_port), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            pair = (near, far)
            with self.lock:
                self.pairs.add(pair)
            for source, target in (pair, pair[::-1]):
                threading.Thread(target=self.pump, args=(pair, source, target), daemon=True).start()
            if self.is_closed:
                self.cut()

    def pump(self, pair, source, target):
        with contextlib.suppress(OSError):
            while piece := source.recv(self.piece_bytes()):
                self.flows.wait()
                passing = self.pass_on(len(piece))
                target.sendall(piece[:passing])
                if passing < len(piece):
                    break
                if bytes_per_s := self.bytes_per_s:
                    time.sleep(len(piece) / bytes_per_s)
        for end in pair:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self.lock:
            is_other_way_over = pair not in self.pairs
            self.pairs.discard(pair)
        if is_other_way_over:
            for end in pair:
                end.close()

    def piece_bytes(self):
        bytes_per_s = self.bytes_per_s
        return PIECE_BYTES if bytes_per_s is None else max(bytes_per_s // PIECES_PER_S, 1)

    def pass_on(self, count):
        """How many of these bytes may pass; if not all, the connection ends after them."""
        with self.lock:
            if self.bytes_left is None:
                return count
            passing = min(count, self.bytes_left)
            self.bytes_left = None if passing < count else self.bytes_left - passing
            self.cuts += passing < count
            return passing
