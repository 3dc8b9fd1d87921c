"""Key groups, their ranges, and how operator state is dealt out, against Flink's classes."""

import numpy as np
import pyarrow as pa
import pytest

from idlestate.state.codec import codec_for
from idlestate.state.errors import KeyGroupError
from idlestate.state.java_hashes import java_hash, java_hashes
from idlestate.state.key_batch import KeyBatch
from idlestate.state.key_groups import (
    check_parallelism,
    default_max_parallelism,
    key_group,
    key_group_range,
    key_groups,
    murmur,
    operator_index,
)
from idlestate.state.redistribution import (
    OperatorStateMode,
    StatePartitions,
    redistribute,
)
from tests.golden_files import read_traces

pytestmark = pytest.mark.golden

TYPES = {
    "string": pa.string(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
}


def type_of(name):
    if name.startswith("tuple"):
        parts = name[name.index("<") + 1 : -1].split(",")
        return pa.struct([(f"f{at}", TYPES[part]) for at, part in enumerate(parts)])
    return TYPES[name]


def test_golden_key_groups():
    traces = read_traces("key_groups", "type")
    by_type = {}
    for trace in traces:
        kind, key = type_of(trace["type"]), trace["key"]
        key = tuple(key) if isinstance(key, list) else key
        code = java_hash(kind)(key)
        assert code == trace["hash_code"], trace
        assert murmur(code) == trace["murmur"], trace
        groups = {int(total): group for total, group in trace["groups"].items()}
        assert {total: key_group(code, total) for total in groups} == groups, trace
        for shape, index in trace["subtask"].items():
            total, count = map(int, shape.split("/"))
            assert operator_index(groups.get(total, key_group(code, total)), total, count) == index
        by_type.setdefault(kind, []).append((key, code, groups))
    for kind, each in by_type.items():
        codes = java_hashes(KeyBatch.of(codec_for(kind), [key for key, _, _ in each]))
        np.testing.assert_array_equal(codes, [code for _, code, _ in each])
        for total in each[0][2]:
            expected = [groups[total] for _, _, groups in each]
            np.testing.assert_array_equal(key_groups(codes, total), expected)
    print(f"key_groups: {len(traces)} keys")


def test_golden_key_group_ranges():
    traces = read_traces("key_group_ranges", "max_parallelism")
    for trace in traces:
        total, count = trace["max_parallelism"], trace["parallelism"]
        if "error" in trace:
            with pytest.raises(KeyGroupError):
                check_parallelism(total, count)
            continue
        found = [key_group_range(total, count, index) for index in range(count)]
        assert [[each.first, each.last] for each in found] == trace["ranges"]
        for index, each in enumerate(found):
            owners = {operator_index(group, total, count) for group in (each.first, each.last)}
            assert owners == {index}
    print(f"key_group_ranges: {len(traces)} pairs")


def test_golden_default_max_parallelism():
    for trace in read_traces("default_max_parallelism", "max_parallelism"):
        if "error" in trace:
            with pytest.raises(KeyGroupError):
                default_max_parallelism(trace["parallelism"])
            continue
        counts = range(trace["from"], trace["to"] + 1)
        assert {default_max_parallelism(count) for count in counts} == {trace["max_parallelism"]}


def handles_of(recorded):
    return [
        {
            handle: {
                name: StatePartitions(OperatorStateMode(part["mode"]), tuple(part["offsets"]))
                for name, part in states.items()
            }
            for handle, states in instance.items()
        }
        for instance in recorded
    ]


def told(instances):
    """What carries something: split states without partitions say nothing."""
    return [
        {
            handle: kept
            for handle, states in instance.items()
            if (
                kept := {
                    name: part
                    for name, part in states.items()
                    if part.offsets or part.mode is not OperatorStateMode.SPLIT
                }
            )
        }
        for instance in instances
    ]


def test_golden_redistribution():
    traces = read_traces("operator_state_repartition", "input")
    for trace in traces:
        old = handles_of(trace["input"])
        new = redistribute(old, trace["new_parallelism"], trace["state_name_order"])
        assert told(new) == told(handles_of(trace["output"])), trace["case"]
    print(f"operator_state_repartition: {len(traces)} cases")
