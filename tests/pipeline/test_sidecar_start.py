"""The start of a query whose state is in a sidecar, with sidecars that are played."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.errors import RefusedError
from idlestate.pipeline import sidecar_attachment
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.query_start import prepare_checkpoint
from idlestate.pipeline.query_start_listener import _StartListener
from idlestate.pipeline.sidecar_attachment import attach, finish_input, link_of, reports_of
from idlestate.pipeline.sidecar_link import SidecarLink
from idlestate.retention.policy import Policy
from idlestate.sidecar.core import data_calls
from idlestate.sidecar.core.data_calls import Calls
from idlestate.sidecar.core.local_placement import LocalPlacement
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.protocol.connection import Address
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.server.commit_logs import reached_ms
from idlestate.sidecar.stores.heap_store import HeapStore
from idlestate.timers.clock import FakeClock
from idlestate.timers.steady_clock import SteadyClock

TABLE = TableSpec((("k", pa.string()),), aggregation({"n": "count"}, {}))
SPEC = OperatorSpec(
    uid="counts",
    table=TABLE,
    policy=Policy(idle_min_ms=100, idle_max_ms=150, min_gap_ms=0),
    inputs=(("k", pa.string()),),
    read_when=None,
    delay_ms=0,
    max_ahead_ms=0,
    rejects=False,
    has_time=True,
    shards=4,
    runs=None,
    token="token",
    backend="heap",
    partitions=2,
)
ATTEMPT = {
    "query_id": "query",
    "run_id": "run-1",
    "execution_id": "0",
    "batch_id": 7,
    "attempt": 0,
    "partition": 0,
    "partitions": 1,
    "shards": [0, 1, 2, 3],
    "time_ms": 0,
    "watermark_ms": 0,
    "policy": SPEC.policy.to_json(),
}
PRIVATE = "unix:private"
CONF = {"spark.sql.shuffle.partitions": "2"}


class Played:
    """Sidecars by their places; each is its own connection."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls: dict[str, Calls] = {}
        self.stores: list[HeapStore] = []

    def at(self, place: str) -> "Played":
        self._place = place
        if self._place not in self._calls:
            self.stores.append(HeapStore(self._folder / self._place.partition(":")[2]))
            clock = FakeClock(0)
            placement = LocalPlacement(self.stores[-1], clock)
            host = Host(self.stores[-1], clock, reached_ms, placement)
            self._calls[self._place] = Calls(host, SteadyClock(clock))
        return self

    def call(self, name: str, header: Any) -> Message:
        return Message.decode(self._calls[self._place].table.answer(name, Message(header).encode()))

    def close(self) -> None:
        """It stays open until the end of the test."""


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    played = Played(tmp_path)

    def connect(link: SidecarLink, connect_timeout_s: float = 1.0) -> Played:
        return played.at(link.address.place)

    monkeypatch.setattr(SidecarLink, "connect", connect)
    private = SimpleNamespace(address=Address(PRIVATE))
    monkeypatch.setattr(sidecar_attachment, "private_sidecar", lambda *_: private)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "query"}')
    yield Folder(str(tmp_path / "checkpoint"))
    for store in played.stores:
        store.close()


def start(checkpoint: Folder, run_id: str, place: str | None = None, **other: Any) -> SidecarLink:
    spec = replace(SPEC, sidecar=None if place is None else Address(place), **other)
    prepare_checkpoint(checkpoint, spec, partitions=2, retain_batches=10, now_ms=0)
    return attach(spec, checkpoint, "query", run_id, is_local=True)


@pytest.mark.parametrize(
    ("first", "then", "which"),
    [
        ("unix:a", "unix:b", "was in the sidecar at unix:a"),
        ("unix:a", None, "was in the sidecar at unix:a"),
        (None, "unix:b", "was in the sidecar in the checkpoint's folder"),
    ],
)
def test_a_sidecar_that_does_not_hold_what_the_checkpoint_counts_on_is_refused(
    checkpoint: Folder, first: str | None, then: str | None, which: str
) -> None:
    """Else the query would go on with nothing, as if it had never seen a key."""
    link = start(checkpoint, "run-1", first)
    for _ in range(2):
        with pytest.raises(RefusedError, match=f"does not hold the state of .* {which}"):
            start(checkpoint, "run-2", then)
    assert link_of(checkpoint, "counts", runs_query=True) == link
    assert start(checkpoint, "run-3", first) == link


def test_a_sidecar_of_another_protocol_is_refused(
    checkpoint: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_calls, "PROTOCOL", 1)
    with pytest.raises(RefusedError, match="unix:a speaks version 1 of the protocol, the query"):
        start(checkpoint, "run-1", "unix:a")


def test_a_sidecar_that_was_moved_with_its_folder_goes_on(
    checkpoint: Folder, tmp_path: Path
) -> None:
    start(checkpoint, "run-1", "unix:a")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    start(checkpoint, "run-2", "unix:b")
    found = link_of(checkpoint, "counts")
    assert found is not None
    assert found.address.place == "unix:b"


def test_a_query_may_wait_longer_or_shorter_for_late_rows(checkpoint: Folder) -> None:
    for run, delay_ms in enumerate((10, 5, 20)):
        start(checkpoint, f"run-{run}", "unix:a", delay_ms=delay_ms)


def test_figures_name_the_version_of_the_policy_that_held(
    checkpoint: Folder, tmp_path: Path
) -> None:
    (tmp_path / "checkpoint" / "offsets").mkdir()
    for version, policy in enumerate((SPEC.policy, Policy(ttl_ms=70, max_shrink=1)), 1):
        link = start(checkpoint, f"run-{version}", "unix:a", policy=policy)
        times = {"batchTimestampMs": 10 * version, "batchWatermarkMs": 0, "conf": CONF}
        offsets = f"v1\n{json.dumps(times)}\n{version}"
        (tmp_path / "checkpoint" / "offsets" / f"{version}").write_text(offsets)
        reports = reports_of(checkpoint, link, version)
        assert [each.policy_version for each in reports] == [version] * 4


def test_a_second_query_on_one_result_is_refused_and_leaves_the_first_alone(
    checkpoint: Folder, tmp_path: Path
) -> None:
    """Both would take the expired records of the one that started last."""
    file = tmp_path / "link"
    spec = replace(SPEC, sidecar=Address("unix:a"), link_file=str(file))
    running = SimpleNamespace(active=[SimpleNamespace(id="query")])
    context = SimpleNamespace(master="local[2]")
    listener: Any = _StartListener(SimpleNamespace(sparkContext=context, streams=running))  # type: ignore[arg-type]

    def begin(query_id: str, spec: OperatorSpec) -> None:
        place = Folder(str(tmp_path / query_id))
        prepare_checkpoint(place, spec, partitions=2, retain_batches=10, now_ms=0)
        listener._attach(SimpleNamespace(id=query_id, runId=f"{query_id}-run"), place, [spec])

    begin("query", spec)
    link = file.read_text()
    elsewhere = replace(spec, sidecar=Address("unix:b"))
    with pytest.raises(RefusedError, match=r"call retain\(\) for each query"):
        begin("second", elsewhere)
    assert file.read_text() == link
    running.active.clear()
    begin("second", elsewhere)
    assert json.loads(file.read_text())["query_id"] == "second"


def test_a_sidecar_that_cannot_see_the_last_commit_is_told_of(checkpoint: Folder) -> None:
    """As one on another machine: what the last batch closed would be missing without a word."""
    link = start(checkpoint, "run-1", "unix:a")
    link.connect().call("open", {"uid": "counts", "attempt": ATTEMPT})
    with pytest.raises(RefusedError, match=r"does not find commits/7 of .*checkpoint"):
        finish_input(checkpoint, link, sweep=True)


def test_figures_are_those_behind_the_newest_commit(checkpoint: Folder, tmp_path: Path) -> None:
    """Of this one the sidecar has no part, which it finds when it looks."""
    link = start(checkpoint, "run-1", "unix:a")
    link.connect().call("open", {"uid": "counts", "attempt": ATTEMPT})
    (tmp_path / "checkpoint" / "commits").mkdir()
    (tmp_path / "checkpoint" / "commits" / "7").write_text('v2\n{"nextBatchWatermarkMs":0}')
    with pytest.raises(RefusedError, match="batch 7, which Spark has committed"):
        reports_of(checkpoint, link, 7)
