"""`idlestate advise`: idle windows for a log of events."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from idlestate.service.system_errors import os_problem

if TYPE_CHECKING:
    from idlestate.advisor.advice import Advice

FAILED, USAGE = 1, 2


@click.command()
@click.argument("data")
@click.option(
    "--key", multiple=True, required=True, help="Key column. Repeat the option for several."
)
@click.option("--event-time", required=True, help="Event-time column.")
@click.option(
    "--window",
    "windows",
    multiple=True,
    metavar="DURATION",
    help="Idle window to try: min and max, such as 30m/45m, or one duration for both, such as 30m "
    "(unlike `idle: 30m` in a file). Repeat it for several. Default: common windows up to the span "
    "of the log.",
)
@click.option(
    "--key-budget",
    type=click.IntRange(1),
    metavar="N",
    help="Also report the largest window with at most N keys in state.",
)
@click.option(
    "--batches",
    metavar="ROWS|DURATION",
    help="Also count the keys that a job holds after each batch: every N rows (250000) or every "
    "DURATION of event time (5m).",
)
@click.option("--delay", metavar="DURATION", default="0s", help="Watermark delay of that job.")
@click.option(
    "--bytes-per-key",
    type=click.FloatRange(min=0, min_open=True),
    help="Bytes of state per live key. Default: an estimate.",
)
@click.option(
    "--null-key",
    type=click.Choice(["keep", "reject"]),
    default="keep",
    show_default=True,
    help="Whether null is a key like any other.",
)
@click.option(
    "--spark", is_flag=True, help="Use Spark, for logs larger than memory. DATA may be a URL."
)
@click.option("--picture", type=click.Path(path_type=Path), help="Draw the curve: .png or .svg.")
@click.option("--html", type=click.Path(path_type=Path), help="Write a report as one HTML file.")
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print.",
)
def advise(
    data: str, windows: tuple[str, ...], picture: Path | None, html: Path | None, output: str,
    **arguments: Any,
) -> None:  # fmt: skip
    """Suggest idle windows for a log of events.

    DATA is a file or folder of parquet, CSV or JSON lines. For each window, the command counts the
    keys in state and the keys that return after they expired.

    \b
    Examples:
      idlestate advise build/clicks --key session_id --event-time event_time
      idlestate advise build/clicks --key session_id --event-time event_time \\
          --window 30m --window 30m/45m --batches 5m --html build/advice.html
    """
    from idlestate.errors import IdlestateError

    if picture is not None and picture.suffix not in (".svg", ".png"):
        _fail(f"--picture {picture}: the file must end in .svg or .png", USAGE)
    try:
        advice = _advice(data, window=windows, **arguments)
    except IdlestateError as error:
        _fail(str(error))
    except OSError as error:
        _fail(os_problem(error))
    if output == "json":
        from idlestate.advisor.json_report import json_report

        click.echo(json_report(advice))
    else:
        from idlestate.advisor.text_report import text_report

        click.echo(text_report(advice))
    try:
        for file in _written(advice, data, picture, html):
            click.echo(f"written: {file}", err=output == "json")
    except IdlestateError as error:
        _fail(str(error))
    except OSError as error:
        _fail(os_problem(error))


def _advice(data: str, *, spark: bool, **arguments: Any) -> "Advice":
    # Imported late: Arrow and pandas take a while.
    from rich.console import Console

    from idlestate.advisor.text_arguments import advise_by_texts

    with Console(stderr=True).status(f"reading {data}"):
        if not spark:
            return advise_by_texts(data, **arguments)
        # Imported only if needed: Spark takes a second.
        from idlestate.service.event_files_on_spark import log_on_spark

        with log_on_spark(data) as events:
            return advise_by_texts(events, **arguments)


def _written(
    advice: "Advice", data: str, picture: Path | None, html: Path | None
) -> Iterator[Path]:
    """Write the requested files, one after the other."""
    if picture is not None:
        from idlestate.advisor.curve_chart import draw_curve

        draw_curve(advice, picture)
        yield picture
    if html is not None:
        from idlestate.advisor.html_report import html_report

        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(html_report(advice, data), encoding="utf-8")
        yield html


def _fail(message: str, code: int = FAILED) -> NoReturn:
    click.secho(message, fg="red", err=True)
    sys.exit(code)
