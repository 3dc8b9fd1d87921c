"""A worker: a process that keeps the tables of a range of shards and works on them by request.

The sidecar's process starts it, writes its settings as one line of JSON to its standard input, and
keeps that open: when the sidecar's process ends for any reason, the worker ends. The worker answers
with one line: where it listens, or why it cannot.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress

from idlestate._without_pandas import without_pandas
from idlestate.sidecar.workers.worker_settings import WorkerSettings

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> int:
    """Run; return the exit code."""
    # A terminal or a service manager signals all processes; the sidecar's process ends this one.
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    with without_pandas():
        from idlestate.sidecar.workers.worker_serving import run  # noqa: PLC0415 - loads Arrow
    line = sys.stdin.buffer.readline()
    if not line:
        return 1  # the parent has died at once
    return run(WorkerSettings(**json.loads(line)), _tell)


def _tell(facts: Mapping[str, str]) -> None:
    with suppress(BrokenPipeError):  # nobody reads it; then the input has ended too
        os.write(sys.stdout.fileno(), json.dumps(facts).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
