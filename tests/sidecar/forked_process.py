"""A process of the command line that is forked from one in which the libraries are loaded.

Loading them takes a second of processor time, more than most tests need for all the rest. What a
process does afterwards, and how it ends, is the same.
"""

import multiprocessing
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from runpy import run_path

_MAIN = str(Path(__file__).with_name("forked_main.py"))
_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(
    [
        "idlestate.service.cli",
        "idlestate.sidecar.server.serving",
        "idlestate.sidecar.workers.worker_serving",
    ]
)


class ForkedProcess:
    """`idlestate` with arguments, as far as the tests use `subprocess.Popen`."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        reading, writing = _FORKING.Pipe(duplex=False)
        with reading, writing:
            given = {
                "arguments": [*arguments],
                "environment": dict(environment),
                "folder": str(Path.cwd()),
                "tests": str(Path(__file__).parent),
                "output": writing,
            }
            # By path: the fork knows no package of tests.
            self._process = _FORKING.Process(target=run_path, args=(_MAIN, {"given": given}))
            self._process.start()
            self.stderr = os.fdopen(os.dup(reading.fileno()))

    @property
    def pid(self) -> int:
        found = self._process.pid
        assert found is not None
        return found

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise TimeoutError(f"process {self.pid} still runs after {timeout} s")
        return code

    def communicate(self, timeout: float | None = None) -> tuple[None, str]:
        """Wait for the end; all that it wrote to standard error and was not read yet."""
        self.wait(timeout)
        with self.stderr:
            return None, self.stderr.read()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)
