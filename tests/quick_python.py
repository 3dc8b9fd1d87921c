"""A Python for tests with Spark: the driver's workers are forked from one that has loaded pyspark.

Spark starts such workers for each start of a query with state, and for each Python source of a
query, which load pyspark and do little else. For all other purposes the program is the Python that
runs the tests.

    python quick_python.py SOCKET   the process that forks
"""

import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WORKERS = (
    "pyspark.sql.streaming.transform_with_state_driver_worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
)
PRELOADED = (
    *("pyspark.worker", "pyspark.sql.streaming.stateful_processor_api_client"),
    *("pyspark.sql.streaming.stateful_processor_util", "idlestate.pipeline.step_on_spark_state"),
    *("pyspark.sql.worker.plan_data_source_read", "idlestate.pipeline.expired_source"),
    "idlestate.pipeline.reached_source",
)
STREAMS = (0, 1, 2)
MOST_BYTES = 1 << 20
# Sends what to run, its environment and its streams, and ends when its worker does. Anything else
# it becomes.
PROGRAM = """#!{python} -IS
import os, sys
if sys.argv[1:3] in {workers!r}:
    import json, socket
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect({address!r})
        asked = json.dumps([sys.argv[2], dict(os.environ)])
        socket.send_fds(link, [asked.encode()], {streams!r})
        sys.exit(int(link.recv(1) or b"1"))
os.execv({python!r}, [{python!r}, *sys.argv[1:]])
"""


@contextmanager
def quick_python(folder: Path) -> Iterator[Path]:
    """The program, in a folder with a short name."""
    address, program = folder / "socket", folder / "python"
    program.write_text(
        PROGRAM.format(
            python=sys.executable,
            workers=[["-m", worker] for worker in WORKERS],
            address=str(address),
            streams=list(STREAMS),
        )
    )
    program.chmod(0o755)
    command = [sys.executable, __file__, str(address)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as forking:
        assert forking.stdout is not None
        assert forking.stdout.read(1), "the process that forks has ended"
        yield program  # afterwards, or when this process is killed, its input ends


def fork_workers(address: str) -> None:
    """Fork a worker for each connection, until the input ends."""
    for name in PRELOADED:
        __import__(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel removes ended workers
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(address)
        server.listen()
        os.write(STREAMS[1], b"+")
        while server in select.select([server, sys.stdin], [], [])[0]:
            link, _ = server.accept()
            with link:
                if not os.fork():
                    server.close()
                    work(link)


def work(link: socket.socket) -> None:
    """Be the worker that was asked for."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        data, streams, _, _ = socket.recv_fds(link, MOST_BYTES, len(STREAMS))
        for given, stream in zip(streams, STREAMS, strict=True):
            os.dup2(given, stream)
            os.close(given)
        worker, environment = json.loads(data)
        os.environ.clear()
        os.environ.update(environment)
        runpy.run_module(worker, run_name="__main__", alter_sys=True)
        sys.stdout.flush()
        code = 0
    except BaseException:  # noqa: BLE001 - the process ends here, and says so as Python does
        traceback.print_exc()
    finally:
        link.send(b"%d" % code)
        os._exit(code)


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())  # as with `python -m`
    fork_workers(sys.argv[1])
