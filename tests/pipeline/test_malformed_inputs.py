"""The column of malformed rows of operators with two inputs."""

import pyarrow as pa
import pytest

from idlestate.errors import RefusedError
from idlestate.pipeline.join_asof import as_of_operator
from idlestate.pipeline.spark.spark_types import spark_schema
from idlestate.retention.policy import Policy
from tests.pipeline.test_idle_inputs import PROBES, VERSIONS, probe, version
from tests.pipeline.two_input_runs import TwoInputRun


def test_one_input_may_have_a_column_of_malformed_rows():
    bad = PROBES.append(pa.field("bad", pa.string()))
    arguments = {"ignores_case": True, "on": "k", "uid": "q", "event_time": "t",
        "version_event_time": "t_v", "how": "left", "columns": None, "delay": "0s",
        "version_delay": None, "idle_after": None, "order": (), "policy": Policy(), "config": None,
        "max_ahead": "365d", "min_event_time": "1970-01-02", "null_key": "keep", "rejects": True,
        "shards": None, "place": {"runs": None}}  # fmt: skip
    inputs = as_of_operator(spark_schema(bad), spark_schema(VERSIONS), malformed="BAD", **arguments)
    assert [marking.malformed for _, marking in inputs] == ["bad", None]
    run = TwoInputRun(inputs, {"probes": bad, "versions": VERSIONS}, 2)
    rows = [{**probe(None), "bad": "{"}, {**probe(1), "bad": None}, probe(None)]
    found = run.batch(0, probes=rows, versions=[version(None)])
    reasons = sorted((row["input"], row["reason"]) for row in found)
    assert reasons == [
        ("probes", "malformed"), ("probes", "null_time"), ("versions", "null_time")
    ]  # fmt: skip
    assert "bad" not in found[0]
    with pytest.raises(RefusedError, match="malformed: no input has a column worse; available: k,"):
        as_of_operator(spark_schema(bad), spark_schema(VERSIONS), malformed="worse", **arguments)
