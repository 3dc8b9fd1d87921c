"""The locked dependencies: every pin has hashes, and satisfies what `pyproject.toml` asks for."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from idlestate.pipeline.spark.spark_version import NEWEST

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked() -> dict[str, list[tuple[str, int]]]:
    """Per package name the pinned versions (one per environment) and how many hashes each has."""
    found: dict[str, list[tuple[str, int]]] = {}
    locks = ["requirements.lock", f"requirements-spark-{NEWEST[0]}.{NEWEST[1]}.lock"]
    text = "\n".join((ROOT / lock).read_text() for lock in locks)
    for entry in re.split(r"\n(?=\S)", text):
        if pinned := re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", entry):
            name = canonicalize_name(pinned[1])
            found.setdefault(name, []).append((pinned[2], entry.count("--hash=sha256:")))
    return found


def test_lock_holds_what_the_project_asks_for() -> None:
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]]
    pins = locked()
    for requirement in map(Requirement, wanted):
        versions = [version for version, _ in pins.get(canonicalize_name(requirement.name), [])]
        assert versions, f"{requirement} is not locked: make lock"
        assert all(requirement.specifier.contains(each) for each in versions), (
            f"{requirement} does not allow {versions}: make lock"
        )


@pytest.mark.parametrize("name", sorted(path.name for path in ROOT.glob("requirements*.lock")))
def test_lock_names_no_place_and_every_hash(name: str) -> None:
    lines = (ROOT / name).read_text().splitlines()
    code = [line for line in lines if not line.lstrip().startswith("#")]
    pin = re.compile(r"[a-z0-9._-]+==\S+ .*\\$")
    file_hash = re.compile(r"\s+--hash=sha256:[0-9a-f]{64}( \\)?$")
    for line in code:
        assert pin.match(line) or file_hash.match(line), line
    assert all(hashes > 0 for pins in locked().values() for _, hashes in pins)
