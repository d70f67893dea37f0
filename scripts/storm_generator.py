"""`halcyon lab storm` as a process, led through its phases. Tests and benchmarks run theirs here."""

import contextlib
import json
import subprocess
import tempfile


class Generator:
    """Clients under load, whose first phase is `quiet`; a context manager that ends them.

    `options`: what stands behind `lab storm`; `before_start` runs in the process before the generator does.
    """

    def __init__(self, program, options, before_start=None):
        # What is said to people is told where the generator fails.
        self.progress = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [program, "lab", "storm", "--json", *map(str, options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.progress, text=True, preexec_fn=before_start,
        )

    def __enter__(self):
        try:
            self.expect("ready")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.progress.close()

    def begin(self, phase):
        """Ends the phase before it."""
        self.process.stdin.write(phase + "\n")
        self.process.stdin.flush()

    def report(self):
        """Ends the last phase; what was seen in each."""
        self.process.stdin.close()
        return self.expect("report")

    def expect(self, event):
        """What it tells next, which is of this event."""
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.progress.seek(0)
            raise RuntimeError("the generator ended: " + "".join(self.progress.readlines()[-1:]).strip())
        told = json.loads(line)
        if told["event"] != event:
            raise RuntimeError(f"the generator told {told['event']}, not {event}")
        return told
