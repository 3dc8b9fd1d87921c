"""The operators on a status page: a table that can be searched, sorted and paged through links."""

from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode
from xml.etree.ElementTree import Element

from idlestate.metrics.growth_curve_on_page import curve, in_words
from idlestate.metrics.history import Size
from idlestate.metrics.key_lookup_form import facts_list
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.operator_view import lag, next_due
from idlestate.retention.policy_in_words import policy_in_words
from idlestate.retention.readable_quantities import in_bytes, span_in_words
from idlestate.web.html import tag

ROWS: Final = 50
"""Operators on one page."""

SMALL_BUCKETS: Final = 40
"""The number of time spans into which a curve in the table is divided."""

_NAME: Final = "name"


def operators_table(
    every: Sequence[OperatorStatistics],
    query: str,
    now_ms: int,
    curve_of: Callable[[str], Sequence[Size]],
    notices_of: Callable[[str], Sequence[str]],
) -> list[Element]:
    """Totals, a search field, and a page of the table.

    Args:
        every: the figures of all operators.
        query: the query of the URL: `find`, part of a name; `sort`, a column; `page`, from 1.
        now_ms: the time, ms since the epoch.
        curve_of: the sizes of an operator over time.
        notices_of: what needs attention in an operator.
    """
    if not every:
        return [tag("p", "There are no operators yet.")]
    asked = dict(parse_qsl(query))
    find = asked.get("find", "")
    orders = _orders(now_ms)
    sort = asked.get("sort", _NAME) if asked.get("sort") in orders else _NAME
    found = [each for each in every if find.lower() in each.operator.lower()]
    found.sort(key=lambda each: each.operator)
    if sort != _NAME:
        found.sort(key=orders[sort], reverse=True)
    pages = max(-(-len(found) // ROWS), 1)
    page = min(max(_number(asked.get("page", "")), 1), pages)
    shown = found[(page - 1) * ROWS : page * ROWS]
    rows = [
        _row(each, now_ms, curve_of(each.operator), notices_of(each.operator)) for each in shown
    ]
    return [
        facts_list(_totals(every, now_ms)),
        _search(find, sort),
        _table(rows, _counted(found, every, page, pages), find, sort),
        *_pager(find, sort, page, pages),
    ]


def _orders(now_ms: int) -> dict[str, Callable[[OperatorStatistics], float]]:
    """The sort value of each column, the highest first."""
    return {
        "keys": lambda each: each.live_keys,
        "expired": lambda each: each.expired_total,
        "returning": lambda each: each.returning_keys,
        "lag": lambda each: each.expiry_lag_ms(now_ms) or 0,
        "state": lambda each: each.state_bytes,
    }


def _totals(every: Sequence[OperatorStatistics], now_ms: int) -> list[tuple[str, str]]:
    return [
        ("Operators", f"{len(every):,}"),
        ("Keys", f"{sum(each.live_keys for each in every):,}"),
        ("State", in_bytes(sum(each.state_bytes for each in every))),
        (
            "Greatest expiry lag",
            span_in_words(max(each.expiry_lag_ms(now_ms) or 0 for each in every), 2),
        ),
        ("Operators that never expire keys", f"{sum(each.never_expires for each in every):,}"),
    ]


def _search(find: str, sort: str) -> Element:
    return tag(
        "form",
        tag("label", "Find an operator", tag("input", type="search", name="find", value=find)),
        tag("input", type="hidden", name="sort", value=sort),
        tag("button", "Find"),
        role="search",
        action="/",
    )


def _counted(
    found: Sequence[OperatorStatistics], every: Sequence[OperatorStatistics], page: int, pages: int
) -> str:
    text = f"{len(found):,} operators"
    if len(found) < len(every):
        text = f"{len(found):,} of {len(every):,} operators"
    return f"{text}, page {page} of {pages}" if pages > 1 else text


def _table(rows: Sequence[Element], caption: str, find: str, sort: str) -> Element:
    heads = [
        _head("Operator", _NAME, find, sort),
        _head("Keys", "keys", find, sort),
        tag("th", "Growth", scope="col"),
        _head("Expired", "expired", find, sort),
        _head("Returning", "returning", find, sort),
        _head("Expiry lag", "lag", find, sort),
        _head("State", "state", find, sort),
        tag("th", "Next key due", scope="col"),
        tag("th", "Policy", scope="col"),
    ]
    table = tag(
        "table",
        tag("caption", caption, id="caption"),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *rows),
    )
    return tag("div", table, class_="wide", tabindex="0", role="region", aria_labelledby="caption")


def _head(title: str, column: str, find: str, sort: str) -> Element:
    order = "ascending" if column == _NAME else "descending"
    link = tag("a", title, href=_link(find, column, 1))
    return tag("th", link, scope="col", aria_sort=order if column == sort else None)


def _row(
    figures: OperatorStatistics, now_ms: int, sizes: Sequence[Size], notices: Sequence[str]
) -> Element:
    uid = figures.operator
    picture = curve(sizes, in_words(sizes), SMALL_BUCKETS) if len(sizes) > 1 else "-"
    name = tag("th", tag("a", uid, href=f"/operators/{quote(uid)}"), scope="row")
    for notice in notices:
        name.append(tag("div", notice, class_="bad"))
    return tag(
        "tr",
        name,
        tag("td", f"{figures.live_keys:,}"),
        tag("td", picture, class_="spark"),
        tag("td", f"{figures.expired_total:,}"),
        tag("td", f"{figures.returning_keys:,}"),
        tag("td", lag(figures, now_ms)),
        tag("td", in_bytes(figures.state_bytes)),
        tag("td", next_due(figures)),
        tag("td", policy_in_words(figures.policy)[0], class_="words"),
    )


def _pager(find: str, sort: str, page: int, pages: int) -> list[Element]:
    if pages == 1:
        return []
    links = []
    if page > 1:
        links.append(tag("a", "Previous page", href=_link(find, sort, page - 1), rel="prev"))
    if page < pages:
        links.append(tag("a", "Next page", href=_link(find, sort, page + 1), rel="next"))
    return [tag("nav", *links, aria_label="Pages", class_="pages")]


def _link(find: str, sort: str, page: int) -> str:
    wanted = {"find": find, "sort": sort, "page": str(page)}
    plain = {"find": "", "sort": _NAME, "page": "1"}
    asked = {name: value for name, value in wanted.items() if value != plain[name]}
    return f"/?{urlencode(asked)}" if asked else "/"


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 1
