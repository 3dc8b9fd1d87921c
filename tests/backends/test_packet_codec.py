"""Packets: what a task hands to a shard comes out as it went in, and is small."""

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs.fields import to_arrow
from idlestate.backends.shards import packet_codec
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.as_of import as_of
from idlestate.backends.shards.packet_codec import (
    PacketError,
    PacketsTooLargeError,
    decode_packet,
    encode_packet,
    encode_packets,
)
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec

KINDS = {"k": pa.string(), "v": pa.int64(), "f": pa.float64()}
AGGREGATES = {"n": "count", "total": "sum(v)", "average": "avg(f)", "least": "min(v)"}
SPEC = TableSpec((("k", pa.string()),), aggregation(AGGREGATES, KINDS))
COUNTS = TableSpec((("k", pa.string()),), aggregation({"n": "count"}, KINDS))


@pytest.mark.parametrize(
    ("values", "times_ms"),
    [
        ([1, 2, 3], [5, 6, 7]),
        ([-(2**63), 2**63 - 1, 0], [-1, 0, 2**53]),
        ([-1, 2**40, 127], [0, 128, 2**31]),
        ([None, -129, None], [2**32, 2**32, 2**32 + 256]),
        ([], []),
    ],
)
def test_steps_come_out_of_a_packet_as_they_went_in(
    values: list[int | None], times_ms: list[int]
) -> None:
    columns = {
        "k": pa.array([f"{at % 2}" for at in range(len(values))], pa.string()),
        "v": pa.array(values, pa.int64()),
        "f": pa.array([0.1 * at for at in range(len(values))], pa.float64()),
    }
    steps = Steps.from_records(SPEC, [columns["k"]], np.array(times_ms, dtype=np.int64), columns)
    found = decode_packet(encode_packet(steps), SPEC)
    assert found.keys == steps.keys
    for left, right in (
        (found.hashes, steps.hashes),
        (found.counts, steps.counts),
        (found.t_ms, steps.t_ms),
        *zip(found.carried, steps.carried, strict=True),
    ):
        assert to_arrow(left).equals(to_arrow(right))


def test_a_packet_of_a_task_with_another_version_is_refused_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packet = encode_packet(Steps.empty(COUNTS))
    monkeypatch.setattr(packet_codec, "_VERSION", b"next")
    with pytest.raises(PacketError, match="the same version of idlestate on the driver"):
        decode_packet(packet, COUNTS)


def test_packets_that_do_not_fit_into_a_binary_column_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = [Steps.empty(COUNTS)] * 2
    size = len(encode_packet(parts[0]))
    monkeypatch.setattr(packet_codec, "_MOST_BYTES", 2 * size)
    assert len(encode_packets(parts, pa.binary())) == 2
    monkeypatch.setattr(packet_codec, "_MOST_BYTES", 2 * size - 1)
    with pytest.raises(PacketsTooLargeError, match="limit what the source reads in a batch"):
        encode_packets(parts, pa.binary())
    assert len(encode_packets(parts, pa.large_binary())) == 2


def test_columns_of_the_other_input_take_no_bytes() -> None:
    kind = as_of("left", ["k"], ["v", "f", "text"], {**KINDS, "text": pa.string()})
    spec = TableSpec((("id", pa.string()),), kind, in_order=True)

    def steps(rows: int) -> Steps:
        nulls = {name: pa.nulls(rows, of) for name, of in kind.inputs.items()}
        times_ms = np.arange(rows, dtype=np.int64) * 60
        values = nulls | {"k": pa.array(["p"] * rows)}
        ids, reads = pa.array(["a"] * rows), np.ones(rows, dtype=bool)
        return Steps.from_records(spec, [ids], times_ms, values, reads=reads)

    found = decode_packet(encode_packet(steps(100)), spec)
    assert [to_arrow(each) for each in found.carried] == [
        to_arrow(each) for each in steps(100).carried
    ]
    # Per row 4 bytes of time, 5 of text, 8 of the time that a version keeps, and some bits.
    grown = len(encode_packet(steps(128_000))) - len(encode_packet(steps(64_000)))
    assert grown / 64_000 < 18


def test_a_row_that_is_counted_takes_five_bytes() -> None:
    def size(rows: int) -> int:
        keys = [pa.array(["a"] * rows)]
        times_ms = np.arange(rows, dtype=np.int64) * 60 + 1_740_960_000_000
        return len(encode_packet(Steps.from_records(COUNTS, keys, times_ms, {})))

    assert (size(128_000) - size(64_000)) / 64_000 == 5
