"""What tests of a sidecar's operator share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sidecar.sidecar_world import KINDS, World


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(request.param, tmp_path / "state")
    yield made
    made.close()
