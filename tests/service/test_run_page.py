"""The status page of `idlestate run`: its growth log as a curve, and keys of its checkpoint."""

from email.message import Message
from pathlib import Path

import pytest

from idlestate.metrics.driver_metrics import DriverMetrics
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.growth import GrowthLog, GrowthPoint
from idlestate.metrics.operator_figures import OperatorFigures
from idlestate.service.run_page import CheckpointKeys, run_page
from idlestate.timers.clock import FakeClock
from idlestate.web.http_reply import Reply
from idlestate.web.http_server import Request
from tests.pipeline.made_checkpoint import START_MS, make_clicks

UID = "clicks-by-session"


@pytest.fixture
def keys(tmp_path: Path) -> CheckpointKeys:
    make_clicks(tmp_path / "checkpoint")
    return CheckpointKeys(tmp_path / "checkpoint", ("session_id",), None)


def test_keys_of_the_checkpoint_are_explained_without_a_jvm(keys: CheckpointKeys) -> None:
    assert keys.columns(UID) == [("session_id", "")]
    gone, here = (keys.look_up(UID, f"session_id={key}").sentence for key in "ab")
    assert "This key expired at 2025-03-03" in gone
    assert "its idle time ended" in gone
    assert here.startswith("This key is in state until 2025-03-03")
    with pytest.raises(ValueError, match="its key columns are session_id"):
        keys.look_up(UID, "other=a")


def test_a_checkpoint_that_is_not_there_yet_is_one_plain_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="checkpoint"):
        CheckpointKeys(tmp_path / "none", ("session_id",), None).look_up(UID, "session_id=a")


def test_the_page_draws_the_growth_log(tmp_path: Path, keys: CheckpointKeys) -> None:
    clock = FakeClock(START_MS)
    metrics = DriverMetrics(Exporter(clock))
    metrics.show(OperatorFigures(operator=UID, batch_id=1, live_keys=7))
    growth = GrowthLog(tmp_path / "growth.jsonl")
    for batch in (0, 1):
        growth.append(GrowthPoint(batch_id=batch, time_ms=START_MS + batch, live_keys=6 + batch))
    page = run_page(metrics, growth, clock, keys)

    def ask(path: str, query: str = "") -> Reply:
        reply = page.answer(Request("GET", path, query, Message(), b""))
        assert reply is not None
        return reply

    body = ask("/").body.decode()
    assert f"<h1>{UID}</h1>" in body
    assert "Keys in state: 7 at 2025-03-03 00:00:00 UTC, 6 at" in body
    assert "<polyline" in body
    found = ask(f"/operators/{UID}/keys", "session_id=b").body.decode()
    assert "This key is in state until" in found
    assert ask(f"/operators/{UID}/keys", "no=b").status == 400
