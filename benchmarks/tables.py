"""Tables and words of the report."""

from collections.abc import Sequence


def verdict(reached: bool) -> str:
    """How an aim is reported."""
    return "reached" if reached else "missed"


def mib(size: float) -> str:
    """Bytes in MiB; nothing where there are none."""
    return f"{size / 2**20:,.1f} MiB" if size else ""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table, numbers to the right."""
    widths = [max(len(row[at]) for row in (columns, *rows)) for at in range(len(columns))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = cells
        padded = [first.ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * width for width in widths]
    rule[1:] = [f"{'-' * (width - 1)}:" for width in widths[1:]]
    return [line(columns), line(rule), *(line(row) for row in rows)]
