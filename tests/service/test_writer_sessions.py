"""Clients of one writer name, as while a deployment replaces a program: nothing is lost."""

import signal
import threading
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from idlestate.sidecar.protocol.errors import AwayError, WriterFencedError
from tests.sidecar.sidecar_process import Sidecar, wait_for

TAKEOVERS = 8
LARGE = 6_000
"""Rows of a write that clients take to the workers themselves."""


def metric(sidecar: Sidecar, name: str) -> float:
    text = sidecar.ask("/metrics")[1]
    return float(next(line for line in text.splitlines() if line.startswith(name)).split()[1])


class Program:
    """A program that writes until a newer one takes its name over, and is then started again."""

    def __init__(self, sidecar: Sidecar, number: int, rows: int) -> None:
        self.sidecar, self.number, self.rows = sidecar, number, rows
        self.acknowledged: list[str] = []
        self.fenced = 0
        self.failed: list[BaseException] = []
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        try:
            for start in range(TAKEOVERS):
                with self.sidecar.client("till") as client:
                    self.write(client, start)
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            self.failed.append(error)

    def write(self, client: Any, start: int) -> None:
        for write in range(10):
            key = f"{self.number}-{start}-{write}"
            users = pa.repeat(pa.scalar(key), self.rows)
            amounts = pa.repeat(pa.scalar(1, pa.int64()), self.rows)
            try:
                result = client.add_many(pa.table({"user": users, "amount": amounts}))
            except WriterFencedError:
                self.fenced += 1
                return
            assert (result.rows, result.is_duplicate) == (self.rows, False)
            self.acknowledged.append(key)


@pytest.mark.parametrize("backend", [pytest.param("heap", marks=pytest.mark.long), "rocksdb"])
@pytest.mark.parametrize(
    ("workers", "rows"), [(1, 1), pytest.param(2, LARGE, marks=pytest.mark.long)]
)
def test_every_acknowledged_write_counts_once_though_the_sidecar_is_killed(
    made: Any, backend: str, workers: int, rows: int
) -> None:
    sidecar = made(backend=backend, workers=workers).start()
    programs = [Program(sidecar, number, rows) for number in range(2)]
    for each in programs:
        each.thread.start()
    for _ in range(3):
        threading.Event().wait(0.3)
        sidecar.stop(signal.SIGKILL)
        sidecar.start()
    for each in programs:
        each.thread.join()
    assert [each.failed for each in programs] == [[], []]
    acknowledged = [key for each in programs for key in each.acknowledged]
    with sidecar.client() as client:
        tried = [
            f"{n}-{start}-{w}" for n in range(2) for start in range(TAKEOVERS) for w in range(10)
        ]
        found = client.get_many({"user": tried}).to_pylist()
    counted = Counter({row["user"]: row["n"] for row in found if row["n"] is not None})
    assert set(acknowledged) <= set(counted), "an acknowledged write is lost"
    assert set(counted.values()) <= {rows}, "a write counts twice, or in part"
    unknown = len(counted) - len(acknowledged)
    assert unknown <= sum(each.fenced for each in programs)
    assert sum(each.fenced for each in programs) > 0


def test_the_older_client_is_told_by_every_write_and_by_retry(made: Any) -> None:
    sidecar = made().start()
    with sidecar.client("till") as old, sidecar.client("till") as new:
        old.add_many({"user": ["a"], "amount": [1]})
        new.add_many({"user": ["a"], "amount": [1]})
        rows = {"user": ["a"], "amount": [1]}
        for call in (
            lambda: old.add_many(rows),
            lambda: old.put_many(rows, seq=9),
            lambda: old.touch({"user": ["a"]}),
            lambda: old.remove_many({"user": ["a"]}),
            old.retry,
        ):
            with pytest.raises(
                WriterFencedError, match="newer client took over the writer name 'till'"
            ):
                call()
        new.add_many(rows)
        assert new.get_many({"user": ["a"]}).column("n").to_pylist() == [3]


def test_a_write_that_was_not_answered_is_fenced_when_it_is_sent_again(made: Any) -> None:
    sidecar = made().start()
    rows = {"user": ["a"], "amount": [1]}
    with sidecar.client("till") as old, sidecar.client("till") as new:
        old.add_many(rows)
        sidecar.stop(signal.SIGKILL)
        old._routes.main._patience_s = 0
        with pytest.raises(AwayError):
            old.add_many(rows)
        sidecar.start()
        new.add_many(rows)
        with pytest.raises(WriterFencedError, match=r"did not see acknowledged \(1\)"):
            old.retry()
        assert new.get_many({"user": ["a"]}).column("n").to_pylist() == [2]


def test_numbers_of_the_program_are_told_apart_from_duplicates_and_those_are_counted(
    made: Any,
) -> None:
    sidecar = made().start()
    rows = {"user": ["a", "b"], "amount": [1, 1]}
    told = []
    for _ in range(2):
        with sidecar.client("topic") as client:
            for offset in (10, 20):
                result = client.add_many(rows, seq=offset)
                told.append((result.seq, result.rows, result.is_duplicate))
    assert told == [(10, 2, False), (20, 2, False), (10, 2, True), (20, 2, True)]
    assert metric(sidecar, 'idlestate_duplicate_writes_total{operator="carts"}') == 2
    with sidecar.client("topic") as client:
        assert not client.add_many(rows, seq=21).is_duplicate
        wait_for(lambda: client.get_many({"user": ["a"]}).column("n").to_pylist() == [3])
