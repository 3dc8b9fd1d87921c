"""A run in a process of its own, watched from outside."""

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from usage import Usage

HERE = Path(__file__).parent
_SAMPLE_S = 0.25


class RunFailedError(Exception):
    """A contestant's process failed; its log says why."""


def run_process(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run `run_one.py` on a job; its result with the memory and processor time it took.

    Raises:
        RunFailedError: the process ended with an error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    job_file, result_file, log_file = (folder / n for n in ("job.json", "result.json", "log.txt"))
    job_file.write_text(json.dumps(job))
    result_file.unlink(missing_ok=True)
    # Spark's Python workers import the contestants by name.
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, str(HERE / "run_one.py"), str(job_file), str(result_file)]
    usage = Usage()
    with (
        log_file.open("w") as log,
        subprocess.Popen(  # noqa: S603 - our own program
            command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": path}
        ) as child,
    ):
        try:
            while child.poll() is None:
                usage.sample(child.pid)
                try:
                    child.wait(_SAMPLE_S)
                except subprocess.TimeoutExpired:
                    continue
        except BaseException:
            child.terminate()
            raise
    if child.returncode or not result_file.exists():
        tail = "\n".join(log_file.read_text(errors="replace").splitlines()[-15:])
        raise RunFailedError(f"{' '.join(command)} failed ({child.returncode}):\n{tail}")
    result: dict[str, Any] = json.loads(result_file.read_text())
    result["memory"] = {"total": usage.total, "jvm": usage.jvm, "python": usage.python}
    for batch in result["batches"]:
        began_s = datetime.fromisoformat(batch["began"]).timestamp()
        jvm_ms, python_ms = usage.processor_ms(began_s, began_s + batch["ms"] / 1000)
        batch["jvm_ms"], batch["python_ms"] = round(jvm_ms), round(python_ms)
    return result
