"""The status page: what it says with no, one and a thousand operators, and what it never says."""

from collections.abc import Sequence
from dataclasses import replace
from email.message import Message
from html.parser import HTMLParser

import pytest

from idlestate.metrics.forecast import Range
from idlestate.metrics.growth_curve_on_page import curve_figure
from idlestate.metrics.history import Size
from idlestate.metrics.key_lookup_form import KeyAnswer, as_in_urls
from idlestate.metrics.operator_statistics import InputRows, OperatorStatistics, Outlook
from idlestate.metrics.operators_table import ROWS
from idlestate.metrics.status_page import STYLE, StatusPage, Subject
from idlestate.retention.budget import Budget
from idlestate.retention.policy import FOREVER_MS, Policy, TimeDomain
from idlestate.retention.policy_in_words import policy_in_words
from idlestate.retention.readable_quantities import in_bytes, span_in_words
from idlestate.retention.time_bins import KeyTimes, TimeBins
from idlestate.web.html import page_reply, tag, wants_html
from idlestate.web.http_reply import Reply
from idlestate.web.http_server import Request

NOW_MS = 1_790_000_000_000
EVIL = "<script>alert('x')</script>&\"\x00\ud800"


class Keys:
    """Knows one key."""

    def columns(self, uid: str) -> Sequence[tuple[str, str]]:
        return [("user", "string")]

    def look_up(self, uid: str, query: str) -> KeyAnswer:
        if query == "user":
            return KeyAnswer("It is null.")
        if query != "user=ada":
            raise ValueError(f"not {query}")
        return KeyAnswer("It is here.", [("n", EVIL)])


def figures(uid: str, **others: object) -> OperatorStatistics:
    return OperatorStatistics(operator=uid, **others)  # type: ignore[arg-type]


def page(*every: OperatorStatistics) -> StatusPage:
    return StatusPage(
        Subject(
            name="sidecar",
            now_ms=lambda: NOW_MS,
            figures=lambda _: every,
            notices=lambda uid: [f"notice of {uid}"] if uid == "b" else [],
            keys=Keys(),
        )
    )


def ask(page: StatusPage, path: str, query: str = "") -> Reply:
    reply = page.answer(Request("GET", path, query, Message(), b""))
    assert reply is not None
    return reply


class Reader(HTMLParser):
    """The rows of tables, the pairs of lists, links and elements of a page."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.kinds: list[str] = []
        self.links: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(reply.body.decode())

    def handle_starttag(self, kind: str, attributes: list[tuple[str, str | None]]) -> None:
        self.kinds.append(kind)
        self.links += [value or "" for name, value in attributes if kind == "a" and name == "href"]

    def handle_data(self, text: str) -> None:
        if text.strip() and self.kinds[-1] != "style":
            self.texts.append((self.kinds[-1], text.strip()))

    @property
    def facts(self) -> dict[str, str]:
        found = [(kind, text) for kind, text in self.texts if kind in ("dt", "dd")]
        return {name: value for (_, name), (_, value) in zip(found[::2], found[1::2], strict=True)}


def test_no_operator_is_said_plainly() -> None:
    assert "There are no operators yet." in [text for _, text in Reader(ask(page(), "/")).texts]


def test_one_operator_is_shown_at_once() -> None:
    policy = Policy(idle_min="30m", idle_max="45m", max_lifetime="90d", time=TimeDomain.PROCESSING)
    one = figures(
        "carts",
        batch_id=7,
        live_keys=1234,
        keys_seen=5000,
        state_bytes=1_200_000,
        keys_created=6000,
        keys_expired={"idle": 4000, "ttl": 0, "lifetime": 766},
        returning_keys=60,
        next_end_ms=NOW_MS - 90_000,
        ends=KeyTimes(
            [TimeBins([NOW_MS - 90_000, NOW_MS + 3_600_000, NOW_MS + 7_200_000], [4, 30, 1200])]
        ),
        disk_bytes={"state": 1_300_000, "remembered": 0, "expired_log": 100_000, "dead": 700_000},
        policy=policy,
        policy_version=3,
    )
    reader = Reader(ask(page(one), "/"))
    assert reader.facts == reader.facts | {
        "Keys": "1,234",
        "Keys without retention": "about 5,000",
        "State": "1.2 MB",
        "On disk": "2.1 MB",
        "Newest batch": "7",
        "Due within 1h": "34",
        "Due within 24h": "1,234",
        "Expiry lag": "1 minute 30 seconds",
        "Next key due": "2026-09-21 14:11:50 UTC",
        "Created": "6,000",
        "Expired": "4,766",
        "Expired: idle": "4,000",
        "Expired: lifetime": "766",
        "Returning": "60 (1.0% of those created)",
    }
    said = [text for _, text in reader.texts]
    assert "Version 3." in said
    assert "A key expires 30 minutes to 45 minutes after its last write." in said
    assert "A key expires at the latest 90 days after its creation." in said


def test_an_operator_with_two_inputs_shows_the_rows_of_each_and_those_that_wait() -> None:
    joined = figures(
        "pairs",
        live_keys=2,
        next_end_ms=NOW_MS + 60_000,
        inputs={"left": InputRows(1000, 3, 0), "right": InputRows(20, 0, 1)},
        held_rows=12,
        policy=Policy(),
    )
    assert (shown := Reader(ask(page(joined), "/")).facts) == shown | {
        "Input left": "1,000 rows, 3 late, 0 rejected",
        "Input right": "20 rows, 0 late, 1 rejected",
        "Waiting rows": "12",
        # Its interval ends rows, without a policy.
        "Next key due": "2026-09-21 14:14:20 UTC",
    }
    single = Reader(ask(page(figures("carts", live_keys=2, policy=Policy())), "/")).facts
    assert single["Next key due"] == "none"
    assert not {"Input left", "Waiting rows"} & single.keys()


def test_forecasts_and_budgets_are_shown_if_they_are_known() -> None:
    known = figures(
        "carts",
        live_keys=900,
        state_bytes=5000,
        budget=Budget(keys=1000, bytes=4000),
        outlook=Outlook(
            in_1h=Range(950.4, 950.4, 950.4), in_24h=Range(800, 900, 1200), keys_full_s=7384.0
        ),
    )
    reader = Reader(ask(page(known), "/"))
    assert reader.facts == reader.facts | {
        "Keys in 1 hour": "about 950",
        "Keys in 24 hours": "800 to 1,200",
        "Budget of keys": "90% of 1,000",
        "Keys full": "in 2 hours 3 minutes",
        "Budget of state": "125% of 4.0 KB",
        "State full": "now",
    }
    facts = Reader(ask(page(replace(known, budget=Budget(), outlook=Outlook())), "/")).facts
    assert facts["Keys in 24 hours"] == "too little history"
    assert "Keys full" not in facts
    never = replace(known, outlook=Outlook())
    assert Reader(ask(page(never), "/")).facts["Keys full"] == "not within the forecast"


def test_a_thousand_operators_are_paged_found_and_sorted() -> None:
    many = page(*(figures(f"op-{at:04}", live_keys=at) for at in range(1000)))

    def shown(query: str) -> list[str]:
        said = [text for _, text in Reader(ask(many, "/", query)).texts]
        return [text for text in said if text.startswith("op-")]

    assert shown("") == [f"op-{at:04}" for at in range(ROWS)]
    assert shown("page=20") == [f"op-{at:04}" for at in range(950, 1000)]
    assert shown("page=99") == shown("page=20")
    assert shown("page=-1") == shown("page=x") == shown("page=") == shown("sort=no") == shown("")
    assert shown("sort=keys")[:2] == ["op-0999", "op-0998"]
    assert shown("find=OP-099") == [f"op-{at:04}" for at in range(990, 1000)]
    assert shown("find=none") == []
    facts = Reader(ask(many, "/")).facts
    assert (facts["Operators"], facts["Keys"]) == ("1,000", "499,500")
    links = Reader(ask(many, "/", "find=op&sort=keys&page=2")).links
    assert {"/?find=op&sort=keys", "/?find=op&sort=keys&page=3", "/operators/op-0949"} <= set(links)
    assert len(ask(many, "/").body) < 100_000


def test_operators_that_never_expire_keys_are_those_with_no_rule_and_no_end() -> None:
    rule = Policy(idle_min_ms=1_000, idle_max_ms=2_000, min_gap_ms=0)
    an_interval = figures("joined", live_keys=1, next_end_ms=NOW_MS + 1)
    every = (figures("grows", live_keys=1), an_interval, figures("expires", policy=rule))
    facts = Reader(ask(page(*every), "/")).facts
    assert facts["Operators that never expire keys"] == "1"


def test_each_operator_has_a_page_and_its_notices() -> None:
    two = page(figures("a"), figures("b"))
    assert "notice of b" in [text for _, text in Reader(ask(two, "/")).texts]
    assert ("p", "notice of b") in Reader(ask(two, "/operators/b")).texts
    assert ("p", "notice of b") not in Reader(ask(two, "/operators/a")).texts
    assert ask(two, "/operators/c").status == 404
    assert two.answer(Request("GET", "/metrics", "", Message(), b"")) is None


def test_a_key_is_looked_up_and_shown_as_text() -> None:
    one = page(figures("a"))
    found = ask(one, "/operators/a/keys", "user=ada")
    assert ("p", "It is here.") in Reader(found).texts
    assert found.status == 200
    wrong = ask(one, "/operators/a/keys", "user=%3Cb%3E%22")
    assert wrong.status == 400
    for reply in (found, wrong):
        assert {"script", "b"}.isdisjoint(Reader(reply).kinds)
    assert b'value="<b&gt;&quot;"' in wrong.body


def test_no_text_can_add_markup() -> None:
    reply = page_reply(EVIL, STYLE, tag("p", EVIL, tag("i", EVIL), EVIL, title=EVIL))
    reader = Reader(reply)
    assert "script" not in reader.kinds
    clean = EVIL.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")
    assert [text for kind, text in reader.texts if kind in ("p", "i")][:1] == [clean]


def test_the_policy_of_a_page_allows_its_own_style_alone() -> None:
    headers = dict(ask(page(), "/").headers)
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "script-src" not in policy


def test_a_curve_keeps_its_peak_and_says_what_it_shows() -> None:
    sizes = [Size(NOW_MS + at * 1000, 5 if at != 7777 else 900) for at in range(10_000)]
    text = "".join(curve_figure(sizes).itertext())
    assert "at most 900 at 2026-09-21 16:22:57 UTC" in text
    line = curve_figure(sizes).find(".//polyline")
    assert line is not None
    points = line.get("points", "").split()
    assert len(points) < 1000
    assert min(float(each.partition(",")[2]) for each in points) == 4.0
    assert "too short" in "".join(curve_figure(sizes[:1]).itertext())


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        ("text/html,application/xhtml+xml,*/*;q=0.8", True),
        ("application/json", False),
        ("application/json, text/html", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_browsers_alone_get_pages(accept: str, html: bool) -> None:
    headers = Message()
    headers["Accept"] = accept
    assert wants_html(headers) is html


def test_spans_and_sizes_in_words() -> None:
    assert span_in_words(0) == "0 seconds"
    assert span_in_words(90_061_001) == "1 day 1 hour 1 minute 1 second 1 millisecond"
    assert span_in_words(5_400_000) == "1 hour 30 minutes"
    assert span_in_words(90_061_001, 2) == "1 day 1 hour"
    assert [in_bytes(each) for each in (999, 1000, 2.5e9)] == ["999 B", "1.0 KB", "2.5 GB"]


def test_policies_in_words() -> None:
    assert policy_in_words(Policy()) == ["Keys never expire: the policy has no expiry rule."]
    assert policy_in_words(Policy(ttl="1h", remember_ms=FOREVER_MS)) == [
        "A key expires at the latest 1 hour after its last write.",
        "Time is that of the events.",
        "Expired keys are remembered forever, to count returning keys.",
    ]


@pytest.mark.parametrize(("query", "is_null"), [("user=&user=null", True), ("user", True),
                                                ("user=ada", False)])  # fmt: skip
def test_a_null_key_is_asked_for_with_a_box(query: str, is_null: bool) -> None:
    reply = ask(page(figures("a")), "/operators/a/keys", query)
    assert reply.status == 200
    assert ("p", "It is null." if is_null else "It is here.") in Reader(reply).texts
    assert (b'type="checkbox" name="user" value="null" checked="checked"' in reply.body) == is_null
    assert b'name="user" value="null"' in reply.body


def test_a_column_is_not_both_null_and_a_value() -> None:
    reply = ask(page(figures("a")), "/operators/a/keys", "user=ada&user=null")
    assert reply.status == 400
    assert "key column user: enter a value or null, not both" in reply.body.decode()


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("", ""),
        ("a=&b=1", "a=&b=1"),
        ("a=&a=null&b=1", "a&b=1"),
        ("a=1&b=&b=null", "a=1&b"),
        ("a=null", "a=null"),  # the word
        ("a&a=null", "a"),
        ("null=&null=null", "null"),
        ("a=&b=null&a=null", "a=&b=null&a=null"),  # no form sends this, and look-ups refuse it
    ],
)
def test_forms_ask_for_null_in_the_notation_of_urls(asked: str, meant: str) -> None:
    assert as_in_urls(asked) == meant
