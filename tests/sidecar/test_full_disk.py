"""RocksDB takes no writes after one that failed, until it is opened again by another process."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from idlestate.sidecar.client.client import SidecarClient
from tests.patience import PATIENCE_S
from tests.sidecar.sidecar_process import Sidecar, fill, wait_for
from tests.small_disk import enlarge, mounted

SMALL_KB, LARGE_KB = 4 * 1024, 40 * 1024


@pytest.fixture
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with mounted(tmp_path_factory.mktemp("f") / "disk", SMALL_KB) as place:
        yield place


def assert_goes_on(sidecar: Sidecar, client: SidecarClient, acknowledged: int) -> None:
    """The write that was refused is sent again, and every one counts once."""
    wait_for(lambda: sidecar.ask("/readyz")[0] == 200)
    client.retry()
    found = client.get_many({"user": ["same"]})
    assert found.column("n").to_pylist() == [acknowledged + 1]


def test_the_sidecar_ends_with_1_once_there_is_room_so_that_it_is_started_again(
    small_disk: Path, made: Callable[..., Any]
) -> None:
    sidecar = made()
    (sidecar.folder / "state").symlink_to(small_disk)
    sidecar.start()
    with sidecar.client() as client:
        acknowledged = fill(client)
        status, told = sidecar.ask("/readyz")
        assert (status, sidecar.ask("/healthz")[0]) == (503, 200)
        assert "cannot write" in told["error"]
        enlarge(small_disk, LARGE_KB)
        assert sidecar.process.wait(PATIENCE_S) == 1
        assert "has space again" in sidecar.process.stderr.read()
        sidecar.stop()
        sidecar.start()
        assert_goes_on(sidecar, client, acknowledged)
    assert sidecar.stop() == 0


@pytest.mark.long
def test_a_worker_is_started_again_once_there_is_room(
    small_disk: Path, made: Callable[..., Any]
) -> None:
    sidecar = made(workers=2)
    (sidecar.folder / "state").mkdir(mode=0o700)
    (sidecar.folder / "state" / "rocksdb-ranges").symlink_to(small_disk)
    sidecar.start()
    with sidecar.client() as client:
        acknowledged = fill(client)
        wait_for(lambda: sidecar.ask("/readyz")[0] == 503)
        enlarge(small_disk, LARGE_KB)
        assert_goes_on(sidecar, client, acknowledged)
    assert "idlestate_sidecar_worker_restarts_total 0\n" not in sidecar.ask("/metrics")[1]
    assert sidecar.stop() == 0
