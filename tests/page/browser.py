"""A headless browser for tests: what a reader of a page finds, and what accessibility rules say."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "page-tools"
PATIENCE_S = 240
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


class Browser:
    """Opens pages."""

    def __init__(self, path: str) -> None:
        self.path = path

    def visit(self, visits: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """What each visit found, as `visit.mjs` tells it."""
        done = subprocess.run(
            ["node", str(Path(__file__).with_name("visit.mjs")), self.path, str(FOLDER)],
            input=json.dumps(visits),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found: list[dict[str, Any]] = json.loads(done.stdout)
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
