"""The advice as text for a terminal."""

from collections.abc import Iterator, Sequence

from idlestate.advisor import wording
from idlestate.advisor.advice import Advice
from idlestate.advisor.censored_windows import CENSORED_NOTE


def text_report(advice: Advice) -> str:
    """The complete advice, as lines."""
    return "\n".join(_lines(advice))


def _lines(advice: Advice) -> Iterator[str]:
    yield from _pairs(wording.facts(advice))
    yield ""
    rows = [wording.headers(advice), *(wording.cells(each) for each in advice.windows)]
    yield from _table(rows)
    yield ""
    yield from _pairs(list(wording.findings(advice)))
    if advice.halves:
        yield ""
        yield from _table(wording.halves(advice))
    if wording.has_censored(advice):
        yield ""
        yield CENSORED_NOTE
    if advice.policy is not None:
        yield ""
        yield advice.policy.yaml
        yield wording.policy_in_words(advice)


def _pairs(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        yield f"{name:<{width}}  {value}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as text: the first column is left-aligned, the others are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *others = zip(row, widths, strict=True)
        cells = [f"{first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in others)]
        yield "  ".join(cells).rstrip()
