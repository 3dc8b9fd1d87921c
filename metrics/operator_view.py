"""One operator on a status page: its figures, its growth and its policy."""

import math
from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from idlestate.metrics.forecast import Range
from idlestate.metrics.growth_curve_on_page import curve_figure, moment
from idlestate.metrics.history import Size
from idlestate.metrics.key_age_samples import keys_due
from idlestate.metrics.key_lookup_form import facts_list
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.policy_in_words import policy_in_words
from idlestate.retention.readable_quantities import in_bytes, span_in_words
from idlestate.web.html import tag

_IN_SIDECAR = "known to its sidecar"


def operator_view(
    figures: OperatorStatistics, now_ms: int, curve: Sequence[Size], notices: Sequence[str]
) -> list[Element]:
    """Its sections.

    Args:
        figures: the operator's figures.
        now_ms: the time, ms since the epoch.
        curve: its sizes over time, oldest first.
        notices: what needs attention.
    """
    return [
        *(tag("p", text, class_="bad") for text in notices),
        _section("state", "State", facts_list(list(_state(figures)))),
        _section("growth", "Growth", curve_figure(_upto_now(curve, figures, now_ms))),
        _section("forecast", "Forecast", facts_list(list(_forecast(figures)))),
        _section("expiry", "Expiry", facts_list(list(_expiry(figures, now_ms)))),
        _section("policy", "Policy", *_policy(figures)),
    ]


def lag(figures: OperatorStatistics, now_ms: int) -> str:
    """The expiry lag."""
    lag_ms = figures.expiry_lag_ms(now_ms)
    return _IN_SIDECAR if lag_ms is None else span_in_words(lag_ms, 2)


def next_due(figures: OperatorStatistics) -> str:
    """When the next key is due."""
    if figures.next_end_ms is None:
        return _IN_SIDECAR
    if figures.next_end_ms != FOREVER_MS:
        return moment(figures.next_end_ms)
    return "none" if not figures.live_keys or figures.policy.is_unbounded else "not known yet"


def _state(figures: OperatorStatistics) -> Iterator[tuple[str, str]]:
    yield "Keys", f"{figures.live_keys:,}"
    yield "Keys without retention", f"about {max(figures.keys_seen, figures.live_keys):,}"
    yield "State", in_bytes(figures.state_bytes)
    if figures.disk_bytes:
        yield "On disk", in_bytes(sum(figures.disk_bytes.values()))
    remembered = f"{figures.remembered_keys:,} keys, {in_bytes(figures.remembered_bytes)}"
    yield "Remembered", remembered
    yield "Newest batch", "none yet" if figures.batch_id < 0 else f"{figures.batch_id:,}"
    if figures.watermark_ms is not None:
        yield "Watermark", moment(figures.watermark_ms)
    yield "Rows read", f"{figures.input_rows:,}"
    yield "Late rows", f"{figures.late_rows:,}"
    yield "Rejected rows", f"{figures.rejected_total:,}"
    for name, of in figures.inputs.items():
        read = f"{of.read:,} rows, {of.late:,} late, {of.rejected:,} rejected"
        yield f"Input {name}", read
    if figures.held_rows:
        yield "Waiting rows", f"{figures.held_rows:,}"


def _expiry(figures: OperatorStatistics, now_ms: int) -> Iterator[tuple[str, str]]:
    yield "Expiry lag", lag(figures, now_ms)
    yield "Next key due", next_due(figures)
    if figures.ends.keys:
        (by_span,) = keys_due([figures], now_ms)
        for within, due in by_span.items():
            yield f"Due within {within}", f"{due.keys:,}"
    yield "Created", f"{figures.keys_created:,}"
    yield "Expired", f"{figures.expired_total:,}"
    for reason, count in figures.keys_expired.items():
        yield f"Expired: {reason}", f"{count:,}"
    share = figures.returning_keys / figures.keys_created if figures.keys_created else 0.0
    yield "Returning", f"{figures.returning_keys:,} ({share:.1%} of those created)"


def _forecast(figures: OperatorStatistics) -> Iterator[tuple[str, str]]:
    budget, outlook = figures.budget, figures.outlook
    yield "Keys in 1 hour", _range(outlook.in_1h)
    yield "Keys in 24 hours", _range(outlook.in_24h)
    if budget.keys:
        yield "Budget of keys", f"{figures.live_keys / budget.keys:.0%} of {budget.keys:,}"
        yield "Keys full", _full(figures.full_s["keys"])
    if budget.bytes:
        share = figures.state_bytes / budget.bytes
        yield "Budget of state", f"{share:.0%} of {in_bytes(budget.bytes)}"
        yield "State full", _full(figures.full_s["bytes"])


def _range(keys: Range | None) -> str:
    if keys is None:
        return "too little history"
    low, high = f"{keys.low:,.0f}", f"{keys.high:,.0f}"
    return f"about {low}" if low == high else f"{low} to {high}"


def _full(seconds: float) -> str:
    if seconds == 0:
        return "now"
    if math.isinf(seconds):
        return "not within the forecast"
    return f"in {span_in_words(int(seconds) * 1000, 2)}"


def _upto_now(curve: Sequence[Size], figures: OperatorStatistics, now_ms: int) -> Sequence[Size]:
    """The curve with the newest figures, which come more often than its points."""
    now = Size(figures.time_ms(now_ms), figures.live_keys)
    return [*curve, now] if curve and curve[-1].time_ms < now.time_ms else curve


def _policy(figures: OperatorStatistics) -> Iterator[Element]:
    yield tag("p", f"Version {figures.policy_version}.", class_="muted")
    yield tag("ul", *(tag("li", each) for each in policy_in_words(figures.policy)))


def _section(name: str, title: str, *body: Element) -> Element:
    return tag("section", tag("h2", title, id=name), *body, aria_labelledby=name)
