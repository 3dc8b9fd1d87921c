"""A headless browser for tests: what a reader of a page finds, and what accessibility rules say."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "page-tools"
VIEWS = [
    {"width": width, "height": height, "scheme": scheme}
    for width, height in ((390, 844), (1280, 800))
    for scheme in ("light", "dark")
]


def find_browser() -> tuple[str | None, str]:
    """The browser, or None and what is missing."""
    script = [str(ROOT / "scripts" / "browser.sh"), str(FOLDER)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    return (done.stdout.strip(), "") if done.returncode == 0 else (None, done.stderr.strip())


@contextmanager
def open_browser(path: str) -> "Iterator[Browser]":
    """A browser that is closed afterwards."""
    command = ["node", str(Path(__file__).with_name("visit.mjs")), path, str(FOLDER)]
    pipe = subprocess.PIPE
    with (
        TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True) as visitor,
    ):
        yield Browser(visitor, errors)


class Browser:
    """Opens pages, all in one browser."""

    def __init__(self, visitor: subprocess.Popen[str], errors: IO[str]) -> None:
        """A process of `visit.mjs`, and the file of its errors."""
        self._visitor = visitor
        self._errors = errors

    def visit(self, visits: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """What each visit found, as `visit.mjs` tells it."""
        asked, told = self._visitor.stdin, self._visitor.stdout
        assert asked is not None
        assert told is not None
        asked.write(json.dumps(visits) + "\n")
        asked.flush()
        line = told.readline()
        if not line:
            self._errors.seek(0)
            raise AssertionError(self._errors.read()[-3000:])
        found: list[dict[str, Any]] = json.loads(line)
        return found

    def read(self, url: str) -> dict[str, Any]:
        """A page as a reader finds it, after a check in every view: narrow and wide, light and
        dark. It breaks no accessibility rule, asks nobody else, has no errors and is not too wide.
        """
        found = self.visit([{"url": url, **view} for view in VIEWS])
        host = url.partition("://")[2].partition("/")[0]
        for view, page in zip(VIEWS, found, strict=True):
            assert page["violations"] == [], (view, page["violations"])
            assert page["passed"] > 10  # the rules were tried
            assert page["errors"] == [], view
            hosts = {each.partition("://")[2].partition("/")[0] for each in page["requests"]}
            assert hosts == {host}, view
            assert not page["overflow"], view
            unmarked = [
                each for each in page["stops"] if each["kind"] != "body" and not each["is_marked"]
            ]
            assert unmarked == [], view
        return found[-1]
