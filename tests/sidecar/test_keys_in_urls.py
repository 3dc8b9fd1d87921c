"""Keys of every type in the query of a URL, and lives as JSON."""

import json
import signal
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

from idlestate.backends.runs.keys import is_key_type
from idlestate.sidecar.server.keys_in_urls import key_of, shown
from tests.sidecar.sidecar_process import OPERATOR, Sidecar

TEXTS = ["ada", "a/b", "50%", "ü€😀", "a+b", "a b", "a&k=b", "", "-5", "null", "a;b", "#", "?"]
TIME = pa.timestamp("us", "UTC")
VALUES: list[tuple[pa.DataType, str, Any]] = [
    (pa.int8(), "-5", -5),
    (pa.int64(), str(-(1 << 63)), -(1 << 63)),
    (pa.uint64(), str((1 << 64) - 1), (1 << 64) - 1),
    (pa.bool_(), "true", True),
    (pa.date32(), "2026-01-31", date(2026, 1, 31)),
    (pa.date64(), "2026-01-31", date(2026, 1, 31)),
    (TIME, "2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    (TIME, "2026-01-31T12:00:00.5%2B01:00", datetime(2026, 1, 31, 11, 0, 0, 500_000, tzinfo=UTC)),
    (pa.timestamp("ms"), "2026-01-31T12:00:00", 1_769_860_800_000),
    (pa.binary(), "%ff%00a/%25", b"\xff\x00a/%"),
    (pa.large_binary(), "%ff", b"\xff"),
    *((kind, quote(text, safe=""), text) for text in TEXTS for kind in (pa.string(),)),
    (pa.large_string(), "ada", "ada"),
    (pa.string(), "a+b", "a b"),
    (pa.string(), "ü".encode().decode("latin-1"), "ü"),  # as it comes from who does not encode
]


@pytest.mark.parametrize(("kind", "text", "value"), VALUES)
def test_a_key_of_each_type(kind: pa.DataType, text: str, value: Any) -> None:
    assert is_key_type(kind)
    assert key_of(f"k={text}", [("k", kind)]).equals(pa.table({"k": pa.array([value], kind)}))


def test_a_null_is_asked_for_without_a_sign() -> None:
    keys = [("a", pa.string()), ("ü b", TIME)]
    wanted = {"a": pa.array([None], pa.string()), "ü b": pa.array([None], TIME)}
    assert key_of("%C3%BC%20b&a", keys).equals(pa.table(wanted))
    assert key_of("a=&%C3%BC+b", keys).column("a").to_pylist() == [""]


@pytest.mark.parametrize("query", ["", "a=1", "a=1&b=2&c=3", "a=1&b=2&a=1", "a=1&b=%ff", "b=1&a=x"])
def test_what_is_no_key_is_refused(query: str) -> None:
    with pytest.raises(
        ValueError, match=r"ask for one key as \?a=...&b=...|given twice|UTF-8|not a value"
    ):
        key_of(query, [("a", pa.int64()), ("b", pa.string())])


def test_what_json_has_no_word_for_is_told_in_text() -> None:
    lives = pa.table(
        {
            "double": [float("nan"), float("inf"), -float("inf"), 1.5, None],
            "bytes": [b"\xff\x00", b"", None, b"a", b"b"],
            "time": pa.array([0, 1, 2**62, -(2**62), None], TIME),
            "day": pa.array([0, 2**31 - 1, -(2**31), 1, None], pa.date32()),
            "amount": [Decimal("1.50"), None, None, None, None],
            "times": pa.array([[0, 2**62, None], [], None, [], []], pa.list_(TIME)),
            "timers": pa.array(
                [[{"name": "quiet", "at_ms": 5}], [], None, None, None],
                pa.list_(pa.struct([("name", pa.string()), ("at_ms", pa.int64())])),
            ),
            "pages": pa.array([{"a": b"\xff"}, {}, None, None, None], pa.map_("string", "binary")),
            "far": pa.array([1, None, None, None, None], pa.timestamp("us", "Nowhere/Far")),
        }
    )
    told = json.loads(json.dumps(shown(lives), allow_nan=False))
    assert [row["double"] for row in told] == ["nan", "inf", "-inf", 1.5, None]
    assert [row["bytes"] for row in told] == ["ff00", "", None, "61", "62"]
    assert told[0]["time"] == "1970-01-01T00:00:00+00:00"
    assert told[2]["time"] == f"{2**62} of timestamp[us, tz=UTC]"
    assert [row["day"] for row in told][:2] == ["1970-01-01", f"{2**31 - 1} of date32[day]"]
    assert told[0]["amount"] == "1.50"
    of_times = ["1970-01-01T00:00:00+00:00", f"{2**62} of timestamp[us, tz=UTC]", None]
    assert [row["times"] for row in told][:3] == [of_times, [], None]
    assert [row["timers"] for row in told][:3] == [[{"name": "quiet", "at_ms": 5}], [], None]
    assert [row["pages"] for row in told][:3] == [[{"key": "a", "value": "ff"}], [], None]
    assert told[0]["far"] == "1 of timestamp[us, tz=Nowhere/Far]"


def test_lives_are_found_by_the_keys_that_they_have(made: Any) -> None:
    columns = {"user": "string", "raw": "binary", "amount": "double", "at": "timestamp"}
    operator = OPERATOR | {"columns": columns, "key": ["user", "raw"]}
    operator |= {"aggregates": {"total": "sum(amount)", "latest": "max(at)"}}
    sidecar: Sidecar = made(operators={"carts": operator}).start()
    with sidecar.client() as client:
        client.add_many(
            {
                "user": ["ü/%", None],
                "raw": [b"\xff", None],
                "amount": [float("nan"), 1.0],
                "at": pa.array([2**62, None], TIME),
            }
        )
    for query, total in ((f"user={quote('ü/%', safe='')}&raw=%ff", "nan"), ("user&raw", 1.0)):
        status, found = sidecar.ask(f"/operators/carts/keys?{query}")
        assert (status, [life["total"] for life in found["lives"]]) == (200, [total])
    assert sidecar.ask("/operators/carts/keys?user=a&user=b&raw=c")[0] == 400


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_lists_and_sketches_are_kept_over_a_restart(made: Any, backend: str) -> None:
    operator = OPERATOR | {
        "columns": {"user": "string", "amount": "double"},
        "key": ["user"],
        "aggregates": {
            "largest": "top_n(amount, 2)",
            "some": "collect_set(amount, 3)",
            "exact": "count(distinct amount, 3)",
            "about": "approx_count_distinct(amount)",
            "middle": "approx_percentile(amount, 0.5)",
            "spread": "stddev_pop(amount)",
        },
    }
    sidecar: Sidecar = made(operators={"carts": operator}, backend=backend).start()
    for amounts in ([1.0, float("nan"), 1.0], [3.0, None]):
        with sidecar.client() as client:
            client.add_many({"user": ["ada"] * len(amounts), "amount": amounts})
        sidecar.stop(signal.SIGKILL)
        sidecar.start()
    status, found = sidecar.ask("/operators/carts/keys?user=ada")
    (life,) = found["lives"]
    assert status == 200
    assert (life["largest"], life["exact"], life["about"]) == (["nan", 3.0], 3, 3)
    assert sorted(life["some"], key=str) == [1.0, 3.0, "nan"]
    assert (life["middle"], life["spread"]) == (1.0078125, "nan")
