"""Errors of tasks, of which only the text reaches the driver."""

import re

from idlestate.backends.shards.own_accumulator import AccumulatorError
from idlestate.backends.shards.packet_codec import KeptPacketError

_MARK = "idlestate: "
_WITHOUT_OPERATOR = (AccumulatorError, KeptPacketError)
_LABEL = re.compile(r"^\[[A-Z0-9_.]+\] ")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")


def marked(error: Exception, uid: str | None = None) -> RuntimeError:
    """The error to raise in a task, so that its text can be found in Spark's error. It names the
    operator, if that is known and the text does not already name it.
    """
    where = f"operator {uid!r}: " if uid and isinstance(error, _WITHOUT_OPERATOR) else ""
    return RuntimeError(f"{_MARK}{where}{error} [end]")


def plain_message(text: str) -> str | None:
    """The text of an idlestate error inside a Spark error; None if there is none."""
    _, mark, rest = text.partition(_MARK)
    message, end, _ = rest.partition(" [end]")
    return message if mark and end else None


def spark_says(text: str) -> str:
    """The first line of a Spark error without its labels; plan and stack trace follow it."""
    return _SQLSTATE.sub("", _LABEL.sub("", text.strip().splitlines()[0])).strip()
