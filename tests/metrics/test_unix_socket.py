"""What stands where a Unix socket is to be made."""

import socket
from pathlib import Path

import pytest

from idlestate.web.unix_socket import make_way


def test_a_socket_that_was_left_over_goes(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    make_way(path)
    assert not path.exists()
    make_way(path)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET])
def test_a_socket_that_somebody_has_stays(tmp_path: Path, kind: socket.SocketKind) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, kind) as theirs:
        theirs.bind(str(path))
        if kind != socket.SOCK_DGRAM:
            theirs.listen(0)
        for _ in range(2):  # the first to come fills the queue
            with pytest.raises(OSError, match="in use"):
                make_way(path)
    assert path.is_socket()


def test_a_file_that_is_no_socket_stays(tmp_path: Path) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_text("version: 1\n")
    with pytest.raises(OSError, match="in use"):
        make_way(file)
    assert file.read_text() == "version: 1\n"
