"""The command line that was called, for people to call again."""

import shlex
import shutil
import sys

import click
from click.core import ParameterSource


def command_again(context: click.Context, *, without: str) -> str:
    """The command of a context with the arguments that were given, but for one option.

    Args:
        context: of the command that runs.
        without: the option's name, such as `--afresh`.
    """
    program, _, command = context.command_path.partition(" ")
    words = [program if shutil.which(program) else sys.argv[0], *command.split()]
    for param in context.command.params:
        given = context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if not given or without in param.opts:
            continue
        is_flag = isinstance(param, click.Option) and param.is_flag
        if isinstance(param, click.Option):
            words.append(param.opts[0])
        if not is_flag:
            words.append(str(context.params[param.name or ""]))
    return shlex.join(words)
