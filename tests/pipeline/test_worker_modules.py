"""What Spark's Python processes load for a query that keeps its state in its own checkpoint."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.serializers import CloudPickleSerializer

from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.pipeline.changelog_unpacker import unpacker
from idlestate.pipeline.operator_spec import HASH, TIME, OperatorSpec
from idlestate.pipeline.pack import packer
from idlestate.pipeline.stateful_processor import ShardProcessor
from idlestate.pipeline.task_batch import TaskBatch
from idlestate.retention.policy import Policy
from idlestate.retention.policy_version import PolicyVersion

NOT_IN_TASKS = (
    *("idlestate.sidecar", "idlestate.web", "idlestate.state", "idlestate.service"),
    *("idlestate.metrics", "idlestate.advisor"),
    *("pyarrow.flight", "pyarrow._flight", "grpc", "rocksdict", "http.server"),
    *("apscheduler", "prometheus_client", "matplotlib", "pydantic", "yaml", "click", "rich"),
)
IN_TASKS = {
    f"idlestate.pipeline.{name}" for name in ("pack", "step_on_spark_state", "changelog_unpacker")
}
NOT_ON_DRIVER = (
    *(*NOT_IN_TASKS, "numpy", "pandas", "pyarrow"),
    *(
        "idlestate.backends.runs",
        "idlestate.backends.files",
        "idlestate.backends.shards.next_record",
    ),
)
TASK = "pyspark.worker"
STARTS = "starts"
ZIPPED = "zipped"
ON_DRIVER = "pyspark.sql.streaming.transform_with_state_driver_worker"
"""The process in which Spark asks for the state variables of a query before its first batch."""

# Every process of these kinds notes what it imports, and first that it starts, and whether it would
# import a pyspark that is not compiled; those that it forks only what they import. The last
# argument says which kind it is.
SITE = """
import sys
if sys.orig_argv[-1] in {kinds!r} and "idlestate-python" not in sys.orig_argv[1]:
    with open({notes!r} + "/" + sys.orig_argv[-1], "a") as file:
        file.write("{starts}\\n")
        if any(path.endswith("pyspark.zip") for path in sys.path):
            file.write("{zipped}\\n")
    class Note:
        def find_spec(self, name, path=None, target=None):
            with open({notes!r} + "/" + sys.orig_argv[-1], "a") as file:
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


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The starts of each kind of process, and the modules that they load."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "notes").mkdir()
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(
        SITE.format(
            notes=str(folder / "notes"), kinds=(TASK, ON_DRIVER), starts=STARTS, zipped=ZIPPED
        )
    )
    (folder / "clicks").mkdir()
    rows = [
        {"event_time": f"2025-03-03T00:0{at}:00Z", "user": user} for at, user in enumerate("ab")
    ]
    (folder / "clicks" / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "job.py").write_text(JOB)
    done = subprocess.run(
        [sys.executable, "job.py"],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
        | {"PYTHONPATH": str(folder / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_text().split() for path in (folder / "notes").iterdir()}


def among(names: tuple[str, ...], loaded: list[str]) -> set[str]:
    """Those of the modules that have one of these names or are below it."""
    return {name for name in loaded if f"{name}.".startswith(tuple(f"{no}." for no in names))}


SPEC = OperatorSpec(
    uid="clicks",
    table=TableSpec((("user", pa.string()),), aggregation({"n": "count"}, {"user": pa.string()})),
    policy=Policy(ttl="1s"),
    inputs=(("user", pa.string()),),
    read_when=None,
    delay_ms=0,
    max_ahead_ms=0,
    rejects=False,
    has_time=True,
    shards=1,
    runs=None,
    token="token",
)
TIMES = BatchTimes(0, -1, 0)

UNPICKLED = """
import sys
from pathlib import Path
from pyspark.serializers import CloudPickleSerializer

class Value:  # as Spark has it: a state, and the timers of its operator
    stored = None
    def get(self):
        return self.stored
    def update(self, value):
        self.stored = value
    def getValueState(self, name, schema):
        return self
    def registerTimer(self, at_ms):
        pass

given = CloudPickleSerializer().loads(Path("given").read_bytes())
"""
ASKED = """
given.init(Value())
print(*sys.modules)
"""
WORKED = """
import pyarrow as pa
from pyspark.sql import Row

pack, step, batch, unpack = given
rows = pa.RecordBatch.from_pydict({HASH: [1, 1], TIME: [0, 0], "user": ["a", "a"]})
(cells,) = pack(iter([rows]))
step.init(Value())
step._step._batch = batch
reported = list(step.handleInputRows((0,), iter([Row(**each) for each in cells.to_pylist()]), None))
found = pa.RecordBatch.from_pydict(
    {name: pa.array([row[name] for row in reported], kind)
     for name, kind in (("cell", pa.binary()), ("rejected", pa.string()))}
)
(changes,) = unpack(iter([found]))
assert changes.column("n").to_pylist() == [2], changes
print(*sys.modules)
"""


def loaded_by(program: str, given: object, folder: Path) -> list[str]:
    """The modules in a process that unpickles what the driver ships, and runs this with it."""
    (folder / "given").write_bytes(CloudPickleSerializer().dumps(given))
    done = subprocess.run(
        [sys.executable, "-c", UNPICKLED + program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_steps_of_tasks_load_no_network_no_sidecar_no_configuration(tmp_path: Path) -> None:
    """The short form of the test on Spark: what is pickled packs, steps and unpacks a batch."""
    runs, in_force = Folder(str(tmp_path / "runs")), PolicyVersion(1, 0, SPEC.policy)
    batch = TaskBatch(TIMES, SPEC.table, [0], in_force, 10, runs)
    step = ShardProcessor(SPEC.uid, SPEC.operator_step, SPEC.table.classes)
    given = packer(SPEC, lambda: batch), step, batch, unpacker(SPEC)
    program = f"HASH, TIME = {HASH!r}, {TIME!r}\n{WORKED}"
    loaded = loaded_by(program, given, tmp_path)
    assert set(loaded) >= IN_TASKS
    assert not among(NOT_IN_TASKS, loaded)


def test_the_state_variables_are_told_without_loading_the_step(tmp_path: Path) -> None:
    """The short form of the test on Spark."""
    step = ShardProcessor(SPEC.uid, SPEC.operator_step, SPEC.table.classes)
    loaded = loaded_by(ASKED, step, tmp_path)
    assert "idlestate.pipeline.stateful_processor" in loaded
    assert not among(NOT_ON_DRIVER, loaded)


@pytest.mark.long
@pytest.mark.spark
def test_tasks_load_what_they_do_and_no_network_no_sidecar_no_configuration(
    notes: dict[str, list[str]],
) -> None:
    assert set(notes[TASK]) >= IN_TASKS
    assert not among(NOT_IN_TASKS, notes[TASK])


@pytest.mark.long
@pytest.mark.spark
def test_spark_is_told_the_state_variables_without_loading_the_step(
    notes: dict[str, list[str]],
) -> None:
    assert "idlestate.pipeline.stateful_processor" in notes[ON_DRIVER]
    assert not among(NOT_ON_DRIVER, notes[ON_DRIVER])


@pytest.mark.long
@pytest.mark.spark
def test_the_workers_of_all_steps_are_forked_by_one_process(notes: dict[str, list[str]]) -> None:
    assert notes[TASK].count(STARTS) == 1


@pytest.mark.long
@pytest.mark.spark
def test_what_tasks_load_is_loaded_once_for_all_workers(notes: dict[str, list[str]]) -> None:
    assert [notes[TASK].count(name) for name in sorted(IN_TASKS)] == [1] * len(IN_TASKS)


@pytest.mark.long
@pytest.mark.spark
def test_no_process_compiles_pyspark(notes: dict[str, list[str]]) -> None:
    assert ZIPPED not in notes[TASK]
    assert ZIPPED not in notes[ON_DRIVER]
