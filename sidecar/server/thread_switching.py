"""How long a thread computes before another one has its turn at the interpreter.

Whoever waits asks for it after 5 ms by default, and a look-up asks several times on its way: beside
a query that computes all the time these waits are most of what it takes.
"""

import sys

_TURN_S = 0.001


def take_short_turns() -> None:
    """Let the threads of this process, where they wait for each other, wait a millisecond."""
    sys.setswitchinterval(_TURN_S)
