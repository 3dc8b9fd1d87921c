import pytest

from tests.page.browser import Browser, find_browser


@pytest.fixture(scope="session")
def browser() -> Browser:
    """A headless browser; without one, tests that ask for it are skipped."""
    path, missing = find_browser()
    if path is None:
        pytest.skip(missing)
    return Browser(path)
