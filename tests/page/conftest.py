from collections.abc import Iterator

import pytest

from tests.page.browser import Browser, find_browser, open_browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless browser; without one, tests that ask for it are skipped."""
    path, missing = find_browser()
    if path is None:
        pytest.skip(missing)
    with open_browser(path) as browser:
        yield browser
