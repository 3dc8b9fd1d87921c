"""The status page of a running sidecar, in a browser."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.page.browser import VIEWS, Browser
from tests.sidecar.sidecar_process import Sidecar

EVIL = "<script>alert('x')</script><b>bold</b>"


@pytest.fixture
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sidecar, str]]:
    """A sidecar, and the URL of its control plane."""
    folder: Path = tmp_path_factory.mktemp("s")
    sidecar = Sidecar(folder, control="127.0.0.1:0")
    url = sidecar.start_told().rpartition("control at ")[2].strip()
    yield sidecar, url
    assert sidecar.stop() == 0


def test_a_running_sidecar_shows_its_operator_and_its_keys(
    browser: Browser, started: tuple[Sidecar, str]
) -> None:
    sidecar, url = started
    with sidecar.client() as client:
        client.add_many({"user": [EVIL, "ada", "ada"], "amount": [1, 2, 3]})
    page = browser.read(f"{url}/")
    assert page["title"] == "carts - idlestate sidecar"
    assert page["facts"]["Keys"] == "2"
    assert "A key expires 30 minutes to 45 minutes after its last write." in page["text"]
    keys, view = f"{url}/operators/carts/keys", VIEWS[0]
    found, gone, wrong, none = browser.visit(
        [
            {"url": f"{keys}?user={quote(EVIL)}", **view},
            {"url": f"{keys}?user=nobody", **view},
            {"url": f"{keys}?no=1", **view},
            {"url": f"{url}/operators/none", **view},
        ]
    )
    assert "This key is in state until" in found["text"]
    assert (found["facts"]["user"], found["facts"]["total"]) == (EVIL, "1")
    assert found["markup"].keys().isdisjoint({"script", "b"})
    assert "This key was never seen." in gone["text"]
    assert "ask for one key as ?user=..." in wrong["text"]
    assert "There is no operator none." in none["text"]
