"""The project's Markdown pages and their code blocks, as the tests read them."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Block(NamedTuple):
    """A fenced block of code."""

    language: str
    text: str


def page(name: str) -> str:
    """The text of a page, by its path in the project."""
    return (ROOT / name).read_text()


def page_names() -> list[str]:
    """All pages outside of the tests, by path in the project."""
    found = (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    return sorted(str(path.relative_to(ROOT)) for path in found)


def blocks(name: str) -> list[Block]:
    """The code blocks of a page, in order."""
    text = page(name)
    found = [Block(*each) for each in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)]
    assert len(found) == text.count("```") // 2, f"{name}: a block is indented or not closed"
    return found


def links(name: str) -> list[str]:
    """Where a page's links and pictures lead, as written."""
    return re.findall(r"\]\(([^)\s]+)\)", page(name))


def anchors(name: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page(name), re.M)
    kept = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in kept}
