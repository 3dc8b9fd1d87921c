"""`idlestate run` with state in a sidecar: by one word in the file, with the same outcome."""

import os
import signal
import threading
from typing import Any

import pytest

from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from tests.service.command_line import CommandLine, Said, assert_good, assert_refused, event
from tests.service.rows import last_counts, rows
from tests.sidecar.sidecar_process import Sidecar

pytestmark = pytest.mark.spark

HOURS = range(5)


def fill(line: CommandLine, hours: range) -> None:
    for hour in hours:
        users = [*(f"user-{hour}-{n}" for n in range(20)), "always"]
        time = f"2025-03-03T{10 + hour}:%02d:00Z"
        line.add(f"{hour}.json", [event(time % n, user) for n, user in enumerate(users)])


def outcome(line: CommandLine, said: Said) -> dict[str, Any]:
    assert_good(said)
    ends = sorted(
        (str(row["user"]), str(row["created_at"]), str(row["expired_at"]), row["n"])
        for row in rows(line.out / "expired")
    )
    figures = {k: v for k, v in said.summary().items() if k in ("live now", "expired", "rows")}
    figures["live now"] = figures["live now"].partition(",")[0]  # files are not of one size
    return {"ends": ends, "last": last_counts(line.out / "results"), "figures": figures}


@pytest.fixture
def expected(here: CommandLine) -> dict[str, Any]:
    """What Spark's own store makes of the input."""
    fill(here, HOURS)
    here.write()
    return outcome(here, here.run())


@pytest.mark.long
@pytest.mark.parametrize("backend", [pytest.param("rocksdb", marks=pytest.mark.variant), "heap"])
def test_a_private_sidecar_gives_what_spark_gives(
    expected: dict[str, Any], tmp_path_factory: pytest.TempPathFactory, backend: str
) -> None:
    other = CommandLine(tmp_path_factory.mktemp("other"))
    fill(other, HOURS[:3])
    other.write(backend=backend)
    assert_good(other.run())
    stop_private_sidecars()
    fill(other, HOURS[3:])
    assert outcome(other, other.run()) == expected
    again = other.run()
    assert outcome(other, again) == expected
    stop_private_sidecars()


def test_a_sidecar_of_its_own_serves_a_run_and_its_look_ups(
    here: CommandLine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sidecar = Sidecar(tmp_path_factory.mktemp("s")).start()
    try:
        fill(here, HOURS[:2])
        here.write(backend="rocksdb")
        place = f"unix:{sidecar.data_socket}"
        assert_good(here.run("--sidecar", place))
        status, found = sidecar.ask("/operators/clicks/keys?user=always")
        assert (status, found["lives"][0]["n"]) == (200, 1)
        here.write(
            backend="rocksdb",
            checkpoint=str(here.out / "another"),
            sinks={"results": str(here.out / "other-results")},
        )
        assert_refused(here.run("--sidecar", place), "belongs to query", "operator release clicks")
        assert_good(here.run("--sidecar", place, "--afresh"))
    finally:
        sidecar.stop(signal.SIGKILL)


@pytest.mark.long
def test_a_sidecar_of_two_workers_gives_what_spark_gives_though_they_are_killed(
    expected: dict[str, Any], tmp_path_factory: pytest.TempPathFactory, made: Any
) -> None:
    sidecar = made(workers=2).start()
    other = CommandLine(tmp_path_factory.mktemp("other"))
    fill(other, HOURS)
    other.write(backend="rocksdb")
    done = threading.Event()

    def kill() -> None:
        """In the first batch, which a fast machine ends within a second, and then now and again."""
        planned = other.checkpoint / "offsets" / "0"
        while not planned.exists() and not done.wait(0.01):
            pass
        while not done.is_set():
            if len(found := sidecar.workers()) == 2:
                os.kill(found[0], signal.SIGKILL)
            done.wait(3)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        said = other.run("--sidecar", f"unix:{sidecar.data_socket}")
    finally:
        done.set()
        killer.join()
    assert outcome(other, said) == expected
    assert "idlestate_sidecar_worker_restarts_total 0\n" not in sidecar.ask("/metrics")[1]
