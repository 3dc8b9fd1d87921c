"""A status page of a fixed state: operators, a week of growth, and keys to look up."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from idlestate.metrics.forecast import Range
from idlestate.metrics.history import Size
from idlestate.metrics.key_lookup_form import KeyAnswer
from idlestate.metrics.operator_statistics import OperatorStatistics, Outlook
from idlestate.metrics.status_page import StatusPage, Subject
from idlestate.retention.budget import Budget
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.retention.time_bins import KeyTimes, TimeBins
from idlestate.web.http_reply import Reply
from idlestate.web.http_server import HttpServer, Request, Service

NOW_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
EVIL = "<script>alert('x')</script><b>bold</b>"


def sizes(peak: int) -> list[Size]:
    """A week that fills up and then follows the day, a point per half hour."""
    found = []
    for at in range(2 * 24 * 7 + 1):
        time_ms = NOW_MS - 7 * 24 * HOUR_MS + at * HOUR_MS // 2
        day = math.sin(2 * math.pi * (at / 48 - 0.3))
        keys = peak * (1 - math.exp(-at / 10)) * (0.62 + 0.3 * day + 0.05 * math.sin(at / 3))
        found.append(Size(time_ms, round(keys)))
    return found


def operator(uid: str, peak: int = 48_000) -> OperatorStatistics:
    """An operator in the middle of its life."""
    created = 61 * peak
    live = sizes(peak)[-1].live_keys
    return OperatorStatistics(
        operator=uid,
        batch_id=20_159,
        watermark_ms=NOW_MS - 600_000,
        reached_ms=NOW_MS - 600_000,
        next_end_ms=NOW_MS - 598_000,
        ends=KeyTimes(
            [TimeBins([NOW_MS, NOW_MS + 9 * HOUR_MS // 4], [live // 9, live - live // 9])]
        ),
        disk_bytes={"state": live * 63, "remembered": live * 6, "expired_log": 0, "dead": live * 9},
        input_rows=410 * peak,
        late_rows=peak // 100,
        live_keys=live,
        state_bytes=live * 61,
        remembered_keys=live // 2,
        remembered_bytes=live * 6,
        keys_seen=47 * peak,
        keys_created=created,
        keys_expired={"idle": created - live - peak // 90, "ttl": 0, "lifetime": peak // 90},
        returning_keys=created // 23,
        policy_version=2,
        budget=Budget(keys=60_000),
        outlook=Outlook(
            in_1h=Range(live * 1.3, live * 1.3, live * 1.3),
            in_24h=Range(live * 0.9, live, live * 1.2),
        ),
        policy=Policy(idle_min="2h", idle_max="3h", max_lifetime="7d", time=TimeDomain.EVENT),
    )


class Keys:
    """Answers on every key."""

    def columns(self, uid: str) -> Sequence[tuple[str, str]]:
        return [("customer", "string"), ("day", "date32[day]")]

    def look_up(self, uid: str, query: str) -> KeyAnswer:
        if query.startswith("customer=wrong"):
            raise ValueError(f"{EVIL} is not a day")
        facts = [("customer", EVIL), ("orders", "7"), ("last_access", "2026-09-21 13:20:11")]
        return KeyAnswer(f"{EVIL} is in the state until 16:20:11 UTC.", facts)


def demo(*every: OperatorStatistics) -> StatusPage:
    return StatusPage(
        Subject(
            name="sidecar",
            now_ms=lambda: NOW_MS,
            figures=lambda _: every,
            curve=lambda _: sizes(48_000),
            notices=lambda uid: ["Stopped: its disk is full."] if uid.endswith("7") else [],
            keys=Keys(),
        )
    )


@contextmanager
def served(page: StatusPage) -> Iterator[str]:
    """Serve a page; its URL, without a slash at the end."""

    def answer(request: Request) -> Reply:
        reply = page.answer(request)
        assert reply is not None
        return reply

    with HttpServer(Service("page", answer), 0) as server:
        yield f"http://127.0.0.1:{server.port}"
