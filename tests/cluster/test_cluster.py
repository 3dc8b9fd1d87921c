"""Two executors on this machine, and the lines of docs/cluster.md that lead there."""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow.dataset as ds
import pytest
import yaml

from tests.cluster.conftest import FILES, clicks
from tests.docs_pages import blocks
from tests.spark_versions import CAN_REPARTITION

pytestmark = [pytest.mark.long, pytest.mark.spark]

MASTER = "local-cluster[2,1,1024]"
BLOCKS = blocks("docs/cluster.md")
COMMANDS = [
    line.removeprefix("$ ")
    for language, text in BLOCKS
    if language == "console"
    for line in text.splitlines()
]
(SUBMIT,) = [text for language, text in BLOCKS if language == "python"]
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


def expected() -> tuple[dict[int, int], dict[int, int]]:
    """Clicks of each user who is still there at the end, and of those who ended."""
    counts = Counter(user for file in range(FILES) for _, user in clicks(file))
    ended = {user: n for user, n in counts.items() if user % 10 == 0}
    return {user: n for user, n in counts.items() if user not in ended}, ended


def command(beginning: str) -> str:
    (found,) = [line for line in COMMANDS if line.startswith(beginning)]
    return found


class Desk:
    """A folder from which jobs are submitted."""

    def __init__(self, folder: Path, events: Path) -> None:
        self.folder = folder
        (folder / "conf").mkdir()
        (folder / "log").mkdir()
        (folder / "events").symlink_to(events)
        settings = SETTINGS | {
            "spark.eventLog.dir": (folder / "log").as_uri(),
            "spark.local.dir": str(folder / "local"),
        }
        lines = [f"{name} {value}\n" for name, value in settings.items()]
        (folder / "conf" / "spark-defaults.conf").write_text("".join(lines))

    def sh(self, line: str) -> None:
        env = os.environ | {
            "MASTER": MASTER,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(self.folder / "conf"),
        }
        if "spark-submit" in line:
            env.pop("PYTHONPATH", None)  # executors have what is sent to them
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-4000:]}{done.stderr[-8000:]}"

    def executors_of_state(self) -> list[str]:
        """The executor of each state partition in the newest stage that wrote state."""
        stateful: set[int] = set()
        at: dict[int, dict[int, str]] = defaultdict(dict)
        (log,) = (self.folder / "log").iterdir()
        for line in log.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerStageSubmitted":
                stage = event["Stage Info"]
                if any(rdd["Name"] == "StateStoreRDD" for rdd in stage["RDD Info"]):
                    stateful.add(stage["Stage ID"])
            elif event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in stateful:
                task = event["Task Info"]
                at[event["Stage ID"]][task["Index"]] = task["Executor ID"]
        newest = at[max(at)]
        return [newest[partition] for partition in sorted(newest)]


@pytest.fixture
def desk(tmp_path: Path, events: Path) -> Desk:
    desk = Desk(tmp_path, events)
    desk.sh(command("python -m zipfile"))
    return desk


def test_a_submitted_job_does_the_same_on_two_executors_half_of_it_on_each(desk: Desk) -> None:
    (desk.folder / "job.py").write_text((Path(__file__).parent / "job.py").read_text())
    desk.sh(command('spark-submit --master "$MASTER" --py-files idlestate.zip job.py'))
    report = json.loads((desk.folder / "report.json").read_text())
    live, ended = expected()
    assert dict(report["lives"]) == live
    rows = ds.dataset(desk.folder / "results").to_table().to_pylist()
    expired = [row for row in rows if row["change"] == "expire"]
    assert {row["user"]: row["n"] for row in expired} == ended
    assert len(expired) == len(ended)
    assert all("idlestate.zip" in place for place in report["places"])

    work: dict[str, Counter[str]] = defaultdict(Counter)
    for executor, held in zip(desk.executors_of_state(), report["partitions"], strict=True):
        work[executor].update(held)
    one, other = work.values()
    for what in ("rows", "bytes"):
        assert one[what] == pytest.approx(other[what], rel=0.1), what


def test_the_command_line_is_submitted_and_its_state_repartitioned(desk: Desk) -> None:
    (desk.folder / "submit.py").write_text(SUBMIT)
    pipeline = {
        "source": {"path": "events", "format": "parquet", "files_per_batch": 2},
        "event_time": "event_time",
        "delay": "10m",
        "key": ["user"],
        "aggregates": {"n": "count"},
        "policy": "short",
        "sinks": {"results": "out/results", "expired": "out/expired"},
        "checkpoint": "out/checkpoint",
        "metrics": {"port": 0},
    }
    policies = {"short": {"idle": {"min": "30m", "max": "45m"}}}
    file = {"version": 1, "policies": policies, "pipelines": {"clicks": pipeline}}
    (desk.folder / "shop.yaml").write_text(yaml.safe_dump(file))
    desk.sh(command('spark-submit --master "$MASTER" --py-files idlestate.zip submit.py'))
    _, ended = expected()
    expired = ds.dataset(desk.folder / "out/expired", format="parquet").to_table().to_pylist()
    assert {row["user"]: row["n"] for row in expired} == ended
    layout = desk.folder / "out/checkpoint/idlestate/clicks/layout.json"
    assert json.loads(layout.read_text())["state_partitions"] == 2  # one per core
    assert sorted(desk.executors_of_state()) == ["0", "1"]
    if not CAN_REPARTITION:
        return
    desk.sh(command("idlestate state repartition"))
    assert json.loads(layout.read_text())["state_partitions"] == 4
