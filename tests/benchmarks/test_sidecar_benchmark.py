"""`make bench` measures the sidecar beside Redis, too; here in the quick form."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.quick_form import quick_form

MAIN = Path(__file__).resolve().parents[2] / "benchmarks" / "main.py"


@pytest.mark.long
@quick_form
def test_writes_beside_redis_look_ups_sweeps_and_starts_are_in_the_report(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(MAIN), "--quick", "--only", "sidecar", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        # The files beside it are imported by name.
        env={key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"},
    )
    assert done.returncode == 0, done.stderr
    report = (tmp_path / "report.md").read_text()
    assert re.search(r"redis: [0-9,]+ rows/s .* scripts of 1,000 keys|Redis is left out", report)
    for rows in ("50,000", "200,000"):
        ratio = rf"workers 2 to 1, calls of {rows}: [0-9.]+ times .* could make it [0-9.]+"
        assert re.search(ratio, report)
    for when in ("alone", "beside writes", "while a query runs"):
        assert re.search(rf"look-ups {when}: p50 .* p99", report)
    assert re.search(r"start on 3,000 keys: [0-9.]+ s", report)
    for title in ("without", "with"):
        assert re.search(rf"{title}: \d+ calls\n +0 to +5 ms +\d+", report)
    assert re.search(r"delay p50 .* p99 .* \(sweep time 50 ms\)", report)
    assert re.search(r"beside a scrape a second: p50 .* p99 .* times \(aim 1.05\)", report)
