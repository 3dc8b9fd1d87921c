"""Work that goes on beside what is measured, in a thread."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

SCRAPE_EVERY_S = 1.0


@contextmanager
def beside(work: Callable[[], Any], every_s: float = 0.0) -> Iterator[None]:
    """Do a piece of work over and over, with so many seconds between; its error ends the block."""
    done = threading.Event()

    def run() -> None:
        while not done.wait(every_s):
            work()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            yield
        finally:
            done.set()
        running.result()
