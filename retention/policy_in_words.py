"""A policy in words: as sentences for a page, or in one line as files write it."""

from collections.abc import Iterator

from idlestate.retention.durations import format_duration
from idlestate.retention.policy import FOREVER_MS, Policy, TimeDomain, UpdateType
from idlestate.retention.readable_quantities import span_in_words


def policy_in_words(policy: Policy) -> list[str]:
    """What a policy does, one sentence per rule."""
    return list(_sentences(policy))


def policy_in_brief(policy: Policy) -> str:
    """The expiry rules of a policy in one line, as files write them."""
    rules = []
    if policy.idle_on:
        least, most = format_duration(policy.idle_min_ms), format_duration(policy.idle_max_ms)
        rules.append(f"idle {least} to {most}")
    if policy.ttl_ms:
        rules.append(f"ttl {format_duration(policy.ttl_ms)}")
    if policy.max_lifetime_ms:
        rules.append(f"max_lifetime {format_duration(policy.max_lifetime_ms)}")
    return ", ".join(rules) or "no retention"


def _sentences(policy: Policy) -> Iterator[str]:
    if policy.is_unbounded:
        yield "Keys never expire: the policy has no expiry rule."
        return
    if policy.idle_on:
        low, high = span_in_words(policy.idle_min_ms), span_in_words(policy.idle_max_ms)
        span = low if low == high else f"{low} to {high}"
        yield f"A key expires {span} after its last {_accesses(policy.update)}."
    if policy.ttl_ms:
        last = _accesses(policy.ttl_update)
        yield f"A key expires at the latest {span_in_words(policy.ttl_ms)} after its last {last}."
    if policy.max_lifetime_ms:
        span = span_in_words(policy.max_lifetime_ms)
        yield f"A key expires at the latest {span} after its creation."
    is_event = policy.time is TimeDomain.EVENT
    yield "Time is that of the events." if is_event else "Time is the wall clock."
    if policy.remember_for_ms == FOREVER_MS:
        yield "Expired keys are remembered forever, to count returning keys."
    elif policy.remember_for_ms:
        span = span_in_words(policy.remember_for_ms)
        yield f"Expired keys are remembered for {span}, to count returning keys."


def _accesses(update: UpdateType) -> str:
    return "read or write" if update is UpdateType.ON_READ_AND_WRITE else "write"
