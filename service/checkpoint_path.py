"""The type of arguments that name a checkpoint."""

from pathlib import Path
from typing import Any

import click

from idlestate.config.urls import is_url


class CheckpointPath(click.Path):
    """The path of a checkpoint; URLs are refused, as a path they would name another folder."""

    def __init__(self) -> None:
        """Convert to `Path`."""
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See `click.ParamType`."""
        if is_url(str(value)):
            self.fail(f"{value} is a URL; pass the path of a checkpoint", param, ctx)
        return super().convert(value, param, ctx)
