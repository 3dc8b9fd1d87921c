"""The content of a sidecar's status page."""

from collections.abc import Callable, Sequence

from idlestate.metrics.history import Size
from idlestate.metrics.key_answer import answer_of
from idlestate.metrics.key_lookup_form import KeyAnswer
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.status_page import StatusPage, Subject
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.protocol.transfers import stream_of
from idlestate.sidecar.server.keys_in_urls import key_of, shown
from idlestate.timers.clock import Clock


def sidecar_page(
    host: Host,
    clock: Clock,
    figures: Callable[[int], Sequence[OperatorStatistics]],
    curve: Callable[[str], Sequence[Size]],
) -> StatusPage:
    """The status page.

    Args:
        host: the operators.
        clock: the sidecar's clock.
        figures: the figures of all operators at a time.
        curve: the sizes of an operator over time, oldest first.
    """

    def notices(uid: str) -> list[str]:
        operator = host[uid]
        found = []
        if operator.record.stopped is not None:
            found.append(f"Stopped: {operator.record.stopped}")
        if quarantined := operator.sizes().quarantined:
            found.append(
                f"{quarantined:,} quarantined rows: SidecarClient.quarantined() returns them"
            )
        return found

    return StatusPage(
        Subject(
            name="sidecar",
            now_ms=clock.now_ms,
            figures=figures,
            curve=curve,
            notices=notices,
            keys=_Keys(host, clock),
        )
    )


class _Keys:
    """Looks keys up in a sidecar."""

    def __init__(self, host: Host, clock: Clock) -> None:
        self._host = host
        self._clock = clock

    def columns(self, uid: str) -> list[tuple[str, str]]:
        """See `KeyLookup`."""
        return [(name, str(kind)) for name, kind in self._host[uid].state.spec.keys]

    def look_up(self, uid: str, query: str) -> KeyAnswer:
        """See `KeyLookup`."""
        operator = self._host[uid]
        key, now_ms = stream_of(key_of(query, operator.state.spec.keys)), self._clock.now_ms()
        if operator.state.spec.is_of_sides:
            return answer_of(operator.explain(key, now_ms))
        lives, _ = operator.look_up(key, now_ms)
        results = [name for name, _ in operator.state.spec.kind.results]
        (values,) = shown(lives.select(results)) or [{}]
        return answer_of(operator.explain(key, now_ms), values)
