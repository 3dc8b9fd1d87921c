"""Recorded traces: where they lie and how they are read."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from idlestate.retention.policy import UpdateType
from idlestate.retention.ttl_config import StateVisibility

VARIABLE = "IDLESTATE_GOLDEN_DIR"
COPY = Path(__file__).parent / "golden"

FLINK: dict[str, Any] = {
    "OnCreateAndWrite": UpdateType.ON_CREATE_AND_WRITE,
    "OnReadAndWrite": UpdateType.ON_READ_AND_WRITE,
    "NeverReturnExpired": StateVisibility.NEVER_RETURN_EXPIRED,
    "ReturnExpiredIfNotCleanedUp": StateVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP,
}
"""What the words of the recordings are called here."""


def golden_dir() -> Path:
    """The folder of the traces: the variable's, else the copy beside the tests."""
    folder = Path(os.environ.get(VARIABLE) or COPY)
    if not folder.is_dir():
        pytest.fail(f"{VARIABLE}={folder} is no folder; unset it to use {COPY}")
    return folder


def read_traces(name: str, holds: str = "ops") -> list[dict[str, Any]]:
    """The traces of `<name>.jsonl` or `<name>.jsonl.gz`, or both when both are there.

    `holds` is what at least one of them has to have something under.

    Skips the test when neither is; fails it when a file that is there holds no trace.
    """
    folder = golden_dir()
    paths = [
        path for ending in (".jsonl", ".jsonl.gz") if (path := folder / f"{name}{ending}").exists()
    ]
    if not paths:
        pytest.skip(f"no {name}.jsonl or {name}.jsonl.gz in {folder}")
    found: list[dict[str, Any]] = []
    for path in paths:
        raw = path.read_bytes()
        text = gzip.decompress(raw) if path.suffix == ".gz" else raw
        traces = [json.loads(line) for line in text.decode("utf-8").splitlines() if line.strip()]
        if not any(trace.get(holds) for trace in traces):
            pytest.fail(f"{path} is there but holds no trace")
        found.extend(traces)
    return found
