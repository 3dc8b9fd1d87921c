"""The status page of `idlestate run`: its growth log as a curve, and keys of its checkpoint."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.message import Message
from pathlib import Path

import pyarrow as pa
import pytest

from idlestate import tumbling
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.config.loading import load_config
from idlestate.config.pipeline_settings import Pipeline
from idlestate.metrics.driver_metrics import DriverMetrics
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.growth_log import GrowthLog, GrowthPoint
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.service.run_page import CheckpointKeys, run_page
from idlestate.timers.clock import FakeClock
from idlestate.web.http_server import Request
from tests.pipeline.made_checkpoint import START_MS, make_case, make_checkpoint, make_clicks
from tests.reference import Record, Rule

UID = "clicks-by-session"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXAMPLES = Path(__file__).resolve().parents[2] / "config"


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    make_clicks(tmp_path / "checkpoint")
    pipeline = load_config(EXAMPLES / "clicks.yaml").pipelines[UID]
    return pipeline.model_copy(update={"checkpoint": str(tmp_path / "checkpoint")})


@pytest.fixture
def keys(pipeline: Pipeline) -> CheckpointKeys:
    return CheckpointKeys(Path(pipeline.checkpoint), pipeline.key, None)


def test_keys_of_the_checkpoint_are_explained_without_a_jvm(keys: CheckpointKeys) -> None:
    assert keys.columns(UID) == [("session_id", "string")]
    gone, here = (keys.look_up(UID, f"session_id={key}").sentence for key in "ab")
    assert "This key expired at 2025-03-03" in gone
    assert "its idle time ended" in gone
    assert here.startswith("This key is in state until 2025-03-03")
    with pytest.raises(ValueError, match="its key columns are session_id"):
        keys.look_up(UID, "other=a")
    with pytest.raises(ValueError, match="key column session_id is given twice"):
        keys.look_up(UID, "session_id=a&session_id=b")


def test_a_checkpoint_that_is_not_there_yet_is_one_plain_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="checkpoint"):
        CheckpointKeys(tmp_path / "none", ("session_id",), None).look_up(UID, "session_id=a")


@pytest.fixture
def ask(tmp_path: Path, pipeline: Pipeline) -> Callable[..., str]:
    """Asks the page of a run for HTML."""
    clock = FakeClock(START_MS)
    metrics = DriverMetrics(Exporter(clock))
    metrics.show(OperatorStatistics(operator=UID, batch_id=1, live_keys=7))
    growth = GrowthLog(tmp_path / "growth.jsonl")
    for batch in (0, 1):
        growth.append(GrowthPoint(batch_id=batch, time_ms=START_MS + batch, live_keys=6 + batch))

    def ask(path: str, query: str = "", host: str = "localhost:9464", listen: str = "::1") -> str:
        metrics_at = pipeline.metrics.model_copy(update={"address": listen})
        served = pipeline.model_copy(update={"metrics": metrics_at})
        headers = Message()
        headers["Host"] = host
        page = run_page(metrics.at, growth, clock, served, None)
        reply = page.answer(Request("GET", path, query, headers, b""))
        assert reply is not None
        return reply.body.decode()

    return ask


def test_the_page_draws_the_growth_log(ask: Callable[..., str]) -> None:
    body = ask("/")
    assert f"<h1>{UID}</h1>" in body
    assert "Keys in state: 7 at 2025-03-03 00:00:00 UTC, 6 at" in body
    assert "<polyline" in body


def test_keys_are_looked_up_from_this_machine_alone(ask: Callable[..., str]) -> None:
    keys = f"/operators/{UID}/keys"
    assert "This key is in state until" in ask(keys, "session_id=b")
    assert "its key columns are session_id" in ask(keys, "no=b")
    # Other machines reach it, or a web page whose own name was made to point here.
    for others in ({"listen": "0.0.0.0"}, {"host": "evil.example"}):
        assert "This key" not in ask(keys, "session_id=b", **others)
        assert "<form" not in ask("/", **others)


def test_a_key_of_windows_is_asked_for_with_the_end_of_its_window(tmp_path: Path) -> None:
    spec = TableSpec.of_windows(
        (("user", pa.string()),), aggregation({"n": "count"}, {}), (), tumbling("1h")
    )
    window = Record(("a", EPOCH + timedelta(milliseconds=START_MS, hours=1)), START_MS + 1)
    case = make_case(Rule(max_lifetime_ms=3_600_000), [[window]], [START_MS], "string")
    make_checkpoint(tmp_path, case, START_MS, uid=UID, spec=spec)
    keys = CheckpointKeys(tmp_path, ("user",), None)
    assert [name for name, _ in keys.columns(UID)] == ["user", "window_end"]
    found = keys.look_up(UID, "user=a&window_end=2025-03-03T01:00:00Z")
    assert found.sentence.startswith("This key is in state until 2025-03-03 01:00:00")


def test_a_null_key_is_looked_up(tmp_path: Path) -> None:
    batch = [Record((None,), START_MS + 1_000), Record(("",), START_MS + 2_000)]
    case = make_case(Rule(max_lifetime_ms=3_600_000), [batch], [START_MS], "string")
    make_checkpoint(tmp_path, case, START_MS, uid=UID)
    keys = CheckpointKeys(tmp_path, ("k0",), None)
    created = [dict(keys.look_up(UID, query).facts)["Created"] for query in ("k0", "k0=")]
    assert created == ["2025-03-03 00:00:01 UTC", "2025-03-03 00:00:02 UTC"]
