"""What the command line tells a running sidecar, and asks of it."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.sidecar.sidecar_process import COMMAND, OPERATOR, UID, Sidecar, said


def test_release_clock_and_health_from_the_command_line(made: Any) -> None:
    sidecar = made().start()
    for words, told in (
        (["operator", "release", UID], "released"),
        (["clock", "accept"], "accepted: the clock was set by 0 s"),
        (["health", f"unix:{sidecar.control_socket}"], "ready"),
        (["health", "--live", f"unix:{sidecar.control_socket}"], "ok"),
    ):
        where = ["--sidecar", f"unix:{sidecar.data_socket}"] if words[0] != "health" else []
        done = said(*words, *where)
        assert (done.exit_code, done.stderr) == (0, "")
        assert told in done.stdout


def test_health_of_the_data_plane_is_refused_without_its_bytes(made: Any) -> None:
    place = f"unix:{made().start().data_socket}"
    done = said("health", place)
    assert done.exit_code == 1
    assert done.stderr == (
        f"{place}: does not speak HTTP; pass the control address, not that of the data plane\n"
    )


def test_the_place_that_is_told_is_one_that_health_takes(made: Any) -> None:
    told = made(control="[::1]:0").start_told().rpartition(" ")[2].strip()
    assert told.startswith("http://[::1]:")
    done = said("health", told)
    assert (done.exit_code, done.stdout) == (0, "ready\n")


@pytest.mark.parametrize(
    "place", ["http://::1:9465", "http://[::1:9465", "localhost:9465", "unix:"]
)
def test_health_of_what_is_no_place_is_refused_with_the_way_out(place: str) -> None:
    done = said("health", place)
    assert done.exit_code == 1
    assert done.stderr == f"{place}: not a valid address; use unix:PATH or http[s]://ADDRESS:PORT\n"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"aggregates": {"n": "sum(user)"}}, "is over a column of type string"),
        ({"aggregates": {"change": "count"}}, "the name change is used twice"),
        ({"columns": {"user": "double", "amount": "bigint"}}, "user is of type double"),
    ],
)
def test_a_file_that_is_not_served_is_not_called_good(
    folder: Path, changed: dict[str, Any], told: str
) -> None:
    made = Sidecar(folder, operators={UID: {**OPERATOR, **changed}})
    made.write_file()
    checked = said("check", made.file)
    assert checked.exit_code == 1
    assert f"{made.file}: " in checked.stderr
    assert UID in checked.stderr
    assert told in checked.stderr


def test_a_good_file_is_told_with_its_operators(folder: Path) -> None:
    made = Sidecar(folder)
    made.write_file()
    checked = said("check", made.file).stdout
    assert "valid (2 policies, 0 pipelines, 1 operator of a sidecar)" in checked


@pytest.mark.parametrize("place", ["taken", "taken/below"])
def test_a_directory_that_cannot_be_made_is_told_with_the_way_out(folder: Path, place: str) -> None:
    (folder / "taken").touch()
    made = Sidecar(folder, directory=str(folder / place))
    made.write_file()
    refused = said("serve", made.file)
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"{folder / place}: ")
    assert "set another sidecar.directory" in refused.stderr


def test_input_that_was_never_open_is_input_that_has_ended(folder: Path) -> None:
    made = Sidecar(folder)
    made.write_file()
    command = " ".join([*COMMAND, "serve", str(made.file), "--while-input-is-open"])
    done = subprocess.run(
        ["bash", "-c", f"{command} <&-"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert "stopped" in done.stderr


@pytest.mark.parametrize("place", ["nowhere/schema.json", "."])
def test_a_schema_that_cannot_be_written_is_told(tmp_path: Path, place: str) -> None:
    refused = said("schema", "--out", tmp_path / place)
    assert refused.exit_code == 1
    assert isinstance(refused.exception, SystemExit)
    assert refused.stderr.startswith(f"{tmp_path / place}: ")


def test_a_control_plane_below_a_folder_that_is_not_there_makes_it(folder: Path, made: Any) -> None:
    place = f"unix:{folder / 'deep' / 'c.sock'}"
    assert made(control=place).start_told().strip().endswith(place)
