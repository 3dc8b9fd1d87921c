"""The page that `idlestate advise --html` writes, in a browser."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

from idlestate import advise
from idlestate.advisor.html_report import html_report
from idlestate.web.html import HTML
from idlestate.web.http_reply import Reply
from idlestate.web.http_server import HttpServer, Service
from tests.page.browser import Browser

MINUTE_MS, DAY_MS = 60_000, 86_400_000
EVIL = "<script>alert('x')</script><b>bold</b>"


@contextmanager
def served(page: str) -> Iterator[str]:
    with HttpServer(Service("page", lambda _: Reply(page.encode(), HTML)), 0) as server:
        yield f"http://127.0.0.1:{server.port}/"


@pytest.mark.long
def test_advice_is_readable_in_every_view(browser: Browser) -> None:
    times = np.concatenate([key * 3_600_000 + MINUTE_MS * np.arange(10) ** 3 for key in range(50)])
    events = pa.table(
        {
            EVIL: np.repeat(np.arange(50), 10),
            "at": pa.array(times).cast(pa.timestamp("ms", "UTC")),
        }
    )
    advice = advise(events, key=EVIL, event_time="at", key_budget=20)
    path = f"/{EVIL}/{'clicks-of-the-shop/' * 5}part-0000.parquet"
    with served(html_report(advice, path)) as url:
        page = browser.read(url)
    assert EVIL in page["title"]
    assert page["markup"].keys().isdisjoint({"script", "b"})
    assert [row[0] for row in page["rows"]][: len(advice.windows)]
    assert page["markup"]["svg"] == 1
