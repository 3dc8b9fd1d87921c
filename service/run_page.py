"""The status page of `idlestate run`."""

from collections.abc import Callable, Sequence
from pathlib import Path

from idlestate.backends.checkpoint.operator_layout import read_layout, spec_at
from idlestate.backends.files.folder import Folder
from idlestate.config.loopback import is_loopback
from idlestate.config.pipeline_settings import Pipeline
from idlestate.errors import IdlestateError
from idlestate.metrics.growth_log import GrowthLog
from idlestate.metrics.history import Size
from idlestate.metrics.key_answer import answer_of
from idlestate.metrics.key_lookup_form import KeyAnswer
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.status_page import StatusPage, Subject
from idlestate.pipeline.explanations import explain
from idlestate.sidecar.protocol.access_control import names_this_machine
from idlestate.sidecar.protocol.connection import Address
from idlestate.sidecar.server.keys_in_urls import texts_of
from idlestate.timers.clock import Clock


def run_page(
    figures: Callable[[int], Sequence[OperatorStatistics]],
    growth: GrowthLog,
    clock: Clock,
    pipeline: Pipeline,
    sidecar: Address | None,
) -> StatusPage:
    """The page. Only this machine can look keys up, since there is no token.

    Args:
        figures: the figures of the pipeline at a time.
        growth: its growth log.
        clock: the driver's.
        pipeline: its fields in the file.
        sidecar: the address of its sidecar, if one was passed.
    """
    keys = CheckpointKeys(Path(pipeline.checkpoint), pipeline.key, sidecar)
    return StatusPage(
        Subject(
            name="run",
            now_ms=clock.now_ms,
            figures=figures,
            curve=lambda _: [Size(each.time_ms, each.live_keys) for each in growth.points()],
            keys=keys if is_loopback(pipeline.metrics.address) else None,
            may_look_up=names_this_machine,
        )
    )


class CheckpointKeys:
    """Looks keys up in the checkpoint of the running pipeline.

    Args:
        checkpoint: the folder.
        key: the names of the key columns.
        sidecar: the address of its sidecar, if one was passed.
    """

    def __init__(self, checkpoint: Path, key: Sequence[str], sidecar: Address | None) -> None:
        self._checkpoint = checkpoint
        self._key = key
        self._sidecar = sidecar

    def columns(self, uid: str) -> list[tuple[str, str]]:
        """See `KeyLookup`; of windows, their end is a column too."""
        try:
            checkpoint = Folder(str(self._checkpoint))
            layout = read_layout(checkpoint, uid)
            keys = spec_at(checkpoint, uid, layout, layout.definitions[-1].batch_id).keys
        except (IdlestateError, OSError):  # the first batch is still to come
            return [(name, "") for name in self._key]
        return [(name, str(kind)) for name, kind in keys]

    def look_up(self, uid: str, query: str) -> KeyAnswer:
        """See `KeyLookup`."""
        key = texts_of(query)
        try:
            return answer_of(explain(key, self._checkpoint, uid=uid, sidecar=self._sidecar))
        except (IdlestateError, OSError) as error:
            raise ValueError(str(error)) from error
