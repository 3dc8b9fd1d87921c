"""What the command line tells a running sidecar, and asks of it."""

import subprocess
from typing import Any

import pytest

from tests.service.sidecar_process import COMMAND, UID


def test_release_clock_and_health_from_the_command_line(made: Any) -> None:
    sidecar = made().start()
    for words, told in (
        (["operator", "release", UID], "released"),
        (["clock", "accept"], "accepted: the clock was set by 0 s"),
        (["health", f"unix:{sidecar.control_socket}"], "ready"),
        (["health", "--live", f"unix:{sidecar.control_socket}"], "ok"),
    ):
        where = ["--sidecar", f"unix:{sidecar.data_socket}"] if words[0] != "health" else []
        done = subprocess.run(
            [*COMMAND, *words, *where],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert told in done.stdout


def test_the_place_that_is_told_is_one_that_health_takes(made: Any) -> None:
    told = made(control="[::1]:0").start_told().rpartition(" ")[2].strip()
    assert told.startswith("http://[::1]:")
    done = subprocess.run([*COMMAND, "health", told], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ready\n")


@pytest.mark.parametrize(
    "place", ["http://::1:9465", "http://[::1:9465", "localhost:9465", "unix:"]
)
def test_health_of_what_is_no_place_is_refused_with_the_way_out(place: str) -> None:
    done = subprocess.run([*COMMAND, "health", place], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"{place}: write unix:PATH or http[s]://ADDRESS:PORT\n"
