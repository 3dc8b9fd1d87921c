"""The warnings about state that grows without bound because no expiry rule applies to it."""

from idlestate.config.policy_selectors import Choice


def unbounded_advice(uid: str, choice: Choice, *, by_hint: bool) -> tuple[str, str]:
    """The warning about an operator of a file: what is wrong, and what to set in the file.

    Args:
        uid: the operator.
        choice: the policy it has.
        by_hint: whether a hint of its query takes the place of this policy.
    """
    name = choice.policy or "sessions"
    rule = "idle: {min: 30m, max: 45m}"
    grows = "state grows WITHOUT BOUND, as every key is kept forever"
    if by_hint:
        what = f"the hint STATE_TTL in the query of {uid} says never: its {grows}"
        return what, "set a time, such as '1d', or remove the hint"
    if choice.policy is None:
        fix = f"add policy: {name} here, and policies: {{{name}: {{{rule}}}}} at the top level"
        return f"{uid} has no policy: its {grows}", fix
    fix = f"add {rule}, a ttl or a max_lifetime to policies.{name}"
    return f"policy {name} of {uid} has no expiry rule: its {grows}", fix


def unbounded_warning(uid: str) -> str:
    """The warning about an operator of a program."""
    return (
        f"operator {uid} has no retention: its state grows without bound; "
        "pass a policy, such as Policy(idle_min='30m', idle_max='45m')"
    )
