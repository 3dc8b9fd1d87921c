"""A sidecar that outlives drivers, as systemd would start it.

What it says goes to `sidecar.log`: a pipe that nobody reads would hold it up when it is full. It
ends with the thread that started it, however that ends.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from tests.sidecar.sidecar_process import Sidecar

MORTAL = ("setpriv", "--pdeathsig", "KILL")


class ServedSidecar(Sidecar):
    """Two workers, on a folder."""

    def __init__(self, folder: Path, backend: str) -> None:
        super().__init__(folder, backend=backend, workers=2, operators={})
        self.log = folder / "sidecar.log"

    def start(self, before: Sequence[str] = ()) -> "ServedSidecar":
        super().start((*MORTAL, *before))
        assert self.process is not None
        assert self.process.stderr is not None
        threading.Thread(target=self._note, args=(self.process.stderr,), daemon=True).start()
        return self

    def _note(self, words: IO[str]) -> None:
        with self.log.open("a", buffering=1) as log, suppress(ValueError):  # they are closed
            log.writelines(words)
