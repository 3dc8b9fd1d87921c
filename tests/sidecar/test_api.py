"""The control plane against its description: a fuzzer makes requests from the committed file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from idlestate.sidecar.server.control_plane import OPENAPI
from tests.patience import PATIENCE_S
from tests.sidecar.sidecar_process import UID, Sidecar

TOKEN = "0123456789abcdef0123"
CONFIG = """
[[operations]]
include-path = "/operators/{uid}/keys"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404]

[[operations]]
include-path = "/operators/{uid}/explain"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404]

[[operations]]
include-path = "/operators/{uid}/plan"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404]

[[operations]]
include-path = "/advise"
generation.max-examples = 4
phases.coverage.enabled = false
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 503]
"""
"""The description cannot tell which columns a key or a log has, or how the fields of a policy fit
together. Each log takes a process.
"""
FUZZING = [
    *("--phases", "examples,coverage,fuzzing,stateful"),
    *("--checks", "all"),
    *("--seed", "1", "--generation-database", "none"),
    *("--request-timeout", "10", "--no-color"),
]


@pytest.mark.long
def test_every_request_is_answered_as_described(folder: Path) -> None:
    token = folder / "token"
    token.write_text(TOKEN)
    (folder / "schemathesis.toml").write_text(CONFIG)
    sidecar = Sidecar(folder, control="127.0.0.1:0", token_file=str(token))
    line = sidecar.start_told()
    url = line.rpartition("control at ")[2].strip()
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", str(OPENAPI), "--url", url),
                *("-H", f"Authorization: Bearer {TOKEN}", *FUZZING),
                *("--max-examples", "25"),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=20 * PATIENCE_S,
            cwd=folder,
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    finally:
        assert sidecar.stop() == 0


def test_the_description_is_served_and_names_every_path(folder: Path) -> None:
    sidecar = Sidecar(folder).start()
    try:
        _, served = sidecar.ask("/openapi.json")
        assert served == json.loads(OPENAPI.read_text())
        _, told = sidecar.ask("/")
        known = {path.replace("{uid}", UID) for path in served["paths"]}
        assert {path.replace("{uid}", UID) for path in told["paths"]} <= known
        for path, methods in served["paths"].items():
            if "get" in methods and "{uid}" not in path:
                assert sidecar.ask(path)[0] == 200, path
    finally:
        sidecar.stop()


@pytest.mark.parametrize("header", ["Content-Length: 99999999", "Transfer-Encoding: chunked"])
def test_bodies_without_a_bound_are_refused_before_they_are_read(folder: Path, header: str) -> None:
    sidecar = Sidecar(folder).start()
    try:
        name, _, value = header.partition(": ")
        assert sidecar.ask("/-/reload", "POST", **{name: value})[0] in (411, 413)
    finally:
        sidecar.stop()
