"""Running `idlestate` in a folder of its own, and what is expected of every refusal."""

import gzip
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from idlestate.service.cli import main

FIRST_MODIFIED_S = 1_600_000_000
LIMIT_S = 600
# What a person should never see.
INNARDS = ("Traceback", "Py4J", "org.apache.spark", "java.lang", "\tat ", "SQLSTATE", "pyspark.")


@dataclass(frozen=True)
class Said:
    """Exit code and everything printed."""

    code: int
    text: str

    def summary(self) -> dict[str, str]:
        """The lines of the summary, by name."""
        _, _, lines = self.text.rpartition("\n\n")
        pairs = (line.strip().partition("  ") for line in lines.splitlines() if "  " in line)
        return {name: figure.strip() for name, _, figure in pairs}


class CommandLine:
    """A folder with input, configuration, checkpoint and sinks, and runs of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = folder / "events"
        self.out = folder / "out"
        self.checkpoint = self.out / "checkpoint"
        self.config = folder / "pipeline.yaml"
        self.events.mkdir()

    def write(self, uid: str = "clicks", **changed: Any) -> Path:
        """The configuration, with these fields of the pipeline instead of the usual ones."""
        pipeline: dict[str, Any] = {
            "source": {
                "path": str(self.events),
                "format": "json",
                "schema": {"event_time": "timestamp", "user": "string", "amount": "bigint"},
                "files_per_batch": 1,
            },
            "event_time": "event_time",
            "delay": "5m",
            "key": ["user"],
            "aggregates": {"n": "count", "total": "sum(amount)"},
            "policy": "short",
            "sinks": {name: str(self.out / name) for name in ("results", "expired", "rejects")},
            "checkpoint": str(self.checkpoint),
            "state_partitions": 2,
            "shards": 2,
            "metrics": {"port": 0},
        }
        pipeline |= changed
        idle = {"min": "30m", "max": "45m"}
        policies = {"short": {"idle": idle, "remember": "forever", "max_shrink": "100%"}}
        known = {name: value for name, value in pipeline.items() if value is not None}
        file = {"version": 1, "policies": policies, "pipelines": {uid: known}}
        self.config.write_text(yaml.safe_dump(file, sort_keys=False))
        return self.config

    def source(self, **changed: Any) -> dict[str, Any]:
        """The usual source with other fields; None removes one."""
        self.write()
        usual = yaml.safe_load(self.config.read_text())["pipelines"]["clicks"]["source"]
        return {name: value for name, value in {**usual, **changed}.items() if value is not None}

    def add(self, name: str, lines: Sequence[str], modified_s: int | None = None) -> Path:
        """One more input file; without a time, Spark takes files in the order of being added."""
        path = self.events / name
        content = "".join(f"{line}\n" for line in lines).encode()
        number = len({*self.events.iterdir(), path})
        at_s = FIRST_MODIFIED_S + number if modified_s is None else modified_s
        # A running query sees the file with its own time or not at all.
        unseen = self.folder / f"{path.name}.unseen"
        unseen.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        os.utime(unseen, (at_s, at_s))
        unseen.rename(path)
        return path

    def run(self, *options: str) -> Said:
        """`idlestate run` in this process."""
        result = CliRunner().invoke(main, ["run", str(self.config), *options])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Said(result.exit_code, result.output)

    def run_apart(
        self, *options: str, environment: Mapping[str, str] | None = None, limit_s: float = LIMIT_S
    ) -> Said:
        """`idlestate run` in a process and a JVM of its own."""
        variables = {**os.environ, "PYTHONSAFEPATH": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "idlestate.service.cli", "run", str(self.config), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env=variables if environment is None else dict(environment),
            text=True,
            timeout=limit_s,
            check=False,
        )
        return Said(done.returncode, done.stdout)


def assert_refused(said: Said, *words: str, code: int = 1) -> None:
    """A plain message that holds these words, and an exit code that tells of it."""
    assert said.code == code, said.text
    for innards in INNARDS:
        assert innards not in said.text, said.text
    for word in words:
        assert word in said.text, said.text


def assert_good(said: Said) -> None:
    assert said.code == 0, said.text
    assert "Traceback" not in said.text


def event(time: str | None, user: str, amount: int = 1) -> str:
    """One line of JSON input."""
    moment = "null" if time is None else f'"{time}"'
    return f'{{"event_time": {moment}, "user": "{user}", "amount": {amount}}}'
