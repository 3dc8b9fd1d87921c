"""Time to live of each state of an operator with several inputs: one default, and hints by input.

The rules are those of Flink's planner for `table.exec.state.ttl` and the hint `STATE_TTL`: a hint
takes precedence over the default, only for the input that it names, and 0 means that nothing
expires.
"""

from collections.abc import Mapping

from idlestate.retention.durations import Duration, duration_ms
from idlestate.retention.setting_error import SettingError, WrongTypeError
from idlestate.retention.ttl_config import StateTtlConfig


def ttls_of_states(
    inputs: Mapping[str, str], default: Duration, hints: Mapping[str, Duration]
) -> dict[str, StateTtlConfig | None]:
    """The time to live of each state, None for none; writes renew it, expired values stay hidden.

    Args:
        inputs: state name to the input whose rows the state keeps.
        default: the time to live for inputs without a hint, such as `"1h"`; `"0s"` for none.
        hints: the time to live by input; `"0s"` for none.

    Raises:
        SettingError: a hint names no input.
        DurationError: a duration is not valid.
    """
    for what, given in (("inputs", inputs), ("hints", hints)):
        if not isinstance(given, Mapping):
            raise WrongTypeError(f"{what} is {given!r}; pass a dict")
    known = set(map(str, inputs.values()))
    for name in hints:
        if name not in known:
            raise SettingError(
                f"time to live for input {name!r}: input not found; available: "
                f"{', '.join(sorted(known)) or 'none'}"
            )
    spans_ms = {state: duration_ms(hints.get(name, default)) for state, name in inputs.items()}
    return {
        state: StateTtlConfig(ttl_ms=ttl_ms) if ttl_ms else None
        for state, ttl_ms in spans_ms.items()
    }
