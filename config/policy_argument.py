"""The policy of an argument: a `Policy`, the name of one in a file, or the choice of a file's
selectors.
"""

import reprlib
from pathlib import Path

from idlestate.config.loading import Config, load_config
from idlestate.errors import RefusedError
from idlestate.retention.policy import Policy


def choose_policy(policy: str | Policy | None, config: str | Path | None, uid: str) -> Policy:
    """The policy of an operator; by default one that keeps every key forever.

    Raises:
        RefusedError: a name without a file, or an unknown name.
        ConfigError: the file is invalid.
    """
    if isinstance(policy, Policy):
        return policy
    if not isinstance(policy, str | None):
        raise RefusedError(
            f"operator {uid!r}: policy: {reprlib.repr(policy)} cannot be used here; pass "
            "Policy(...), or the name of a policy in a file with config='...yaml'"
        )
    if not isinstance(config, str | Path | None):
        raise RefusedError(
            f"operator {uid!r}: config: {reprlib.repr(config)} cannot be used here; pass the path "
            "of a file"
        )
    if config is not None:
        loaded = load_config(Path(config))
        return _named(loaded, policy) if policy else loaded.policy_for(uid)
    if policy is not None:
        raise RefusedError(f"policy {policy!r} is a name; pass its file: config='...yaml'")
    return Policy()


def _named(loaded: Config, name: str) -> Policy:
    try:
        return loaded.policy(name)
    except ValueError as error:
        raise RefusedError(str(error)) from error
