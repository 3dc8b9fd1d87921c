"""What Spark's Python workers load for a query that keeps its state in its own checkpoint."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOT_IN_TASKS = (
    *("idlestate.sidecar", "idlestate.web", "idlestate.state", "idlestate.service"),
    *("pyarrow.flight", "pyarrow._flight", "grpc", "rocksdict", "http.server"),
    *("apscheduler", "prometheus_client", "matplotlib"),
)
IN_TASKS = {f"idlestate.pipeline.{name}" for name in ("pack", "stateful_step", "changelog")}

# Every process of Spark's daemon notes what it imports.
SITE = """
import sys
if "pyspark.daemon" in sys.orig_argv:
    class Note:
        def find_spec(self, name, path=None, target=None):
            with open({notes!r}, "a") as file:
                file.write(name + "\\n")
    sys.meta_path.insert(0, Note())
"""

JOB = """
from pyspark.sql import SparkSession
from idlestate import Policy, configure, retain, run_to_end

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False)
spark = configure(builder.config("spark.sql.shuffle.partitions", 2).getOrCreate())
clicks = spark.readStream.json("clicks", "event_time timestamp, user string")
changes = retain(clicks, key="user", event_time="event_time", aggregates={"n": "count"},
                 uid="clicks", policy=Policy(ttl="1s"))
writer = changes.writeStream.option("checkpointLocation", "checkpoint")
run_to_end(lambda: writer.trigger(availableNow=True).start("changes"))
rows = spark.read.parquet("changes").where("change = 'expire'").collect()
assert [row.user for row in rows] == ["a"], rows
"""


@pytest.mark.long
@pytest.mark.spark
def test_tasks_of_a_query_with_its_own_state_load_no_network_and_no_sidecar(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE.format(notes=str(notes)))
    (tmp_path / "clicks").mkdir()
    rows = [
        {"event_time": f"2025-03-03T00:0{at}:00Z", "user": user} for at, user in enumerate("ab")
    ]
    (tmp_path / "clicks" / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "job.py").write_text(JOB)
    done = subprocess.run(
        [sys.executable, "job.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(notes.read_text().split())
    assert loaded >= IN_TASKS
    wrong = {
        name for name in loaded if f"{name}.".startswith(tuple(f"{no}." for no in NOT_IN_TASKS))
    }
    assert not wrong
