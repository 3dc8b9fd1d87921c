"""The command line: `idlestate run`, `serve`, `check`, `advise`, `plan`, `state` and others."""

import os
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from idlestate._without_pandas import without_pandas
from idlestate.config.plurals import counted
from idlestate.service.advise_command import advise
from idlestate.service.checkpoint_path import CheckpointPath
from idlestate.service.click_stream import DEFAULT_EVENTS, DEFAULT_SEED, generate_clicks
from idlestate.service.command_again import command_again
from idlestate.service.explain_command import explain
from idlestate.service.plan_command import plan
from idlestate.service.printing_group import PrintingGroup
from idlestate.service.sidecar_commands import clock, health, operator, refuse_unused, shows_secrets
from idlestate.service.state_commands import state
from idlestate.service.system_errors import os_problem

if TYPE_CHECKING:
    from idlestate.config.loading import Config

FAILED = 1
USAGE = 2

_allow_shrink = click.option(
    "--allow-shrink",
    is_flag=True,
    help="Let a changed policy remove more keys at once than its max_shrink allows.",
)


@click.group(cls=PrintingGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="idlestate")
def main() -> None:
    """Keyed state with built-in expiry for PySpark streaming jobs.

    \b
    Examples:
      idlestate check config/clicks.yaml
      idlestate run config/clicks.yaml
      idlestate run config/clicks.yaml --source my-events/ --afresh
    """
    # gRPC logs details about every broken client, which do not help the operator.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--against",
    metavar="CHECKPOINT",
    type=CheckpointPath(),
    help="Also check whether a run can continue from the state in this checkpoint.",
)
def check(file: Path, against: Path | None) -> None:
    """Check a configuration file. Reports every error and runs nothing.

    \b
    Examples:
      idlestate check config/clicks.yaml
      idlestate check config/clicks.yaml --against build/checkpoint
    """
    config = _load(file)
    parts = [
        counted(len(config.policies), "policy", "policies"),
        counted(len(config.pipelines), "pipeline"),
    ]
    if config.sidecar is not None and config.sidecar.operators:
        # Imported only if needed: Arrow takes a while.
        from idlestate.sidecar.protocol.errors import DoesNotFitError
        from idlestate.sidecar.server.declared_operators import check_operators

        try:
            check_operators(config)
        except DoesNotFitError as error:
            _fail(f"{file}: {error}")
        parts.append(f"{counted(len(config.sidecar.operators), 'operator')} of a sidecar")
    click.echo(f"{file}: valid ({', '.join(parts)})")
    if against is not None:
        # Imported late: it imports Spark.
        from idlestate.service.check_against import check_against

        check_against(config, file, against)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--pipeline", "uid", help="Pipeline to run. Required if the file defines several.")
@click.option(
    "--source",
    help="Read these files instead of the configured source: a folder, file or pattern of "
    "parquet, JSON lines or CSV (also .gz).",
)
@click.option(
    "--afresh",
    is_flag=True,
    help="Start from scratch: delete the checkpoint and the sinks of earlier runs, once the run is "
    "ready to start.",
)
@_allow_shrink
@click.option(
    "--sidecar",
    metavar="ADDRESS",
    help="Use this sidecar (unix:PATH or HOST:PORT) instead of starting one.",
)
@shows_secrets
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    help="Draw the state over time, with and without retention, to this .svg or .png file.",
)
def run(
    file: Path,
    uid: str | None,
    source: str | None,
    afresh: bool,
    allow_shrink: bool,
    sidecar: str | None,
    picture: Path | None,
    **secrets: str | None,
) -> None:
    """Run a pipeline. Continues from the last committed batch of earlier runs.

    \b
    Examples:
      idlestate run config/clicks.yaml
      idlestate run config/clicks.yaml --afresh --picture build/state.svg
      idlestate run config/clicks.yaml --source more-clicks/ --afresh
    """
    config = _load(file)
    chosen = _choose(config, uid, file)
    if picture is not None and picture.suffix not in (".svg", ".png"):
        _fail(f"--picture {picture}: the file must end in .svg or .png", USAGE)
    refuse_unused(secrets, sidecar)
    # Imported late: Spark takes a second, and an invalid file should be reported at once.
    from idlestate.errors import IdlestateError
    from idlestate.service.job import Job
    from idlestate.service.live_view import run_live
    from idlestate.service.spark_errors import note, plain_error

    address = None
    if sidecar is not None:
        from idlestate.sidecar.protocol.connection import Address

        if config.pipelines[chosen].backend == "spark":
            why = f"pipeline {chosen} keeps its state in Spark; set backend: rocksdb or heap"
            _fail(f"--sidecar: {why} in {file}, or leave the option out", USAGE)
        address = Address(sidecar, **secrets)
    config = config.allowing_shrink() if allow_shrink else config
    job = Job(config, chosen, source, address, afresh=afresh)
    again = command_again(click.get_current_context(), without="--afresh")

    def fail(error: Exception) -> NoReturn:
        goes_on = job.has_removed and job.has_committed
        hint = f"\nwith --afresh it starts from scratch; to continue, run: {again}"
        _fail(f"{error}{hint if goes_on else ''}")

    try:
        finished = run_live(job)
    except IdlestateError as error:
        fail(error)
    except OSError as error:
        fail(plain_error(error, job.log))
    except KeyboardInterrupt:
        _fail(f"interrupted; to continue from the last committed batch, run: {again}", 130)
    except Exception as error:  # noqa: BLE001 - a person gets a line, the log the rest
        note(job.log, traceback.format_exc())
        _fail(f"unexpected {type(error).__name__}: {error} (details in {job.log})")
    _print_summary(job, finished)
    if picture is not None:
        _draw(picture, finished, f"{file}, {chosen}")
    for place in (
        job.pipeline.sinks.results,
        job.pipeline.sinks.expired,
        job.pipeline.sinks.rejects,
    ):
        if place is not None:
            click.echo(f"written: {place}")


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@_allow_shrink
@click.option(
    "--while-input-is-open", is_flag=True, help="Stop when standard input closes, like on SIGTERM."
)
def serve(file: Path, allow_shrink: bool, while_input_is_open: bool) -> None:
    """Run a sidecar: keyed state for look-ups and several writers.

    SIGTERM stops it, SIGHUP reloads the file.

    \b
    Example:
      idlestate serve config/sidecar.yaml
    """
    with without_pandas():
        from idlestate.sidecar.protocol.exit_codes import FAILED, IN_USE, STOPPED
        from idlestate.sidecar.server.serving import serve as serve_file

    code = serve_file(
        file,
        partial(click.echo, err=True),
        while_input_is_open=while_input_is_open,
        allow_shrink=allow_shrink,
    )
    # The kinds of errors are for programs; commands end with 1.
    sys.exit(code if code in (STOPPED, IN_USE) else FAILED)


@main.group()
def generate() -> None:
    """Generate sample input."""


@generate.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to create.")
@click.option("--events", default=DEFAULT_EVENTS, show_default=True, help="Number of rows.")
@click.option(
    "--seed",
    default=DEFAULT_SEED,
    show_default=True,
    help="Random seed. The same seed generates identical files.",
)
@click.option("--overwrite", is_flag=True, help="Replace clicks made with other options.")
def clicks(out: Path, events: int, seed: int, overwrite: bool) -> None:
    """Generate a day of clicks as parquet files. Existing clicks of the same options are kept.

    \b
    Example:
      idlestate generate clicks --out build/clicks
    """
    try:
        folder = generate_clicks(out, events, seed, overwrite=overwrite)
    except (ValueError, OSError) as error:
        _fail(os_problem(error))
    click.echo(f"{counted(events, 'click')} in {out}{'' if folder.created else ' (already there)'}")


@main.command()
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write to this file instead of the terminal."
)
def schema(out: Path | None) -> None:
    """Print the JSON Schema of configuration files, for editors.

    \b
    Example:
      idlestate schema --out config/idlestate.schema.json
    """
    from idlestate.config.schema import render_schema

    if out is None:
        click.echo(render_schema(), nl=False)
    else:
        try:
            out.write_text(render_schema())
        except OSError as error:
            is_about_path = isinstance(
                error, FileNotFoundError | NotADirectoryError | IsADirectoryError
            )
            fix = "; pass a file in a folder that exists" if is_about_path else ""
            _fail(f"{out}: {error.strerror}{fix}")
        click.echo(f"written: {out}")


main.add_command(advise)
main.add_command(plan)
main.add_command(explain)
main.add_command(state)
main.add_command(operator)
main.add_command(clock)
main.add_command(health)


def _load(file: Path) -> "Config":
    # Only now: the models of the file take a while to import.
    from idlestate.config.loading import load_config
    from idlestate.config.problems import ConfigError

    try:
        config = load_config(file)
    except ConfigError as error:
        _fail(str(error))
    for warning in config.warnings:
        click.secho(f"WARNING {warning.render()}", fg="yellow", bold=True, err=True)
    return config


def _choose(config: "Config", uid: str | None, file: Path) -> str:
    if not config.pipelines:
        _fail(f"{file} defines no pipelines; add one under `pipelines:`", USAGE)
    names = ", ".join(config.pipelines)
    if uid is None and len(config.pipelines) > 1:
        _fail(f"{file} defines several pipelines; pass --pipeline with one of {names}", USAGE)
    if uid is not None and uid not in config.pipelines:
        _fail(f"{file} does not define pipeline {uid!r}; it defines {names}", USAGE)
    return uid or next(iter(config.pipelines))


def _print_summary(job: Any, finished: Any) -> None:
    from idlestate.service.summary import summary

    lines = summary(
        finished.monitor.figures,
        finished.growth,
        finished.monitor.figures.policy,
        life_seconds=finished.life_seconds,
        run_rows=finished.rows,
        run_seconds=finished.seconds,
    )
    click.echo(f"\n{job.uid}")
    for name, value in lines:
        click.echo(f"  {name:<18} {value}")


def _draw(picture: Path, finished: Any, subtitle: str) -> None:
    from idlestate.metrics.growth_chart import draw_growth
    from idlestate.retention.policy import FOREVER_MS

    policy = finished.monitor.figures.policy
    try:
        draw_growth(
            finished.growth.points(),
            picture,
            subtitle=subtitle,
            estimated=policy.remember_for_ms != FOREVER_MS,
        )
    except (ValueError, OSError) as error:
        _fail(f"the run is complete, but its picture was not drawn: {os_problem(error)}")
    click.echo(f"picture: {picture}")


def _fail(message: str, code: int = FAILED) -> NoReturn:
    click.secho(message, fg="red", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
