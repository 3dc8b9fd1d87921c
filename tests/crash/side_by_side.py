"""Histories that know nothing of one another, so many at once."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol, TypeVar


class Suffering(Protocol):
    """A history that is killed as its aims say.

    Attributes:
        kills: those that landed.
    """

    kills: list[Any]

    def suffer(self, aims: Any, /) -> None:
        """Live to the end."""


H = TypeVar("H", bound=Suffering)


def suffered(begin: Callable[[int, int], tuple[H, Sequence[Any]] | None], at_once: int) -> list[H]:
    """All histories, when the last of them is over, in the order in which they began.

    Args:
        begin: given the number of histories so far and of kills (of a history that still runs: its
            aims), the next one and its aims; None when it is enough.
        at_once: so many run side by side.
    """
    histories: list[H] = []
    kills: list[int] = []
    running: dict[Future[None], int] = {}
    with ThreadPoolExecutor(at_once) as pool:
        while True:
            while len(running) < at_once and (begun := begin(len(histories), sum(kills))):
                history, aims = begun
                running[pool.submit(history.suffer, aims)] = len(histories)
                histories.append(history)
                kills.append(len(aims))
            if not running:
                return histories
            for ended in wait(running, return_when=FIRST_COMPLETED).done:
                number = running.pop(ended)
                ended.result()
                kills[number] = len(histories[number].kills)
