"""A sweep with records returns everything that it removed."""

import pyarrow as pa
import pytest

from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from idlestate.timers.clock import FakeClock

TTL = StateTtlConfig(ttl_ms=10, cleanup_in_background=False)
HALF = "\ud800"
HALF_BYTES = HALF.encode("utf-8", "surrogatepass")
NESTED = pa.struct([("names", pa.list_(pa.string())), ("n", pa.int64())])


@pytest.fixture(params=["heap", "rocksdb", "runs"])
def backend(request, tmp_path):
    clock = FakeClock(0)
    place = None if request.param == "heap" else tmp_path / "db"
    with open_backend(request.param, place, clock=clock) as opened:
        opened.clock = clock
        yield opened


def swept(backend):
    backend.clock.advance(10)
    table = backend.sweep(backend.clock.now_ms(), 100, records=True).expired["s"]
    assert backend.size("s") == 0
    table.validate(full=True)
    rows = table.drop_columns("written_at_ms").to_pylist()
    return sorted(rows, key=lambda row: (row["key"], row.get("user_key")))


@pytest.mark.parametrize(
    ("kind", "plain", "half", "expected"),
    [
        (pa.int64(), 1, 2, (1, 2)),
        (pa.string(), "x", HALF, (b"x", HALF_BYTES)),
        (
            NESTED,
            (["x", None], 1),
            ([HALF], 2),
            ({"names": [b"x", None], "n": 1}, {"names": [HALF_BYTES], "n": 2}),
        ),
    ],
    ids=["keys", "strings", "nested"],
)
def test_halves_of_surrogate_pairs_are_in_the_records(backend, kind, plain, half, expected):
    state = backend.get_state(ValueStateDescriptor(name="s", value_type=kind, ttl=TTL))
    state.put_many(["a", HALF], [plain, half])
    assert swept(backend) == [
        {"key": key, "namespace": None, "value": value}
        for key, value in zip([b"a", HALF_BYTES], expected, strict=True)
    ]


def test_halves_of_surrogate_pairs_in_keys_of_a_map_are_in_the_records(backend):
    state = backend.get_state(
        MapStateDescriptor(name="s", key_type=pa.string(), value_type=pa.int64(), ttl=TTL)
    )
    backend.set_current_key("k")
    state.set_current_namespace(HALF)
    state.put_all({"x": 1, HALF: 2})
    assert swept(backend) == [
        {"key": "k", "namespace": HALF_BYTES, "user_key": user_key, "value": value}
        for user_key, value in [(b"x", 1), (HALF_BYTES, 2)]
    ]
