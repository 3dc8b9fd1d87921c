"""An S3 server in a process of its own, and a way to it that can be shut and that counts."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import fs

from tests.patience import PATIENCE_S

BUCKET = "idlestate-tests"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "tests/secret",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_DEFAULT_REGION": "us-east-1",
}


class S3Server:
    """The server, its bucket, and the road to it."""

    def __init__(self, port: int) -> None:
        self.road = Road(port)
        self._options = "scheme=http&region=us-east-1&endpoint_override=127.0.0.1"
        self._direct, _ = fs.FileSystem.from_uri(
            f"s3://{BUCKET}?{self._options}:{port}&allow_bucket_creation=true"
        )
        self._direct.create_dir(BUCKET)

    def url(self, folder: str) -> str:
        """A folder in the bucket, by the road."""
        return f"s3://{BUCKET}/{folder}?{self._options}:{self.road.port}"

    def objects(self, folder: str) -> list[str]:
        """The files below a folder, by their names in the bucket."""
        below = fs.FileSelector(f"{BUCKET}/{folder}", allow_not_found=True, recursive=True)
        found = self._direct.get_file_info(below)
        return sorted(
            info.path.removeprefix(f"{BUCKET}/") for info in found if info.type == fs.FileType.File
        )

    def read(self, name: str) -> bytes:
        with self._direct.open_input_stream(f"{BUCKET}/{name}") as file:
            return bytes(file.read())

    def write(self, name: str, data: bytes) -> None:
        with self._direct.open_output_stream(f"{BUCKET}/{name}") as file:
            file.write(data)

    def remove(self, name: str) -> None:
        self._direct.delete_file(f"{BUCKET}/{name}")


class Road:
    """Passes connections on to a port of this machine, counts what comes back, and can be shut."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._open: set[socket.socket] = set()
        self._gate = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._gate.getsockname()[1]
        self.came_back = 0
        self.is_shut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def shut(self) -> None:
        """Cut what is open and refuse what comes."""
        self.is_shut = True
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def open(self) -> None:
        self.is_shut = False

    def _accept(self) -> None:
        while True:
            here, _ = self._gate.accept()
            if self.is_shut:
                here.close()
                continue
            there = socket.create_connection(("127.0.0.1", self._to_port))
            self._open |= {here, there}
            for one, two in ((here, there), (there, here)):
                threading.Thread(
                    target=self._pass, args=(one, two, one is there), daemon=True
                ).start()

    def _pass(self, one: socket.socket, two: socket.socket, is_back: bool) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                two.sendall(data)
                self.came_back += len(data) if is_back else 0
        for each in (one, two):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            self._open.discard(each)
            each.close()


@contextmanager
def serve_s3(log: Path) -> Iterator[S3Server]:
    """A server while the block runs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=dict(os.environ)
        )
    try:
        _wait_until_it_answers(port, server, log)
        yield S3Server(port)
    finally:
        server.kill()
        server.wait()


def _wait_until_it_answers(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_s and server.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=5).close()
            return
        time.sleep(0.1)  # noqa: TID251 - what is waited for happens in another process
    raise AssertionError(f"the S3 server does not answer: {log.read_text()}")
