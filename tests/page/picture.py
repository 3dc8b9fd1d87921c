"""Draws docs/status.png: the status page of a fixed state, as a browser shows it."""

import sys
from pathlib import Path

# Behind everything else, so that no room of the project is found by its bare name first.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.page.browser import ROOT, find_browser, open_browser
from tests.page.demo import demo, operator, served

PICTURE = ROOT / "docs" / "status.png"


def main() -> int:
    """Draw it; the exit code."""
    path, missing = find_browser()
    if path is None:
        print(missing, file=sys.stderr)
        return 1
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    with served(demo(operator("carts"))) as url, open_browser(path) as browser:
        view = {"width": 1080, "height": 1000, "scheme": "light", "picture": str(out)}
        browser.visit([{"url": f"{url}/", **view}])
    print(f"drew {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
