"""Workers of a forked sidecar, forked too: of all that a worker does, loading takes longest.

A sidecar has threads when it starts a worker again, and a process with threads must not fork. So
before it has any it forks a process that forks workers on request. Workers are handed over to the
sidecar, which waits for them as for any child.
"""

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

from idlestate.sidecar.workers import worker_process, worker_supervisor

SET_CHILD_SUBREAPER = 36
"""From Linux's `prctl.h`: orphans of later generations become children of this process."""


def fork_workers() -> None:
    """From now on this process forks its workers."""
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1)
    ForkedWorker.asking, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if not os.fork():
        ForkedWorker.asking.close()
        while streams := socket.recv_fds(asked, 1, 2)[1]:  # none when the sidecar has ended
            _fork_one(asked, streams)
        os._exit(0)
    asked.close()
    worker_supervisor.subprocess = SimpleNamespace(
        Popen=ForkedWorker, PIPE=subprocess.PIPE, TimeoutExpired=subprocess.TimeoutExpired
    )


def _fork_one(asked: socket.socket, streams: list[int]) -> None:
    """Fork a worker and send its pid.

    Its parent ends at once, so that the worker becomes a child of the sidecar.
    """
    between = os.fork()
    if not between:
        pid = os.fork()
        if not pid:
            _work(asked, streams)
        asked.send(str(pid).encode())
        os._exit(0)
    os.waitpid(between, 0)
    for stream in streams:
        os.close(stream)


def _work(asked: socket.socket, streams: list[int]) -> None:
    """Be a worker with these streams."""
    code = 1
    try:
        asked.close()
        os.setpgid(0, 0)
        for stream, number in zip(streams, (0, 1), strict=True):
            os.dup2(stream, number)
            os.close(stream)
        sys.stdin = os.fdopen(0)  # the process that it is forked from has none
        code = worker_process.main()
    finally:
        os._exit(code)


class ForkedWorker:
    """A worker, as far as its supervisor uses `subprocess.Popen`."""

    asking: socket.socket
    _one_at_a_time = threading.Lock()

    def __init__(self, command: list[str], **_: Any) -> None:
        self._command = command
        given, stdin = os.pipe()
        stdout, told = os.pipe()
        with self._one_at_a_time:
            socket.send_fds(self.asking, [b"+"], [given, told])
            self.pid = int(self.asking.recv(32))
        os.close(given)
        os.close(told)
        self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
        self.returncode: int | None = None
        self._ended, self._lock = os.pidfd_open(self.pid), threading.Lock()

    def wait(self, timeout: float | None = None) -> int:
        ended = select.poll()
        ended.register(self._ended, select.POLLIN)
        if not ended.poll(None if timeout is None else timeout * 1000):
            assert timeout is not None
            raise subprocess.TimeoutExpired(self._command, timeout)
        with self._lock:
            if self.returncode is None:
                _, status = os.waitpid(self.pid, 0)
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        with self._lock:
            if self.returncode is None:
                os.kill(self.pid, signal.SIGKILL)
