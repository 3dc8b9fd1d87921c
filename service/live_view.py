"""The live view of a run: a table on a terminal, else a line per batch."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table


def run_live(job: Any) -> Any:
    """Run with a live table on a terminal, else with a line per batch."""
    console = Console(stderr=True)
    say = partial(_say, console)
    _say(console, f"pipeline {job.uid}; Spark's own messages go to {job.log}")
    if not console.is_terminal:
        return job.run(_say_where(console), lambda batch: _say(console, _line(batch)), say)
    with Live(console=console, refresh_per_second=4) as live:
        finished = job.run(_say_where(console), lambda batch: live.update(_table(batch)), say)
    return finished


def _say(console: Console, text: str) -> None:
    """Print a line unchanged: without markup, and without breaking paths."""
    console.print(text, soft_wrap=True, markup=False)


def _say_where(console: Console) -> Callable[[str], None]:
    return lambda url: _say(console, f"metrics at {url} while it runs; Spark is starting")


def _fields(batch: Any) -> list[tuple[str, str]]:
    now = batch.figures
    rate = batch.rows / batch.seconds if batch.seconds else 0.0
    watermark = "-"
    if now.watermark_ms is not None:
        moment = datetime.fromtimestamp(now.watermark_ms / 1000, UTC)
        watermark = moment.strftime("%Y-%m-%d %H:%M:%S")
    return [
        ("batch", f"{batch.batch_id}"),
        ("rows", f"{now.input_rows:,}"),
        ("rows/s", f"{rate:,.0f}"),
        ("live keys", f"{now.live_keys:,}"),
        ("expired", f"{now.expired_total:,}"),
        ("state", f"{now.state_bytes / 1e6:,.1f} MB"),
        ("watermark", watermark),
    ]


def _line(batch: Any) -> str:
    return "  ".join(f"{name} {value}" for name, value in _fields(batch))


def _table(batch: Any) -> Table:
    table = Table()
    fields = _fields(batch)
    for name, _ in fields:
        table.add_column(name, justify="right")
    table.add_row(*(value for _, value in fields))
    return table
