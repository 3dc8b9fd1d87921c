"""`idlestate state`: inspects and repairs the state in a checkpoint while its query is stopped.

`ls`, `stats` and `verify` also work while it runs: they read committed batches.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, NoReturn

import click

from idlestate.config.plurals import counted
from idlestate.service.checkpoint_path import CheckpointPath
from idlestate.service.system_errors import os_problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILED = 1
_SHOWN = 10  # input files that a rollback lists

_checkpoint = click.argument("checkpoint", type=CheckpointPath())
_uid = click.option("--uid", help="Operator. Required if the checkpoint has several.")


@click.group()
def state() -> None:
    """Inspect and repair the state in a checkpoint."""


@state.command()
@_checkpoint
@_uid
def ls(checkpoint: Path, uid: str | None) -> None:
    """List the files of the newest committed batch.

    \b
    Example:
      idlestate state ls build/checkpoint
    """
    name = _operator(checkpoint, uid)
    with session_on(checkpoint) as spark:
        from idlestate.pipeline.checkpoint.state_files import state_files

        files = state_files(spark, str(checkpoint), name)
    newest = files.batches[-1]
    for file in files.of_batch(newest):
        click.echo(f"{file.ref.bytes:>14,} B {file.ref.rows:>12,} rows  {file.path}")
    click.echo(f"batch {newest}: {counted(len(files.of_batch(newest)), 'file')}")


@state.command()
@_checkpoint
@_uid
def stats(checkpoint: Path, uid: str | None) -> None:
    """Show the size of the state, and what older batches keep.

    \b
    Example:
      idlestate state stats build/checkpoint
    """
    name = _operator(checkpoint, uid)
    with session_on(checkpoint) as spark:
        from idlestate.backends.checkpoint.operator_layout import read_layout
        from idlestate.backends.checkpoint.policy_journal import PolicyJournal
        from idlestate.backends.files.folder import Folder
        from idlestate.pipeline.checkpoint.state_files import state_files
        from idlestate.pipeline.checkpoint.state_store_shards import read_shards

        folder = Folder(str(checkpoint))
        files = state_files(spark, str(checkpoint), name)
        newest = files.batches[-1]
        shards = read_shards(spark, str(checkpoint), name, newest)
        layout = read_layout(folder, name)
        version = PolicyJournal(folder, name).for_batch(newest).version
    mine = files.of_batch(newest)
    older = [file for file in files.named if newest not in file.batches]
    for what, figure in (
        ("operator", name),
        ("batches kept", f"{files.batches[0]} to {newest}"),
        ("policy", f"version {version}"),
        ("live keys", f"{sum(shard.live_keys for shard in shards):,}"),
        (
            "shards",
            f"{len(layout.shards)} on {counted(layout.state_partitions, 'state partition')}",
        ),
        ("files", f"{len(mine)}, {sum(file.ref.bytes for file in mine):,} B"),
        ("for older batches", f"{len(older)}, {sum(file.ref.bytes for file in older):,} B"),
        ("unused files", f"{len(files.orphans)}"),
    ):
        click.echo(f"{what:<18} {figure}")


@state.command()
@_checkpoint
@_uid
def verify(checkpoint: Path, uid: str | None) -> None:
    """Read all files that retained batches need; report damage.

    \b
    Example:
      idlestate state verify build/checkpoint
    """
    name = _operator(checkpoint, uid)
    with session_on(checkpoint) as spark:
        from idlestate.pipeline.checkpoint.state_files import damages, state_files

        files = state_files(spark, str(checkpoint), name)
        damaged = damages(list(files.named))
    for orphan in files.orphans:
        click.echo(f"{orphan}: not used by any batch; a later batch removes it")
    if not damaged:
        kept = _batches(files.batches[0], files.batches[-1])
        click.echo(f"{kept}: {counted(len(files.named), 'file')}, no damage found")
        return
    for each in damaged:
        batches = ", ".join(map(str, each.file.batches))
        noun = "batches" if each.file.batches[1:] else "batch"
        click.secho(f"{each.file.path} {each.what}; needed by {noun} {batches}", fg="red")
    good = files.newest_without(damaged)
    if good is None:
        fail("every retained batch needs one of these files; restore them from a backup")
    if good == files.batches[-1]:
        fail(
            f"batch {good}, the newest, does not need them: the query can continue, but not go back"
        )
    fail(
        f"batch {good} does not need them: restore the files from a backup, or go back with\n"
        f"  idlestate state rollback {checkpoint} --to {good}"
    )


@state.command()
@_checkpoint
@click.option("--to", type=click.IntRange(0), required=True, help="Batch to go back to.")
def rollback(checkpoint: Path, to: int) -> None:
    """Go back to an earlier batch. Stop the query first.

    \b
    Example:
      idlestate state rollback build/checkpoint --to 41
    """
    with session_on(checkpoint, alone=True) as spark:
        from idlestate.pipeline.checkpoint.rollback import roll_back

        undone = roll_back(spark, str(checkpoint), to)
    are = "is" if undone.first == undone.last else "are"
    click.echo(f"batch {to} is the newest; {_batches(undone.first, undone.last)} {are} undone")
    if undone.read_again:
        click.echo("the query will read these files again:")
        for path in undone.read_again[:_SHOWN]:
            click.echo(f"  {path}")
        if undone.read_again[_SHOWN:]:
            click.echo(f"  and {len(undone.read_again) - _SHOWN} more")
    else:
        click.echo("the query will read their input again")
    click.echo(
        f"on the next start, `idlestate run` and Spark's file sink remove the output of batches "
        f"after {undone.first}; if your own job uses FolderSinks or foreachBatch, remove that "
        "output yourself"
    )


@state.command()
@_checkpoint
@click.option(
    "--partitions", type=click.IntRange(1), required=True, help="New number of state partitions."
)
def repartition(checkpoint: Path, partitions: int) -> None:
    """Change the number of state partitions. Stop the query first.

    \b
    Example:
      idlestate state repartition build/checkpoint --partitions 16
    """
    with session_on(checkpoint, alone=True) as spark:
        from idlestate.pipeline.checkpoint.repartition import repartition as rewrite

        batch = rewrite(spark, str(checkpoint), partitions)
    click.echo(f"{checkpoint} has {counted(partitions, 'state partition')} from batch {batch} on")


@contextmanager
def session_on(checkpoint: Path, why: str = "", *, alone: bool = False) -> "Iterator[SparkSession]":
    """A Spark session; errors in it end the command with one line.

    Args:
        checkpoint: a checkpoint with operators, beside which Spark logs.
        why: the reason for which a command that may do without Spark needs it.
        alone: whether no query may run on it meanwhile.
    """
    from idlestate.backends.checkpoint.checkpoint_lock import held
    from idlestate.backends.checkpoint.operator_layout import operators
    from idlestate.backends.files.folder import Folder
    from idlestate.errors import IdlestateError, RefusedError

    folder = Folder(str(checkpoint))
    with _told_in_a_line():
        operators(folder)
    # Imported late: Spark takes a second, and an invalid path should be reported at once.
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from idlestate.service.spark_errors import plain_error
    from idlestate.service.spark_session import start_spark

    log = _spark_log(checkpoint)
    try:
        with held(folder) if alone else nullcontext():
            try:
                spark = start_spark(None, log)
            except RefusedError as error:
                fail(f"{error}; Spark is needed because of {why}" if why else str(error))
            try:
                yield spark
            finally:
                spark.stop()
    except IdlestateError as error:
        fail(str(error))
    except (PySparkException, Py4JError, OSError) as error:
        fail(str(plain_error(error, log)))


def _operator(checkpoint: Path, uid: str | None) -> str:
    """The operator that a command is about; checked before Spark starts, which takes seconds."""
    from idlestate.backends.checkpoint.operator_layout import operator_of, read_layout
    from idlestate.backends.files.folder import Folder

    with _told_in_a_line():
        name = operator_of(Folder(str(checkpoint)), uid)
        read_layout(Folder(str(checkpoint)), name)
        return name


def _spark_log(checkpoint: Path) -> Path:
    """Beside the checkpoint, or in a temporary folder if nothing can be written there."""
    beside, name = checkpoint.absolute().parent, f"{checkpoint.name}.spark.log"
    return (beside if os.access(beside, os.W_OK) else Path(mkdtemp(prefix="idlestate-"))) / name


@contextmanager
def _told_in_a_line() -> "Iterator[None]":
    from idlestate.errors import IdlestateError

    try:
        yield
    except IdlestateError as error:
        fail(str(error))
    except OSError as error:
        fail(os_problem(error))


def _batches(first: int, last: int) -> str:
    return f"batch {first}" if first == last else f"batches {first} to {last}"


def fail(message: str) -> NoReturn:
    """End a command with a message."""
    click.secho(message, fg="red", err=True)
    sys.exit(FAILED)
