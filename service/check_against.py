"""`idlestate check --against`: what would happen to the state of a checkpoint."""

import sys
from pathlib import Path

import click

from idlestate.backends.checkpoint.operator_layout import operators
from idlestate.backends.files.folder import Folder
from idlestate.config.loading import Config
from idlestate.pipeline.query_start import WAY_OUT
from idlestate.service.job import Job
from idlestate.service.state_commands import FAILED, fail, session_on


def check_against(config: Config, file: Path, checkpoint: Path) -> None:
    """Print what happens to each column of a pipeline's state; exit with 1 if it is refused.

    It starts Spark, to get the types of the input's columns, but no query.
    """
    with session_on(checkpoint) as spark:
        folder = Folder(str(checkpoint))
        held = operators(folder)
        uids = [uid for uid in config.pipelines if uid in held]
        if not uids:
            fail(
                f"checkpoint {checkpoint} holds {', '.join(held)}, and {file} defines "
                f"{', '.join(config.pipelines) or 'no pipelines'}; pass the file of that pipeline"
            )
        found = {uid: Job(config, uid).takeover(spark, folder) for uid in uids}
    for uid, takeover in found.items():
        word = "cannot" if takeover.refusals else "can"
        click.echo(f"{uid}: a run {word} continue from the state in {checkpoint}")
        for change in takeover.changes:
            line = f"  {change.name:<20} {change.became:<18} {change.detail}"
            click.secho(line, fg="red" if change.became == "refused" else None)
    if any(takeover.refusals for takeover in found.values()):
        click.echo(WAY_OUT, err=True)
        sys.exit(FAILED)
