"""The current command line as text, for messages that suggest to run it again."""

import shlex
import shutil
import sys

import click
from click.core import ParameterSource


def command_again(context: click.Context, *, without: str) -> str:
    """The command line of a context without one of its options.

    Args:
        context: of the running command.
        without: the option to leave out, such as `--afresh`.
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
