"""The status page in a browser: readable in every view, with the right figures."""

import pytest

from tests.page.browser import VIEWS, Browser
from tests.page.demo import EVIL, demo, operator, served, sizes


@pytest.mark.long
def test_no_operator(browser: Browser) -> None:
    with served(demo()) as url:
        page = browser.read(f"{url}/")
    assert page["title"] == "Operators - idlestate sidecar"
    assert "There are no operators yet." in page["text"]


def test_one_operator(browser: Browser) -> None:
    with served(demo(operator("carts"))) as url:
        page = browser.read(f"{url}/")
    assert page["title"] == "carts - idlestate sidecar"
    facts = page["facts"]
    assert facts["Keys"] == f"{sizes(48_000)[-1].live_keys:,}"
    assert facts["Expired: lifetime"] == "533"
    assert facts["Watermark"] == "2026-09-21 14:03:20 UTC"
    assert "A key expires 2 hours to 3 hours after its last write." in page["text"]
    assert page["markup"]["svg"] == 1
    names = [each["name"] for each in page["stops"]]
    assert names[:2] == ["Skip to content", "idlestate sidecar"]
    fields = [" ".join(name.split()) for name in names[2:6]]
    assert fields == ["customer (string)", "customer is null", "day (date32[day])", "day is null"]
    assert "Look up" in names


@pytest.mark.long
def test_a_thousand_operators(browser: Browser) -> None:
    every = [operator(f"operator-{at:03}", 100 + at) for at in range(1000)]
    with served(demo(*every)) as url:
        page = browser.read(f"{url}/?sort=keys&page=2")
    assert page["facts"]["Operators"] == "1,000"
    assert page["facts"]["Keys"] == f"{sum(each.live_keys for each in every):,}"
    by_keys = sorted(every, key=lambda each: -each.live_keys)
    assert [row[1] for row in page["rows"]] == [f"{each.live_keys:,}" for each in by_keys[50:100]]
    assert "1,000 operators, page 2 of 20" in page["text"]


def test_keys_and_errors_are_text(browser: Browser) -> None:
    with served(demo(operator("carts"))) as url:
        found = browser.read(f"{url}/operators/carts/keys?customer=%3Cb%3E&day=")
        (wrong,) = browser.visit(
            [{"url": f"{url}/operators/carts/keys?customer=wrong", **VIEWS[0]}]
        )
    assert wrong["violations"] == []
    for page in (found, wrong):
        assert EVIL in page["text"]
        assert page["markup"].keys().isdisjoint({"script", "b"})
    assert found["facts"]["orders"] == "7"
