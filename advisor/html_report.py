"""The advice as one HTML file that loads nothing else.

The picture is in the page as SVG, in the page's own colours, so that it follows the reader's light
or dark scheme. Everything in it is also in the table beside it.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape

from idlestate.advisor import wording
from idlestate.advisor.advice import Advice
from idlestate.advisor.censored_windows import CENSORED_NOTE
from idlestate.advisor.curve_chart import INKS, curve_svg

_LIGHT = INKS | {"muted": "#5f6b7a"}
"""Small text needs more contrast in a page than in a picture."""
_DARK = {
    "paper": "#14191f",
    "ink": "#e4e7eb",
    "muted": "#9aa5b1",
    "grid": "#323f4b",
    "returning": "#f0a35e",
    "kept": "#4fc3bc",
}
_STYLE = """
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
       max-width: 60rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.wide { overflow-x: auto; } svg { width: 100%; height: auto; }
table { border-collapse: collapse; } caption { text-align: left; color: var(--muted); }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; font-variant-numeric: tabular-nums;
         border-bottom: 1px solid var(--grid); white-space: nowrap; }
th:first-child { text-align: left; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.5rem; }
dt { color: var(--muted); } dd { margin: 0; }
pre { border: 1px solid var(--grid); padding: .8rem; overflow-x: auto; }
"""


def html_report(advice: Advice, title: str) -> str:
    """The page.

    Args:
        advice: the advice to show.
        title: the name of the log, such as the file.
    """
    return "\n".join(_page(advice, title)) + "\n"


def _page(advice: Advice, title: str) -> Iterator[str]:
    name = f"Idle windows for {escape(title)}"
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{name}</title>\n<style>{_colours()}{_STYLE}</style>\n</head>\n<body>\n<main>"
    yield f"<h1>{name}</h1>"
    yield _pairs(wording.facts(advice))
    yield "<h2>Windows that stand out</h2>"
    yield _pairs(list(wording.findings(advice)))
    if advice.policy is not None:
        yield "<h2>Suggested policy</h2>"
        yield f'<pre tabindex="0">{escape(advice.policy.yaml)}</pre>'
        yield f"<p>{escape(wording.policy_in_words(advice))}</p>"
    yield "<h2>Windows</h2>"
    if sum(each.window.is_single for each in advice.windows) > 1:
        yield f"<figure>{_picture(advice)}</figure>"
    rows = [wording.headers(advice), *(wording.cells(each) for each in advice.windows)]
    yield _table(rows, "Every window that was tried")
    if advice.halves:
        yield "<h2>First and second half</h2>"
        yield _table(wording.halves(advice), wording.HALVES_NOTE)
    if wording.has_censored(advice):
        yield f"<p>{escape(CENSORED_NOTE)}</p>"
    yield "</main>\n</body>\n</html>"


def _colours() -> str:
    light, dark = (
        " ".join(f"--{name}: {colour};" for name, colour in inks.items())
        for inks in (_LIGHT, _DARK)
    )
    return f"\n:root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"


def _picture(advice: Advice) -> str:
    svg = re.sub("<metadata>.*?</metadata>", "", curve_svg(advice), flags=re.DOTALL)
    for name, colour in INKS.items():
        svg = svg.replace(colour, f"var(--{name})")
    label = "Returning keys and keys in state over the idle window; the table has the same figures"
    return re.sub("<svg ", f'<svg role="img" aria-label="{label}" ', svg, count=1)


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    lines = (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return "<dl>" + "\n".join(lines) + "</dl>"


def _table(rows: Sequence[Sequence[str]], caption: str) -> str:
    head, *body = rows
    names = "".join(
        f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in head
    )
    lines = [
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in others)
        + "</tr>"
        for first, *others in body
    ]
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption>\n<thead><tr>{names}</tr></thead>\n<tbody>"
        + "\n".join(lines)
        + "</tbody></table></div>"
    )
